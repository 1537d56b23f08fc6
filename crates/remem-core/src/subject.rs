//! The subject of an entry: the person or thing that it is about, so that it can be forgotten on
//! request. Only a keyed digest is stored; the words themselves never are.

use crate::rejection::Rejection;
use unicode_normalization::UnicodeNormalization;

/// The longest subject, in characters.
pub const SUBJECT_CHARS_MAX: usize = 256;

/// A subject, as a digest under a key of the tenant: subjects of two tenants never match, and no
/// subject can be guessed from the stored digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject([u8; 32]);

impl Subject {
    /// The digest of a subject as a caller writes it. Case, width and spacing do not matter,
    /// because one who asks to be forgotten does not know how another one typed the name. (Nor does
    /// the space beside a colon: subjects are often `kind:name`.)
    pub fn of(key: &[u8; 32], words: &str) -> Result<Subject, Rejection> {
        let chars = words.chars().count();
        if chars > SUBJECT_CHARS_MAX {
            let limit = SUBJECT_CHARS_MAX as u64;
            let actual = chars as u64;
            return Err(Rejection::TooLarge {
                field: "subject",
                unit: "characters",
                limit,
                actual,
            });
        }
        let folded = words
            .nfkc()
            .flat_map(char::to_lowercase)
            .collect::<String>();
        let normal = folded
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace(" :", ":")
            .replace(": ", ":");
        if normal.is_empty() {
            return Err(Rejection::Empty { field: "subject" });
        }
        Ok(Subject(
            *blake3::keyed_hash(key, normal.as_bytes()).as_bytes(),
        ))
    }

    /// Restores a subject from its stored digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Subject {
        Subject(bytes)
    }

    /// The digest, as it is stored.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first four bytes in hexadecimal: enough to tell two subjects apart in a log.
    #[must_use]
    pub fn short_hex(&self) -> String {
        self.0[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subject({})", self.short_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_normalised_and_depend_on_the_key() {
        let key = [1; 32];
        let other = [2; 32];
        let of = |words| Subject::of(&key, words).unwrap();
        assert_eq!(of("Person:  Ada\tLovelace "), of("person:ada lovelace"));
        assert_eq!(of("person : ada"), of("person:ada"));
        assert_eq!(of("ＡＤＡ"), of("ada"));
        assert_ne!(of("ada"), of("adb"));
        assert_ne!(of("ada"), Subject::of(&other, "ada").unwrap());
        assert_eq!(
            Subject::of(&key, " \n "),
            Err(Rejection::Empty { field: "subject" })
        );
        assert!(matches!(
            Subject::of(&key, &"x".repeat(257)),
            Err(Rejection::TooLarge { .. })
        ));
        assert_eq!(of("ada").short_hex().len(), 8);
    }
}
