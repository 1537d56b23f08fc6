//! What is read of a run without the whole of its state (`RunState`), and the result of a run's
//! read, as their records store them.

use remem_core::record::or_default;
use remem_core::{Record, RecordKind, StoredRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields of a run's record that other parts ask for.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RunHead {
    #[serde(skip)]
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
}

impl StoredRecord for RunHead {
    const KIND: RecordKind = RecordKind::Run;

    fn key(&self) -> String {
        self.id.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.id.clone_from(&record.key);
    }
}

/// The body of a read's record, with its name: `<run>/<number>`.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct StoredRead {
    #[serde(skip)]
    pub key: String,
    /// The question, by which a replay notices that it asks for something else.
    #[serde(default, deserialize_with = "or_default")]
    pub asked: Value,
    #[serde(default, deserialize_with = "or_default")]
    pub answer: Value,
}

impl StoredRecord for StoredRead {
    const KIND: RecordKind = RecordKind::RunRead;

    fn key(&self) -> String {
        self.key.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.key.clone_from(&record.key);
    }
}
