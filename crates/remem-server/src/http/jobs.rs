//! Jobs: what passes do over memories, look and cancel.

use super::extract::{Params, Ref};
use super::{Answer, json};
use crate::door::{EngineDoor, PassDoor};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::pass::{JobDoc, JobList, JobsQuery};

/// The jobs of the caller's tenant, newest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/jobs", tag = "administration", params(JobsQuery),
    responses((status = 200, body = JobList)))]
pub(super) async fn list_jobs(door: EngineDoor, Params(query): Params<JobsQuery>) -> Answer {
    json(StatusCode::OK, &door.jobs(query).await?)
}

/// One job and how far it has come.
#[utoipa::path(get, path = "/v1/host/remembrancer/jobs/{jobId}", tag = "administration", params(("jobId" = String, Path)),
    responses((status = 200, body = JobDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_job(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.job(&id).await?)
}

/// Stop a job: at once if it waits, with its next page if it is under way.
#[utoipa::path(post, path = "/v1/host/remembrancer/jobs/{jobId}/cancel", tag = "administration", params(("jobId" = String, Path)),
    responses((status = 200, body = JobDoc), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn cancel_job(door: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &door.cancel_job(&id).await?)
}
