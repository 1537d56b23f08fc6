//! Typed records: the body of a record as a struct. This file is the only one that turns a body
//! into fields and back, and it owns which texts may be stored without redaction; what a kind of
//! record means is decided where its struct is.

use super::{Record, RecordBody, RecordKind, RecordLinks};
use crate::embedding::ModelId;
use crate::ids::{MemoryRef, PrincipalId, RuleId, RunId, Seq, Timestamp, WorldId};
use crate::proposal::{Artifact, ProposalKind, ProposalState};
use crate::redact::Redacted;
use crate::sabotage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A struct that is stored as the body of a record. Fields that earlier releases did not write
/// have a default (`or_default`), and no field may be renamed: stored bytes are kept for good.
pub trait StoredRecord: Serialize + DeserializeOwned {
    /// The kind of its records.
    const KIND: RecordKind;

    /// The name of its record.
    fn key(&self) -> String;

    /// What its record is found by beside its name.
    fn ties(&self) -> RecordLinks {
        RecordLinks::default()
    }

    /// Takes over what is stored beside the body: the name, version, instant and ties.
    fn complete(&mut self, _record: &Record) {}

    /// The body as a JSON object, with its keys in the order in which they are stored.
    fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    /// Reads a body; `None` if a field that it must have is missing or of another type.
    #[must_use]
    fn from_map(map: &Map<String, Value>) -> Option<Self> {
        Self::deserialize(map).ok()
    }

    /// Reads a record; `None` if its body cannot be read.
    #[must_use]
    fn read(record: &Record) -> Option<Self> {
        let mut read = Self::from_map(&record.body)?;
        read.complete(record);
        Some(read)
    }
}

/// Reads a field that may be absent, null or of another type: then it has its default. A redaction
/// can turn a number into a text.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    sabotage!(
        "a-redacted-number-makes-a-record-unreadable",
        Ok(T::deserialize(value).unwrap_or_default()),
        T::deserialize(value).map_err(serde::de::Error::custom)
    )
}

impl RecordBody {
    /// Takes a record whose texts need no redaction, as it is. A text of a caller cannot be in one
    /// unless it has passed the redactor:
    ///
    /// ```
    /// use remem_core::{HostText, NeedsNoRedaction, Redacted, RecordBody, RecordKind, StoredRecord};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Note {
    ///     id: HostText,
    /// }
    /// remem_core::needs_no_redaction!(Note { id });
    /// impl StoredRecord for Note {
    ///     const KIND: RecordKind = RecordKind::Progress;
    ///     fn key(&self) -> String {
    ///         "note".to_owned()
    ///     }
    /// }
    /// let body = RecordBody::unchanged(&Note { id: HostText::from("a") });
    /// assert_eq!(body.map()["id"], "a");
    /// ```
    ///
    /// A plain string is no such text:
    ///
    /// ```compile_fail,E0277
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Note {
    ///     text: String,
    /// }
    /// remem_core::needs_no_redaction!(Note { text });
    /// ```
    ///
    /// Nor can a field be left out of the list:
    ///
    /// ```compile_fail,E0027
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Note {
    ///     id: u64,
    ///     text: String,
    /// }
    /// remem_core::needs_no_redaction!(Note { id });
    /// ```
    ///
    /// And a record that does not promise it is redacted:
    ///
    /// ```compile_fail,E0277
    /// use remem_core::{RecordBody, RecordKind, StoredRecord};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Note {
    ///     text: String,
    /// }
    /// impl StoredRecord for Note {
    ///     const KIND: RecordKind = RecordKind::Progress;
    ///     fn key(&self) -> String {
    ///         "note".to_owned()
    ///     }
    /// }
    /// RecordBody::unchanged(&Note { text: String::new() });
    /// ```
    #[must_use]
    pub fn unchanged<T: StoredRecord + NeedsNoRedaction>(record: &T) -> RecordBody {
        RecordBody(record.to_map())
    }
}

/// A value whose texts may be stored without redaction. `needs_no_redaction!` implements it for a
/// struct, if it holds for each of its fields.
pub trait NeedsNoRedaction {
    /// Names the fields of a struct, each of which needs no redaction either.
    fn check_fields(&self) {}
}

/// Declares that no field of a struct needs redaction. It does not compile if the type of a field
/// makes no such promise, or if a field is not named.
#[macro_export]
macro_rules! needs_no_redaction {
    ($record:ident { $($field:ident),* $(,)? }) => {
        impl $crate::NeedsNoRedaction for $record {
            fn check_fields(&self) {
                let $record { $($field),* } = self;
                $($crate::NeedsNoRedaction::check_fields($field);)*
            }
        }
    };
}

/// A text of the host's own: an id that it made, a digest, a word of a closed set, or a name or
/// expression whose form was checked. Some look like secrets to a strict detector, and a redacted
/// id would name nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostText(String);

impl HostText {
    /// Wraps a text that the caller guarantees to be such a one, and not free text of a user.
    #[must_use]
    pub fn new(text: impl Into<String>) -> HostText {
        HostText(text.into())
    }

    /// The text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Consumes the wrapper and returns the text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<&'static str> for HostText {
    fn from(word: &'static str) -> HostText {
        HostText(word.to_owned())
    }
}

/// A JSON object of the host's own: numbers, ids, and words of closed sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts(Map<String, Value>);

impl HostFacts {
    /// Wraps an object that the caller guarantees to hold no free text of a user.
    #[must_use]
    pub fn new(facts: Map<String, Value>) -> HostFacts {
        HostFacts(facts)
    }

    /// Consumes the wrapper and returns the object.
    #[must_use]
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// A text that a caller wrote and that has passed the redactor, now or before it was stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanText(String);

impl std::ops::Deref for CleanText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl CleanText {
    /// The bytes of an artifact, which are redacted before their hash is taken.
    #[must_use]
    pub fn of_artifact(artifact: &Artifact) -> CleanText {
        CleanText(artifact.text().to_owned())
    }

    /// Consumes the wrapper and returns the text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<Redacted> for CleanText {
    fn from(text: Redacted) -> CleanText {
        CleanText(text.into_string())
    }
}

// Such a text can be as private as a memory, so it is not printed.
impl std::fmt::Debug for CleanText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CleanText({} bytes)", self.0.len())
    }
}

impl NeedsNoRedaction for HostText {}
impl NeedsNoRedaction for HostFacts {}
impl NeedsNoRedaction for CleanText {}
impl NeedsNoRedaction for Timestamp {}
impl NeedsNoRedaction for RecordLinks {}
impl NeedsNoRedaction for ProposalKind {}
impl NeedsNoRedaction for ProposalState {}
impl NeedsNoRedaction for ModelId {}
impl NeedsNoRedaction for Seq {}
impl NeedsNoRedaction for bool {}
impl NeedsNoRedaction for u32 {}
impl NeedsNoRedaction for u64 {}
impl NeedsNoRedaction for i64 {}
impl NeedsNoRedaction for f64 {}
impl<T: NeedsNoRedaction> NeedsNoRedaction for Option<T> {}
impl<T: NeedsNoRedaction> NeedsNoRedaction for Vec<T> {}
impl<A: NeedsNoRedaction, B: NeedsNoRedaction> NeedsNoRedaction for (A, B) {}

/// Stores an id as its text. A text that is no such id is not read. The ids need no redaction:
/// their form is checked, and a name that callers chose is checked for secrets before it is used.
macro_rules! stored_id {
    ($($id:ident),*) => {$(
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$id, D::Error> {
                let text = String::deserialize(deserializer)?;
                $id::parse(&text).ok_or_else(|| serde::de::Error::custom("a malformed id"))
            }
        }

        impl NeedsNoRedaction for $id {}

        impl From<&$id> for HostText {
            fn from(id: &$id) -> HostText {
                HostText(id.as_str().to_owned())
            }
        }
    )*};
}

