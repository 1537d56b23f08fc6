//! Recognising commitments in an entry: the grammar in `remem_core::infer` finds them in the text,
//! and the memory's rules decide whether they are armed. Nothing is committed here; the pass
//! `infer` commits the result together with the position it reached.

use super::{ArmMode, CommitmentInfo, CommitmentRules, commitment_ref, set_commitment, ties_of};
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::commitment::{CommitmentState, CommitmentTrigger, Delivery, TextSpans};
use remem_core::infer::{self, Condition, InferInput, Promise, PromiseVerdict, Recurrence};
use remem_core::sabotage;
use remem_core::{
    Admission, Batch, Commitment, Entry, EventBody, MemoryRef, Policy, Precondition, RecordKind,
    TenantId, Timestamp, schedule,
};
use std::ops::Range;

/// Tags by which a writer marks a text as untrusted. A commitment in such a text is never armed
/// without confirmation.
pub const UNTRUSTED_TAGS: [&str; 4] = [
    "source:untrusted",
    "source:web",
    "source:document",
    "source:tool",
];
/// Tags of texts that are not searched for commitments: texts that passes derived from others,
/// notes of runs, and texts that were stored with a commitment.
const DERIVED_TAGS: [&str; 3] = ["compacted-from:", "source:run", CREATED_TAG];
/// Tag of the text of a commitment that a caller created.
pub(super) const CREATED_TAG: &str = "source:commitment";

/// How late a commitment may still fire when its text is read after its instant. It is longer than
/// nodes take to replace a failed one.
const LATE_MS_MAX: i64 = 3_600_000;

/// Whether a text with these tags is searched for commitments.
pub(crate) fn may_hold_commitments<'a>(mut tags: impl Iterator<Item = &'a str>) -> bool {
    !tags.any(|tag| DERIVED_TAGS.iter().any(|derived| tag.starts_with(derived)))
}

/// Whether none of the entry's tags marks it as untrusted.
pub(crate) fn is_trusted(entry: &Entry) -> bool {
    !entry
        .tags
        .iter()
        .any(|tag| UNTRUSTED_TAGS.contains(&tag.as_str()))
}

/// The time zone that the entry's metadata names, else the memory's.
fn time_zone_of<'a>(entry: &'a Entry, rules: &'a CommitmentRules) -> &'a str {
    let zone_in_metadata = entry
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.get("timeZone"))
        .and_then(|zone| zone.as_str());
    zone_in_metadata
        .filter(|zone| schedule::parse_zone(zone).is_ok())
        .unwrap_or(&rules.zone)
}

/// Turns a recognised commitment into a record; `None` if the grammar or the memory's rules refuse
/// it.
fn to_commitment(
    promise: &Promise,
    entry: &Entry,
    rules: &CommitmentRules,
    zone: &str,
    policy: &Policy,
) -> Option<Commitment> {
    let state = match (promise.verdict, rules.arm) {
        (PromiseVerdict::Refused(_), _) | (_, ArmMode::Off) => return None,
        (PromiseVerdict::Arm, ArmMode::Auto) => CommitmentState::Armed,
        _ => CommitmentState::Pending,
    };
    let (when, next_at) = to_when(&promise.condition, zone);
    let at = entry.created_at;
    let wait = if state == CommitmentState::Pending {
        policy.commitment_confirm_ms
    } else {
        policy.commitment_wait_ms
    };
    let span = |range: &Range<usize>| [range.start, range.end];
    Some(Commitment {
        memory_ref: entry.memory_ref.as_str().to_owned(),
        state,
        when,
        next_at: next_at.map(|at| at.0),
        give_up_at: at.plus_ms(wait).0,
        rules: Some(infer::INFER_RULES.to_owned()),
        confidence: promise.confidence,
        spans: Some(TextSpans {
            sentence: span(&promise.sentence),
            cue: span(&promise.cue),
            condition: span(&promise.condition_words),
        }),
        delivery: Delivery::default(),
        created_at: at.0,
        updated_at: at.0,
        holds: None,
        epoch: 0,
        fired: 0,
        last_fired_at: None,
        last_run_id: None,
        ended_by: None,
    })
}

/// Turns a recognised condition into when the commitment fires, and its first instant.
pub(super) fn to_when(condition: &Condition, zone: &str) -> (CommitmentTrigger, Option<Timestamp>) {
    match condition {
        Condition::Once { at } => (CommitmentTrigger::Once, Some(*at)),
        Condition::Recurring { rule, first } => {
            let (every, cron) = match rule {
                Recurrence::Every(every) => (Some(every.clone()), None),
                Recurrence::Cron(cron) => (None, Some(cron.clone())),
            };
            (
                CommitmentTrigger::Recurring {
                    every,
                    cron,
                    zone: zone.to_owned(),
                    anchor: first.0,
                },
                Some(*first),
            )
        }
        Condition::Predicate { key } => (
            CommitmentTrigger::Predicate {
                key: key.clone(),
                once: true,
            },
            None,
        ),
    }
}

