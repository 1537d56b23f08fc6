//! Named violations of safety rules, so that `scripts/sabotage` can show that a test notices each
//! one.
//!
//! `sabotage!("name", right, wrong)` is `right`, and `sabotage!("name", step)` does its step. Only
//! a build with `--cfg sabotage` knows the names: there the environment variable `SABOTAGE` turns
//! one of them into its wrong value, or leaves its step out. Any other build holds neither names
//! nor wrong values. May not be used for anything but a rule that a test must check.

/// The right value. A build with `--cfg sabotage` can use the wrong one instead.
#[cfg(not(sabotage))]
#[macro_export]
macro_rules! sabotage {
    ($name:literal, $right:expr, $wrong:expr $(,)?) => {
        $right
    };
    ($name:literal, $step:expr $(,)?) => {
        $step
    };
}

/// The right value, or the wrong one if the environment names this violation.
#[cfg(sabotage)]
#[macro_export]
macro_rules! sabotage {
    ($name:literal, $right:expr, $wrong:expr $(,)?) => {
        if $crate::sabotage::is_on($name) {
            $wrong
        } else {
            $right
        }
    };
    ($name:literal, $step:expr $(,)?) => {
        if !$crate::sabotage::is_on($name) {
            $step;
        }
    };
}

/// A text of SQL, unchanged. SQL is in constants and migrations, where the other macro cannot
/// be used.
#[cfg(not(sabotage))]
#[macro_export]
macro_rules! sabotage_sql {
    ($sql:expr) => {
        $sql
    };
}

/// A text of SQL with the replacement that the environment asks for.
#[cfg(sabotage)]
#[macro_export]
macro_rules! sabotage_sql {
    ($sql:expr) => {
        &*$crate::sabotage::edited($sql)
    };
}

#[cfg(sabotage)]
mod switch {
    use std::borrow::Cow;
    use std::sync::OnceLock;

    fn variable(cell: &'static OnceLock<String>, name: &str) -> &'static str {
        cell.get_or_init(|| std::env::var(name).unwrap_or_default())
    }

    /// Returns true if the environment names this violation.
    #[must_use]
    pub fn is_on(name: &str) -> bool {
        static NAME: OnceLock<String> = OnceLock::new();
        variable(&NAME, "SABOTAGE") == name
    }

    /// The text with one part replaced, if the environment names a replacement and the text
    /// contains the part.
    #[must_use]
    pub fn edited(sql: &str) -> Cow<'_, str> {
        static RIGHT: OnceLock<String> = OnceLock::new();
        static WRONG: OnceLock<String> = OnceLock::new();
        let right = variable(&RIGHT, "SABOTAGE_SQL_RIGHT");
        if right.is_empty() || !sql.contains(right) {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace(right, variable(&WRONG, "SABOTAGE_SQL_WRONG")))
    }
}

#[cfg(sabotage)]
pub use switch::{edited, is_on};
