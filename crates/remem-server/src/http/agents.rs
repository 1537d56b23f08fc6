//! Endpoints of agents: the inventory as OpenWOP defines it, install and remove.

use super::extract::{JsonBody, Ref};
use super::{Answer, json};
use crate::door::{Door, EngineDoor};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use remem_wire::ErrorBody;
use remem_wire::agent::{AgentInstall, AgentInventory, AgentInventoryEntry};

/// Lists the agents that are installed for the tenant and for the whole host, by name.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", responses((status = 200, body = AgentInventory)))]
pub(super) async fn list_agents(api: EngineDoor) -> Answer {
    json(StatusCode::OK, &api.agents().await?)
}

/// Returns one installed agent.
#[utoipa::path(get, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)),
    responses((status = 200, body = AgentInventoryEntry), (status = 404, body = ErrorBody)))]
pub(super) async fn get_agent(api: EngineDoor, Ref(id): Ref) -> Answer {
    json(StatusCode::OK, &api.agent(&id).await?)
}

/// Installs an agent for the tenant, or replaces the tenant's agent of the same name.
#[utoipa::path(post, path = "/v1/host/remembrancer/agents", tag = "agents", request_body = AgentInstall,
    responses((status = 201, body = AgentInventoryEntry), (status = 200, body = AgentInventoryEntry, description = "It replaced one"),
        (status = 422, body = ErrorBody)))]
pub(super) async fn install_agent(
    api: EngineDoor,
    JsonBody(body): JsonBody<AgentInstall>,
) -> Answer {
    let installed = api.install_agent(body).await?;
    json(
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
pub(super) async fn remove_agent(api: EngineDoor, Ref(id): Ref) -> Answer {
    api.remove_agent(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
