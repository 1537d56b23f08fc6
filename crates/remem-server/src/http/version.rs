//! The version of the protocol that a client asks for with `OpenWOP-Version`. Only its major number
//! counts. This host speaks one major: on the protocol's paths another one is refused before
//! anything is looked up, and this host's own paths have no version.

use super::error_response;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use remem_wire::Problem;
use remem_wire::discovery::PROTOCOL_VERSION;

const VERSION: HeaderName = HeaderName::from_static("openwop-version");
/// Paths that are not the protocol's, each with everything below it.
const OWN: [&str; 5] = [
    "/v1/host/remembrancer",
    "/mcp",
    "/health",
    "/ready",
    "/metrics",
];

/// Refuses a request for another major, and names the version in every answer of the protocol.
pub(super) async fn negotiate(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if is_own(path) {
        return next.run(request).await;
    }
    let mut response = if is_served(request.headers()) {
        next.run(request).await
    } else if path.starts_with("/v1/") {
        error_response(Problem::VersionMismatch.into())
    } else {
        error_response(Problem::VersionUnsupported.into())
    };
    let served = HeaderValue::from_static(PROTOCOL_VERSION);
    response.headers_mut().insert(VERSION, served);
    response
}

fn is_own(path: &str) -> bool {
    OWN.iter().any(|own| {
        path.strip_prefix(own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Whether every version that the client names is of the major that is served; what cannot be read
/// is not.
fn is_served(headers: &HeaderMap) -> bool {
    let ours = major(PROTOCOL_VERSION);
    let asked = headers.get_all(VERSION).iter();
    asked
        .map(|value| value.to_str().ok().and_then(major))
        .all(|asked| asked == ours)
}

/// The major number of `1` or `1.0`.
fn major(version: &str) -> Option<u32> {
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_number(major) && is_number(minor) {
        major.parse().ok()
    } else {
        None
    }
}
