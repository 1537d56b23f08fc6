//! Maps database errors to those of the store interface. PostgreSQL puts values into its messages
//! ("Key (id)=(…) already exists"), so only the code and the name of the constraint are passed on.

use super::connect::WRONG_ROLE;
use deadpool_postgres::{HookError, PoolError};
use remem_core::{RuleId, sabotage};
use remem_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// An error of the database, without the values that its message names.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error("the database refused with code {code}{place}{hint}")]
    Refused {
        code: String,
        place: String,
        hint: &'static str,
    },
    #[error("the connection to the database failed: {0}")]
    Connection(String),
    #[error("the database did not answer within the deadline")]
    Deadline,
    #[error("the database is down")]
    Down,
    #[error(
        "the database failed while it committed and does not say why: whether the change took effect is unknown; repeat the request"
    )]
    OutcomeUnknown,
    #[error("{WRONG_ROLE}")]
    WrongRole,
}

/// Maps a database error to an error that the caller can act on.
pub(super) fn store_error(error: Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        return unavailable(DatabaseError::Connection(connection_text(&error)));
    };
    match refusal.code() {
        code if *code == SqlState::DISK_FULL => StoreError::Full,
        code if is_transient(code) => StoreError::Busy,
        code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Damaged("the database reports corrupted data")
        }
        code => {
            let place = refusal
                .constraint()
                .or(refusal.table())
                .map(|name| format!(" ({name})"))
                .unwrap_or_default();
            unavailable(DatabaseError::Refused {
                code: code.code().to_owned(),
                place,
                hint: hint(code),
            })
        }
    }
}

/// An explanation of a code for a person who is setting things up.
fn hint(code: &SqlState) -> &'static str {
    match code.code() {
        "28P01" => ": the user or the password is wrong",
        "28000" => ": the server does not let this user in from here (pg_hba.conf)",
        "3D000" => ": database not found",
        "42501" => ": this role lacks the right to do it",
        _ => "",
    }
}

/// Whether another try may succeed: the transaction lost a race, or the server is out of
/// connections.
fn is_transient(code: &SqlState) -> bool {
    [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::TOO_MANY_CONNECTIONS,
    ]
    .contains(code)
}

/// The message of an error that is not from the server: such messages name hosts and reasons, never
/// values.
fn connection_text(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error} ({source})"),
        None => error.to_string(),
    }
}

pub(super) fn unavailable(error: DatabaseError) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}

/// Maps the reason why the pool made no connection.
pub(super) fn pool_error(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => match store_error(error) {
            // A set-up statement that is refused shows the state of the server, not a race that
            // this caller lost.
            StoreError::Busy => StoreError::Busy,
            other => other,
        },
        PoolError::PostCreateHook(HookError::Backend(error)) => store_error(error),
        // A hook has no other message than this.
        PoolError::PostCreateHook(HookError::Message(_)) => unavailable(DatabaseError::WrongRole),
        other => unavailable(DatabaseError::Connection(other.to_string())),
    }
}

/// Errors of the schema's constraints that the store interface distinguishes.
pub(super) enum ConstraintError {
    /// Another batch filled the slot meanwhile.
    SlotTaken,
    /// A text restates this rule of its world.
    RestatesRule(RuleId),
}

/// The name of a constraint as the schema declares it. A distributed PostgreSQL appends the number
/// of the shard, which is a table of its own.
fn declared_name(constraint: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match constraint.rsplit_once('_') {
        Some((declared, shard)) if is_number(shard) => {
            sabotage!(
                "postgres-a-shard-s-constraint-is-unknown",
                declared,
                constraint
            )
        }
        _ => constraint,
    }
}

/// The meaning of a constraint's error, if the store interface has one for it.
pub(super) fn constraint_error(error: &Error) -> Option<ConstraintError> {
    let refused = error.as_db_error()?;
    match declared_name(refused.constraint()?) {
        "one_truth_per_slot" | "one_active_procedure" => Some(ConstraintError::SlotTaken),
        "entry_rule_shadow" => refused
            .detail()
            .and_then(RuleId::parse)
            .map(ConstraintError::RestatesRule),
        _ => None,
    }
}

/// Whether a failed COMMIT leaves open what became of the transaction. A distributed PostgreSQL
/// answers with this code when another of its servers refused to commit, for whatever reason.
pub(super) fn hides_the_outcome(error: &Error) -> bool {
    error.code() == Some(&SqlState::INTERNAL_ERROR)
}

/// Whether the batch itself caused the error, so that the others may be tried without it.
pub(super) fn concerns_one_batch(error: &Error) -> bool {
    // Class 22 is data exceptions, class 23 integrity constraints, 54 limits; 42501 is a policy
    // that refuses another owner's row.
    error.code().is_some_and(|code| {
        ["22", "23", "54"].contains(&&code.code()[..2]) || *code == SqlState::INSUFFICIENT_PRIVILEGE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shards_number_is_no_part_of_a_constraints_name() {
        for (found, declared) in [
            ("one_truth_per_slot", "one_truth_per_slot"),
            ("one_truth_per_slot_102008", "one_truth_per_slot"),
            ("entry_rule_shadow_1", "entry_rule_shadow"),
            ("one_truth_per_slot_", "one_truth_per_slot_"),
            ("one_truth_per_slot_1a", "one_truth_per_slot_1a"),
            ("17", "17"),
        ] {
            assert_eq!(declared_name(found), declared, "{found}");
        }
    }
}
