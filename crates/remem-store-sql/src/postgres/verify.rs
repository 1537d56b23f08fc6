//! Checks a tenant's data for damage: the event chain, texts and their hashes, and that tags,
//! search index, counters and totals are exactly those that follow from the texts. One transaction at one
//! instant, page by page.

use super::gate::{Gate, Identity, Role, Transaction, TripError, sql_call};
use super::index::id_head;
use super::load::read_clock;
use super::rows::{get, get_bytes, get_u64};
use crate::stored::content_hash;
use crate::terms;
use remem_core::event::{ChainLink, chain_hash};
use remem_core::{Revision, Seq, TenantId, Timestamp, sabotage};
use remem_store::{DamageReport, StoreError};
use std::collections::HashMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The number of rows held in memory at once.
const PAGE: i64 = 2_000;

impl Gate {
    /// Checks a tenant's data. Returns how many events and texts were checked.
    pub async fn verify(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        let begin =
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '5min'";
        let (transaction, _) = self
            .open(begin, Role::Worker, Identity::as_host(tenant), Vec::new())
            .await?;
        let check = TenantCheck {
            transaction: &transaction,
            tenant: tenant.as_str(),
        };
        let mut damages = DamageReport::default();
        self.check_rows(&transaction, tenant, &mut damages).await?;
        let mut count = 0;
        match check.check_texts().await {
            Ok((expected, texts)) => {
                count += texts;
                if check.stored_rows().await? != expected {
                    damages
                        .table_mut("tags, search index or counters")
                        .add("they do not match the texts");
                }
            }
            Err(error) => add_damage(&mut damages, "entry: text", error)?,
        }
        for scope in check.wrong_totals().await? {
            damages.table_mut("scope: totals").add(&scope.to_string());
        }
        match check.check_chain().await {
            Ok(events) => count += events,
            Err(error) => add_damage(&mut damages, "event: the chain breaks", error)?,
        }
        transaction
            .commit(Vec::new())
            .await
            .map_err(TripError::into_store)?;
        if damages.0.is_empty() {
            Ok(count)
        } else {
            Err(StoreError::DamagedRows(damages))
        }
    }
}

/// Adds damage to the findings; an error that is not damage, such as a lost connection, ends the
/// check.
fn add_damage(
    damages: &mut DamageReport,
    what: &'static str,
    error: StoreError,
) -> Result<(), StoreError> {
    match error {
        StoreError::Damaged(why) => {
            damages.table_mut(what).add(why);
            Ok(())
        }
        other => Err(other),
    }
}

/// A checksum of a set of rows that does not depend on their order.
#[derive(Default, PartialEq, Eq)]
struct RowChecksum {
    rows: u64,
    sum: u128,
}

impl RowChecksum {
    fn add(&mut self, numbers: &[i64], texts: &[&str]) {
        let mut hasher = blake3::Hasher::new();
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        for text in texts {
            hasher
                .update(&(text.len() as u64).to_le_bytes())
                .update(text.as_bytes());
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(u128::from_le_bytes(short));
    }
}

/// The rows that follow from the texts: tags, search index, counters of each memory with entries.
#[derive(Default, PartialEq, Eq)]
struct DerivedRows {
    tags: RowChecksum,
    postings: RowChecksum,
    counters: HashMap<i64, (i64, i64)>,
}

/// The check of one tenant in one transaction.
struct TenantCheck<'a> {
    transaction: &'a Transaction,
    tenant: &'a str,
}

/// The fields of an event that the chain covers.
fn event_link(row: &Row) -> Result<ChainLink<'_>, StoreError> {
    let run: Option<&str> = get(row, 3)?;
    let run_seq: Option<i64> = get(row, 4)?;
    let recorded_at: Option<i64> = get(row, 5)?;
    // An event outside of runs has none of the run's fields, and its hash would not cover them.
    if run.is_some() != run_seq.is_some() || (run.is_none() && recorded_at.is_some()) {
        return Err(StoreError::Damaged("an event is half of a run"));
    }
    Ok(ChainLink {
        seq: Seq(get_u64(row, 0)?),
        revision: Revision(get_u64(row, 1)?),
        at: Timestamp(get(row, 2)?),
        run: run
            .zip(run_seq)
            .map(|(run, seq)| (run, seq.cast_unsigned(), recorded_at.map(Timestamp))),
        kind: get(row, 6)?,
        payload: get(row, 7)?,
    })
}

