//! The note that a commitment or an automation fired at an instant. It is stored without redaction,
//! since it holds only ids and instants.

use remem_core::record::or_default;
use remem_core::{
    HostText, MemoryRef, Record, RecordKind, RecordLinks, StoredRecord, Timestamp,
    needs_no_redaction,
};
use serde::{Deserialize, Serialize};

/// The body of a firing's record, with its name and ties.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredFiring {
    #[serde(skip)]
    pub key: HostText,
    #[serde(skip)]
    pub ties: RecordLinks,
    /// The commitment that fired, unless it was an automation.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub commitment_id: Option<HostText>,
    /// The automation that fired, unless it was a commitment.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub automation_id: Option<HostText>,
    /// The memory of the commitment.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub memory_ref: Option<MemoryRef>,
    /// When it was due to fire.
    #[serde(default, deserialize_with = "or_default")]
    pub scheduled_at: Timestamp,
    /// When it fired in fact.
    #[serde(default, deserialize_with = "or_default")]
    pub fired_at: Timestamp,
    /// The run that it started, if any.
    #[serde(default, deserialize_with = "or_default")]
    pub run_id: Option<HostText>,
}

needs_no_redaction!(StoredFiring {
    key,
    ties,
    commitment_id,
    automation_id,
    memory_ref,
    scheduled_at,
    fired_at,
    run_id,
});

impl StoredRecord for StoredFiring {
    const KIND: RecordKind = RecordKind::Firing;

    fn key(&self) -> String {
        self.key.as_str().to_owned()
    }

    fn ties(&self) -> RecordLinks {
        self.ties.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.key = HostText::new(&record.key);
        self.ties = record.links.clone();
    }
}
