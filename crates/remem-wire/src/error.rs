//! Errors on the wire: one envelope, and one table of codes. No other file maps a problem to an
//! HTTP status.

use crate::discovery::PROTOCOL_VERSIONS;
use remem_core::permission::UnknownPermission;
use remem_core::sabotage;
use remem_core::{Permission, Rejection, Trust, strict_json};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The body of every answer that is not a success. Closed: further facts go under `details`.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// Stable code for programs.
    pub error: String,
    /// Sentence for people; holds nothing the caller sent.
    pub message: String,
    /// Facts that help to mend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A failed call as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// HTTP status of the response.
    pub status: u16,
    /// Number of seconds after which the client should try again.
    pub retry_after: Option<u32>,
    /// Envelope with the stable code.
    pub body: ErrorBody,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.body.message, self.body.error)
    }
}

impl std::error::Error for Failure {}

/// Everything that can go wrong with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// The request breaks a rule of the core; the caller can correct it.
    Rejected(Rejection),
    /// The body is not JSON of the right shape. `hint` names a field or a position, never a value;
    /// `pointer` is a JSON pointer to the wrong value, if that is known.
    MalformedBody {
        hint: String,
        pointer: Option<String>,
    },
    /// The query string is not of the right shape.
    MalformedQuery { hint: String },
    /// The client asks for another major version of the protocol than the path has.
    VersionMismatch,
    /// The client asks for a major version of the protocol that this host does not serve.
    VersionUnsupported,
    /// A part of the path is not of the right shape.
    MalformedPath { hint: String },
    /// A key is asked for with a scope that this host does not know.
    UnknownScope,
    /// The body is larger than the host accepts.
    BodyTooLarge { limit: u64 },
    /// The body did not arrive in time.
    BodyTooSlow,
    /// The request has no `Host`, or more than one.
    MalformedHost,
    /// The body is not `application/json`.
    UnsupportedMediaType,
    /// The request has no key, or an unknown one.
    Unauthenticated,
    /// The key or token has expired.
    KeyExpired,
    /// The key has been revoked.
    KeyRevoked,
    /// The key lacks the scope that the request needs.
    Forbidden(Permission),
    /// The caller claims more trust than its key may vouch for. The request itself is valid: with
    /// another key it would succeed.
    TrustTooHigh { claimed: Trust, most: Trust },
    /// The named resource does not exist, or belongs to another caller: both get the same answer,
    /// byte for byte.
    NotFound(&'static str),
    /// The request names another tenant than the key's.
    ForeignTenant,
    /// No such webhook, or not the caller's.
    UnknownWebhook,
    /// The path does not support the request's method.
    MethodNotAllowed,
    /// Another write changed the same data first.
    Conflict,
    /// `If-Match` does not name the current version of the file.
    FileConflict { current_version: u64 },
    /// The workspace file is larger than the host stores.
    FileTooLarge { limit: u64 },
    /// There is no workflow of that name.
    UnknownWorkflow,
    /// The run has ended, so that it cannot be changed any more.
    RunEnded { status: &'static str },
    /// The run has not ended yet, so that it cannot be forked.
    RunNotEnded,
    /// The run has no event at that position.
    UnknownSequence,
    /// Data that a replay would have to read is gone.
    ReplayUnavailable {
        from_seq: u64,
        source_run: String,
        reason: &'static str,
    },
    /// The job has ended, so that it cannot be cancelled.
    JobEnded { state: &'static str },
    /// The commitment is in a state that does not allow the change.
    CommitmentState { state: &'static str },
    /// A pass refuses the requested work. The code is the pass's own.
    WorkRefused {
        code: &'static str,
        details: serde_json::Map<String, serde_json::Value>,
    },
    /// The proposal is in a state that does not allow the change.
    ProposalState { state: &'static str },
    /// The digest that the caller names is not that of the newest revision's artifact.
    ProposalStale,
    /// The artifact is not valid for its kind.
    ProposalMalformed(Rejection),
    /// The artifact holds a secret by the present redaction rules.
    ProposalHoldsSecret,
    /// Another artifact of the same name is installed already.
    ProposalInstallConflict,
    /// No gate is open for the newest revision.
    ProposalGateClosed,
    /// The key may not decide about the proposal.
    ProposalDenied { reason: &'static str },
    /// The archive existed, but its bytes were erased.
    ArchiveErased,
    /// The vault has a secret of this name.
    SecretExists,
    /// A secret of the tenant cannot be opened.
    VaultLocked,
    /// This host does not have the mode or feature that the request needs.
    NotProvided { what: &'static str },
    /// The revision of `atLeast` was not reached in time.
    NotReached,
    /// Too many event streams of this tenant are open.
    TooManyFeeds { limit: u64 },
    /// Too many writes are waiting for the storage.
    Busy,
    /// The storage is full.
    Full,
    /// The storage cannot be used at the moment.
    Unavailable,
    /// Stored data of the tenant is damaged.
    StorageDamaged,
    /// Passes fail for every tenant.
    PassesFail,
    /// The host is stopping and takes no more requests.
    Stopping,
    /// The host has a bug or damaged data; the log says more.
    Internal,
}

const UNAVAILABLE: &str = "the storage is unavailable; a write may or may not have been applied, \
     retry it with the same Idempotency-Key";
const DAMAGED: &str =
    "stored data of this tenant is damaged; the operator finds it with `remem doctor`";
const FOREIGN_TENANT: &str = "this key belongs to another tenant than tenantId; leave tenantId out";
const VERSION_MISMATCH: &str =
    "OpenWOP-Version names another major version than the path; details name what is served";
const VERSION_UNSUPPORTED: &str =
    "this host does not serve the major version in OpenWOP-Version; details name what it serves";
const PASSES_FAIL: &str = "passes fail for every tenant; see the log";

struct ErrorRow {
    status: u16,
    code: &'static str,
    message: String,
    retry_after: Option<u32>,
}

impl From<strict_json::ReadError> for Problem {
    fn from(error: strict_json::ReadError) -> Problem {
        Problem::MalformedBody {
            hint: json_hint(&error.source),
            pointer: Some(error.pointer),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Problem {
        Problem::Rejected(rejection)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let ErrorRow {
            status,
            code,
            message,
            retry_after,
        } = problem.error_row();
        Failure {
            status,
            retry_after,
            body: ErrorBody {
                error: code.to_owned(),
                message,
                details: problem.details(),
            },
        }
    }
}

impl Problem {
    /// Returns the problem of a body that is JSON of the right shape, but not valid: `pointer` is a
    /// JSON pointer to the wrong value.
    #[must_use]
    pub fn malformed(pointer: &str, hint: impl Into<String>) -> Problem {
        Problem::MalformedBody {
            hint: hint.into(),
            pointer: Some(pointer.to_owned()),
        }
    }

    /// A number of a query that the stores cannot hold.
    #[must_use]
    pub fn too_large(field: &'static str) -> Problem {
        Problem::MalformedQuery {
            hint: format!(
                "{field} must be a whole number up to {}",
                crate::number::MAX
            ),
        }
    }

    fn error_row(&self) -> ErrorRow {
        let row = |status, code, message: &str| ErrorRow {
            status,
            code,
            message: message.to_owned(),
            retry_after: None,
        };
        let later = |status, code, message: &str, seconds| ErrorRow {
            retry_after: Some(seconds),
            ..row(status, code, message)
        };
        match self {
            Problem::Rejected(Rejection::IdempotencyMismatch) => {
                row(409, "idempotency_key_mismatch", &self.message())
            }
            Problem::Rejected(rejection @ Rejection::UrlRefused { .. }) => {
                row(400, rejection.code(), &self.message())
            }
            Problem::Rejected(rejection) => row(422, rejection.code(), &self.message()),
            Problem::MalformedBody { .. }
            | Problem::MalformedQuery { .. }
            | Problem::MalformedPath { .. }
            | Problem::MalformedHost => row(400, "validation_error", &self.message()),
            Problem::VersionMismatch => row(400, "protocol_version_mismatch", VERSION_MISMATCH),
            Problem::VersionUnsupported => {
                row(406, "protocol_version_unsupported", VERSION_UNSUPPORTED)
            }
            Problem::ForeignTenant => row(403, "forbidden", FOREIGN_TENANT),
            Problem::UnknownScope => row(422, "validation_error", &UnknownPermission.to_string()),
            Problem::BodyTooLarge { .. } => row(
                413,
                "payload_too_large",
                "the request body is too large; details name the limit",
            ),
            Problem::BodyTooSlow => row(
                408,
                "request_timeout",
                "the request body did not arrive in time",
            ),
            Problem::UnsupportedMediaType => row(
                415,
                "unsupported_media_type",
                "unsupported content type; send the body as application/json",
            ),
            Problem::Unauthenticated => row(
                401,
                "unauthenticated",
                "missing or unknown API key or token; send Authorization: Bearer <key>",
            ),
            Problem::KeyExpired => row(401, "key_expired", "the API key has expired"),
            Problem::KeyRevoked => row(401, "key_revoked", "the API key was revoked"),
            Problem::Forbidden(_) => row(403, "forbidden", &self.message()),
            Problem::TrustTooHigh { .. } => row(403, "trust_above_key", &self.message()),
            Problem::NotFound(_) => row(404, "not_found", &self.message()),
            Problem::UnknownWebhook => row(404, "subscription_not_found", "webhook not found"),
            Problem::MethodNotAllowed => {
                row(405, "method_not_allowed", "method not allowed on this path")
            }
            Problem::Conflict => row(
                409,
                "conflict",
                "the resource changed since it was read; read it again and retry",
            ),
            Problem::FileConflict { .. } => row(
                409,
                "workspace_conflict",
                "the file is at another version than If-Match names; details name the current one",
            ),
            Problem::FileTooLarge { .. } => row(
                413,
                "workspace_too_large",
                "the file is too large; details name the limit",
            ),
            Problem::UnknownWorkflow => row(404, "workflow_not_found", "workflow not found"),
            Problem::RunEnded { .. } => {
                row(409, "run_already_terminal", "the run has already ended")
            }
            Problem::RunNotEnded => row(
                409,
                "run_not_terminal",
                "the run is still running; wait for its last event",
            ),
            Problem::UnknownSequence => row(
                422,
                "sequence_unknown",
                "no event of the run has the sequence fromSeq",
            ),
            Problem::ReplayUnavailable { .. } => row(
                422,
                "replay_memory_snapshot_unavailable",
                "the data that the run read is no longer stored",
            ),
            Problem::JobEnded { .. } => row(409, "job_already_ended", "the job has already ended"),
            Problem::CommitmentState { .. } => {
                row(409, "commitment_state_conflict", &self.message())
            }
            Problem::WorkRefused { code, .. } => {
                row(422, code, "the pass refused the request; details say why")
            }
            Problem::ProposalState { .. } => row(409, "proposal_state_conflict", &self.message()),
            Problem::ProposalStale => row(
                409,
                "proposal_stale",
                "artifactDigest names an older artifact; read the proposal again",
            ),
            Problem::ProposalMalformed(_) => row(422, "proposal_malformed", &self.message()),
            Problem::ProposalHoldsSecret => row(
                409,
                "proposal_holds_secret",
                "the artifact contains a secret by the current rules; revise the proposal",
            ),
            Problem::ProposalInstallConflict => row(
                409,
                "proposal_install_conflict",
                "something of this name is installed already; remove it first, or revise the proposal",
            ),
            Problem::ProposalGateClosed => row(
                409,
                "proposal_gate_closed",
                "the newest revision has no open approval gate",
            ),
            Problem::ProposalDenied { .. } => row(
                403,
                "forbidden",
                "this key may not decide on the proposal; details say why",
            ),
            Problem::ArchiveErased => row(
                410,
                "archive_erased",
                "the archive was erased; only its digest is left",
            ),
            Problem::SecretExists => row(
                409,
                "secret_exists",
                "a secret of this name exists; rotate it to change its value",
            ),
            Problem::VaultLocked => later(
                503,
                "vault_locked",
                "a secret of this tenant cannot be decrypted; start the host with the vault key that sealed it",
                30,
            ),
            Problem::NotProvided { .. } => row(422, "capability_not_provided", &self.message()),
            Problem::NotReached => later(
                503,
                "revision_not_reached",
                "this node has not reached the revision in atLeast yet; retry",
                1,
            ),
            Problem::TooManyFeeds { .. } => later(
                429,
                "rate_limited",
                "too many event streams of this tenant are open; close one first",
                5,
            ),
            Problem::Busy => later(503, "busy", "too many requests are waiting; retry later", 1),
            Problem::Full => later(
                507,
                "storage_full",
                "the storage is full; reads still work, writes do not",
                30,
            ),
            Problem::Unavailable => later(503, "unavailable", UNAVAILABLE, 1),
            Problem::StorageDamaged => later(503, "storage_damaged", DAMAGED, 30),
            Problem::PassesFail => later(503, "passes_failing", PASSES_FAIL, 1),
            Problem::Stopping => later(503, "stopping", "the host is shutting down", 1),
            Problem::Internal => row(
                500,
                "internal_error",
                "internal error; the log has the cause",
            ),
        }
    }

    fn message(&self) -> String {
        match self {
            Problem::Rejected(rejection) => rejection.to_string(),
            Problem::ProposalMalformed(rejection) => {
                format!("the artifact does not fit its kind: {rejection}")
            }
            Problem::MalformedBody { hint, .. } => format!("invalid request body: {hint}"),
            Problem::MalformedHost => "send exactly one Host header".to_owned(),
            Problem::MalformedQuery { hint } => format!("invalid query string: {hint}"),
            Problem::MalformedPath { hint } => format!("invalid path: {hint}"),
            Problem::NotFound(what) => format!("{what} not found"),
            Problem::CommitmentState { state } => {
                format!("cannot do this while the commitment is '{state}'")
            }
            Problem::ProposalState { state } => {
                format!("cannot do this while the proposal is '{state}'")
            }
            Problem::Forbidden(permission) => format!("this key lacks the scope {permission}"),
            Problem::TrustTooHigh { claimed, most } => format!(
                "source {} is above what this key may vouch for (at most {})",
                claimed.as_str(),
                most.as_str()
            ),
            Problem::NotProvided { what } => format!("this host does not provide {what}"),
            _ => String::new(),
        }
    }

    fn details(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        let details = match self {
            Problem::Rejected(Rejection::TooLarge {
                field,
                unit,
                limit,
                actual,
            }) => {
                json!({"field": field, "unit": unit, "limit": limit, "actual": actual})
            }
            Problem::Rejected(Rejection::ShadowsRule { rule }) => json!({"ruleId": rule.as_str()}),
            Problem::Rejected(rejection) => json!({"field": rejection.field()?}),
            Problem::UnknownScope => json!({"field": "scopes"}),
            Problem::ForeignTenant => json!({"field": "tenantId"}),
            Problem::VersionMismatch | Problem::VersionUnsupported => {
                json!({"protocolVersions": PROTOCOL_VERSIONS})
            }
            Problem::MalformedBody { pointer, .. } => json!({"pointer": pointer.as_ref()?}),
            Problem::BodyTooLarge { limit } | Problem::FileTooLarge { limit } => {
                json!({"limit": limit, "unit": "bytes"})
            }
            Problem::RunEnded { status } => json!({"status": status}),
            Problem::JobEnded { state }
            | Problem::ProposalState { state }
            | Problem::CommitmentState { state } => json!({"state": state}),
            Problem::ProposalMalformed(rejection) => {
                json!({"field": rejection.field()?, "rule": rejection.to_string()})
            }
            Problem::ProposalDenied { reason } => json!({"reason": reason}),
            Problem::WorkRefused { details, .. } => {
                return Some(details.clone()).filter(|details| !details.is_empty());
            }
            Problem::ReplayUnavailable {
                from_seq,
                source_run,
                reason,
            } => {
                json!({"fromSeq": from_seq, "sourceRunId": source_run, "reason": reason})
            }
            Problem::FileConflict { current_version } => json!({"currentVersion": current_version}),
            Problem::Forbidden(permission) => json!({"scopeRequired": permission.as_str()}),
            Problem::TrustTooHigh { claimed, most } => {
                json!({"source": claimed.as_str(), "trustMax": most.as_str()})
            }
            Problem::TooManyFeeds { limit } => json!({"limit": limit}),
            _ => return None,
        };
        details.as_object().cloned()
    }
}

/// Returns a readable hint from a JSON error: the position and kind of the error, never the wrong
/// value. serde's own texts quote unknown field names and wrong values, which a caller may have
/// filled with anything.
#[must_use]
pub fn json_hint(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let place = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        Category::Io => "cannot read it".to_owned(),
        Category::Eof => format!("unexpected end of JSON ({place})"),
        Category::Syntax => format!("not JSON ({place})"),
        Category::Data => sabotage!(
            "errors-echo",
            format!("{} ({place})", data_hint(&error.to_string())),
            error.to_string()
        ),
    }
}

/// Returns the same kind of hint for the error text of a query string.
#[must_use]
pub fn query_hint(text: &str) -> String {
    // The last occurrence of these words is serde's own: the text before it may be the caller's.
    match text.rsplit_once("expected one of ") {
        Some((_, known)) if text.contains("unknown variant") => {
            format!("unknown value; known values are {known}")
        }
        Some((_, known)) if text.contains("unknown field") => {
            format!("unknown parameter; known parameters are {known}")
        }
        _ if text.contains("an instant must be RFC 3339") => {
            "an instant must be RFC 3339 text".to_owned()
        }
        _ => "a parameter is unknown, repeated or of the wrong type".to_owned(),
    }
}

/// Returns the same kind of hint for the text of a serde error without a position.
#[must_use]
pub fn data_hint(text: &str) -> String {
    // Texts of serde that name only fields of this host are safe to pass on.
    for safe in [
        "missing field `",
        "duplicate field `",
        "an instant must be",
        "an object is needed",
        "a list or an object has too many",
        "recursion limit",
    ] {
        if text.starts_with(safe) {
            return text.split(" at line").next().unwrap_or(safe).to_owned();
        }
    }
    // The last occurrence of these words is serde's own: the text before it may be the caller's.
    if let Some((_, expected)) = sabotage!(
        "an-error-hint-echoes-what-was-sent",
        text.rsplit_once("expected one of "),
        text.split_once("expected one of ")
    )
    .or_else(|| text.rsplit_once("expected "))
    {
        let expected = expected.split(" at line").next().unwrap_or(expected);
        let what = match text {
            text if text.starts_with("unknown field") => "unknown field; known fields are",
            text if text.starts_with("unknown variant") => "unknown value; known values are",
            _ => "wrong type; expected",
        };
        if what == "wrong type; expected" {
            return format!("{what} {}", plain_type(expected));
        }
        return format!("{what} {expected}");
    }
    "a field is unknown or has the wrong type".to_owned()
}

/// The expectation of a deserializer in plain words: no names of types of the program.
#[must_use]
pub fn plain_type(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" | "bool" => "true or false",
        "a string" | "a borrowed string" | "string" | "str" | "path string" | "a character" => {
            "text"
        }
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        _ if expected.starts_with("struct ") || expected.starts_with("internally tagged") => {
            "an object"
        }
        _ if expected.starts_with("enum ") || expected.contains("variant") => "one of its names",
        _ if expected.starts_with("a tuple") || expected.starts_with("an array") => "a list",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PutEntry;

    #[test]
    fn json_hints_name_the_problem_without_echoing_input() {
        let hint = |text: &str| json_hint(&serde_json::from_str::<PutEntry>(text).unwrap_err());
        assert_eq!(hint("{}"), "missing field `content` (line 1, column 2)");
        assert_eq!(
            hint("{\"content\": "),
            "unexpected end of JSON (line 1, column 12)"
        );
        assert_eq!(hint("nonsense-canary"), "not JSON (line 1, column 2)");
        for echo in [
            r#"{"canary": 1}"#,
            r#"{"content": {"canary": 1}}"#,
            r#"{"content": "x", "tags": "canary"}"#,
            r#"{"content": "x", "expiresAt": "canary"}"#,
        ] {
            let hint = hint(echo);
            assert!(!hint.contains("canary"), "{echo}: {hint}");
        }
        assert!(
            hint(r#"{"canary": 1}"#)
                .contains("known fields are `content`, `tags`, `expiresAt`, `metadata`"),
            "{}",
            hint(r#"{"canary": 1}"#)
        );
        assert!(hint(r#"{"content": 7}"#).contains("wrong type; expected text"));
    }

    #[test]
    fn the_error_envelope_has_at_most_three_keys() {
        let failure = Failure::from(Problem::Rejected(Rejection::AlreadyExpired));
        assert_eq!(
            serde_json::to_value(&failure.body).unwrap(),
            json!({"error": "validation_error", "message": "expiresAt must be in the future", "details": {"field": "expiresAt"}})
        );
        assert_eq!(
            serde_json::to_value(Failure::from(Problem::NotFound("entry")).body)
                .unwrap()
                .as_object()
                .unwrap()
                .len(),
            2
        );
    }
}
