//! Endpoints of passes: their state, running one by hand, and their schedules.

use super::extract::{IdempotencyKey, JsonBody, PathParam, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, PassApi};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::pass::{
    JobDoc, PassAnswer, PassList, PassRan, PassRun, ScheduleDoc, ScheduleList, SchedulePut,
    ScheduleQuery,
};

/// Lists the passes, with the last run, the jobs and the next due time for the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/passes", tag = "administration",
    responses((status = 200, body = PassList), (status = 403, body = ErrorBody)))]
pub(super) async fn list_passes(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.passes().await?)
}

/// Runs a pass for the caller's tenant. A pass over the host runs once, while the caller waits; a
/// pass over memories is started as a job.
#[utoipa::path(post, path = "/v1/host/remembrancer/passes/{name}/run", tag = "administration",
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = PassRun,
    responses((status = 200, body = PassAnswer), (status = 202, body = JobDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn run_pass(
    api: LocalApi,
    PathParam(name): PathParam,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<PassRun>,
) -> HandlerResult {
    match api.run_pass(&name, body, key.0.as_deref()).await? {
        PassRan::Done(answer) => json_response(StatusCode::OK, &answer),
        PassRan::Started(job) => accepted(&job),
    }
}

/// The answer that a job goes on with what was asked for, and where it is found.
pub(super) fn accepted(job: &JobDoc) -> HandlerResult {
    let mut response = json_response(StatusCode::ACCEPTED, job)?;
    let location = HeaderValue::from_str(&format!("/v1/host/remembrancer/jobs/{}", job.id));
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Lists the schedules of the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/schedules", tag = "administration", responses((status = 200, body = ScheduleList)))]
pub(super) async fn list_schedules(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.schedules().await?)
}

/// Returns the schedule of a pass over one memory, or over all memories of the tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/passes/{name}/schedule", tag = "administration",
    params(("name" = String, Path), ScheduleQuery), responses((status = 200, body = ScheduleDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_schedule(
    api: LocalApi,
    PathParam(name): PathParam,
    QueryParams(query): QueryParams<ScheduleQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.schedule(&name, query).await?)
}

/// Creates or replaces the schedule of a pass over one memory, or over all memories of the tenant.
#[utoipa::path(put, path = "/v1/host/remembrancer/passes/{name}/schedule", tag = "administration",
    params(("name" = String, Path), ScheduleQuery), request_body = SchedulePut,
    responses((status = 200, body = ScheduleDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn put_schedule(
    api: LocalApi,
    PathParam(name): PathParam,
    QueryParams(query): QueryParams<ScheduleQuery>,
    JsonBody(body): JsonBody<SchedulePut>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.put_schedule(&name, query, body).await?)
}

/// Removes a schedule. Jobs that it started continue.
#[utoipa::path(delete, path = "/v1/host/remembrancer/passes/{name}/schedule", tag = "administration",
    params(("name" = String, Path), ScheduleQuery), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_schedule(
    api: LocalApi,
    PathParam(name): PathParam,
    QueryParams(query): QueryParams<ScheduleQuery>,
) -> HandlerResult {
    api.remove_schedule(&name, query).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
