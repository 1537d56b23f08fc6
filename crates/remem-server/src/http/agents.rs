//! Endpoints of agents: the inventory as OpenWOP defines it, install and remove.

use super::extract::{JsonBody, PathParam};
use super::{HandlerResult, json_response};
use crate::api::{LocalApi, MemoryApi};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::agent::{AgentInstall, AgentInventory, AgentInventoryEntry};

/// Lists the agents that are installed for the tenant and for the whole host, by name.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", responses((status = 200, body = AgentInventory)))]
pub(super) async fn list_agents(api: LocalApi) -> HandlerResult {
    json_response(StatusCode::OK, &api.agents().await?)
}

/// Returns one installed agent.
#[utoipa::path(get, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)),
    responses((status = 200, body = AgentInventoryEntry), (status = 404, body = ErrorBody)))]
pub(super) async fn get_agent(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    json_response(StatusCode::OK, &api.agent(&id).await?)
}

/// Installs an agent for the tenant, or replaces the tenant's agent of the same name.
#[utoipa::path(post, path = "/v1/host/remembrancer/agents", tag = "agents", request_body = AgentInstall,
    responses((status = 201, body = AgentInventoryEntry), (status = 200, body = AgentInventoryEntry, description = "It replaced one"),
        (status = 422, body = ErrorBody)))]
pub(super) async fn install_agent(
    api: LocalApi,
    JsonBody(body): JsonBody<AgentInstall>,
) -> HandlerResult {
    let installed = api.install_agent(body).await?;
    json_response(
        if installed.replaced {
            StatusCode::OK
        } else {
            StatusCode::CREATED
        },
        &installed.entry,
    )
}

/// Removes an agent that the tenant installed.
#[utoipa::path(delete, path = "/v1/host/remembrancer/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(super) async fn remove_agent(api: LocalApi, PathParam(id): PathParam) -> HandlerResult {
    api.remove_agent(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
