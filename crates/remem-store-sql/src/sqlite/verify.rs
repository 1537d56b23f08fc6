//! Checks a file for damage: the structure of its pages, its schema, the hash of every row, the
//! event chain, texts and tags. Reads only.

use super::connection::{self, Migration, store_error};
use super::row_hash;
use crate::row_hash::{HashedTable, SQLITE};
use crate::stored::content_hash;
use remem_core::event::{ChainLink, chain_hash};
use remem_core::{Revision, Seq, TenantId, Timestamp, sabotage};
use remem_store::{DamageReport, StoreError};
use rusqlite::{Connection, Error, OptionalExtension, Row};
use std::collections::BTreeSet;

/// Checks a tenant's file. Returns how many events and texts were checked.
pub(super) fn verify_tenant(db: &Connection, tenant: &TenantId) -> Result<u64, StoreError> {
    let mut damages = check_file(db, &connection::TENANT_MIGRATIONS, &SQLITE)?;
    add_damage(&mut damages, "vector: no text", check_vectors(db))?;
    add_damage(&mut damages, "entry_tag: not its entry's", check_tags(db))?;
    add_damage(
        &mut damages,
        "scope: totals",
        sabotage!(
            "totals-are-not-held-against-the-entries",
            query_names(db, WRONG_TOTALS),
            Ok((Vec::new(), 0))
        ),
    )?;
    let events = add_damage(
        &mut damages,
        "event: the chain breaks",
        check_chain(db, tenant),
    )?;
    let texts = add_damage(&mut damages, "entry: text", check_texts(db, tenant))?;
    count_or_damages(damages, events + texts)
}

/// Checks pages, schema and row hashes of any of the host's files. If the page structure is broken,
/// nothing else is checked.
pub(super) fn check_file(
    db: &Connection,
    migrations: &[Migration],
    tables: &[HashedTable],
) -> Result<DamageReport, StoreError> {
    let verdict: String = db
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(store_error)?;
    if verdict != "ok" {
        return Err(StoreError::Damaged(
            "the database structure is inconsistent",
        ));
    }
    let mut damages = DamageReport::default();
    let expected = schema_objects(&connection::in_memory(migrations)?).map_err(store_error)?;
    let actual = schema_objects(db).map_err(store_error)?;
    for (name, _) in expected.symmetric_difference(&actual) {
        damages.table_mut("schema").add(name);
    }
    let checked = sabotage!(
        "rows-are-not-held-against-their-hashes",
        row_hash::check(db, tables, &mut damages),
        Ok(())
    );
    add_damage(
        &mut damages,
        "row hashes",
        checked.map(|()| (Vec::new(), 0)),
    )?;
    Ok(damages)
}

/// Name and definition of every object that the migrations made, without the statistics that SQLite
/// keeps.
fn schema_objects(db: &Connection) -> rusqlite::Result<BTreeSet<(String, Option<String>)>> {
    db.prepare(
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// The number of checked items, or an error that lists the damage.
pub(super) fn count_or_damages(damages: DamageReport, count: u64) -> Result<u64, StoreError> {
    if damages.0.is_empty() {
        Ok(count)
    } else {
        Err(StoreError::DamagedRows(damages))
    }
}

/// The names of damaged items, and the number of items that were checked.
type CheckResult = (Vec<String>, u64);

/// Adds the result of a check to the damages. A value that cannot be read counts as damage; an
/// error while reading the file does not.
fn add_damage(
    damages: &mut DamageReport,
    what: &'static str,
    result: rusqlite::Result<CheckResult>,
) -> Result<u64, StoreError> {
    match result {
        Ok((named, count)) => {
            for name in &named {
                damages.table_mut(what).add(name);
            }
            Ok(count)
        }
        Err(
            Error::FromSqlConversionFailure(..)
            | Error::InvalidColumnType(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..),
        ) => {
            damages.table_mut(what).add("a value cannot be read");
            Ok(0)
        }
        Err(Error::SqliteFailure(error, _)) if error.code == rusqlite::ErrorCode::Unknown => {
            damages.table_mut(what).add("a value cannot be read");
            Ok(0)
        }
        Err(error) => Err(store_error(error)),
    }
}

/// Memories whose totals are not what their entries add up to.
const WRONG_TOTALS: &str = "WITH counted AS (SELECT e.tenant_id, e.scope_id, count(*) AS entries, sum(octet_length(e.content)) AS content_bytes,
       count(e.expires_at) AS expiring, sum(EXISTS (SELECT 1 FROM entry_subject g WHERE g.tenant_id = e.tenant_id
         AND g.scope_id = e.scope_id AND g.row_id = e.row_id)) AS with_subject
     FROM entry e WHERE e.rev_to IS NULL GROUP BY e.tenant_id, e.scope_id)
   SELECT CAST(s.scope_id AS TEXT) FROM scope s LEFT JOIN counted c ON c.tenant_id = s.tenant_id AND c.scope_id = s.scope_id
   WHERE (s.entries, s.content_bytes, s.expiring, s.with_subject)
     IS NOT (coalesce(c.entries, 0), coalesce(c.content_bytes, 0), coalesce(c.expiring, 0), coalesce(c.with_subject, 0))";

/// Finds vectors whose entry is gone or erased.
fn check_vectors(db: &Connection) -> rusqlite::Result<CheckResult> {
    let sql = "SELECT v.scope_id || '/' || v.row_id FROM vector v WHERE NOT EXISTS (SELECT 1 FROM entry e
                 WHERE e.row_id = v.row_id AND e.scope_id = v.scope_id AND e.tenant_id = v.tenant_id AND e.erased_at IS NULL)";
    query_names(db, sql)
}

