//! Commitments: reminders and conditions that an agent is to act on. This file has their type,
//! their queries and their explanations. `recognise` finds them in entries, `manage` has the
//! operations of callers, `observe` takes reports of what has become true, `firing` is the one
//! place where a commitment fires.
//!
//! A commitment is one record, linked to the entry it was made from, and due when something has to
//! be done about it. The commit that ends the entry also ends the commitment: the store guarantees
//! that.

pub(crate) mod firing;
mod manage;
mod observe;
pub(crate) mod recognise;
mod rules;

pub use manage::{CommitmentChange, CreateCommitmentResult, NewCommitment};
pub use observe::ObservationResult;
use remem_core::sabotage;
pub use rules::{ArmMode, CommitmentRules, NewCommitmentRules};

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::read::is_within;
use crate::stored::firing::StoredFiring;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use remem_core::commitment::{self, CommitmentState, EndedBy};
use remem_core::event::CommitmentRef;
use remem_core::{
    Admission, Batch, Commitment, Entry, EntryId, HostText, MemoryRef, Permission, Precondition,
    Record, RecordKind, RecordLinks, Rejection, StoredRecord, TenantId, Timestamp,
};
use remem_store::{RecordLookup, StoreError};
use std::pin::pin;

/// A commitment with its id and the entry it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitmentInfo {
    /// The id of the commitment.
    pub id: String,
    /// Its condition and state.
    pub commitment: Commitment,
    /// The entry that the commitment was made from.
    pub source: Option<EntryId>,
    pub(crate) version: u64,
    pub(crate) ties: RecordLinks,
}

/// The filter of a list of commitments.
#[derive(Clone, Debug, Default)]
pub struct CommitmentQuery {
    /// Only commitments of this memory.
    pub memory_ref: Option<String>,
    /// Only commitments in this state.
    pub state: Option<CommitmentState>,
    /// Cursor of the previous page, to continue after it.
    pub cursor: Option<String>,
    /// Number of commitments wanted; see `Policy::list_limit`.
    pub limit: Option<u32>,
}

/// One page of a list of commitments.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitmentPage {
    /// The commitments of this page.
    pub commitments: Vec<CommitmentInfo>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// Why a commitment exists: its entry, and the words in it that led to the commitment. The words
/// are read from memory as it is now, redacted as everything else.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The commitment that is explained.
    pub info: CommitmentInfo,
    /// The entry; absent if it is gone or the caller may not read it.
    pub entry: Option<Entry>,
    /// The sentence, the words that ask or promise, and the words for the time or condition. Absent
    /// if the entry's text has changed.
    pub words: Option<[String; 3]>,
}

/// The record that a commitment fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiringRecord {
    /// The occasion of the firing: an instant (`t` and milliseconds) or the number of the time that
    /// its predicate became true (`p`).
    pub instant: String,
    /// When it was due to fire.
    pub scheduled_at: Timestamp,
    /// When it actually fired.
    pub fired_at: Timestamp,
    /// The run that the firing started, if any.
    pub run_id: Option<String>,
}

impl FiringRecord {
    fn from_record(record: &Record, prefix: &str) -> FiringRecord {
        let firing = StoredFiring::read(record).unwrap_or_default();
        FiringRecord {
            instant: record
                .key
                .strip_prefix(prefix)
                .unwrap_or_default()
                .to_owned(),
            scheduled_at: firing.scheduled_at,
            fired_at: firing.fired_at,
            run_id: firing.run_id.map(HostText::into_string),
        }
    }
}

/// Records read for one page, at most: matching ones may be rare.
const EXAMINED_MAX: u32 = 5_000;
/// Records read with one query.
const PAGE_SIZE: u32 = 500;
/// Entries read concurrently for a page of explanations.
const CONCURRENT_READS: usize = 8;

impl CommitmentInfo {
    /// Reads a commitment from its record.
    pub(crate) fn from_record(record: Record) -> Result<CommitmentInfo, EngineError> {
        let commitment = Commitment::from_map(record.body)
            .ok_or(StoreError::Damaged("a commitment cannot be read"))?;
        let source = record.links.source.as_ref().map(|(_, id)| id.clone());
        let info = CommitmentInfo {
            id: record.key,
            commitment,
            source,
            version: record.version,
            ties: record.links,
        };
        Ok(info.cancelled_if_source_superseded(record.at))
    }