impl Engine {
    /// The id of a commitment: the same for the same commitment of a memory, however often it is
    /// read. Keyed, so that it reveals nothing about the words.
    pub(crate) fn commitment_id(
        &self,
        tenant: &TenantId,
        commitment: &Commitment,
        action: &str,
    ) -> String {
        let mut hasher =
            blake3::Hasher::new_keyed(&self.parts.host_key.derive("remembrancer commitment v1"));
        let when =
            serde_json::to_string(&(&commitment.when, commitment.next_at)).unwrap_or_default();
        for part in [tenant.as_str(), &commitment.memory_ref, &when, action] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        format!("cmt_{}", &hasher.finalize().to_hex()[..32])
    }

    /// The commitments in an entry with their ids, in the state in which they would be stored.
    pub(crate) fn commitments_in(
        &self,
        tenant: &TenantId,
        entry: &Entry,
        rules: &CommitmentRules,
    ) -> Vec<(String, Commitment)> {
        let tags = entry.tags.iter().map(String::as_str);
        let zone = time_zone_of(entry, rules);
        let (Ok(clocks), true) = (
            schedule::parse_zone(zone),
            rules.arm != ArmMode::Off && may_hold_commitments(tags),
        ) else {
            return Vec::new();
        };
        let policy = &self.parts.policy;
        let text = entry.content.as_str();
        let at = entry.created_at;
        let trusted = sabotage!("what-nobody-vouches-for-is-armed", is_trusted(entry), true);
        let reading = InferInput {
            text,
            at,
            zone: &clocks,
            is_trusted: trusted,
            horizon_ms: policy.horizon_ms_max,
        };
        let found = infer::infer_promises(&reading)
            .into_iter()
            .filter_map(|promise| {
                let commitment = to_commitment(&promise, entry, rules, zone, policy)?;
                Some((
                    self.commitment_id(tenant, &commitment, &promise.action),
                    commitment,
                ))
            });
        found.collect()
    }

    /// Adds the new commitments of an entry to a batch, and returns how many there are. An instant
    /// that had passed when the entry was written makes no commitment. One that passed since then
    /// fires late, unless that is long ago: a log that is read for the first time must not fire all
    /// reminders of old days.
    pub(crate) async fn add_commitments_of(
        &self,
        tenant: &TenantId,
        entry: &Entry,
        written_at: Timestamp,
        admission: &Admission<'_>,
        promises: Vec<(String, Commitment)>,
        mut batch: Batch,
    ) -> Result<(Batch, u64), EngineError> {
        let mut added = 0;
        for (id, mut commitment) in promises {
            let oldest_late = Timestamp(admission.now.0.saturating_sub(LATE_MS_MAX));
            let past = |at: i64| {
                at <= sabotage!(
                    "what-is-read-late-is-silent",
                    written_at.max(oldest_late).0,
                    written_at.max(oldest_late).0.max(admission.now.0)
                ) && matches!(commitment.when, CommitmentTrigger::Once)
            };
            let is_too_late =
                commitment.next_at.is_some_and(past) || commitment.give_up_at <= admission.now.0;
            let known = self
                .parts
                .store
                .record(tenant, RecordKind::Commitment, &id)
                .await?;
            if is_too_late || batch_writes(&batch, &id) {
                continue;
            }
            let mut precondition = Precondition::Absent;
            if let Some(earlier) = known {
                let version = earlier.version;
                let earlier = CommitmentInfo::from_record(earlier)?.commitment;
                // A text from before the earlier commitment ended is what that one was made from; a
                // later text is a new commitment.
                if earlier.state.is_open() || entry.created_at.0 <= earlier.updated_at {
                    continue;
                }
                commitment.continue_counters(&earlier);
                precondition = Precondition::Version(version);
            }
            let source: (MemoryRef, _) = (entry.memory_ref.clone(), entry.id.clone());
            let ties = ties_of(
                &commitment,
                Some(source),
                self.parts.policy.commitment_retention_ms,
            );
            let event =
                EventBody::CommitmentCreated(commitment_ref(&id, &commitment, Some(&entry.id)));
            batch =
                set_commitment(batch, admission, &id, &commitment, ties, precondition).emit(event);
            added += 1;
        }
        if added > 0 {
            batch = batch.expect_entry(
                entry.memory_ref.clone(),
                entry.id.clone(),
                entry.visible.from,
            );
        }
        Ok((batch, added))
    }
}

/// Whether the batch already writes this commitment: two entries of one page may hold the same.
fn batch_writes(batch: &Batch, id: &str) -> bool {
    let same = |change: &remem_core::Change| matches!(change, remem_core::Change::SetRecord { key, .. } if key == id);
    batch.changes().iter().any(same)
}