stored_id!(MemoryRef, PrincipalId, RuleId, RunId, WorldId);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::SecretValue;
    use crate::{Admission, Policy, Redactor};

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sample {
        id: HostText,
        #[serde(default, deserialize_with = "or_default")]
        count: u64,
        #[serde(default, deserialize_with = "or_default")]
        memory: Option<MemoryRef>,
    }

    impl StoredRecord for Sample {
        const KIND: RecordKind = RecordKind::Progress;

        fn key(&self) -> String {
            self.id.as_str().to_owned()
        }
    }

    fn read(body: &str) -> Option<Sample> {
        Sample::from_map(&serde_json::from_str(body).unwrap())
    }

    #[test]
    fn a_missing_null_or_redacted_field_has_its_default() {
        let id = HostText::from("a");
        let bare = Sample {
            id: id.clone(),
            ..Sample::default()
        };
        for body in [
            r#"{"id":"a"}"#,
            r#"{"id":"a","count":null,"memory":null}"#,
            r#"{"id":"a","count":"[REDACTED:pin]","memory":7}"#,
            r#"{"id":"a","count":-1,"memory":"../up","more":[]}"#,
        ] {
            assert_eq!(read(body).as_ref(), Some(&bare), "{body}");
        }
        let full = Sample {
            id,
            count: 3,
            memory: MemoryRef::parse("m"),
        };
        assert_eq!(read(r#"{"id":"a","count":3,"memory":"m"}"#), Some(full));
    }

    #[test]
    fn a_body_without_a_field_that_it_must_have_is_not_read() {
        for body in ["{}", r#"{"id":null}"#, r#"{"id":7}"#, r#"{"count":3}"#] {
            assert_eq!(read(body), None, "{body}");
        }
    }

    #[test]
    fn a_typed_record_is_redacted_unless_it_needs_none() {
        let policy = Policy::default();
        let redactor = Redactor::new([SecretValue::new("pin", "tuesday-pin-4711")]);
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 1,
            now: Timestamp(0),
        };
        let sample = Sample {
            id: HostText::from("tuesday-pin-4711"),
            ..Sample::default()
        };
        let text = CleanText::from(admission.redact_text("say tuesday-pin-4711"));
        assert_eq!(&*text, "say [REDACTED:pin]");
        assert_eq!(format!("{text:?}"), "CleanText(18 bytes)");
        let redacted = admission.redact_stored(&sample);
        assert_eq!(redacted.map()["id"], "[REDACTED:pin]");
    }

    #[test]
    fn a_body_is_stored_with_sorted_keys() {
        let full = Sample {
            id: HostText::from("a"),
            count: 3,
            memory: None,
        };
        let text = serde_json::to_string(&full.to_map()).unwrap();
        assert_eq!(text, r#"{"count":3,"id":"a","memory":null}"#);
    }
}
