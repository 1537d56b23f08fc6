//! Applies one batch inside the group's transaction: check everything first, then write, events included.

use super::record;
use super::rows::{scope_id, scope_id_or_create};
use crate::stored::{content_hash, outcomes_from_stored, outcomes_to_stored};
use remem_core::event::chain_hash;
use remem_core::{Admitted, Batch, Change, EntryId, EventBody, MemoryRef, Rejection, Revision, Seq, TenantId, Timestamp};
use remem_store::{Committed, Outcome, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

/// The tenant's clocks while a transaction runs; saved once at its end.
#[derive(Clone, PartialEq)]
pub(super) struct Clock {
    pub revision: Revision,
    pub seq: Seq,
    pub at: Timestamp,
    pub chain: [u8; 32],
}

impl Clock {
    pub fn load(db: &Connection, tenant: &TenantId) -> rusqlite::Result<Clock> {
        let mut query = db.prepare_cached("SELECT revision, seq, at, chain FROM tenant_clock WHERE tenant_id = ?1")?;
        let found = query
            .query_row([tenant.as_str()], |row| {
                Ok(Clock { revision: Revision(row.get(0)?), seq: Seq(row.get(1)?), at: Timestamp(row.get(2)?), chain: row.get(3)? })
            })
            .optional()?;
        Ok(found.unwrap_or(Clock { revision: Revision(0), seq: Seq(0), at: Timestamp(0), chain: [0; 32] }))
    }

    pub fn save(&self, db: &Connection, tenant: &TenantId) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO tenant_clock (tenant_id, revision, seq, at, chain) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant_id) DO UPDATE SET revision = ?2, seq = ?3, at = ?4, chain = ?5",
        )?
        .execute(params![tenant.as_str(), self.revision.0, self.seq.0, self.at.0, self.chain])?;
        Ok(())
    }
}

pub(super) struct Applying<'a> {
    pub db: &'a Connection,
    pub batch: &'a Batch,
    pub clock: &'a mut Clock,
    /// Set by a put with an end.
    pub next_expiry: i64,
    /// Set when text was erased.
    pub erased: bool,
}

