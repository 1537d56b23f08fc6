//! How far passes have come, from one activation to the next. It is stored without redaction, since
//! it holds only ids, digests and numbers: some look like secrets to a strict detector.

use crate::embedders;
use crate::passes::{infer, propose, rescan};
use remem_core::record::or_default;
use remem_core::{
    HostText, ModelId, Record, RecordKind, Seq, StoredRecord, Timestamp, WorldId,
    needs_no_redaction,
};
use serde::{Deserialize, Deserializer, Serialize};

/// The progress of the pass `embed`: the model that serves, and how another one compared.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct EmbedProgress {
    /// The model whose vectors answer searches.
    #[serde(default, deserialize_with = "or_default")]
    pub serving: Option<ModelId>,
    /// The model that was compared and does not serve.
    #[serde(default, deserialize_with = "or_default")]
    pub held: Option<ModelId>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub comparison: Option<StoredComparison>,
    /// How far the vectors of the current model have come; absent if all entries have to be looked
    /// through from the start, and in records of earlier releases.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub log: Option<StoredEmbedPosition>,
}

/// A position in the event log and in a look through all entries.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredEmbedPosition {
    pub model: ModelId,
    pub seq: Seq,
    /// The memory and the row of the last entry that was looked at.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub scope: Option<i64>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub row: Option<i64>,
    /// When the last look through all entries ended.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub looked_at: Option<Timestamp>,
}

/// The result of comparing two models, in thousandths.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredComparison {
    #[serde(default, deserialize_with = "or_default")]
    pub overlap: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub agreement: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub questions: u64,
}

needs_no_redaction!(StoredComparison {
    overlap,
    agreement,
    questions,
});
needs_no_redaction!(EmbedProgress {
    serving,
    held,
    comparison,
    log,
});
needs_no_redaction!(StoredEmbedPosition {
    model,
    seq,
    scope,
    row,
    looked_at,
});

impl StoredRecord for EmbedProgress {
    const KIND: RecordKind = RecordKind::Progress;

    fn key(&self) -> String {
        embedders::RECORD_KEY.to_owned()
    }
}

/// The progress of the pass `infer`.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct InferProgress {
    /// The position of the last event that was read.
    #[serde(default, deserialize_with = "or_default")]
    pub seq: u64,
}

needs_no_redaction!(InferProgress { seq });

impl StoredRecord for InferProgress {
    const KIND: RecordKind = RecordKind::Progress;

    fn key(&self) -> String {
        infer::NAME.to_owned()
    }
}

/// The progress of the pass `propose`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SynthesisProgress {
    /// When all traces were last compared.
    #[serde(default, deserialize_with = "or_default")]
    pub at: i64,
    /// The last run before the first one that has not ended.
    #[serde(default, rename = "seen", deserialize_with = "or_default")]
    pub last_run: Option<HostText>,
    /// The last tool trace that was compared.
    #[serde(default, rename = "seenTrace", deserialize_with = "or_default")]
    pub last_trace: Option<HostText>,
    /// The run after which reading begins: there are too many for the earlier ones to be compared.
    #[serde(default, rename = "from", deserialize_with = "or_default")]
    pub start_after: Option<HostText>,
}

needs_no_redaction!(SynthesisProgress {
    at,
    last_run,
    last_trace,
    start_after,
});

impl StoredRecord for SynthesisProgress {
    const KIND: RecordKind = RecordKind::Progress;

    fn key(&self) -> String {
        propose::NAME.to_owned()
    }
}

/// The progress of the pass `consolidate` over one memory.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ConsolidateProgress {
    #[serde(skip)]
    pub key: HostText,
    /// The number of passes that were completed.
    #[serde(default, deserialize_with = "or_default")]
    pub pass: u64,
    /// Whether another one has begun.
    #[serde(default, deserialize_with = "or_default")]
    pub open: bool,
}

impl StoredRecord for ConsolidateProgress {
    const KIND: RecordKind = RecordKind::Progress;

    fn key(&self) -> String {
        self.key.as_str().to_owned()
    }

    fn complete(&mut self, record: &Record) {
        self.key = HostText::new(&record.key);
    }
}

/// The progress of the pass `rescan`: which walk it is, and the place that it has reached. Which
/// fields a place has depends on what is walked over.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredRescan {
    /// The rules that the walk applies, as a number in hexadecimal.
    pub scan: HostText,
    pub since: Timestamp,
    pub walks: u64,
    /// The version of what a walk covers; absent before there were versions.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub reach: Option<u64>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub scope: Option<i64>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub row: Option<i64>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub place: Option<HostText>,
    /// The position of a kind of record in the order of the walk.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<u64>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub world: Option<WorldId>,
    /// The last record or rule; `null` before the first record of a kind.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<Option<HostText>>,
}

needs_no_redaction!(StoredRescan {
    scan,
    since,
    walks,
    reach,
    scope,
    row,
    place,
    kind,
    world,
    after,
});

impl StoredRecord for StoredRescan {
    const KIND: RecordKind = RecordKind::Progress;

    fn key(&self) -> String {
        rescan::NAME.to_owned()
    }
}

/// Reads a field that is there, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<HostText>>, D::Error> {
    or_default(from).map(Some)
}
