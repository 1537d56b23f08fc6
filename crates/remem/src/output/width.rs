//! Fits a table to the width of a terminal: empty columns go first, then instants lose their
//! seconds, then the last column is cut, then columns in the middle go, from the right.

use std::io::IsTerminal;

/// Characters between two columns.
const GAP: usize = 2;
/// Characters that the last column keeps before another column goes.
const LAST_MIN: usize = 20;
/// Narrower terminals are taken for this wide.
const WIDTH_MIN: usize = 40;

/// How a last column that is too wide is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// Each cell is one line that ends early.
    Cut,
    /// Each cell continues in further lines.
    Wrap,
}

/// Rows under a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The columns of the terminal on standard output; `None` if that is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let output = std::io::stdout();
    if !output.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&output).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The sheet in at most `width` characters a line, and the headings of columns that had to go.
pub fn fit(mut sheet: Sheet, width: usize, last: Last) -> (Sheet, Vec<String>) {
    let width = width.max(WIDTH_MIN);
    let mut left_out = Vec::new();
    if sheet.width() <= width {
        return (sheet, left_out);
    }
    for column in (1..sheet.last()).rev() {
        if sheet.is_empty_column(column) {
            sheet.remove(column);
        }
    }
    if sheet.width() > width {
        sheet.shorten_instants();
    }
    while sheet.without_last() + LAST_MIN.min(sheet.column_width(sheet.last())) > width
        && sheet.last() > 1
    {
        left_out.insert(0, sheet.remove(sheet.last() - 1));
    }
    let room = width.saturating_sub(sheet.without_last());
    let room = room.max(LAST_MIN);
    match last {
        Last::Cut => sheet.cut_last(room),
        Last::Wrap => sheet.wrap_last(room),
    }
    (sheet, left_out)
}

impl Sheet {
    fn last(&self) -> usize {
        self.heading.len() - 1
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| cell.chars().count());
        widths
            .max()
            .unwrap_or(0)
            .max(self.heading[column].chars().count())
    }

    fn without_last(&self) -> usize {
        // The table begins with a space.
        (0..self.last())
            .map(|column| self.column_width(column) + GAP)
            .sum::<usize>()
            + 1
    }

    fn width(&self) -> usize {
        self.without_last() + self.column_width(self.last())
    }

    fn is_empty_column(&self, column: usize) -> bool {
        self.rows
            .iter()
            .all(|row| matches!(row[column].as_str(), "" | "-"))
    }

    fn remove(&mut self, column: usize) -> String {
        for row in &mut self.rows {
            row.remove(column);
        }
        self.heading.remove(column)
    }

    /// `2026-11-15T10:22:18.780Z` becomes `2026-11-15 10:22Z`.
    fn shorten_instants(&mut self) {
        for cell in self.rows.iter_mut().flatten() {
            let bytes = cell.as_bytes();
            let is_instant = cell.is_ascii()
                && bytes.len() == 24
                && bytes[10] == b'T'
                && bytes[19] == b'.'
                && bytes[23] == b'Z';
            if is_instant {
                *cell = format!("{} {}Z", &cell[..10], &cell[11..16]);
            }
        }
    }

    fn wrap_last(&mut self, room: usize) {
        let last = self.last();
        for row in &mut self.rows {
            row[last] = wrapped(&row[last], room);
        }
    }

    fn cut_last(&mut self, room: usize) {
        let last = self.last();
        for row in &mut self.rows {
            if row[last].chars().count() > room {
                let kept: String = row[last].chars().take(room - 1).collect();
                row[last] = format!("{}…", kept.trim_end());
            }
        }
    }
}

/// The words of a text in lines of at most so many characters; a longer word has its own line.
fn wrapped(text: &str, room: usize) -> String {
    let mut made = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let chars = word.chars().count();
        if used > 0 && used + 1 + chars > room {
            made.push('\n');
            used = 0;
        } else if used > 0 {
            made.push(' ');
            used += 1;
        }
        made.push_str(word);
        used += chars;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Sheet {
        let row = |text: &str| {
            [
                "mem_01a1debaae9c73c0befdb1e90e97a5b1",
                "2026-11-15T10:22:18.780Z",
                "persistent/semantic",
                "-",
                "",
                text,
            ]
            .map(str::to_owned)
            .to_vec()
        };
        Sheet {
            heading: ["ID", "CREATED", "KIND", "VALID", "TAGS", "CONTENT"]
                .map(str::to_owned)
                .to_vec(),
            rows: vec![row("short"), row(&"Invoice 17 is due on Friday ".repeat(3))],
        }
    }

    #[test]
    fn a_table_is_fitted_to_any_terminal_width() {
        for width in 40..240 {
            let (sheet, left_out) = fit(entries(), width, Last::Cut);
            let needed = sheet.width();
            let least = "mem_01a1debaae9c73c0befdb1e90e97a5b1".len() + 3 + LAST_MIN;
            assert!(needed <= width.max(least), "{needed} in {width}: {sheet:?}");
            assert_eq!(sheet.heading[0], "ID");
            assert_eq!(sheet.heading[sheet.last()], "CONTENT");
            assert_eq!(left_out.is_empty(), width >= 99, "{width}: {left_out:?}");
        }
    }

    #[test]
    fn a_table_that_fits_is_unchanged() {
        let sheet = entries();
        assert_eq!(fit(sheet.clone(), 500, Last::Cut), (sheet, Vec::new()));
    }

    #[test]
    fn eighty_columns_show_id_time_and_content() {
        let (sheet, left_out) = fit(entries(), 80, Last::Cut);
        assert_eq!(sheet.heading, ["ID", "CREATED", "CONTENT"]);
        assert_eq!(left_out, ["KIND"]);
        assert_eq!(sheet.rows[0][1], "2026-11-15 10:22Z");
        assert_eq!(sheet.rows[1][2], "Invoice 17 is due on…");
        let (sheet, _) = fit(entries(), 80, Last::Wrap);
        let lines: Vec<&str> = sheet.rows[1][2].lines().collect();
        assert_eq!(lines[..2], ["Invoice 17 is due on", "Friday Invoice 17 is"]);
    }
}
