//! The errors of engine operations. Surfaces map them to answers; none of them carries content.

use crate::jobs::JobState;
use crate::proposals::ProposalError;
use remem_core::{Permission, Rejection, RunStatus, Trust};
use remem_store::StoreError;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request is invalid; the caller can correct it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The caller lacks this permission.
    #[error("this key lacks the scope {0}")]
    Forbidden(Permission),
    /// The caller claims more trust than its key allows.
    #[error("this key vouches for {} at the most, not for {}", most.as_str(), claimed.as_str())]
    TrustTooHigh {
        /// The trust that was claimed.
        claimed: Trust,
        /// The highest trust that the key allows.
        most: Trust,
    },
    /// The named object does not exist or belongs to another user: both get the same answer, byte
    /// for byte.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// This node did not reach the revision named by `atLeast` in time.
    #[error("the revision asked for has not been reached on this node")]
    NotReached,
    /// A workspace file is not at the version that the caller named.
    #[error("the file is at another version")]
    FileConflict {
        /// The current version; 0 if the file does not exist.
        current_version: u64,
    },
    /// A workspace file exceeds the limit.
    #[error("the file is too large")]
    FileTooLarge {
        /// The largest size in bytes.
        limit: u64,
    },
    /// No workflow has this id.
    #[error("workflow not found")]
    UnknownWorkflow,
    /// The run has ended and cannot be cancelled.
    #[error("the run has ended")]
    RunEnded {
        /// The final status of the run.
        status: RunStatus,
    },
    /// The run has not ended and cannot be forked yet.
    #[error("the run has not ended yet")]
    RunNotEnded,
    /// The run has no event at this position.
    #[error("the run has no such event")]
    UnknownSequence,
    /// The reads that a replay needs are no longer recorded.
    #[error("what the run read is not kept any more")]
    ReplayUnavailable {
        /// The event to replay from.
        from_seq: u64,
        /// The run to replay.
        source_run: String,
        /// The reason: `retention_expired` or `event_log_unavailable`.
        reason: &'static str,
    },
    /// The tenant has no webhook with this id.
    #[error("webhook not found")]
    UnknownWebhook,
    /// The vault has a secret with this name already.
    #[error("a secret of this name exists")]
    SecretExists,
    /// The vault is off on this host.
    #[error("the vault is off: set vault.key_file or REMEM_VAULT_KEY")]
    VaultOff,
    /// A secret of the tenant cannot be decrypted, so texts cannot be redacted.
    #[error("a secret of this tenant cannot be opened: the vault key is missing or another one")]
    VaultLocked,
    /// No embedding model is available for a search by meaning.
    #[error(
        "this host cannot search by meaning now: it has no embedding model, or that does not answer"
    )]
    NoEmbedder,
    /// The job has ended and cannot be cancelled.
    #[error("the job has ended")]
    JobEnded {
        /// The final state of the job.
        state: JobState,
    },
    /// The commitment's state does not allow the operation.
    #[error("the commitment is {}", state.as_str())]
    CommitmentState {
        /// The current state of the commitment.
        state: remem_core::commitment::CommitmentState,
    },
    /// A pass cannot do a job, however often it is tried.
    #[error("the pass refused the work: {code}")]
    WorkRefused {
        /// Stable error code for programs.
        code: &'static str,
        /// Facts about the cause, without content.
        details: serde_json::Map<String, serde_json::Value>,
    },
    /// An operation on a proposal failed.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// The tenant has too many open event streams.
    #[error("too many event streams are open")]
    TooManyFeeds,
    /// The store failed or is busy.
    #[error(transparent)]
    Store(StoreError),
}

impl EngineError {
    /// A stable code for records and logs.
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
pub enum AuthError {
    /// No key, an unknown key, or a token that is not accepted. All get the same answer.
    #[error("a valid API key or token is needed: send Authorization: Bearer <key>")]
    Unknown,
    /// The key or token has expired.
    #[error("this API key has expired")]
    Expired,
    /// The key was revoked, or the issuer removed the key that signed the token.
    #[error("this API key was revoked")]
    Revoked,
    /// Keys cannot be checked because the directory or the issuer cannot be reached.
    #[error("keys cannot be checked at the moment")]
    Unavailable,
}
