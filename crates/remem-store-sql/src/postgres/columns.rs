//! The rows to be written, column by column, as `unnest` takes them.

use super::gate::{SqlCall, sql_call};
use super::load::GroupState;
use super::save::{GroupWrites, NewEntry};
use crate::stored::content_hash;

/// Rows of `scope` as columns.
#[derive(Default)]
pub(super) struct ScopeColumns {
    pub id: Vec<i64>,
    pub memory_ref: Vec<String>,
    pub owner: Vec<Option<String>>,
    pub documents: Vec<i64>,
    pub words: Vec<i64>,
    pub next_row: Vec<i64>,
}

impl ScopeColumns {
    /// The memories that the group changed: only new ones, or only the others.
    pub fn of(working: &GroupState, new: bool) -> ScopeColumns {
        let mut scopes = ScopeColumns::default();
        for (memory_ref, scope) in working
            .scopes
            .iter()
            .filter(|(_, scope)| scope.changed && scope.new == new)
        {
            scopes.id.push(scope.scope_id);
            scopes.memory_ref.push(memory_ref.as_str().to_owned());
            scopes.owner.push(memory_ref.owner().map(str::to_owned));
            scopes.documents.push(scope.documents);
            scopes.words.push(scope.words);
            scopes.next_row.push(scope.next_row);
        }
        scopes
    }
}

/// Rows of `record` or `review` as columns: those to write, and the names of those to delete.
#[derive(Default)]
pub(super) struct RecordColumns {
    pub kind: Vec<&'static str>,
    pub key: Vec<String>,
    pub version: Vec<i64>,
    pub at: Vec<i64>,
    pub body: Vec<String>,
    pub due: Vec<Option<i64>>,
    pub topic: Vec<Option<String>>,
    pub scope: Vec<Option<i64>>,
    pub row: Vec<Option<i64>>,
    pub deleted_kind: Vec<&'static str>,
    pub deleted_key: Vec<String>,
}

impl RecordColumns {
    /// The records under review, or all others.
    pub fn of(writes: &GroupWrites<'_>, inert: bool) -> RecordColumns {
        let mut records = RecordColumns::default();
        for ((kind, key), record) in writes
            .records
            .iter()
            .filter(|((kind, _), _)| kind.is_under_review() == inert)
        {
            let Some(record) = record else {
                records.deleted_kind.push(kind.as_str());
                records.deleted_key.push((*key).to_owned());
                continue;
            };
            records.kind.push(kind.as_str());
            records.key.push((*key).to_owned());
            records.version.push(record.version);
            records.at.push(record.at);
            records.body.push(record.body.clone());
            records.due.push(record.due);
            records.topic.push(record.topic.clone());
            records.scope.push(record.source.map(|source| source.0));
            records.row.push(record.source.map(|source| source.1));
        }
        records
    }
}

/// New rows of `entry` as columns.
pub(super) struct EntryColumns<'a> {
    pub scope: Vec<i64>,
    pub row: Vec<i64>,
    pub id: Vec<&'a str>,
    pub id_hash: Vec<&'a [u8]>,
    pub tier: Vec<&'a str>,
    pub typology: Vec<&'a str>,
    pub content: Vec<&'a [u8]>,
    pub tags: Vec<&'a str>,
    pub metadata: Vec<Option<&'a str>>,
    pub created_at: Vec<i64>,
    pub expires_at: Vec<Option<i64>>,
    pub written_by: Vec<Option<&'a str>>,
    pub written_by_run: Vec<Option<&'a str>>,
    pub scan: Vec<i64>,
    pub content_hash: Vec<Vec<u8>>,
    pub revision: Vec<i64>,
    pub owner: Vec<Option<&'a str>>,
    pub session: Vec<Option<&'a str>>,
    pub interaction: Vec<Option<&'a str>>,
    pub world: Vec<&'a str>,
    pub slot: Vec<Option<&'a str>>,
    pub valid_at: Vec<Option<i64>>,
    pub invalid_at: Vec<Option<i64>>,
    pub trust: Vec<&'a str>,
    pub evidence: Vec<String>,
}

