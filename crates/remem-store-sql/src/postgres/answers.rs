//! The answers that stand where a group wants to put or move one: a part of what is loaded for the
//! group. The index `entry_answer` finds them by the end of their windows.

use super::gate::{SqlCall, sql_call};
use crate::rows::entry;
use crate::stored::content_hash;
use remem_core::ledger::Wanted;
use std::sync::LazyLock;

/// The windows of new answers, and those of moving ones, which are known to the database alone.
/// What has no end comes first in the index, so it is found apart from what ends after the window
/// begins.
static ANSWERS: LazyLock<String> = LazyLock::new(|| {
    let row = entry::select_list("d", "false");
    let answer = "SELECT * FROM remem.entry d WHERE d.tenant_id = $1 AND d.scope_id = w.scope_id AND d.slot = w.slot
           AND d.slot IS NOT NULL AND d.erased_at IS NULL AND (d.rev_to IS NULL OR d.removed_reason = 'invalidated')
           AND d.typology = w.typology AND (d.typology <> 'procedural' OR d.rev_to IS NULL)
           AND coalesce(d.valid_at <> d.invalid_at, true)
           AND (w.valid_to IS NULL OR d.valid_at IS NULL OR d.valid_at < w.valid_to)";
    format!(
        "WITH windows AS MATERIALIZED (
           SELECT s.scope_id, w.slot, w.typology, w.valid_from, w.valid_to
             FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
               AS w (memory_ref, slot, typology, valid_from, valid_to)
             JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
           UNION ALL SELECT e.scope_id, coalesce(w.slot, e.slot), e.typology, e.valid_at,
               CASE WHEN e.invalid_at IS NOT NULL THEN greatest(e.invalid_at, w.until) END
             FROM unnest($7::text[], $8::bytea[], $9::bigint[], $10::text[]) AS w (memory_ref, id_hash, until, slot)
             JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
             CROSS JOIN LATERAL (SELECT * FROM remem.entry e
               WHERE e.tenant_id = $1 AND e.scope_id = s.scope_id AND e.id_hash = w.id_hash OFFSET 0) e
             WHERE e.typology <> 'episodic')
         SELECT {row} FROM windows w CROSS JOIN LATERAL (
           ({answer} AND d.invalid_at IS NULL LIMIT $11) UNION ALL
           ({answer} AND d.invalid_at > coalesce(w.valid_from, -9223372036854775808) LIMIT $11)) d"
    )
});

/// The parameters of the statement.
#[derive(Default)]
pub(super) struct AnswerKeys<'a> {
    new: NewAnswers<'a>,
    moving: MovingAnswers<'a>,
    most: i64,
}

#[derive(Default)]
struct NewAnswers<'a> {
    memory: Vec<&'a str>,
    slot: Vec<&'a str>,
    typology: Vec<&'a str>,
    from: Vec<Option<i64>>,
    to: Vec<Option<i64>>,
}

#[derive(Default)]
struct MovingAnswers<'a> {
    memory: Vec<&'a str>,
    id_hash: Vec<Vec<u8>>,
    until: Vec<Option<i64>>,
    slot: Vec<Option<&'a str>>,
}

impl<'a> AnswerKeys<'a> {
    pub fn of(wanted: &'a Wanted) -> AnswerKeys<'a> {
        let mut keys = AnswerKeys {
            most: wanted.answers_max().into(),
            ..AnswerKeys::default()
        };
        for ((memory_ref, slot), windows) in &wanted.slots {
            for window in windows {
                keys.new.memory.push(memory_ref.as_str());
                keys.new.slot.push(slot);
                keys.new.typology.push(window.typology.as_str());
                keys.new.from.push(window.from.map(|at| at.0));
                keys.new.to.push(window.to.map(|at| at.0));
            }
        }
        for answer in &wanted.moving {
            let (memory_ref, id) = &answer.name;
            keys.moving.memory.push(memory_ref.as_str());
            let hash = content_hash(id.as_str().as_bytes());
            keys.moving.id_hash.push(hash.to_vec());
            keys.moving.until.push(answer.until.map(|at| at.0));
            keys.moving.slot.push(answer.slot.as_deref());
        }
        keys
    }

    pub fn is_empty(&self) -> bool {
        self.new.slot.is_empty() && self.moving.slot.is_empty()
    }

    pub fn call(&'a self, tenant: &'a &'a str) -> SqlCall<'a> {
        let AnswerKeys { new, moving, most } = self;
        sql_call(
            &ANSWERS,
            &[
                tenant,
                &new.memory,
                &new.slot,
                &new.typology,
                &new.from,
                &new.to,
                &moving.memory,
                &moving.id_hash,
                &moving.until,
                &moving.slot,
                most,
            ],
        )
    }
}
