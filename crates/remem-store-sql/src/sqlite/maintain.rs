//! Upkeep of one file: what is expired, making erased text physically gone, checking the data against its hashes.

use super::apply::Clock;
use super::connection::failed;
use crate::stored::content_hash;
use remem_core::event::chain_hash;
use remem_core::{EntryId, MemoryRef, Revision, Seq, TenantId, Timestamp};
use remem_store::StoreError;
use rusqlite::{Connection, params};

/// What a handle needs to know when it opens.
pub(super) struct Start {
    pub revision: Revision,
    pub next_expiry: i64,
}

/// Also checks that the file belongs to the tenant it is opened for: files can be copied and renamed by hand.
pub(super) fn start(db: &Connection, tenant: &TenantId) -> Result<Start, StoreError> {
    let foreign = db
        .prepare("SELECT 1 FROM tenant_clock WHERE tenant_id <> ?1")
        .and_then(|mut query| query.exists([tenant.as_str()]))
        .map_err(failed)?;
    if foreign {
        return Err(StoreError::Damaged("the file belongs to another tenant"));
    }
    Ok(Start { revision: Clock::load(db, tenant).map_err(failed)?.revision, next_expiry: next_expiry(db, tenant)? })
}

fn next_expiry(db: &Connection, tenant: &TenantId) -> Result<i64, StoreError> {
    let sql = "SELECT min(expires_at) FROM entry WHERE tenant_id = ?1 AND rev_to IS NULL AND expires_at IS NOT NULL";
    let earliest: Option<i64> = db.query_row(sql, [tenant.as_str()], |row| row.get(0)).map_err(failed)?;
    Ok(earliest.unwrap_or(i64::MAX))
}

pub(super) fn expired(db: &Connection, tenant: &TenantId, at: Timestamp, limit: u32) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
    let mut query = db
        .prepare_cached(
            "SELECT s.memory_ref, e.id FROM entry e JOIN scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
             WHERE e.tenant_id = ?1 AND e.rev_to IS NULL AND e.expires_at IS NOT NULL AND e.expires_at <= ?2
             ORDER BY e.expires_at LIMIT ?3",
        )
        .map_err(failed)?;
    let rows = query
        .query_map(params![tenant.as_str(), at.0, limit], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String)>>>)
        .map_err(failed)?;
    rows.iter()
        .map(|(memory_ref, id)| MemoryRef::parse(memory_ref).zip(EntryId::parse(id)).ok_or(StoreError::Damaged("a name is malformed")))
        .collect()
}

/// Erased text is zeroed in the database pages by the commit itself (secure_delete, here and in the search index); what
/// is left are the older page images in the write-ahead log. Copying the log back and cutting it to nothing ends them.
/// Answers when the next entry expires.
pub(super) fn scrub(db: &Connection, tenant: &TenantId, keys_before: Timestamp, compact: bool) -> Result<i64, StoreError> {
    db.execute("DELETE FROM idempotency WHERE tenant_id = ?1 AND at < ?2", params![tenant.as_str(), keys_before.0]).map_err(failed)?;
    if compact {
        db.execute_batch("INSERT INTO entry_fts (entry_fts) VALUES ('optimize'); VACUUM").map_err(failed)?;
    }
    let busy: i64 = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    if busy == 0 { next_expiry(db, tenant) } else { Err(StoreError::Busy) }
}

/// Structure, search index, event chain, texts. Answers how many events and entries were checked.
pub(super) fn verify(db: &Connection, tenant: &TenantId) -> Result<u64, StoreError> {
    let verdict: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if verdict != "ok" {
        return Err(StoreError::Damaged("the database structure is inconsistent"));
    }
    // Rank 1: also compares the index with the entries it should hold.
    db.execute("INSERT INTO entry_fts (entry_fts, rank) VALUES ('integrity-check', 1)", [])
        .map_err(|_| StoreError::Damaged("the search index is inconsistent"))?;
    Ok(verify_chain(db, tenant)? + verify_texts(db, tenant)?)
}

fn verify_chain(db: &Connection, tenant: &TenantId) -> Result<u64, StoreError> {
    let mut query =
        db.prepare("SELECT seq, revision, at, kind, payload, hash FROM event WHERE tenant_id = ?1 ORDER BY seq").map_err(failed)?;
    let mut rows = query.query([tenant.as_str()]).map_err(failed)?;
    let (mut count, mut chain) = (0, [0; 32]);
    while let Some(row) = rows.next().map_err(failed)? {
        let read = || -> rusqlite::Result<(u64, u64, i64, String, String, [u8; 32])> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        let (seq, revision, at, kind, payload, hash) = read().map_err(failed)?;
        count += 1;
        chain = chain_hash(&chain, Seq(seq), Revision(revision), Timestamp(at), &kind, &payload);
        if seq != count || chain != hash {
            return Err(StoreError::Damaged("the event chain is broken"));
        }
    }
    let clock = Clock::load(db, tenant).map_err(failed)?;
    if clock.seq != Seq(count) || clock.chain != chain {
        return Err(StoreError::Damaged("the event chain does not end where the clock says"));
    }
    Ok(count)
}

fn verify_texts(db: &Connection, tenant: &TenantId) -> Result<u64, StoreError> {
    let mut query = db.prepare("SELECT content, content_hash FROM entry WHERE tenant_id = ?1 AND erased_at IS NULL").map_err(failed)?;
    let mut rows = query.query([tenant.as_str()]).map_err(failed)?;
    let mut count = 0;
    while let Some(row) = rows.next().map_err(failed)? {
        let content: String = row.get(0).map_err(failed)?;
        let hash: Option<[u8; 16]> = row.get(1).map_err(failed)?;
        if hash != Some(content_hash(content.as_bytes())) {
            return Err(StoreError::Damaged("a text does not match its hash"));
        }
        count += 1;
    }
    Ok(count)
}
