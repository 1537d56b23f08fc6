//! Endpoints of jobs, the runs of passes over memories: list, get and cancel.

use super::extract::{PathParam, QueryParams};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, PassApi};
use axum::http::StatusCode;
use remem_wire::ErrorBody;
use remem_wire::pass::{JobDoc, JobList, JobsQuery};

/// Lists the jobs of the caller's tenant, newest first.
#[utoipa::path(get, path = "/v1/host/remembrancer/jobs", tag = "administration", params(JobsQuery),
    responses((status = 200, body = JobList)))]
pub(super) async fn list_jobs(
    api: LocalApi,
    QueryParams(query): QueryParams<JobsQuery>,
) -> HandlerResult {
    json_response(StatusCode::OK, &api.jobs(query).await?)
}

/// Returns one job and its progress.
#[utoipa::path(get, path = "/v1/host/remembrancer/jobs/{jobId}", tag = "administration", params(("jobId" = String, Path)),
    responses((status = 200, body = JobDoc), (status = 404, body = ErrorBody)))]
pub(super) async fn get_job(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.job(&id).await?)
}

/// Cancels a job: at once if it is queued, with its next page if it is running.
#[utoipa::path(post, path = "/v1/host/remembrancer/jobs/{jobId}/cancel", tag = "administration", params(("jobId" = String, Path)),
    responses((status = 200, body = JobDoc), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(super) async fn cancel_job(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.cancel_job(&id).await?)
}
