//! The tools of commitments: list, create, confirm, cancel, snooze and explain them, and report
//! observations. Untrusted words never leave these tools without their mark.

use super::params::{
    CommitmentIdParams, CommitmentsListParams, CreateCommitmentParams, ObserveParams, Parameters,
    SnoozeParams,
};
use super::{MemoryTools, tool_result};
use remem_wire::commitment::{
    CommitmentCreate, CommitmentList, CommitmentSnooze, CommitmentsQuery, Observation,
};
use remem_wire::reader;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};

#[tool_router(router = commitment_tools, vis = "pub(super)")]
impl MemoryTools {
    /// What did I promise? List reminders and promises, the one that happens next first: the text,
    /// whether it will fire (armed), waits to be confirmed (pending) or has ended, and when it is
    /// due (nextAt) or what it waits for (predicate). Give a memoryRef and state=armed for what is
    /// still to come.
    #[tool(annotations(
        title = "What was promised",
        read_only_hint = true,
        open_world_hint = false
    ))]
    async fn commitments_list(
        &self,
        Parameters(p): Parameters<CommitmentsListParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let query = CommitmentsQuery {
            memory_ref: p.memory_ref,
            state: p.state,
            cursor: p.cursor,
            limit: p.limit,
        };
        let call = async {
            let page = self.api(&context)?.commitments(query).await?;
            let marked = page.commitments.into_iter().map(reader::commitment);
            Ok(CommitmentList {
                commitments: marked.collect(),
                ..page
            })
        };
        tool_result(call.await)
    }

    /// Set a reminder: its text is stored in the memory and it fires at its time, across restarts.
    /// Say when with one of at, every, cron or predicate ("the invoice has cleared"); or with none
    /// of them, if the text says it ("remind me tomorrow at 9am to …").
    #[tool(annotations(
        title = "Set a reminder",
        read_only_hint = false,
        destructive_hint = false,
        open_world_hint = false
    ))]
    async fn commitment_create(
        &self,
        Parameters(p): Parameters<CreateCommitmentParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let new = CommitmentCreate {
            text: p.text,
            at: p.at,
            every: p.every,
            cron: p.cron,
            predicate: p.predicate,
            zone: p.zone,
            delivery: p.delivery.unwrap_or_default(),
            subjects: p.subjects.unwrap_or_default(),
        };
        let call = async {
            let created = self
                .api(&context)?
                .create_commitment(&p.memory_ref, new, p.idempotency_key.as_deref())
                .await?;
            Ok(reader::commitment(created.commitment))
        };
        tool_result(call.await)
    }

    /// Confirm a pending commitment after its owner has agreed to it: from then on it fires.
    #[tool(annotations(
        title = "Confirm a promise",
        read_only_hint = false,
        destructive_hint = false,
        open_world_hint = false
    ))]
    async fn commitment_confirm(
        &self,
        Parameters(p): Parameters<CommitmentIdParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        tool_result(
            async {
                self.api(&context)?
                    .confirm_commitment(&p.commitment_id)
                    .await
                    .map(reader::commitment)
            }
            .await,
        )
    }

    /// Cancel a commitment that is done or no longer wanted: it does not fire. Its text stays in
    /// the memory.
    #[tool(annotations(
        title = "Cancel a promise",
        read_only_hint = false,
        destructive_hint = true,
        open_world_hint = false
    ))]
    async fn commitment_cancel(
        &self,
        Parameters(p): Parameters<CommitmentIdParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        tool_result(
            async {
                self.api(&context)?
                    .cancel_commitment(&p.commitment_id)
                    .await
                    .map(reader::commitment)
            }
            .await,
        )
    }

    /// Postpone a commitment to another time. One that repeats continues by its rule afterwards.
    #[tool(annotations(
        title = "Snooze a promise",
        read_only_hint = false,
        destructive_hint = false,
        open_world_hint = false
    ))]
    async fn commitment_snooze(
        &self,
        Parameters(p): Parameters<SnoozeParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let snooze = CommitmentSnooze { until: p.until };
        tool_result(
            async {
                self.api(&context)?
                    .snooze_commitment(&p.commitment_id, snooze)
                    .await
                    .map(reader::commitment)
            }
            .await,
        )
    }

    /// Explain why a commitment exists: the sentence it was read from, the words that ask or
    /// promise, and those that say when.
    #[tool(annotations(
        title = "Explain a promise",
        read_only_hint = true,
        open_world_hint = false
    ))]
    async fn commitment_explain(
        &self,
        Parameters(p): Parameters<CommitmentIdParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        tool_result(
            async {
                self.api(&context)?
                    .explain_commitment(&p.commitment_id)
                    .await
                    .map(reader::why)
            }
            .await,
        )
    }

    /// Report that something is true, or no longer true: commitments of the memory that wait for it
    /// fire. Give it as a short statement, such as "the invoice has cleared"; reporting the same
    /// twice does nothing more.
    #[tool(annotations(
        title = "Tell what is so",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn observe(
        &self,
        Parameters(p): Parameters<ObserveParams>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let observation = Observation {
            key: p.key,
            value: p.value,
        };
        tool_result(
            async {
                self.api(&context)?
                    .observe(&p.memory_ref, observation)
                    .await
            }
            .await,
        )
    }
}
