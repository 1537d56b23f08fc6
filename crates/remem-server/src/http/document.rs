//! What the OpenAPI document says of every operation alike, so that no handler has to: how a
//! request can be refused.

use remem_core::sabotage;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};

/// The document as clients need it.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(template, item)| {
            (
                plain(&template),
                sabotage!(
                    "refusals-are-not-in-the-document",
                    with_refusals(item),
                    item
                ),
            )
        })
        .collect();
    document
}

/// A parameter that may hold slashes has a star in the router's language and none in OpenAPI's.
fn plain(template: &str) -> String {
    template.replace("{*", "{")
}

fn with_refusals(mut item: PathItem) -> PathItem {
    for operation in [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ]
    .into_iter()
    .flatten()
    {
        refusals(operation);
    }
    item
}

fn refusals(operation: &mut Operation) {
    // An operation of its own security is one that needs no key.
    if operation.security.is_some() {
        return;
    }
    let mut statuses = vec![
        ("401", "No key, or one that is not valid"),
        ("403", "The key lacks a scope"),
        ("5XX", "Not now, or a fault of the host"),
    ];
    let is_in = |place: ParameterIn| move |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(p) if p.parameter_in == place);
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let has_body = operation.request_body.is_some();
    if has_body || parameters.iter().any(is_in(ParameterIn::Query)) {
        statuses.extend([
            ("400", "The request cannot be read"),
            ("422", "The request breaks a rule, which the message names"),
        ]);
    }
    if parameters.iter().any(is_in(ParameterIn::Path)) {
        statuses.push(("404", "There is no such thing here"));
    }
    if parameters
        .iter()
        .any(|parameter| matches!(parameter, RefOr::T(p) if p.name == "Idempotency-Key"))
    {
        statuses.extend([
            ("409", "The Idempotency-Key was used for another request"),
            ("422", "The Idempotency-Key breaks a rule"),
        ]);
    }
    if has_body {
        statuses.extend([
            ("408", "The body came too slowly"),
            ("413", "The body is too large"),
            ("415", "The body is not JSON"),
        ]);
    }
    for (status, description) in statuses {
        operation
            .responses
            .responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::T(refusal(description)));
    }
}

fn refusal(description: &str) -> Response {
    let mut response = Response::new(description);
    let envelope = Content::new(Some(RefOr::Ref(Ref::from_schema_name("ErrorBody"))));
    response
        .content
        .insert("application/json".to_owned(), envelope.into());
    response
}
