//! Owns the archive of a digest: canonical JSON (RFC 8785) that is named by its own hash, and from
//! which the text is rebuilt.

use super::{DigestUnit, ENGINE, NUMBER_MAX, sha256_hex};
use serde::{Deserialize, Serialize};

/// The archived content of a digest. The fields are in the order of their names, which is the order
/// of canonical JSON.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// The name of the algorithm, [`ENGINE`].
    pub alg: String,
    /// The budget that was given.
    pub budget: u64,
    /// The ids of all sources, sorted.
    pub sources: Vec<String>,
    /// The name of the tokenizer that counted the tokens.
    pub tokenizer: String,
    /// The units: source, index in the source, text; in the order of the text.
    pub units: Vec<(String, u32, String)>,
}

/// Bytes that are not an archive of this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an archive of {ENGINE}")]
pub struct MalformedArchive;

// An archive is content.
impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Archive({} sources, {} units)",
            self.sources.len(),
            self.units.len()
        )
    }
}

impl Archive {
    pub(super) fn new(
        budget: u64,
        sources: Vec<String>,
        tokenizer: &str,
        units: &[DigestUnit],
    ) -> Archive {
        let units = units
            .iter()
            .map(|unit| (unit.source.clone(), unit.index, unit.text.clone()))
            .collect();
        Archive {
            alg: ENGINE.to_owned(),
            budget,
            sources,
            tokenizer: tokenizer.to_owned(),
            units,
        }
    }

    /// The bytes of the archive in canonical JSON, as stored.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        // Strings, integers and lists: serialising them cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// SHA-256 of the bytes, hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        sha256_hex(&self.bytes())
    }

    /// The text of the digest.
    #[must_use]
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self
            .units
            .iter()
            .map(|(_, _, text)| text.as_str())
            .collect();
        lines.join("\n")
    }

    /// Reads an archive back. Other spellings of the same JSON are refused: only the canonical one
    /// has the hash.
    pub fn parse(bytes: &[u8]) -> Result<Archive, MalformedArchive> {
        let archive: Archive = serde_json::from_slice(bytes).map_err(|_| MalformedArchive)?;
        let sorted = archive.sources.is_sorted_by(|a, b| a < b);
        let whole = archive.alg == ENGINE
            && archive.budget <= NUMBER_MAX
            && sorted
            && archive.units_are_consistent();
        if whole && archive.bytes() == bytes {
            Ok(archive)
        } else {
            Err(MalformedArchive)
        }
    }

    /// Whether every unit belongs to a source, those of one source are together and in order, and
    /// none is empty.
    fn units_are_consistent(&self) -> bool {
        let known = |id: &String| self.sources.binary_search(id).is_ok();
        let mut groups: Vec<&str> = Vec::new();
        let mut last: Option<(&str, u32)> = None;
        for (source, index, text) in &self.units {
            let next = last.is_some_and(|(id, before)| id == source && before < *index);
            if !known(source)
                || text.is_empty()
                || (last.is_some_and(|(id, _)| id == source) && !next)
            {
                return false;
            }
            if !next {
                groups.push(source);
            }
            last = Some((source, *index));
        }
        groups.sort_unstable();
        !groups.is_empty() && groups.is_sorted_by(|a, b| a < b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"alg":"remem-distill-1","budget":64,"sources":["a","b"],"tokenizer":"o200k_base","units":[["b",0,"One."],["b",2,"Two \"é\"\n\u001f"],["a",0,"Three."]]}"#;

    #[test]
    fn an_archive_round_trips_and_rebuilds_its_text() {
        let archive = Archive::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(archive.text(), "One.\nTwo \"é\"\n\u{1f}\nThree.");
        assert_eq!(archive.bytes(), GOOD.as_bytes());
        assert!(!format!("{archive:?}").contains("One"));
    }

    #[test]
    fn malformed_archives_are_rejected() {
        let changes = [
            ("remem-distill-1", "remem-distill-0"),
            ("\"budget\":64", "\"budget\":9007199254740992"),
            ("\"budget\":64", "\"budget\":-1"),
            ("\"budget\":64,", "\"budget\": 64,"),
            ("\"budget\":64,", ""),
            ("\"budget\":64", "\"budget\":64,\"more\":1"),
            ("[\"a\",\"b\"]", "[\"b\",\"a\"]"),
            ("[\"a\",\"b\"]", "[\"a\",\"a\",\"b\"]"),
            ("[\"a\",\"b\"]", "[\"b\"]"),
            ("[\"b\",2,", "[\"b\",0,"),
            ("[\"a\",0,\"Three.\"]", "[\"a\",0,\"\"]"),
            (
                "[\"a\",0,\"Three.\"]",
                "[\"a\",0,\"Three.\"],[\"b\",3,\"Four.\"]",
            ),
            ("[\"a\",0,\"Three.\"]", "[\"a\",0,\"Three.\",1]"),
            ("é", "\\u00e9"),
            ("]]}", "]]} "),
        ];
        for (from, to) in changes {
            let bad = GOOD.replacen(from, to, 1);
            assert_ne!(bad, GOOD, "{from}");
            assert_eq!(
                Archive::parse(bad.as_bytes()),
                Err(MalformedArchive),
                "{from} -> {to}"
            );
        }
        assert_eq!(Archive::parse(b"\xff"), Err(MalformedArchive));
        assert_eq!(
            Archive::parse(
                br#"{"alg":"remem-distill-1","budget":64,"sources":[],"tokenizer":"x","units":[]}"#
            ),
            Err(MalformedArchive)
        );
    }
}
