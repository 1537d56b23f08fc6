//! What a secret that was registered late means for what is under review: titles, rationales and
//! notes are redacted, and an artifact is erased, since it is known by its hash and others cannot
//! take its place. It can then not be applied any more.

use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{Admission, Record, RecordBody, RecordKind, TenantId};
use serde_json::{Value, json};

/// The record of an artifact whose bytes may not stay: its hash is what is left. `None` for records
/// of another kind.
pub(crate) fn erased(admission: &Admission<'_>, record: &Record) -> Option<RecordBody> {
    if !matches!(
        record.kind,
        RecordKind::ProposalRevision | RecordKind::Installed
    ) {
        return None;
    }
    let mut body = record.body.clone();
    body.insert("artifact".to_owned(), Value::from(""));
    body.insert("erased".to_owned(), json!(true));
    Some(admission.record(body))
}

impl Engine {
    /// What is under review, for the pass that holds everything stored against new secrets, and for
    /// nobody else.
    pub(crate) async fn inert_to_rescan(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, EngineError> {
        Ok(self
            .parts
            .review
            .records(tenant, kind, "", after, limit)
            .await?)
    }
}
