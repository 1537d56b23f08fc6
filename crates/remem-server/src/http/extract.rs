//! Extractors for the parts of a request: key, path, query and body. Every refusal uses the common
//! error envelope and echoes nothing that the client sent.

use super::{App, HandlerError, authenticate};
use crate::api::LocalApi;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::{HeaderMap, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use remem_core::{Policy, strict_json};
use remem_wire::error::query_hint;
use remem_wire::{Failure, IDEMPOTENCY_HEADER, Problem};
use serde::de::DeserializeOwned;
use std::time::Duration;

impl FromRequestParts<App> for LocalApi {
    type Rejection = HandlerError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<LocalApi, HandlerError> {
        Ok(authenticate(app, &parts.headers).await?)
    }
}

/// The one parameter of a path, such as a memoryRef or an id. Bytes that are not UTF-8 become a
/// name that is malformed and therefore unknown.
pub(crate) struct PathParam(pub String);

/// The two parameters of a path, such as a memoryRef and the id of an entry.
pub(crate) struct PathParamPair(pub String, pub String);

const MALFORMED: &str = "\u{1}";

/// A part of a path. PostgreSQL cannot hold a NUL, not even to look for it, and nothing has one in
/// its name.
fn part(text: String) -> String {
    if text.contains('\0') {
        return MALFORMED.to_owned();
    }
    text
}

impl FromRequestParts<App> for PathParam {
    type Rejection = HandlerError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<PathParam, HandlerError> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, app).await;
        Ok(PathParam(path.map_or_else(
            |_| MALFORMED.to_owned(),
            |Path(memory_ref)| part(memory_ref),
        )))
    }
}

impl FromRequestParts<App> for PathParamPair {
    type Rejection = HandlerError;
    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> Result<PathParamPair, HandlerError> {
        let path: Result<Path<(String, String)>, PathRejection> =
            Path::from_request_parts(parts, app).await;
        let Path((memory_ref, id)) =
            path.unwrap_or_else(|_| Path((MALFORMED.to_owned(), MALFORMED.to_owned())));
        Ok(PathParamPair(part(memory_ref), part(id)))
    }
}

/// The parameters of the query string.
pub(crate) struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryParams<T> {
    type Rejection = HandlerError;
    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> Result<QueryParams<T>, HandlerError> {
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            let hint = "a parameter holds a NUL character".to_owned();
            return Err(Problem::MalformedQuery { hint }.into());
        }
        match Query::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(QueryParams(value)),
            Err(rejection) => Err(Problem::MalformedQuery {
                hint: query_hint(&rejection.body_text()),
            }
            .into()),
        }
    }
}

/// The value of the request's `Idempotency-Key` header.
pub(crate) struct IdempotencyKey(pub Option<String>);

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = HandlerError;
    async fn from_request_parts(
        parts: &mut Parts,
        _: &App,
    ) -> Result<IdempotencyKey, HandlerError> {
        let rule = "must be visible ASCII";
        let unreadable = Problem::Rejected(remem_core::Rejection::Invalid {
            field: "Idempotency-Key",
            rule,
        });
        match parts
            .headers
            .get(IDEMPOTENCY_HEADER)
            .map(|value| value.to_str())
        {
            None => Ok(IdempotencyKey(None)),
            Some(Ok(key)) => Ok(IdempotencyKey(Some(key.to_owned()))),
            Some(Err(_)) => Err(unreadable.into()),
        }
    }
}

/// A JSON body within the size limit. It must be the last argument of a handler, because it
/// consumes the request.
pub(crate) struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = HandlerError;
    async fn from_request(request: Request, app: &App) -> Result<JsonBody<T>, HandlerError> {
        if !is_json(request.headers()) {
            return Err(Problem::UnsupportedMediaType.into());
        }
        let bytes = read_body(request, app.engine.policy()).await?;
        let value = strict_json::from_slice(&bytes).map_err(Problem::from)?;
        Ok(JsonBody(value))
    }
}

/// A JSON body that may be absent: an empty body is read as an empty object.
pub(crate) struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = HandlerError;
    async fn from_request(request: Request, app: &App) -> Result<OptionalBody<T>, HandlerError> {
        if !is_json(request.headers()) {
            return Err(Problem::UnsupportedMediaType.into());
        }
        let bytes = read_body(request, app.engine.policy()).await?;
        if bytes.is_empty() {
            return Ok(OptionalBody(T::default()));
        }
        let value = strict_json::from_slice(&bytes).map_err(Problem::from)?;
        Ok(OptionalBody(value))
    }
}

/// Returns whether a body may be read as JSON. An absent content type is taken for JSON, and so is
/// the one that `curl -d` sends by default: the host accepts no other format.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return true;
    };
    let essence = value
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    matches!(
        essence.as_str(),
        "application/json" | "application/x-www-form-urlencoded"
    ) || essence.ends_with("+json")
}

/// Reads a whole body within the limits of size and time. A client that trickles its body is cut
/// off.
pub(crate) async fn read_body(request: Request, policy: &Policy) -> Result<Vec<u8>, Failure> {
    let limit = policy.request_bytes_max;
    let too_large = || {
        Failure::from(Problem::BodyTooLarge {
            limit: limit as u64,
        })
    };
    let length = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let body = Limited::new(
        Body::from_stream(request.into_body().into_data_stream()),
        limit,
    )
    .collect();
    let deadline = Duration::from_millis(policy.body_ms_max);
    match tokio::time::timeout(deadline, body)
        .await
        .map_err(|_| Problem::BodyTooSlow)?
    {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::MalformedBody {
            hint: "it broke off".to_owned(),
            pointer: None,
        }
        .into()),
    }
}
