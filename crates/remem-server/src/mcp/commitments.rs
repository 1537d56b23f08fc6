//! The tools about commitments: what was promised, and what is to be done about it. No words that
//! nobody vouches for leave here without their mark.

use super::params::{
    CommitmentIdParams, CommitmentsListParams, CreateCommitmentParams, ObserveParams, Parameters,
    SnoozeParams,
};
use super::{MemoryTools, answer};
use remem_wire::commitment::{
    CommitmentCreate, CommitmentList, CommitmentSnooze, CommitmentsQuery, Observation,
};
use remem_wire::reader;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};

#[tool_router(router = commitment_tools, vis = "pub(super)")]
impl MemoryTools {
    /// What did I promise? Lists reminders and promises, in the order of what happens next: what
    /// was meant (text), whether it will fire (armed), waits to be confirmed (pending) or has
    /// ended, and when it is due (nextAt) or what it waits for (predicate). Give a memoryRef and
    /// state=armed for what is still to come.
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
            let page = self.door(&context)?.commitments(query).await?;
            let marked = page.commitments.into_iter().map(reader::commitment);
            Ok(CommitmentList {
                commitments: marked.collect(),
                ..page
            })
        };
        answer(call.await)
    }

    /// Set a reminder: keeps the text in the memory and fires at its time, across restarts. Say
    /// when with one of at, every, cron or predicate ("the invoice has cleared"); or with none of
    /// them, if the text tells ("remind me tomorrow at 9am to …").
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
            let made = self
                .door(&context)?
                .create_commitment(&p.memory_ref, new, p.idempotency_key.as_deref())
                .await?;
            Ok(reader::commitment(made.commitment))
        };
        answer(call.await)
    }

    /// Confirm a pending commitment, after its owner said that it is meant: from then on it fires.
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
        answer(
            async {
                self.door(&context)?
                    .confirm_commitment(&p.commitment_id)
                    .await
                    .map(reader::commitment)
            }
            .await,
        )
    }

    /// Cancel a commitment that is done or not wanted any more: it does not fire. Its text stays in
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
        answer(
            async {
                self.door(&context)?
                    .cancel_commitment(&p.commitment_id)
                    .await
                    .map(reader::commitment)
            }
            .await,
        )
    }

    /// Put a commitment off to another time. One that repeats goes on by its rule afterwards.
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
        answer(
            async {
                self.door(&context)?
                    .snooze_commitment(&p.commitment_id, snooze)
                    .await
                    .map(reader::commitment)
            }
            .await,
        )
    }

    /// Why is there this commitment? Shows the sentence it was read from, the words that ask or
    /// promise, and those that tell when.
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
        answer(
            async {
                self.door(&context)?
                    .explain_commitment(&p.commitment_id)
                    .await
                    .map(reader::why)
            }
            .await,
        )
    }

    /// Tell that something is so, or not any more: commitments of the memory that wait for it fire.
    /// Say it as a short statement, such as "the invoice has cleared"; telling the same twice does
    /// nothing more.
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
        answer(
            async {
                self.door(&context)?
                    .observe(&p.memory_ref, observation)
                    .await
            }
            .await,
        )
    }
}
