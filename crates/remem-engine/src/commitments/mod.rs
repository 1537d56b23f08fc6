//! Commitments: what an agent is to be reminded of. This file has what one is here and how they are
//! found and explained; `infer` reads them out of entries, `manage` is what callers do with them,
//! `observe` tells them what has become true, `fire` is the one place where one fires.
//!
//! A commitment is one record, tied to the entry it was made from, due when something is to be done
//! about it. Whatever ends the entry ends the commitment in the same commit: the store sees to
//! that.

pub(crate) mod fire;
pub(crate) mod infer;
mod manage;
mod observe;
mod rules;

pub use manage::{Changed, Created, NewCommitment};
pub use observe::Observed;
use remem_core::sabotage;
pub use rules::{Arm, CommitmentRules, NewRules};

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::recall::is_within;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use remem_core::commitment::{self, EndedBy, State};
use remem_core::event::CommitmentRef;
use remem_core::{
    Admission, Batch, Commitment, Entry, EntryId, MemoryRef, Permission, Precondition, Record,
    RecordKind, Rejection, TenantId, Ties, Timestamp,
};
use remem_store::{StoreError, Tie};
use std::pin::pin;

/// A commitment with its name and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitmentInfo {
    /// Its name.
    pub id: String,
    /// As it stands.
    pub commitment: Commitment,
    /// The entry it was made from.
    pub source: Option<EntryId>,
    pub(crate) version: u64,
    pub(crate) ties: Ties,
}

/// Which commitments are wanted.
#[derive(Clone, Debug, Default)]
pub struct CommitmentQuery {
    /// Of this memory.
    pub memory_ref: Option<String>,
    /// That stand so.
    pub state: Option<State>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
}

/// A page of commitments.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitmentPage {
    /// They.
    pub commitments: Vec<CommitmentInfo>,
    /// Where to go on.
    pub next: Option<String>,
}

/// Which words of which entry led to a commitment. The words come from memory as it is now,
/// redacted as everything else.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The commitment.
    pub info: CommitmentInfo,
    /// The entry; absent if nobody can read it any more.
    pub entry: Option<Entry>,
    /// The sentence, the words that ask or promise, and those that tell when, as far as they still
    /// stand where they stood.
    pub words: Option<[String; 3]>,
}

/// That a commitment fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireNote {
    /// What it fired for: an instant (`t` and milliseconds) or the number of the time its predicate
    /// came true (`p`).
    pub instant: String,
    /// When it should have fired.
    pub scheduled_at: Timestamp,
    /// When it did.
    pub fired_at: Timestamp,
    /// The run that was started.
    pub run_id: Option<String>,
}

impl FireNote {
    fn read(record: &Record, prefix: &str) -> FireNote {
        let time = |name: &str| {
            Timestamp(
                record
                    .body
                    .get(name)
                    .and_then(serde_json::Value::as_i64)
                    .unwrap_or_default(),
            )
        };
        FireNote {
            instant: record
                .key
                .strip_prefix(prefix)
                .unwrap_or_default()
                .to_owned(),
            scheduled_at: time("scheduledAt"),
            fired_at: time("firedAt"),
            run_id: record
                .body
                .get("runId")
                .and_then(serde_json::Value::as_str)
                .map(str::to_owned),
        }
    }
}

/// Records looked at for one page at the most: what matches may be rare.
const LOOKED_AT_MAX: u32 = 5_000;
const PAGE: u32 = 500;
/// Entries read at once for a page of explanations.
const ENTRIES_AT_ONCE: usize = 8;

impl CommitmentInfo {
    pub(crate) fn read(record: Record) -> Result<CommitmentInfo, EngineError> {
        let commitment = Commitment::from_map(record.body)
            .ok_or(StoreError::Damaged("a commitment cannot be read"))?;
        let source = record.ties.source.as_ref().map(|(_, id)| id.clone());
        let info = CommitmentInfo {
            id: record.key,
            commitment,
            source,
            version: record.version,
            ties: record.ties,
        };
        Ok(info.in_truth(record.at))
    }

    /// One whose source is outdated is awaited by nobody any more, whatever its record says.
    fn in_truth(mut self, at: Timestamp) -> CommitmentInfo {
        if self.commitment.state.is_open() && !self.ties.is_awaited() {
            self.commitment = self.commitment.ended(State::Cancelled, EndedBy::Source, at);
        }
        self
    }

    /// Whether the caller may know of it. One whose memory cannot be read is nobody's to see.
    fn is_shown_to(&self, caller: &Caller) -> bool {
        MemoryRef::parse(&self.commitment.memory_ref).is_some_and(|memory_ref| {
            sabotage!(
                "anybody-sees-commitments",
                caller.may_see(&memory_ref),
                true
            )
        })
    }

