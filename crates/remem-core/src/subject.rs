//! The subject: whom or what a memory is about, as far as a host needs to know it to forget it.
//! Only a keyed digest is ever stored; the words themselves never are.

use crate::rejection::Rejection;
use unicode_normalization::UnicodeNormalization;

/// The longest subject, in characters.
pub const SUBJECT_CHARS_MAX: usize = 256;

/// Whom or what an entry is about: a digest under a key of the tenant, so that two tenants'
/// subjects never match and none can be guessed from what is stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject([u8; 32]);

impl Subject {
    /// The digest of a subject as a caller writes it. Case, width and spacing do not matter:
    /// whoever asks to be forgotten does not know how somebody else typed the name. (Nor does the
    /// space beside a colon: subjects are often `kind:name`.)
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

    /// As stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Subject {
        Subject(bytes)
    }

    /// As stored.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first four bytes in hexadecimal: enough to tell two apart in a log.
    #[must_use]
    pub fn short(&self) -> String {
        self.0[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subject({})", self.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_matter_and_the_key_does() {
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
        assert_eq!(of("ada").short().len(), 8);
    }
}