impl TenantCheck<'_> {
    async fn read_page(
        &self,
        sql: &str,
        after: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.tenant, &PAGE];
        params.extend(after);
        Ok(self
            .transaction
            .run(vec![sql_call(sql, &params)])
            .await
            .map_err(TripError::into_store)?
            .remove(0))
    }

    /// Checks that the events have no gaps, form a chain, and end where the clock says.
    async fn check_chain(&self) -> Result<u64, StoreError> {
        let sql = "SELECT seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash FROM remem.event
                   WHERE tenant_id = $1 AND seq > $3 ORDER BY seq LIMIT $2";
        let mut count = 0u64;
        let mut chain = [0; 32];
        loop {
            let page = self.read_page(sql, &[&count.cast_signed()]).await?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                let link = event_link(row)?;
                count += 1;
                chain = chain_hash(&chain, &link);
                if link.seq.0 != count || chain != get_bytes(row, 8)? {
                    return Err(StoreError::Damaged("the event chain is broken"));
                }
            }
        }
        let rows = self.read_page("SELECT revision, seq, at, chain, scopes FROM remem.tenant_clock WHERE tenant_id = $1 LIMIT $2", &[]).await?;
        let end = rows
            .first()
            .map(read_clock)
            .transpose()?
            .map_or((Seq(0), [0; 32]), |clock| (clock.seq, clock.chain));
        if end == (Seq(count), chain) {
            Ok(count)
        } else {
            Err(StoreError::Damaged(
                "the event chain does not end where the clock says",
            ))
        }
    }

    /// The memories whose totals are not what their entries add up to.
    async fn wrong_totals(&self) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT s.scope_id FROM remem.scope s LEFT JOIN
             (SELECT e.scope_id, count(*) AS entries, sum(octet_length(e.content)) AS content_bytes, count(e.expires_at) AS expiring,
                count(g.row_id) AS with_subject FROM remem.entry e
              LEFT JOIN (SELECT DISTINCT scope_id, row_id FROM remem.entry_subject WHERE tenant_id = $1) g
                ON g.scope_id = e.scope_id AND g.row_id = e.row_id
              WHERE e.tenant_id = $1 AND e.rev_to IS NULL GROUP BY e.scope_id) c ON c.scope_id = s.scope_id
           WHERE s.tenant_id = $1 AND (s.entries, s.content_bytes, s.expiring, s.with_subject) IS DISTINCT FROM
             (coalesce(c.entries, 0), coalesce(c.content_bytes, 0), coalesce(c.expiring, 0), coalesce(c.with_subject, 0)) LIMIT $2";
        let rows = sabotage!(
            "postgres-totals-are-not-held-against-the-entries",
            self.read_page(sql, &[]).await?,
            Vec::new()
        );
        rows.iter().map(|row| get(row, 0)).collect()
    }

    /// Compares each text with its hash, and derives the rows that follow from the texts.
    async fn check_texts(&self) -> Result<(DerivedRows, u64), StoreError> {
        let sql = "SELECT scope_id, row_id, id, content, tags, content_hash, created_at FROM remem.entry
                   WHERE tenant_id = $1 AND erased_at IS NULL AND (scope_id, row_id) > ($3, $4) ORDER BY scope_id, row_id LIMIT $2";
        let mut count = 0u64;
        let mut after = (0i64, 0i64);
        let mut derived = DerivedRows::default();
        loop {
            let page = self.read_page(sql, &[&after.0, &after.1]).await?;
            let Some(last) = page.last() else {
                return Ok((derived, count));
            };
            after = (get(last, 0)?, get(last, 1)?);
            for row in &page {
                derive_rows(row, &mut derived)?;
                count += 1;
            }
        }
    }

    /// The same rows as they are stored.
    async fn stored_rows(&self) -> Result<DerivedRows, StoreError> {
        let mut derived = DerivedRows::default();
        self.add_postings(&mut derived).await?;
        self.add_tags(&mut derived).await?;
        self.add_counters(&mut derived).await?;
        Ok(derived)
    }

    async fn add_postings(&self, derived: &mut DerivedRows) -> Result<(), StoreError> {
        let sql = "SELECT scope_id, word, row_id, times, words FROM remem.posting
                   WHERE tenant_id = $1 AND (scope_id, word, row_id) > ($3, $4, $5) ORDER BY scope_id, word, row_id LIMIT $2";
        let mut after = (0i64, i64::MIN, 0i64);
        loop {
            let page = self.read_page(sql, &[&after.0, &after.1, &after.2]).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = (get(last, 0)?, get(last, 1)?, get(last, 2)?);
            for row in &page {
                let times: i16 = get(row, 3)?;
                let words: i32 = get(row, 4)?;
                derived.postings.add(
                    &[
                        get(row, 0)?,
                        get(row, 1)?,
                        get(row, 2)?,
                        times.into(),
                        words.into(),
                    ],
                    &[],
                );
            }
        }
    }

    async fn add_tags(&self, derived: &mut DerivedRows) -> Result<(), StoreError> {
        let sql = "SELECT scope_id, row_id, created_at, tag, id_head FROM remem.entry_tag WHERE tenant_id = $1
                   AND (scope_id, tag, created_at, id_head, row_id) > ($3, $4, $5, $6, $7)
                   ORDER BY scope_id, tag, created_at, id_head, row_id LIMIT $2";
        let mut after = (0i64, String::new(), i64::MIN, String::new(), 0i64);
        loop {
            let page = self
                .read_page(sql, &[&after.0, &after.1, &after.2, &after.3, &after.4])
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = (
                get(last, 0)?,
                get(last, 3)?,
                get(last, 2)?,
                get(last, 4)?,
                get(last, 1)?,
            );
            for row in &page {
                derived.tags.add(
                    &[get(row, 0)?, get(row, 1)?, get(row, 2)?],
                    &[get(row, 3)?, get(row, 4)?],
                );
            }
        }
    }

    async fn add_counters(&self, derived: &mut DerivedRows) -> Result<(), StoreError> {
        let sql = "SELECT scope_id, documents, words FROM remem.scope WHERE tenant_id = $1 AND scope_id > $3 ORDER BY scope_id LIMIT $2";
        let mut after = 0i64;
        loop {
            let page = self.read_page(sql, &[&after]).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = get(last, 0)?;
            for row in &page {
                let counters: (i64, i64) = (get(row, 1)?, get(row, 2)?);
                if counters != (0, 0) {
                    derived.counters.insert(get(row, 0)?, counters);
                }
            }
        }
    }
}

