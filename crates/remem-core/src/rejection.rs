//! Why a request was refused: things the caller can mend. Each carries a field name, a limit and a
//! count, never input.

use crate::profile::DAY_MS;

/// A refusal. `code()` is stable; the text may be shown to anyone, since it holds nothing a caller
/// supplied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A name is empty, too long, holds control characters, or climbs.
    #[error("{field} is not a valid name")]
    MalformedName {
        /// Which name.
        field: &'static str,
    },
    /// A name holds a registered secret or something shaped like one; names are stored as they are,
    /// so it is refused.
    #[error("{field} looks like it contains a secret; names are not redacted, choose another one")]
    SecretInName {
        /// Which name.
        field: &'static str,
    },
    /// A text, list or document is larger than the policy allows.
    #[error("{field} is too large: {actual} {unit}, the limit is {limit}")]
    TooLarge {
        /// Which field.
        field: &'static str,
        /// `bytes`, `characters`, `items` or `levels`.
        unit: &'static str,
        /// The policy's limit.
        limit: u64,
        /// What was sent.
        actual: u64,
    },
    /// A field is empty that must not be.
    #[error("{field} must not be empty")]
    Empty {
        /// Which field.
        field: &'static str,
    },
    /// `expiresAt` is not in the future.
    #[error("expiresAt must be in the future")]
    AlreadyExpired,
    /// A field has a value outside its range.
    #[error("{field} {rule}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// The rule it breaks, as the end of a sentence.
        rule: &'static str,
    },
    /// A webhook may not be sent to this URL.
    #[error("url {rule}")]
    UrlRefused {
        /// The rule it breaks, as the end of a sentence.
        rule: &'static str,
    },
    /// This host does not produce that cell of tier and typology.
    #[error("the {tier} tier of this memory stores no {typology} entries")]
    NoSuchCell {
        /// The tier's name.
        tier: &'static str,
        /// The typology's name.
        typology: &'static str,
    },
    /// A memory would restate a rule of its world. Memory is for how the work goes; what the rules
    /// say is read from the rules.
    #[error(
        "this duplicates rule {rule} of its world; store how the work goes, not what the rules say"
    )]
    ShadowsRule {
        /// The rule's name.
        rule: crate::ids::RuleId,
    },
    /// A workshop memory would mirror data that belongs elsewhere.
    #[error(
        "this looks like {what}, which a workshop memory does not store; write a sentence about it and a reference"
    )]
    Mirrors {
        /// What it looks like.
        what: &'static str,
    },
    /// An agent needs packs that are not installed.
    #[error("peerDependencies names required packs that are not installed ({missing})")]
    PeerMissing {
        /// How many.
        missing: u64,
    },
    /// An instant lies further ahead than this host plans.
    #[error("{field} is too far ahead (limit: {limit_days} days)")]
    TooFar {
        /// Which field.
        field: &'static str,
        /// How far ahead it may lie.
        limit_days: i64,
    },
    /// The idempotency key was used before with another body.
    #[error("this Idempotency-Key was used before with a different request body")]
    IdempotencyMismatch,
}

impl Rejection {
    /// An instant that lies more than `horizon_ms` ahead.
    #[must_use]
    pub fn too_far(field: &'static str, horizon_ms: i64) -> Rejection {
        Rejection::TooFar {
            field,
            limit_days: horizon_ms / DAY_MS,
        }
    }

    /// The stable code that surfaces send.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::IdempotencyMismatch => "idempotency_key_mismatch",
            Rejection::TooFar { .. } => "schedule_horizon_exceeded",
            Rejection::PeerMissing { .. } => "pack_peer_dependency_missing",
            Rejection::ShadowsRule { .. } => "rule_shadow",
            Rejection::Mirrors { .. } => "non_mirror_violation",
            Rejection::UrlRefused { .. } => "webhook_url_rejected",
            _ => "validation_error",
        }
    }

    /// The field at fault, if one is.
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
            Rejection::ShadowsRule { .. } | Rejection::Mirrors { .. } => Some("content"),
            Rejection::NoSuchCell { .. } => Some("tier"),
            Rejection::PeerMissing { .. } => Some("peerDependencies"),
            Rejection::IdempotencyMismatch => None,
        }
    }
}