impl<'a> EntryColumns<'a> {
    pub fn of(entries: &'a [NewEntry<'a>]) -> EntryColumns<'a> {
        EntryColumns {
            scope: entries.iter().map(|e| e.scope_id).collect(),
            row: entries.iter().map(|e| e.row_id).collect(),
            id: entries.iter().map(|e| e.id).collect(),
            id_hash: entries.iter().map(|e| e.id_hash.as_slice()).collect(),
            tier: entries.iter().map(|e| e.admitted.tier().as_str()).collect(),
            typology: entries
                .iter()
                .map(|e| e.admitted.typology().as_str())
                .collect(),
            content: entries
                .iter()
                .map(|e| e.admitted.content().as_bytes())
                .collect(),
            tags: entries.iter().map(|e| e.tags.as_str()).collect(),
            metadata: entries.iter().map(|e| e.admitted.metadata()).collect(),
            created_at: entries.iter().map(|e| e.created_at).collect(),
            expires_at: entries
                .iter()
                .map(|e| e.admitted.expires_at().map(|t| t.0))
                .collect(),
            written_by: entries.iter().map(|e| e.written_by).collect(),
            written_by_run: entries.iter().map(|e| e.written_by_run).collect(),
            scan: entries
                .iter()
                .map(|e| e.admitted.redaction_fingerprint().cast_signed())
                .collect(),
            content_hash: entries
                .iter()
                .map(|e| content_hash(e.admitted.content().as_bytes()).to_vec())
                .collect(),
            revision: entries.iter().map(|e| e.revision).collect(),
            owner: entries
                .iter()
                .map(|e| e.admitted.scope().memory_ref.owner())
                .collect(),
            session: entries
                .iter()
                .map(|e| e.admitted.facets().session.as_ref().map(|id| id.as_str()))
                .collect(),
            interaction: entries
                .iter()
                .map(|e| {
                    e.admitted
                        .facets()
                        .interaction
                        .as_ref()
                        .map(|id| id.as_str())
                })
                .collect(),
            world: entries
                .iter()
                .map(|e| e.admitted.facets().world.as_str())
                .collect(),
            slot: entries
                .iter()
                .map(|e| e.admitted.facets().slot.as_deref())
                .collect(),
            valid_at: entries
                .iter()
                .map(|e| e.admitted.facets().valid_at.map(|t| t.0))
                .collect(),
            invalid_at: entries
                .iter()
                .map(|e| e.admitted.facets().invalid_at.map(|t| t.0))
                .collect(),
            trust: entries
                .iter()
                .map(|e| e.admitted.facets().trust.as_str())
                .collect(),
            evidence: entries
                .iter()
                .map(|e| e.admitted.facets().evidence.to_text())
                .collect(),
        }
    }

    pub fn insert_statement(&'a self, tenant: &'a &'a str) -> SqlCall<'a> {
        let e = self;
        sql_call(
            "INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, metadata, created_at,
               expires_at, written_by, written_by_run, scan, content_hash, rev_from, owner, session, interaction, world, slot, valid_at,
               invalid_at, trust, evidence)
             SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::bytea[], $9::text[],
               $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::bigint[], $16::bytea[], $17::bigint[],
               $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::bigint[], $24::bigint[], $25::text[], $26::text[])",
            &[
                tenant,
                &e.scope,
                &e.row,
                &e.id,
                &e.id_hash,
                &e.tier,
                &e.typology,
                &e.content,
                &e.tags,
                &e.metadata,
                &e.created_at,
                &e.expires_at,
                &e.written_by,
                &e.written_by_run,
                &e.scan,
                &e.content_hash,
                &e.revision,
                &e.owner,
                &e.session,
                &e.interaction,
                &e.world,
                &e.slot,
                &e.valid_at,
                &e.invalid_at,
                &e.trust,
                &e.evidence,
            ],
        )
    }
}

/// Changes of rows of `entry` other than their texts, as columns.
#[derive(Default)]
pub(super) struct StateColumns {
    pub scope: Vec<i64>,
    pub row: Vec<i64>,
    pub rev_from: Vec<i64>,
    pub rev_to: Vec<Option<i64>>,
    pub reason: Vec<Option<String>>,
    pub run: Vec<Option<String>>,
    pub by: Vec<Option<i64>>,
    pub support: Vec<i64>,
    pub valid_at: Vec<Option<i64>>,
    pub invalid_at: Vec<Option<i64>>,
    pub ended_at: Vec<Option<i64>>,
    pub evidence: Vec<String>,
}

impl StateColumns {
    pub fn of(writes: &GroupWrites<'_>) -> StateColumns {
        let mut states = StateColumns::default();
        for ((scope, row), state) in &writes.states {
            states.scope.push(*scope);
            states.row.push(*row);
            states.rev_from.push(state.rev_from);
            states.rev_to.push(state.rev_to);
            states.reason.push(state.reason.clone());
            states.run.push(state.run.clone());
            states.by.push(state.by);
            states.support.push(state.support);
            states.valid_at.push(state.valid_at);
            states.invalid_at.push(state.invalid_at);
            states.ended_at.push(state.ended_at);
            states.evidence.push(state.evidence.clone());
        }
        states
    }
}

/// Rows of `snapshot` as columns.
#[derive(Default)]
pub(super) struct SnapshotColumns {
    pub run: Vec<String>,
    pub revision: Vec<i64>,
    pub at: Vec<i64>,
}

impl SnapshotColumns {
    pub fn of(writes: &GroupWrites<'_>) -> SnapshotColumns {
        let mut snapshots = SnapshotColumns::default();
        for (run, (revision, at)) in &writes.opened_snapshots {
            snapshots.run.push(run.clone());
            snapshots.revision.push(*revision);
            snapshots.at.push(*at);
        }
        snapshots
    }
}

/// New texts of rows of `entry` as columns.
#[derive(Default)]
pub(super) struct RewriteColumns {
    pub scope: Vec<i64>,
    pub row: Vec<i64>,
    pub scan: Vec<i64>,
    pub content: Vec<Vec<u8>>,
    pub tags: Vec<String>,
    pub metadata: Vec<Option<String>>,
    pub hash: Vec<Vec<u8>>,
    pub world: Vec<Option<String>>,
    pub slot: Vec<Option<String>>,
    pub interaction: Vec<Option<String>>,
}

impl RewriteColumns {
    pub fn of(writes: &GroupWrites<'_>) -> RewriteColumns {
        let mut rewrites = RewriteColumns::default();
        for ((scope, row), text) in &writes.rewrites {
            rewrites.scope.push(*scope);
            rewrites.row.push(*row);
            rewrites.scan.push(text.scan);
            rewrites.content.push(text.content.as_bytes().to_vec());
            rewrites.tags.push(text.tags.clone());
            rewrites.metadata.push(text.metadata.clone());
            rewrites.world.push(text.world.clone());
            rewrites.slot.push(text.slot.clone());
            rewrites.interaction.push(text.interaction.clone());
            rewrites
                .hash
                .push(content_hash(text.content.as_bytes()).to_vec());
        }
        rewrites
    }
}