/// Adds the rows that follow from one entry's text.
fn derive_rows(row: &Row, derived: &mut DerivedRows) -> Result<(), StoreError> {
    let scope: i64 = get(row, 0)?;
    let row_id: i64 = get(row, 1)?;
    let created_at: i64 = get(row, 6)?;
    let id: &str = get(row, 2)?;
    let content: &[u8] = get(row, 3)?;
    let tags: &str = get(row, 4)?;
    if get::<Option<&[u8]>>(row, 5)? != Some(&content_hash(content)) {
        return Err(StoreError::Damaged("a text does not match its hash"));
    }
    let text =
        std::str::from_utf8(content).map_err(|_| StoreError::Damaged("a text is not UTF-8"))?;
    let words = terms::count_words(text);
    for (word, times) in &words.counts {
        derived.postings.add(
            &[scope, *word, row_id, i64::from(*times), words.total.into()],
            &[],
        );
    }
    let tags: Vec<String> =
        serde_json::from_str(tags).map_err(|_| StoreError::Damaged("an entry cannot be read"))?;
    for tag in &tags {
        derived
            .tags
            .add(&[scope, row_id, created_at], &[tag, id_head(id)]);
    }
    let counters = derived.counters.entry(scope).or_default();
    *counters = (counters.0 + 1, counters.1 + i64::from(words.total));
    Ok(())
}