    /// Where it stands in the order of what happens next.
    fn place(&self) -> Option<(Timestamp, String)> {
        Some((self.ties.due?, self.id.clone()))
    }

    pub(crate) fn named(&self) -> CommitmentRef {
        named(&self.id, &self.commitment, self.source.as_ref())
    }
}

pub(crate) fn named(id: &str, commitment: &Commitment, source: Option<&EntryId>) -> CommitmentRef {
    CommitmentRef {
        commitment_id: id.to_owned(),
        memory_ref: commitment.memory_ref.clone(),
        memory_id: source.map(|id| id.as_str().to_owned()),
        condition: commitment.condition().to_owned(),
        state: commitment.state.as_str().to_owned(),
    }
}

/// What finds a commitment: when something is to be done about it, the predicate it waits for, and
/// what it was made from. One that has ended keeps its source only as long as that may be read.
pub(crate) fn ties(
    commitment: &Commitment,
    source: Option<(MemoryRef, EntryId)>,
    retention_ms: i64,
) -> Ties {
    Ties {
        due: Some(commitment.due(retention_ms)),
        topic: commitment.awaits().map(commitment::topic),
        source,
    }
}

/// Writes a commitment.
pub(crate) fn set(
    batch: Batch,
    admission: &Admission<'_>,
    id: &str,
    commitment: &Commitment,
    ties: Ties,
    if_so: Precondition,
) -> Batch {
    batch.set_tied(
        RecordKind::Commitment,
        id.to_owned(),
        if_so,
        admission.record(commitment.to_map()),
        ties,
    )
}