/// Compares tags with the entries that they are made from: neither may exist without the other.
fn check_tags(db: &Connection) -> rusqlite::Result<CheckResult> {
    let sql = "WITH wanted AS (SELECT DISTINCT e.tenant_id, e.scope_id, j.value AS tag, e.created_at, e.id
                 FROM entry e, json_each(e.tags) j WHERE e.erased_at IS NULL)
               SELECT scope_id || '/' || id FROM
                 (SELECT * FROM (SELECT tenant_id, scope_id, tag, created_at, id FROM entry_tag EXCEPT SELECT * FROM wanted)
                  UNION ALL SELECT * FROM (SELECT * FROM wanted EXCEPT SELECT tenant_id, scope_id, tag, created_at, id FROM entry_tag))";
    sabotage!(
        "tags-are-not-held-against-their-entries",
        query_names(db, sql),
        Ok((Vec::new(), 0))
    )
}

/// Runs a query that returns the names of damaged items.
fn query_names(db: &Connection, sql: &str) -> rusqlite::Result<CheckResult> {
    let names: rusqlite::Result<Vec<String>> =
        db.prepare(sql)?.query_map([], |row| row.get(0))?.collect();
    Ok((names?, 0))
}

/// Checks that the events have no gaps, form a chain, and end where the clock says.
fn check_chain(db: &Connection, tenant: &TenantId) -> rusqlite::Result<CheckResult> {
    let mut query = db.prepare(
        "SELECT seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash FROM event WHERE tenant_id = ?1 ORDER BY seq",
    )?;
    let mut rows = query.query([tenant.as_str()])?;
    let mut count = 0;
    let mut chain = [0; 32];
    while let Some(row) = rows.next()? {
        let (seq, next, hash) = check_event(row, &chain)?;
        count += 1;
        chain = next;
        if seq != count || chain != hash {
            return Ok((vec![count.to_string()], count));
        }
    }
    let sql = "SELECT seq, chain FROM tenant_clock WHERE tenant_id = ?1";
    let end = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let mut query = db.prepare_cached(sql)?;
    let end: Option<(u64, [u8; 32])> = query.query_row([tenant.as_str()], end).optional()?;
    if end.unwrap_or_default() != (count, chain) {
        return Ok((
            vec!["it does not end where the clock says".to_owned()],
            count,
        ));
    }
    Ok((Vec::new(), count))
}

/// The number of a stored event, the hash that it should have, and the one that it has. Fields of a
/// run on an event outside of runs are not covered by the chain, so they count as damage (number
/// 0).
fn check_event(row: &Row<'_>, chain: &[u8; 32]) -> rusqlite::Result<(u64, [u8; 32], [u8; 32])> {
    let run: Option<String> = row.get(3)?;
    let run_seq: Option<u64> = row.get(4)?;
    let recorded_at: Option<i64> = row.get(5)?;
    let kind: String = row.get(6)?;
    let payload: String = row.get(7)?;
    let is_complete =
        run.is_some() == run_seq.is_some() && (run.is_some() || recorded_at.is_none());
    let seq = if sabotage!("half-a-run-is-no-damage", is_complete, true) {
        row.get(0)?
    } else {
        0
    };
    let link = ChainLink {
        seq: Seq(seq),
        revision: Revision(row.get(1)?),
        at: Timestamp(row.get(2)?),
        run: run
            .as_deref()
            .zip(run_seq)
            .map(|(run, seq)| (run, seq, recorded_at.map(Timestamp))),
        kind: &kind,
        payload: &payload,
    };
    Ok((seq, chain_hash(chain, &link), row.get(8)?))
}

/// Compares each text with its hash.
fn check_texts(db: &Connection, tenant: &TenantId) -> rusqlite::Result<CheckResult> {
    let mut query = db.prepare(
        "SELECT content, content_hash, row_id FROM entry WHERE tenant_id = ?1 AND erased_at IS NULL",
    )?;
    let mut rows = query.query([tenant.as_str()])?;
    let mut damaged = Vec::new();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let content: String = row.get(0)?;
        let hash: Option<[u8; 16]> = row.get(1)?;
        if hash != Some(content_hash(content.as_bytes())) {
            damaged.push(row.get::<_, i64>(2)?.to_string());
        }
        count += 1;
    }
    Ok((damaged, count))
}