    /// Shows an open commitment as cancelled if its source is outdated, even if its record says
    /// otherwise: it will never fire.
    fn cancelled_if_source_superseded(mut self, at: Timestamp) -> CommitmentInfo {
        if self.commitment.state.is_open() && !self.ties.has_due_or_topic() {
            self.commitment = self
                .commitment
                .end(CommitmentState::Cancelled, EndedBy::Source, at);
        }
        self
    }

    /// Whether the caller may know of the commitment. One whose memory's name cannot be read is
    /// visible to no caller.
    fn is_visible_to(&self, caller: &Caller) -> bool {
        MemoryRef::parse(&self.commitment.memory_ref).is_some_and(|memory_ref| {
            sabotage!(
                "anybody-sees-commitments",
                caller.may_see(&memory_ref),
                true
            )
        })
    }

    /// Its position in the order of what happens next.
    fn decode_cursor(&self) -> Option<(Timestamp, String)> {
        Some((self.ties.due?, self.id.clone()))
    }

    pub(crate) fn to_ref(&self) -> CommitmentRef {
        commitment_ref(&self.id, &self.commitment, self.source.as_ref())
    }
}

/// A commitment as events refer to it.
pub(crate) fn commitment_ref(
    id: &str,
    commitment: &Commitment,
    source: Option<&EntryId>,
) -> CommitmentRef {
    CommitmentRef {
        commitment_id: id.to_owned(),
        memory_ref: commitment.memory_ref.clone(),
        memory_id: source.map(|id| id.as_str().to_owned()),
        condition: commitment.condition_kind().to_owned(),
        state: commitment.state.as_str().to_owned(),
    }
}

/// The keys that a commitment's record is found by: when it is due, the predicate it waits for, and
/// its source. One that has ended keeps its source only while that may be read.
pub(crate) fn ties_of(
    commitment: &Commitment,
    source: Option<(MemoryRef, EntryId)>,
    retention_ms: i64,
) -> RecordLinks {
    RecordLinks {
        due: Some(commitment.due_at(retention_ms)),
        topic: commitment
            .awaited_predicate()
            .map(commitment::predicate_topic),
        source,
    }
}

/// Adds the write of a commitment's record to a batch.
pub(crate) fn set_commitment(
    batch: Batch,
    admission: &Admission<'_>,
    id: &str,
    commitment: &Commitment,
    ties: RecordLinks,
    precondition: Precondition,
) -> Batch {
    batch.set_record_with_ties(
        RecordKind::Commitment,
        id.to_owned(),
        precondition,
        admission.redact_record(commitment.to_map()),
        ties,
    )
}