impl Engine {
    /// The caller's commitments: those of a state or memory, in the order of what happens next, or
    /// all by name.
    pub async fn commitments(
        &self,
        caller: &Caller,
        query: &CommitmentQuery,
    ) -> Result<CommitmentPage, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let limit = self.parts.policy.list_limit(query.limit) as usize;
        let unknown = Rejection::Invalid {
            field: "cursor",
            rule: "must be the nextCursor of an earlier page",
        };
        let after = query
            .after
            .as_deref()
            .map(|cursor| place(cursor).ok_or(unknown))
            .transpose()?;
        let memory_ref = match &query.memory_ref {
            None => None,
            Some(name) => match caller.memory_ref(name) {
                Some(memory_ref) => Some(memory_ref),
                None => {
                    return Ok(CommitmentPage {
                        commitments: Vec::new(),
                        next: None,
                    });
                }
            },
        };
        // Where to go on is a place that the caller may know of; what is hidden counts for nothing.
        let mut reached = after.clone();
        let mut after = after;
        let mut found = Vec::new();
        let mut looked_at = 0;
        while looked_at < LOOKED_AT_MAX {
            let tie = Tie::Due {
                until: Timestamp(i64::MAX),
                after: after.clone(),
            };
            let page = self
                .parts
                .store
                .tied(caller.tenant(), RecordKind::Commitment, &tie, PAGE)
                .await?;
            let full = page.len() == PAGE as usize;
            for record in page {
                after = record.ties.due.map(|due| (due, record.key.clone()));
                let info = CommitmentInfo::read(record)?;
                if !info.is_shown_to(caller) {
                    continue;
                }
                (reached, looked_at) = (after.clone(), looked_at + 1);
                let info = self.shown_commitment(caller, info).await?;
                if is_wanted(query.state, memory_ref.as_ref(), &info) {
                    found.push(info);
                }
                if found.len() == limit {
                    return Ok(CommitmentPage {
                        commitments: found,
                        next: reached.map(cursor),
                    });
                }
            }
            if !full {
                return Ok(CommitmentPage {
                    commitments: found,
                    next: None,
                });
            }
        }
        Ok(CommitmentPage {
            commitments: found,
            next: reached.map(cursor),
        })
    }

    /// The commitment of that name.
    pub async fn commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<CommitmentInfo, EngineError> {
        caller.require(Permission::MemoryRead)?;
        self.written_commitment(caller, id).await
    }

    /// The same for whoever just wrote it, and may be allowed no more than that.
    pub(crate) async fn written_commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<CommitmentInfo, EngineError> {
        let info = self.commitment_of(caller, id).await?;
        self.shown_commitment(caller, info).await
    }

    /// The commitment of that name, if the caller may know of its memory.
    pub(super) async fn commitment_of(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<CommitmentInfo, EngineError> {
        self.load_commitment(caller.tenant(), id)
            .await?
            .filter(|info| info.is_shown_to(caller))
            .ok_or(EngineError::NotFound("commitment"))
    }

    /// Which words of which entry led to a commitment.
    pub async fn explain_commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Explanation, EngineError> {
        let info = self.commitment(caller, id).await?;
        self.explain(caller, info).await
    }

    /// The same for a page, in its order, as far as a page of an answer goes in bytes; and where to
    /// go on.
    pub async fn explain_page(
        &self,
        caller: &Caller,
        page: CommitmentPage,
    ) -> Result<(Vec<Explanation>, Option<String>), EngineError> {
        let explained = stream::iter(page.commitments)
            .map(|info| self.explain(caller, info))
            .buffered(ENTRIES_AT_ONCE);
        let mut explained = pin!(explained);
        let mut found: Vec<Explanation> = Vec::new();
        let mut bytes = 0;
        while let Some(one) = explained.try_next().await? {
            bytes += one.entry.as_ref().map_or(0, cpu::of_entry);
            if let Some(last) = found.last()
                && !is_within(bytes, self.parts.policy.page_bytes_max)
            {
                let next = last.info.place().map(cursor);
                return Ok((found, next));
            }
            found.push(one);
        }
        Ok((found, page.next))
    }

    /// The same for one at hand. Who may not read memory is told no words.
    pub async fn explain(
        &self,
        caller: &Caller,
        info: CommitmentInfo,
    ) -> Result<Explanation, EngineError> {
        let scope = sabotage!(
            "explanations-are-told-to-writers",
            caller
                .scope(&info.commitment.memory_ref)
                .filter(|_| caller.may(Permission::MemoryRead)),
            caller.scope(&info.commitment.memory_ref)
        );
        let entry = match scope.zip(info.source.clone()) {
            Some((scope, source)) => {
                sabotage!(
                    "explanations-are-not-redacted",
                    self.get(caller, scope.memory_ref.as_str(), source.as_str(), None)
                        .await?,
                    self.parts
                        .store
                        .get(&scope, &source, &remem_store::ReadAt::Now(self.now()))
                        .await?
                )
            }
            None => None,
        };
        let words = entry
            .as_ref()
            .zip(info.commitment.spans)
            .and_then(|(entry, spans)| {
                let part =
                    |span: [usize; 2]| entry.content.get(span[0]..span[1]).map(str::to_owned);
                Some([
                    part(spans.sentence)?,
                    part(spans.cue)?,
                    part(spans.condition)?,
                ])
            });
        Ok(Explanation { info, entry, words })
    }

    pub(crate) async fn load_commitment(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<CommitmentInfo>, EngineError> {
        if id.len() > remem_core::record::RECORD_KEY_BYTES_MAX {
            return Ok(None);
        }
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Commitment, id)
            .await?;
        record.map(CommitmentInfo::read).transpose()
    }

    /// Rules may have changed since it was written: nothing leaves without a second look.
    async fn shown_commitment(
        &self,
        caller: &Caller,
        mut info: CommitmentInfo,
    ) -> Result<CommitmentInfo, EngineError> {
        let rules = self.rules(caller.tenant()).await?;
        let now = self.now();
        let shown = rules
            .admission(&self.policy_of(caller), now)
            .record(info.commitment.to_map());
        info.commitment = Commitment::from_map(shown.map().clone())
            .ok_or(StoreError::Damaged("a commitment cannot be read"))?;
        Ok(info)
    }

    /// When a commitment fired, and what came of it, in the order of its instants.
    pub async fn commitment_fires(
        &self,
        caller: &Caller,
        id: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Vec<FireNote>, EngineError> {
        let info = self.commitment(caller, id).await?;
        let prefix = format!("{}/", info.id);
        let limit = self.parts.policy.list_limit(limit);
        let after = after.map(|instant| format!("{prefix}{instant}"));
        let notes = self
            .parts
            .store
            .records(
                caller.tenant(),
                RecordKind::Fire,
                &prefix,
                after.as_deref(),
                limit,
            )
            .await?;
        Ok(notes
            .iter()
            .map(|note| FireNote::read(note, &prefix))
            .collect())
    }
}

fn is_wanted(state: Option<State>, memory_ref: Option<&MemoryRef>, info: &CommitmentInfo) -> bool {
    state.is_none_or(|state| info.commitment.state == state)
        && memory_ref.is_none_or(|memory_ref| info.commitment.memory_ref == memory_ref.as_str())
}

/// A place in the order of what happens next, as callers hold it.
fn cursor((at, key): (Timestamp, String)) -> String {
    format!("{}~{key}", at.0)
}

fn place(cursor: &str) -> Option<(Timestamp, String)> {
    let (at, key) = cursor.split_once('~')?;
    Some((Timestamp(at.parse().ok()?), key.to_owned()))
}
