//! How a secret that is registered late is removed from proposals: titles, rationales and notes are
//! redacted. An artifact is erased, since it is identified by its hash and a redacted one cannot
//! take its place. It can then not be applied any more.

use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{Admission, Record, RecordBody, RecordKind, TenantId};
use serde_json::{Value, json};

/// The record of an artifact without its bytes, of which only the hash is left. `None` for records
/// of another kind.
pub(crate) fn erased_artifact(admission: &Admission<'_>, record: &Record) -> Option<RecordBody> {
    if !matches!(
        record.kind,
        RecordKind::ProposalRevision | RecordKind::InstalledArtifact
    ) {
        return None;
    }
    let mut body = record.body.clone();
    body.insert("artifact".to_owned(), Value::from(""));
    body.insert("erased".to_owned(), json!(true));
    Some(admission.redact_record(body))
}

impl Engine {
    /// Reads records of proposals for the pass that redacts everything again, the only reader
    /// outside of `proposals`.
    pub(crate) async fn proposal_records_to_rescan(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, EngineError> {
        Ok(self
            .parts
            .proposal_store
            .records(tenant, kind, "", after, limit)
            .await?)
    }
}
