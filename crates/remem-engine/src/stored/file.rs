//! A version of a workspace file, as its record stores it: the newest under the path, and each
//! under the path with its number.

use remem_core::record::or_default;
use remem_core::{Record, RecordKind, StoredRecord};
use serde::{Deserialize, Serialize};

/// The body of a file's record, with the path. A version's record has the same body.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredFile {
    /// The path; in the record of a version it ends with the number.
    #[serde(skip)]
    pub key: String,
    #[serde(default, deserialize_with = "or_default")]
    pub content: String,
    #[serde(default, deserialize_with = "or_default")]
    pub content_type: String,
}

impl StoredRecord for StoredFile {
    const KIND: RecordKind = RecordKind::File;

    fn key(&self) -> String {
        self.key.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.key.clone_from(&record.key);
    }
}
