//! Figures as text: Markdown tables, percentiles, and numbers with a useful number of digits.

/// A Markdown table that is filled row by row.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heads: &[&str]) -> Table {
        Table {
            rows: vec![heads.iter().map(|&head| head.to_owned()).collect()],
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Prints the table, the first column to the left and figures to the right.
    pub fn print(&self, title: &str) {
        let columns = self.rows[0].len();
        let cell = |row: &Vec<String>, at: usize| row.get(at).cloned().unwrap_or_default();
        let width = |at: usize| {
            self.rows
                .iter()
                .map(|row| cell(row, at).chars().count())
                .max()
                .unwrap_or(0)
                .max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        println!("\n{title}\n");
        for (number, row) in self.rows.iter().enumerate() {
            let cells = widths.iter().enumerate().map(|(at, &width)| match at {
                0 => format!("{:<width$}", cell(row, at)),
                _ => format!("{:>width$}", cell(row, at)),
            });
            println!("| {} |", cells.collect::<Vec<_>>().join(" | "));
            if number == 0 {
                let rules = widths.iter().enumerate().map(|(at, &width)| match at {
                    0 => "-".repeat(width),
                    _ => format!("{}:", "-".repeat(width - 1)),
                });
                println!("| {} |", rules.collect::<Vec<_>>().join(" | "));
            }
        }
    }
}

/// The latencies of one figure, and the time for which it was measured.
pub struct LatencySample {
    /// The latencies in nanoseconds, sorted.
    nanos: Vec<u64>,
    seconds: f64,
}

impl LatencySample {
    pub fn new(mut nanos: Vec<u64>, seconds: f64) -> LatencySample {
        nanos.sort_unstable();
        LatencySample { nanos, seconds }
    }

    pub fn count(&self) -> usize {
        self.nanos.len()
    }

    /// The number of operations per second.
    pub fn rate(&self) -> f64 {
        self.nanos.len() as f64 / self.seconds
    }

    /// The latency in milliseconds that so many percent of the operations do not exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (self.nanos.len() as f64 * percent / 100.0).ceil() as usize;
        self.nanos
            .get(rank.saturating_sub(1))
            .map_or(0.0, |&nanos| nanos as f64 / 1e6)
    }

    /// The 50th, 95th and 99th percentile, as cells of a table.
    pub fn percentiles(&self) -> [String; 3] {
        [50.0, 95.0, 99.0].map(|percent| ms(self.percentile(percent)))
    }
}

/// The median of some values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Formats a figure with enough digits to compare, not more.
pub fn number(value: f64) -> String {
    match value {
        v if v >= 1_000.0 => grouped(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// Formats a number of milliseconds.
pub fn ms(value: f64) -> String {
    if value < 0.1 {
        format!("{value:.3} ms")
    } else {
        format!("{} ms", number(value))
    }
}

/// Formats the ratio of a value to that of a peer.
pub fn ratio(value: f64, peer: f64) -> String {
    if peer > 0.0 {
        format!("{} ×", number(value / peer))
    } else {
        "–".to_owned()
    }
}

/// Formats bytes in binary megabytes.
pub fn mib(bytes: u64) -> String {
    format!("{} MiB", number(bytes as f64 / 1_048_576.0))
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_sorted_sample() {
        let sample = LatencySample::new((1..=100).rev().map(|n| n * 1_000_000).collect(), 2.0);
        assert_eq!(
            (
                sample.percentile(50.0),
                sample.percentile(99.0),
                sample.rate()
            ),
            (50.0, 99.0, 50.0)
        );
        assert_eq!(LatencySample::new(vec![], 1.0).percentile(50.0), 0.0);
    }

    #[test]
    fn numbers_are_formatted_with_separators_and_useful_digits() {
        assert_eq!(
            [1_234_567.0, 12.34, 0.5, 999.6].map(number),
            ["1,234,567", "12.3", "0.50", "1000"]
        );
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