impl Engine {
    /// Lists the caller's commitments in the order in which they are due.
    pub async fn list_commitments(
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
            .cursor
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
                        next_cursor: None,
                    });
                }
            },
        };
        // The next cursor must be a position that the caller may know of, so hidden commitments do
        // not move it.
        let mut cursor_position = after.clone();
        let mut after = after;
        let mut found = Vec::new();
        let mut examined = 0;
        while examined < EXAMINED_MAX {
            let tie = RecordLookup::Due {
                until: Timestamp(i64::MAX),
                after: after.clone(),
            };
            let page = self
                .parts
                .store
                .records_by(caller.tenant(), RecordKind::Commitment, &tie, PAGE_SIZE)
                .await?;
            let full = page.len() == PAGE_SIZE as usize;
            for record in page {
                after = record.links.due.map(|due| (due, record.key.clone()));
                let info = CommitmentInfo::from_record(record)?;
                if !info.is_visible_to(caller) {
                    continue;
                }
                (cursor_position, examined) = (after.clone(), examined + 1);
                let info = self.redacted_commitment(caller, info).await?;
                if filter_matches(query.state, memory_ref.as_ref(), &info) {
                    found.push(info);
                }
                if found.len() == limit {
                    return Ok(CommitmentPage {
                        commitments: found,
                        next_cursor: cursor_position.map(encode_cursor),
                    });
                }
            }
            if !full {
                return Ok(CommitmentPage {
                    commitments: found,
                    next_cursor: None,
                });
            }
        }
        Ok(CommitmentPage {
            commitments: found,
            next_cursor: cursor_position.map(encode_cursor),
        })
    }

    /// Returns one commitment that the caller may see.
    pub async fn get_commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<CommitmentInfo, EngineError> {
        caller.require(Permission::MemoryRead)?;
        self.get_written_commitment(caller, id).await
    }

    /// Returns a commitment to a caller who has just written it, and need not have the right to
    /// read memory.
    pub(crate) async fn get_written_commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<CommitmentInfo, EngineError> {
        let info = self.find_visible_commitment(caller, id).await?;
        self.redacted_commitment(caller, info).await
    }

    /// Finds a commitment by its id, if the caller may know of its memory.
    pub(super) async fn find_visible_commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<CommitmentInfo, EngineError> {
        self.load_commitment(caller.tenant(), id)
            .await?
            .filter(|info| info.is_visible_to(caller))
            .ok_or(EngineError::NotFound("commitment"))
    }

    /// Returns the entry and the words in it that led to a commitment.
    pub async fn explain_commitment(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Explanation, EngineError> {
        let info = self.get_commitment(caller, id).await?;
        self.explain(caller, info).await
    }

    /// Explains several commitments, in their order.
    pub async fn explain_page(
        &self,
        caller: &Caller,
        page: CommitmentPage,
    ) -> Result<(Vec<Explanation>, Option<String>), EngineError> {
        let explained = stream::iter(page.commitments)
            .map(|info| self.explain(caller, info))
            .buffered(CONCURRENT_READS);
        let mut explained = pin!(explained);
        let mut found: Vec<Explanation> = Vec::new();
        let mut bytes = 0;
        while let Some(one) = explained.try_next().await? {
            bytes += one.entry.as_ref().map_or(0, cpu::entry_bytes);
            if let Some(last) = found.last()
                && !is_within(bytes, self.parts.policy.page_bytes_max)
            {
                let next = last.info.decode_cursor().map(encode_cursor);
                return Ok((found, next));
            }
            found.push(one);
        }
        Ok((found, page.next_cursor))
    }

    /// Explains a commitment that was read already. A caller who may not read memory gets no entry
    /// and no words.
    pub async fn explain(
        &self,
        caller: &Caller,
        info: CommitmentInfo,
    ) -> Result<Explanation, EngineError> {
        let scope = sabotage!(
            "explanations-are-told-to-writers",
            caller
                .scope(&info.commitment.memory_ref)
                .filter(|_| caller.has_permission(Permission::MemoryRead)),
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

    /// Reads a commitment's record by its id.
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
        record.map(CommitmentInfo::from_record).transpose()
    }

    /// Redacts a commitment by the rules of today, which may have changed since it was written.
    async fn redacted_commitment(
        &self,
        caller: &Caller,
        mut info: CommitmentInfo,
    ) -> Result<CommitmentInfo, EngineError> {
        let rules = self.redaction_rules(caller.tenant()).await?;
        let now = self.now();
        let redacted = rules
            .admission(&self.policy_of(caller), now)
            .redact_record(info.commitment.to_map());
        info.commitment = Commitment::from_map(redacted.map().clone())
            .ok_or(StoreError::Damaged("a commitment cannot be read"))?;
        Ok(info)
    }

    /// Lists the firings of a commitment, in the order of their instants.
    pub async fn list_firings(
        &self,
        caller: &Caller,
        id: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Vec<FiringRecord>, EngineError> {
        let info = self.get_commitment(caller, id).await?;
        let prefix = format!("{}/", info.id);
        let limit = self.parts.policy.list_limit(limit);
        let after = after.map(|instant| format!("{prefix}{instant}"));
        let notes = self
            .parts
            .store
            .records(
                caller.tenant(),
                RecordKind::Firing,
                &prefix,
                after.as_deref(),
                limit,
            )
            .await?;
        Ok(notes
            .iter()
            .map(|note| FiringRecord::from_record(note, &prefix))
            .collect())
    }
}

/// Whether a commitment passes the filter of a list.
fn filter_matches(
    state: Option<CommitmentState>,
    memory_ref: Option<&MemoryRef>,
    info: &CommitmentInfo,
) -> bool {
    state.is_none_or(|state| info.commitment.state == state)
        && memory_ref.is_none_or(|memory_ref| info.commitment.memory_ref == memory_ref.as_str())
}

/// Encodes a position in the order of due times as a cursor.
fn encode_cursor((at, key): (Timestamp, String)) -> String {
    format!("{}~{key}", at.0)
}

/// Decodes a cursor; `None` if it is malformed.
fn place(cursor: &str) -> Option<(Timestamp, String)> {
    let (at, key) = cursor.split_once('~')?;
    Some((Timestamp(at.parse().ok()?), key.to_owned()))
}
