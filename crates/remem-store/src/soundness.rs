//! What a check of stored data found: which rows are not what was written. Names and counts only,
//! never content.

use std::fmt;

/// How many damaged rows of a table are named.
pub const NAMED_MAX: usize = 5;

/// Damaged rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The table, or the table and what is wrong with it.
    pub table: &'static str,
    /// How many rows of it are damaged.
    pub rows: u64,
    /// The names or numbers of the first of them.
    pub named: Vec<String>,
}

impl Damage {
    /// One more damaged row. Its name may be what is damaged, so only printable characters of it
    /// are kept, and not too many.
    pub fn add(&mut self, name: &str) {
        self.rows += 1;
        if self.named.len() < NAMED_MAX {
            let shown: String = name.chars().flat_map(char::escape_debug).take(80).collect();
            self.named.push(shown);
        }
    }
}

/// What a check found in several tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damages(pub Vec<Damage>);

impl Damages {
    /// The rows of this table, which may be none yet.
    pub fn of(&mut self, table: &'static str) -> &mut Damage {
        let at = self.0.iter().position(|damage| damage.table == table);
        let at = at.unwrap_or_else(|| {
            self.0.push(Damage {
                table,
                rows: 0,
                named: Vec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl fmt::Display for Damages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, damage) in self.0.iter().enumerate() {
            let gap = if n > 0 { "; " } else { "" };
            write!(f, "{gap}{}: {} damaged", damage.table, damage.rows)?;
            if !damage.named.is_empty() {
                write!(f, " ({})", damage.named.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_the_first_ones_named() {
        let mut damages = Damages::default();
        for n in 0..7 {
            damages.of("entry").add(&format!("e{n}\u{1b}"));
        }
        damages.of("record").add("workspace notes.md");
        let told = damages.to_string();
        assert_eq!(
            told,
            "entry: 7 damaged (e0\\u{1b}, e1\\u{1b}, e2\\u{1b}, e3\\u{1b}, e4\\u{1b}); \
             record: 1 damaged (workspace notes.md)"
        );
    }
}
