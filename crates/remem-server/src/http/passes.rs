//! Passes: how they are doing, running one by hand, when they run by themselves.

use super::extract::{IdempotencyKey, JsonBody, Params, Ref};
use super::{Answer, json};
use crate::door::{EngineDoor, PassDoor};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::pass::{
    JobDoc, PassAnswer, PassList, PassRan, PassRun, ScheduleDoc, ScheduleList, SchedulePut,
    ScheduleQuery,
};

/// The passes and how they are doing for the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/passes", tag = "administration",
    responses((status = 200, body = PassList), (status = 403, body = ErrorBody)))]
pub(super) async fn list_passes(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.passes().await?)
}

/// Run a pass for the caller's tenant: one over the host once, while the caller waits; one over
/// memories as a job.
#[utoipa::path(post, path = "/v1/host/remembrancer/passes/{name}/run", tag = "administration",
    params(("name" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = PassRun,
    responses((status = 200, body = PassAnswer), (status = 202, body = JobDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn run_pass(
    door: EngineDoor,
    Ref(name): Ref,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<PassRun>,
) -> Answer {
    match door.run_pass(&name, body, key.0.as_deref()).await? {
        PassRan::Done(answer) => json(StatusCode::OK, &answer),
        PassRan::Started(job) => {
            let mut response = json(StatusCode::ACCEPTED, &job)?;
            if let Ok(place) =
                HeaderValue::from_str(&format!("/v1/host/remembrancer/jobs/{}", job.id))
            {
                response.headers_mut().insert(header::LOCATION, place);
            }
            Ok(response)
        }
    }
}

/// The schedules of the caller's tenant.
#[utoipa::path(get, path = "/v1/host/remembrancer/schedules", tag = "administration", responses((status = 200, body = ScheduleList)))]
pub(super) async fn list_schedules(door: EngineDoor) -> Answer {
    json(StatusCode::OK, &door.schedules().await?)
}

/// When a pass works over a memory, or over all of the tenant's, by itself.
#[utoipa::path(get, path = "/v1/host/remembrancer/passes/{name}/schedule", tag = "administration",
    params(("name" = String, Path), ScheduleQuery), responses((status = 200, body = ScheduleDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_schedule(
    door: EngineDoor,
    Ref(name): Ref,
    Params(query): Params<ScheduleQuery>,
) -> Answer {
    json(StatusCode::OK, &door.schedule(&name, query).await?)
}

/// Set when a pass works over a memory, or over all of the tenant's, by itself.
#[utoipa::path(put, path = "/v1/host/remembrancer/passes/{name}/schedule", tag = "administration",
    params(("name" = String, Path), ScheduleQuery), request_body = SchedulePut,
    responses((status = 200, body = ScheduleDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn put_schedule(
    door: EngineDoor,
    Ref(name): Ref,
    Params(query): Params<ScheduleQuery>,
    JsonBody(body): JsonBody<SchedulePut>,
) -> Answer {
    json(
        StatusCode::OK,
        &door.put_schedule(&name, query, body).await?,
    )
}

/// Take a schedule away. Jobs that came of it go on.
#[utoipa::path(delete, path = "/v1/host/remembrancer/passes/{name}/schedule", tag = "administration",
    params(("name" = String, Path), ScheduleQuery), responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_schedule(
    door: EngineDoor,
    Ref(name): Ref,
    Params(query): Params<ScheduleQuery>,
) -> Answer {
    door.remove_schedule(&name, query).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
