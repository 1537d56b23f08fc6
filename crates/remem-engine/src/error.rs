//! Why the engine did not do it. Surfaces map these; none of them carries content.

use crate::jobs::JobState;
use crate::proposals::ProposalError;
use remem_core::{Permission, Rejection, RunStatus, Trust};
use remem_store::StoreError;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request cannot be; the caller can mend it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The caller's key does not allow it.
    #[error("this key lacks the scope {0}")]
    Forbidden(Permission),
    /// The caller claims more trust than its key may vouch for.
    #[error("this key vouches for {} at the most, not for {}", most.as_str(), claimed.as_str())]
    TrustTooHigh {
        /// What was claimed.
        claimed: Trust,
        /// The most that the key may vouch for.
        most: Trust,
    },
    /// The thing named does not exist, or is not the caller's: both get the same answer, byte for
    /// byte.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The revision named by `atLeast` was not reached in time.
    #[error("the revision asked for has not been reached on this node")]
    NotReached,
    /// A workspace file is not at the version that the caller named.
    #[error("the file is at another version")]
    FileConflict {
        /// Where it is; 0 if it is not there.
        current_version: u64,
    },
    /// A workspace file is too large.
    #[error("the file is too large")]
    FileTooLarge {
        /// How large it may be, in bytes.
        limit: u64,
    },
    /// No workflow of that name.
    #[error("workflow not found")]
    UnknownWorkflow,
    /// The run has ended, so that it cannot be cancelled any more.
    #[error("the run has ended")]
    RunEnded {
        /// How.
        status: RunStatus,
    },
    /// The run goes on, so that it cannot be forked yet.
    #[error("the run has not ended yet")]
    RunGoesOn,
    /// The run has no event at that position.
    #[error("the run has no such event")]
    UnknownSequence,
    /// What a replay would have to read is gone.
    #[error("what the run read is not kept any more")]
    ReplayUnavailable {
        /// The position asked for.
        from_seq: u64,
        /// The run asked for.
        source_run: String,
        /// `retention_expired` or `event_log_unavailable`.
        reason: &'static str,
    },
    /// The tenant has no webhook of that name.
    #[error("webhook not found")]
    NoWebhook,
    /// The vault has a secret of this name.
    #[error("a secret of this name exists")]
    SecretExists,
    /// This host keeps no secrets.
    #[error("the vault is off: set vault.key_file or REMEM_VAULT_KEY")]
    VaultOff,
    /// A secret of the tenant cannot be opened, so nothing can be held against it.
    #[error("a secret of this tenant cannot be opened: the vault key is missing or another one")]
    VaultLocked,
    /// Nothing here can tell what a query means.
    #[error(
        "this host cannot search by meaning now: it has no embedding model, or that does not answer"
    )]
    NoEmbedder,
    /// The job has ended, so that it cannot be cancelled any more.
    #[error("the job has ended")]
    JobEnded {
        /// How.
        state: JobState,
    },
    /// A commitment does not stand so that this could be done with it.
    #[error("the commitment is {}", state.as_str())]
    CommitmentState {
        /// How it stands.
        state: remem_core::commitment::State,
    },
    /// A pass cannot do what it is asked for, however often it is tried.
    #[error("the pass refused the work: {code}")]
    WorkRefused {
        /// For programs, stable.
        code: &'static str,
        /// Facts without content.
        details: serde_json::Map<String, serde_json::Value>,
    },
    /// Something about a proposal.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// Too many streams are open.
    #[error("too many event streams are open")]
    TooManyFeeds,
    /// The store could not do it.
    #[error(transparent)]
    Store(StoreError),
}

impl EngineError {
    /// A stable name for what is kept of it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            EngineError::Rejected(rejection) => rejection.code(),
            EngineError::WorkRefused { code, .. } => code,
            EngineError::Proposal(error) => error.code(),
            EngineError::VaultLocked => "vault_locked",
            EngineError::Store(StoreError::Conflict) => "conflict",
            EngineError::Store(StoreError::Busy) => "busy",
            EngineError::Store(StoreError::Full) => "storage_full",
            EngineError::Store(StoreError::Unavailable(_)) => "unavailable",
            _ => "internal_error",
        }
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> EngineError {
        match error {
            StoreError::Rejected(rejection) => EngineError::Rejected(rejection),
            other => EngineError::Store(other),
        }
    }
}

/// Why a key or a token was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No key, or none that this host knows, or a token that it does not accept. They are the same
    /// to a caller.
    #[error("a valid API key or token is needed: send Authorization: Bearer <key>")]
    Unknown,
    /// The key's time is over.
    #[error("this API key has expired")]
    Expired,
    /// The key was revoked.
    #[error("this API key was revoked")]
    Revoked,
    /// The directory cannot be read now.
    #[error("keys cannot be checked at the moment")]
    Unavailable,
}
