//! The reasons why a request is refused that the caller can correct. Each carries a field name, a
//! limit and a count, never input.

use crate::profile::DAY_MS;

/// A refusal of a request. `code()` is stable. The text may be shown to anyone, since it holds
/// nothing that a caller supplied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A name is empty, too long, has control characters, or contains path traversal.
    #[error("{field} is not a valid name")]
    MalformedName { field: &'static str },
    /// A name holds a registered secret or something shaped like one. Names are stored unredacted,
    /// so it is refused.
    #[error("{field} looks like it contains a secret; names are not redacted, choose another one")]
    SecretInName { field: &'static str },
    /// A text, list or document is larger than the policy allows.
    #[error("{field} is too large: {actual} {unit}, the limit is {limit}")]
    TooLarge {
        field: &'static str,
        /// `bytes`, `characters`, `items` or `levels`.
        unit: &'static str,
        limit: u64,
        /// The size of the given value.
        actual: u64,
    },
    /// A required field is empty.
    #[error("{field} must not be empty")]
    Empty { field: &'static str },
    /// `expiresAt` is not in the future.
    #[error("expiresAt must be in the future")]
    AlreadyExpired,
    /// A field has a value outside its range.
    #[error("{field} {rule}")]
    Invalid {
        field: &'static str,
        /// The rule that it breaks, as the end of a sentence.
        rule: &'static str,
    },
    /// A webhook may not be sent to this URL.
    #[error("url {rule}")]
    UrlRefused {
        /// The rule it breaks, as the end of a sentence.
        rule: &'static str,
    },
    /// This host stores no entries with that combination of tier and typology.
    #[error("the {tier} tier of this memory stores no {typology} entries")]
    UnsupportedTierTypology {
        tier: &'static str,
        typology: &'static str,
    },
    /// The entry would restate a rule of its world. Memory is for how the work goes; the rules are
    /// read from the rules themselves.
    #[error(
        "this duplicates rule {rule} of its world; store how the work goes, not what the rules say"
    )]
    ShadowsRule { rule: crate::ids::RuleId },
    /// A workshop memory would copy data that belongs to another system.
    #[error(
        "this looks like {what}, which a workshop memory does not store; write a sentence about it and a reference"
    )]
    CopiedData {
        /// The kind of data that was recognised.
        what: &'static str,
    },
    /// An agent needs packs that are not installed.
    #[error("peerDependencies names required packs that are not installed ({missing})")]
    PeerMissing { missing: u64 },
    /// An instant is further in the future than this host plans.
    #[error("{field} is too far ahead (limit: {limit_days} days)")]
    TooFar {
        field: &'static str,
        limit_days: i64,
    },
    /// The idempotency key was used before with another body.
    #[error("this Idempotency-Key was used before with a different request body")]
    IdempotencyMismatch,
}

impl Rejection {
    /// The rejection of an instant that is more than `horizon_ms` in the future.
    #[must_use]
    pub fn too_far(field: &'static str, horizon_ms: i64) -> Rejection {
        Rejection::TooFar {
            field,
            limit_days: horizon_ms / DAY_MS,
        }
    }

    /// The stable code that is sent to callers.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::IdempotencyMismatch => "idempotency_key_mismatch",
            Rejection::TooFar { .. } => "schedule_horizon_exceeded",
            Rejection::PeerMissing { .. } => "pack_peer_dependency_missing",
            Rejection::ShadowsRule { .. } => "rule_shadow",
            Rejection::CopiedData { .. } => "non_mirror_violation",
            Rejection::UrlRefused { .. } => "webhook_url_rejected",
            _ => "validation_error",
        }
    }

    /// The field at fault, if there is one.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Rejection::MalformedName { field }
            | Rejection::SecretInName { field }
            | Rejection::TooLarge { field, .. }
            | Rejection::Empty { field }
            | Rejection::TooFar { field, .. }
            | Rejection::Invalid { field, .. } => Some(field),
            Rejection::AlreadyExpired => Some("expiresAt"),
            Rejection::UrlRefused { .. } => Some("url"),
            Rejection::ShadowsRule { .. } | Rejection::CopiedData { .. } => Some("content"),
            Rejection::UnsupportedTierTypology { .. } => Some("tier"),
            Rejection::PeerMissing { .. } => Some("peerDependencies"),
            Rejection::IdempotencyMismatch => None,
        }
    }
}
