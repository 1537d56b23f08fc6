//! Rewrites what rmcp refuses: the status, the code, the id and the data that MCP defines stay, and
//! the texts are this host's own, because rmcp's quote headers and bodies.

use axum::body::{Bytes, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, ProtocolVersion, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// The parts of a request that its refusal depends on.
pub(super) struct Asked {
    /// The protocol version in the headers.
    version: Option<String>,
    /// Whether the body is declared to be JSON.
    is_json: bool,
    body: Bytes,
}

/// What of a message makes it a request: the answer has its id.
#[derive(Deserialize)]
struct Identified {
    id: RequestId,
    #[serde(rename = "method")]
    _method: IgnoredAny,
}

impl Asked {
    pub(super) fn new(headers: &HeaderMap, body: Bytes) -> Asked {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Asked {
            version: text("mcp-protocol-version").map(str::to_owned),
            is_json: text("content-type").is_some_and(|kind| kind.starts_with("application/json")),
            body,
        }
    }

    fn id(&self) -> Option<RequestId> {
        let message = serde_json::from_slice::<Identified>(&self.body);
        message.ok().map(|message| message.id)
    }

    /// The version in the headers, if this host does not know it.
    fn unknown_version(&self) -> Option<&str> {
        let known = |asked: &str| {
            let mut all = ProtocolVersion::KNOWN_VERSIONS.iter();
            all.any(|version| version.as_str() == asked)
        };
        self.version.as_deref().filter(|asked| !known(asked))
    }
}

/// The refusal as a JSON-RPC error that holds nothing of the request but its id and, where it looks
/// like one, its version.
pub(super) async fn reword(refusal: Response, asked: &Asked) -> Response {
    let (parts, body) = refusal.into_parts();
    // rmcp has it in memory as a whole.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let (status, error) = match serde_json::from_slice::<JsonRpcError>(&body) {
        Ok(JsonRpcError { id, error, .. }) => (parts.status, JsonRpcError::new(id, own(error))),
        Err(_) => from_plain_text(parts.status, asked),
    };
    let mut response = (status, axum::Json(error)).into_response();
    let headers = response.headers_mut();
    if let Some(methods) = parts.headers.get(header::ALLOW) {
        headers.insert(header::ALLOW, methods.clone());
    }
    crate::http::no_store(headers);
    response
}

/// The error with this host's text. Data stays only where MCP defines it.
fn own(error: ErrorData) -> ErrorData {
    match error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            let requested = error
                .data
                .as_ref()
                .and_then(|data| data["requested"].as_str());
            unsupported_version(requested.unwrap_or_default())
        }
        // What is missing is the server's to say, so nothing in it is the caller's.
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => {
            ErrorData::new(error.code, message(error.code), error.data)
        }
        code => ErrorData::new(code, message(code), None),
    }
}

fn message(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::PARSE_ERROR => "the body is not JSON",
        ErrorCode::INVALID_REQUEST => "not a message of the Model Context Protocol",
        ErrorCode::METHOD_NOT_FOUND => "method not found",
        ErrorCode::INVALID_PARAMS => {
            "params._meta lacks io.modelcontextprotocol/protocolVersion or io.modelcontextprotocol/clientCapabilities, or has \
             one that is malformed"
        }
        ErrorCode::HEADER_MISMATCH => {
            "MCP-Protocol-Version, Mcp-Method, Mcp-Name or Mcp-Param-… is missing or does not match the body"
        }
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => {
            "this needs a capability that the client did not declare"
        }
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => "unsupported protocol version",
        _ => "internal error",
    }
}

fn is_number(text: &str, digits_max: usize) -> bool {
    let is_short = (1..=digits_max).contains(&text.len());
    is_short && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// MCP requires the requested version in the answer. Only text that looks like a version is
/// repeated, not any text of the caller.
fn unsupported_version(requested: &str) -> ErrorData {
    let bare = requested.strip_prefix('v').unwrap_or(requested);
    let mut parts = bare.split(['-', '.']);
    // A year, a month and a day, or three short numbers: too little room for a secret.
    let is_version = [4, 2, 2].map(|most| parts.next().is_some_and(|part| is_number(part, most)))
        == [true; 3]
        && parts.next().is_none();
    let shown = if is_version { requested } else { "unknown" };
    let code = ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;
    let data = json!({"requested": shown, "supported": ProtocolVersion::KNOWN_VERSIONS});
    ErrorData::new(code, message(code), Some(data))
}

/// What rmcp refuses before it reads the message it refuses in plain text.
fn from_plain_text(status: StatusCode, asked: &Asked) -> (StatusCode, JsonRpcError) {
    if status == StatusCode::BAD_REQUEST
        && let Some(version) = asked.unknown_version()
    {
        return (
            status,
            JsonRpcError::new(asked.id(), unsupported_version(version)),
        );
    }
    let refused = |status, code, error: &str, text: &'static str| {
        let data: Value = json!({"error": error});
        let error = ErrorData::new(code, text, Some(data));
        (status, JsonRpcError::new(asked.id(), error))
    };
    let invalid = ErrorCode::INVALID_REQUEST;
    match status {
        // rmcp takes what it cannot read for another media type.
        StatusCode::UNSUPPORTED_MEDIA_TYPE if asked.is_json => {
            let is_json = serde_json::from_slice::<IgnoredAny>(&asked.body).is_ok();
            let code = if is_json {
                invalid
            } else {
                ErrorCode::PARSE_ERROR
            };
            refused(
                StatusCode::BAD_REQUEST,
                code,
                "validation_error",
                message(code),
            )
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let text = "Content-Type must be application/json";
            refused(status, invalid, "unsupported_media_type", text)
        }
        StatusCode::NOT_ACCEPTABLE => {
            let text = "Accept must name application/json and text/event-stream";
            refused(status, invalid, "not_acceptable", text)
        }
        StatusCode::METHOD_NOT_ALLOWED => refused(
            status,
            invalid,
            "method_not_allowed",
            "only POST is allowed here",
        ),
        StatusCode::FORBIDDEN => {
            let text = "Host or Origin names another machine; server.hosts lists the names that are accepted";
            refused(status, invalid, "forbidden", text)
        }
        status if status.is_server_error() => {
            let code = ErrorCode::INTERNAL_ERROR;
            refused(status, code, "internal_error", message(code))
        }
        status => refused(status, invalid, "validation_error", message(invalid)),
    }
}
