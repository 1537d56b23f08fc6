//! Owns the registered secret and the floor. It may not print a value or compare it in plain text;
//! a caller that needs the text asks for it with `expose`.

use std::fmt;

use zeroize::Zeroizing;

/// Values with fewer characters are not registered: they would blank ordinary words.
pub const FLOOR_CHARS: usize = 8;

/// One value to keep out of memory, with the id its marker may show.
#[derive(Clone)]
pub struct SecretValue {
    id: String,
    value: Zeroizing<String>,
}

impl SecretValue {
    /// Takes the id shown in markers and the plaintext, which is wiped when dropped.
    pub fn new(id: impl Into<String>, value: impl Into<String>) -> SecretValue {
        SecretValue {
            id: id.into(),
            value: Zeroizing::new(value.into()),
        }
    }

    /// The id as registered; it may be unfit for a marker, see the `marker` module.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Calls `f` with the plain text of the secret. Copies that outlive the call must be wiped like
    /// this one.
    pub fn expose<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        f(&self.value)
    }

    /// Whether the value reaches the floor. It counts characters, not bytes: the floor must mean
    /// the same for every script.
    pub(super) fn is_long_enough(&self) -> bool {
        self.value.chars().count() >= FLOOR_CHARS
    }

    /// The length of the value in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.plain().len()
    }

    pub(super) fn plain(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is left out too: a careless caller may have put the value there.
        f.debug_struct("SecretValue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_omits_value_and_id() {
        let shown = format!(
            "{:?}",
            SecretValue::new("id-hunter2hunter2", "hunter2hunter2")
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn the_length_floor_counts_characters_not_bytes() {
        for (value, long_enough) in [
            ("1234567", false),
            ("12345678", true),
            ("äöüßéñç", false),
            ("äöüßéñç!", true),
        ] {
            assert_eq!(
                SecretValue::new("x", value).is_long_enough(),
                long_enough,
                "{value}"
            );
        }
    }
}
