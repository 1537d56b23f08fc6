//! Endpoints of jobs, the runs of passes over memories: list, get and cancel.

use super::extract::{Params, Ref};
use super::{Answer, json};
use crate::door::{EngineDoor, PassDoor};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::pass::{JobDoc, JobList, JobsQuery};

/// Lists the jobs of the caller's tenant, newest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/jobs", tag = "administration", params(JobsQuery),
    responses((status = 200, body = JobList)))]
pub(super) async fn list_jobs(api: EngineDoor, Params(query): Params<JobsQuery>) -> Answer {
    json(StatusCode::OK, &api.jobs(query).await?)
}

/// Returns one job and its progress.
#[utoipa::path(get, path = "/v1/host/remembrancer/jobs/{jobId}", tag = "administration", params(("jobId" = String, Path)),
    responses((status = 200, body = JobDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_job(api: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &api.job(&id).await?)
}

/// Cancels a job: at once if it is queued, with its next page if it is running.
#[utoipa::path(post, path = "/v1/host/remembrancer/jobs/{jobId}/cancel", tag = "administration", params(("jobId" = String, Path)),
    responses((status = 200, body = JobDoc), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn cancel_job(api: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &api.cancel_job(&id).await?)
}