impl Applying<'_> {
    /// The inner result is the batch's own; the outer one is a statement that failed and spoils the transaction.
    pub fn run(&mut self) -> rusqlite::Result<Result<Committed, StoreError>> {
        if let Some(answer) = self.replay()? {
            return Ok(answer);
        }
        if !self.expectations_hold()? || !self.fence_holds()? || !self.preconditions_hold()? {
            return Ok(Err(StoreError::Conflict));
        }
        let before = self.clock.revision;
        let mut outcomes = Vec::with_capacity(self.batch.changes().len());
        for change in self.batch.changes() {
            let outcome = self.change(change, before)?;
            if outcome != Outcome::Nothing
                && let Some(event) = change.event()
            {
                self.tick(before);
                self.append(&event)?;
            }
            outcomes.push(outcome);
        }
        let committed = Committed { revision: self.clock.revision, at: self.clock.at, outcomes, replayed: false };
        self.remember(&committed)?;
        Ok(Ok(committed))
    }

    /// The batch becomes a revision with its first effect: one that changes nothing leaves the clock alone.
    fn tick(&mut self, before: Revision) -> Revision {
        if self.clock.revision == before {
            self.clock.revision = Revision(before.0 + 1);
            self.clock.at = self.clock.at.max(self.batch.at());
        }
        self.clock.revision
    }

    fn change(&mut self, change: &Change, before: Revision) -> rusqlite::Result<Outcome> {
        match change {
            Change::Put { id, admitted } => self.put(id, admitted, before),
            Change::Delete { memory_ref, id } => self.remove(memory_ref, id, "deleted", before),
            Change::Expire { memory_ref, id } => self.remove(memory_ref, id, "expired", before),
            Change::Record { kind, key, body, .. } => {
                let (tenant, at) = (self.batch.tenant(), self.clock.at.max(self.batch.at()));
                let outcome = record::write(self.db, tenant, *kind, key, body.as_ref(), at)?;
                if outcome != Outcome::Nothing {
                    self.tick(before);
                }
                Ok(outcome)
            }
            Change::Emit(_) => Ok(Outcome::Emitted),
        }
    }

    fn put(&mut self, id: &EntryId, admitted: &Admitted, before: Revision) -> rusqlite::Result<Outcome> {
        let tenant = self.batch.tenant();
        let scope = scope_id_or_create(self.db, tenant, &admitted.scope().memory_ref)?;
        if admitted.origin().is_some() && self.is_taken(scope, id)? {
            return Ok(Outcome::Nothing);
        }
        let revision = self.tick(before);
        let given = admitted.origin().and_then(|origin| origin.created_at);
        let created_at = given.map_or(self.clock.at, |t| t.min(self.clock.at));
        let tags: Vec<&str> = admitted.tags().collect();
        self.db
            .prepare_cached(
                "INSERT INTO entry (tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at,
                   written_by, written_by_run, scan, content_hash, rev_from)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )?
            .execute(params![
                tenant.as_str(),
                scope,
                id.as_str(),
                admitted.tier().as_str(),
                admitted.typology().as_str(),
                admitted.content(),
                Value::from(tags.clone()).to_string(),
                admitted.metadata(),
                created_at.0,
                admitted.expires_at().map(|t| t.0),
                self.batch.principal().map(|p| p.as_str()),
                self.batch.run().map(|r| r.as_str()),
                admitted.scan().cast_signed(),
                content_hash(admitted.content().as_bytes()),
                revision.0,
            ])?;
        self.index(scope, id, admitted.content(), &tags, created_at)?;
        if let Some(end) = admitted.expires_at() {
            self.next_expiry = self.next_expiry.min(end.0);
        }
        Ok(Outcome::Stored { id: id.clone(), created_at })
    }

    fn index(&self, scope: i64, id: &EntryId, content: &str, tags: &[&str], created_at: Timestamp) -> rusqlite::Result<()> {
        let row = self.db.last_insert_rowid();
        self.db
            .prepare_cached("INSERT INTO entry_fts (rowid, scope_key, content) VALUES (?1, 's' || ?2, ?3)")?
            .execute(params![row, scope, content])?;
        for tag in tags {
            self.db
                .prepare_cached("INSERT INTO entry_tag (tenant_id, scope_id, tag, created_at, id) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![self.batch.tenant().as_str(), scope, tag, created_at.0, id.as_str()])?;
        }
        Ok(())
    }

    fn is_taken(&self, scope: i64, id: &EntryId) -> rusqlite::Result<bool> {
        self.db.prepare_cached("SELECT 1 FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3")?.exists(params![
            self.batch.tenant().as_str(),
            scope,
            id.as_str()
        ])
    }

    /// Takes an entry away and erases its text everywhere: the row (which stays as a skeleton), its tags, the index.
    fn remove(&mut self, memory_ref: &MemoryRef, id: &EntryId, reason: &str, before: Revision) -> rusqlite::Result<Outcome> {
        let tenant = self.batch.tenant();
        let Some(scope) = scope_id(self.db, tenant, memory_ref)? else { return Ok(Outcome::Nothing) };
        // Deleting ends what a reader could still see; the purge pass ends what none can see any more.
        let condition = if reason == "expired" { "expires_at <= ?4" } else { "(expires_at IS NULL OR expires_at > ?4)" };
        let found: Option<(i64, String, i64)> = self
            .db
            .prepare_cached(&format!(
                "SELECT row_id, content, created_at FROM entry
                 WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3 AND rev_to IS NULL AND {condition}"
            ))?
            .query_row(params![tenant.as_str(), scope, id.as_str(), self.batch.at().0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((row, content, created_at)) = found else { return Ok(Outcome::Nothing) };
        let revision = self.tick(before);
        self.erase(row, scope, &content)?;
        self.untag(scope, id, created_at)?;
        self.db
            .prepare_cached(
                "UPDATE entry SET content = '', tags = '[]', metadata = NULL, content_hash = NULL, rev_to = ?3, removed_reason = ?4,
                   erased_at = ?5 WHERE tenant_id = ?1 AND row_id = ?2",
            )?
            .execute(params![tenant.as_str(), row, revision.0, reason, self.clock.at.0])?;
        self.erased = true;
        Ok(Outcome::Removed)
    }

    fn erase(&self, row: i64, scope: i64, content: &str) -> rusqlite::Result<()> {
        self.db
            .prepare_cached("INSERT INTO entry_fts (entry_fts, rowid, scope_key, content) VALUES ('delete', ?1, 's' || ?2, ?3)")?
            .execute(params![row, scope, content])?;
        Ok(())
    }

    fn untag(&self, scope: i64, id: &EntryId, created_at: i64) -> rusqlite::Result<()> {
        let tenant = self.batch.tenant().as_str();
        let tags: String = self
            .db
            .prepare_cached("SELECT tags FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3")?
            .query_row(params![tenant, scope, id.as_str()], |row| row.get(0))?;
        for tag in serde_json::from_str::<Vec<String>>(&tags).unwrap_or_default() {
            self.db
                .prepare_cached(
                    "DELETE FROM entry_tag WHERE tenant_id = ?1 AND scope_id = ?2 AND tag = ?3 AND created_at = ?4 AND id = ?5",
                )?
                .execute(params![tenant, scope, tag, created_at, id.as_str()])?;
        }
        Ok(())
    }

    fn append(&mut self, body: &EventBody) -> rusqlite::Result<()> {
        let (kind, payload) = (body.kind().as_str(), body.payload().to_string());
        self.clock.seq = Seq(self.clock.seq.0 + 1);
        self.clock.chain = chain_hash(&self.clock.chain, self.clock.seq, self.clock.revision, self.clock.at, kind, &payload);
        self.db
            .prepare_cached(
                "INSERT INTO event (tenant_id, seq, revision, at, run_id, kind, payload, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.batch.tenant().as_str(),
                self.clock.seq.0,
                self.clock.revision.0,
                self.clock.at.0,
                self.batch.run().map(|r| r.as_str()),
                kind,
                payload,
                self.clock.chain,
            ])?;
        Ok(())
    }

    fn expectations_hold(&self) -> rusqlite::Result<bool> {
        for expected in self.batch.expectations() {
            let Some(scope) = scope_id(self.db, self.batch.tenant(), &expected.memory_ref)? else { return Ok(false) };
            let holds = self
                .db
                .prepare_cached(
                    "SELECT 1 FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3 AND rev_from = ?4 AND rev_to IS NULL",
                )?
                .exists(params![self.batch.tenant().as_str(), scope, expected.id.as_str(), expected.written_at.0])?;
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn preconditions_hold(&self) -> rusqlite::Result<bool> {
        for change in self.batch.changes() {
            if let Change::Record { kind, key, precondition, .. } = change
                && !record::holds(self.db, self.batch.tenant(), *kind, key, *precondition)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fence_holds(&self) -> rusqlite::Result<bool> {
        let Some(fence) = self.batch.fence() else { return Ok(true) };
        self.db.prepare_cached("SELECT 1 FROM lease WHERE tenant_id = ?1 AND pass = ?2 AND fence = ?3")?.exists(params![
            self.batch.tenant().as_str(),
            fence.pass,
            fence.number
        ])
    }

    fn replay(&self) -> rusqlite::Result<Option<Result<Committed, StoreError>>> {
        let Some(key) = self.batch.idempotency() else { return Ok(None) };
        let found: Option<([u8; 32], i64, u64, String)> = self
            .db
            .prepare_cached("SELECT body, at, revision, outcomes FROM idempotency WHERE tenant_id = ?1 AND operation = ?2 AND key = ?3")?
            .query_row(params![self.batch.tenant().as_str(), key.operation, key.key], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let Some((body, at, revision, outcomes)) = found else { return Ok(None) };
        if body != key.body {
            return Ok(Some(Err(Rejection::IdempotencyMismatch.into())));
        }
        let Some(outcomes) = outcomes_from_stored(&outcomes) else {
            return Ok(Some(Err(StoreError::Damaged("an idempotency record cannot be read"))));
        };
        Ok(Some(Ok(Committed { revision: Revision(revision), at: Timestamp(at), outcomes, replayed: true })))
    }

    fn remember(&self, committed: &Committed) -> rusqlite::Result<()> {
        let Some(key) = self.batch.idempotency() else { return Ok(()) };
        self.db
            .prepare_cached(
                "INSERT INTO idempotency (tenant_id, operation, key, body, at, revision, outcomes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                self.batch.tenant().as_str(),
                key.operation,
                key.key,
                key.body,
                committed.at.0.max(self.batch.at().0),
                committed.revision.0,
                outcomes_to_stored(&committed.outcomes),
            ])?;
        Ok(())
    }
}
