//! The tools of workshop memory: the history of a slot, closing a thread or session, and recording
//! which entry an action rests on.

use super::params::{CloseParams, HistoryParams, LinkParams, Parameters};
use super::{MemoryTools, tool_result};
use remem_wire::reader::{self, shown};
use remem_wire::workshop::{LinkPut, SlotAnswer, SlotHistory, SlotQuery};
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use serde_json::json;

#[tool_router(router = workshop_tools, vis = "pub(super)")]
impl MemoryTools {
    /// List every answer to the question of a slot, oldest first: when each was true, and what
    /// replaced it.
    #[tool(annotations(
        title = "Earlier answers",
        read_only_hint = true,
        open_world_hint = false
    ))]
    async fn memory_history(
        &self,
        Parameters(p): Parameters<HistoryParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let call = async {
            let history = self
                .api(&context)?
                .history(&p.memory_ref, &p.slot, SlotQuery { session: p.session })
                .await?;
            let answers = history.answers.into_iter().map(|answer| SlotAnswer {
                entry: shown(answer.entry),
                facets: reader::facets(answer.facets),
                ..answer
            });
            Ok(SlotHistory {
                answers: answers.collect(),
            })
        };
        tool_result(call.await)
    }

    /// Close a chat thread (give its interaction) or the open session of a memory: what outlasts it
    /// is kept, the rest ends.
    #[tool(annotations(
        title = "End a session",
        read_only_hint = false,
        destructive_hint = true,
        open_world_hint = false
    ))]
    async fn session_close(
        &self,
        Parameters(p): Parameters<CloseParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let call = async {
            let api = self.api(&context)?;
            Ok(match p.interaction {
                Some(interaction) => {
                    json!(api.close_interaction(&p.memory_ref, &interaction).await?)
                }
                None => json!(api.close_session(&p.memory_ref).await?),
            })
        };
        tool_result(call.await)
    }

    /// Record that an action rests on an entry: the entry and what it was made from are held, so
    /// that the reasons of the action can be asked for later.
    #[tool(annotations(
        title = "Note what an action rests on",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn memory_link_action(
        &self,
        Parameters(p): Parameters<LinkParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let link = LinkPut {
            action: p.action,
            reference: p.reference,
        };
        let call = async {
            Ok(self
                .api(&context)?
                .link_action(&p.memory_ref, &p.id, link)
                .await?
                .value)
        };
        tool_result(call.await)
    }
}
