//! The result of a check of stored data: the rows that differ from what was written. Names and
//! counts only, never content.

use std::fmt;

/// The most damaged rows of a table that are named.
pub const NAMED_MAX: usize = 5;

/// The damaged rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedTable {
    /// The table, or the table and the kind of damage.
    pub table: &'static str,
    /// The number of damaged rows.
    pub rows: u64,
    /// The names or numbers of the first of them.
    pub named: Vec<String>,
}

impl DamagedTable {
    /// Counts one more damaged row. The name itself may be damaged, so only printable characters of
    /// it are kept, and a bounded number of them.
    pub fn add(&mut self, name: &str) {
        self.rows += 1;
        if self.named.len() < NAMED_MAX {
            let shown: String = name.chars().flat_map(char::escape_debug).take(80).collect();
            self.named.push(shown);
        }
    }
}

/// The result of a check of several tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageReport(pub Vec<DamagedTable>);

impl DamageReport {
    /// Returns the damage of a table, which may have no rows yet.
    pub fn table_mut(&mut self, table: &'static str) -> &mut DamagedTable {
        let at = self.0.iter().position(|damage| damage.table == table);
        let at = at.unwrap_or_else(|| {
            self.0.push(DamagedTable {
                table,
                rows: 0,
                named: Vec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl fmt::Display for DamageReport {
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
    fn a_damage_report_counts_rows_and_names_the_first_five() {
        let mut damages = DamageReport::default();
        for n in 0..7 {
            damages.table_mut("entry").add(&format!("e{n}\u{1b}"));
        }
        damages.table_mut("record").add("workspace notes.md");
        let text = damages.to_string();
        assert_eq!(
            text,
            "entry: 7 damaged (e0\\u{1b}, e1\\u{1b}, e2\\u{1b}, e3\\u{1b}, e4\\u{1b}); \
             record: 1 damaged (workspace notes.md)"
        );
    }
}
