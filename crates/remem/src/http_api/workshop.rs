//! Workshop memory over HTTP.

use super::{HttpApi, HttpCall, parse_body, path_segment, query_string, write_headers};
use async_trait::async_trait;
use remem_server::{WorkshopApi, WriteAnswer};
use remem_wire::Failure;
use remem_wire::workshop::{
    EntryAudit, InteractionClosed, LinkPut, Linked, ProfileList, RetentionQuery, RetentionStatus,
    RuleCheck, RuleChecked, RuleList, RulePut, RulesPut, RulesQuery, RulesWritten, SessionDoc,
    SessionList, SlotHistory, SlotQuery,
};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn slot_path(memory_ref: &str, slot: &str) -> String {
    format!(
        "memory/{}/slots/{}",
        path_segment(memory_ref),
        path_segment(slot)
    )
}

fn rules_path(world: &str) -> String {
    format!("worlds/{}/rules", path_segment(world))
}

fn rule_path(world: &str, id: &str) -> String {
    format!("{}/{}", rules_path(world), path_segment(id))
}

impl HttpApi {
    /// Sends a write that is idempotent, and therefore retried.
    async fn write_idempotent<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        method: Method,
        path: String,
        body: &B,
    ) -> Result<WriteAnswer<T>, Failure> {
        let call = HttpCall {
            method,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable: true,
        };
        let response = self.send_with_retries(call).await?;
        let (revision, replayed) = write_headers(&response);
        Ok(WriteAnswer {
            value: parse_body(response).await?,
            revision,
            replayed,
        })
    }

    /// Deletes a resource. Not retried: a second attempt would find nothing left and answer 404.
    async fn delete_resource(
        &self,
        path: String,
        query: Option<String>,
    ) -> Result<WriteAnswer<()>, Failure> {
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        let (revision, replayed) = write_headers(&self.send_with_retries(call).await?);
        Ok(WriteAnswer {
            value: (),
            revision,
            replayed,
        })
    }

    /// Posts the end of a session or interaction, without a body.
    async fn post_empty<T: DeserializeOwned>(
        &self,
        path: String,
        repeatable: bool,
    ) -> Result<T, Failure> {
        let call = HttpCall::<()> {
            method: Method::POST,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
}

#[async_trait]
impl WorkshopApi for HttpApi {
    async fn history(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<SlotHistory, Failure> {
        self.get_json(slot_path(memory_ref, slot), &query).await
    }
    async fn retract(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<WriteAnswer<()>, Failure> {
        self.delete_resource(slot_path(memory_ref, slot), Some(query_string(&query)))
            .await
    }
    async fn sessions(&self, memory_ref: &str) -> Result<SessionList, Failure> {
        self.get_json(format!("memory/{}/sessions", path_segment(memory_ref)), &())
            .await
    }
    async fn close_session(&self, memory_ref: &str) -> Result<SessionDoc, Failure> {
        self.post_empty(
            format!("memory/{}/sessions/close", path_segment(memory_ref)),
            false,
        )
        .await
    }
    async fn close_interaction(
        &self,
        memory_ref: &str,
        interaction: &str,
    ) -> Result<InteractionClosed, Failure> {
        self.post_empty(
            format!(
                "memory/{}/interactions/{}/close",
                path_segment(memory_ref),
                path_segment(interaction)
            ),
            false,
        )
        .await
    }
    async fn link_action(
        &self,
        memory_ref: &str,
        id: &str,
        link: LinkPut,
    ) -> Result<WriteAnswer<Linked>, Failure> {
        self.write_idempotent(
            Method::POST,
            format!(
                "memory/{}/entries/{}/links",
                path_segment(memory_ref),
                path_segment(id)
            ),
            &link,
        )
        .await
    }
    async fn audit(&self, memory_ref: &str, id: &str) -> Result<EntryAudit, Failure> {
        self.get_json(
            format!(
                "memory/{}/entries/{}/audit",
                path_segment(memory_ref),
                path_segment(id)
            ),
            &(),
        )
        .await
    }
    async fn retention(&self, query: RetentionQuery) -> Result<RetentionStatus, Failure> {
        self.get_json("retention".to_owned(), &query).await
    }
    async fn put_rule(
        &self,
        world: &str,
        id: &str,
        rule: RulePut,
    ) -> Result<WriteAnswer<RulesWritten>, Failure> {
        self.write_idempotent(Method::PUT, rule_path(world, id), &rule)
            .await
    }
    async fn put_rules(
        &self,
        world: &str,
        rules: RulesPut,
    ) -> Result<WriteAnswer<RulesWritten>, Failure> {
        self.write_idempotent(Method::POST, rules_path(world), &rules)
            .await
    }
    async fn delete_rule(&self, world: &str, id: &str) -> Result<WriteAnswer<()>, Failure> {
        self.delete_resource(rule_path(world, id), None).await
    }
    async fn rules(&self, world: &str, query: RulesQuery) -> Result<RuleList, Failure> {
        self.get_json(rules_path(world), &query).await
    }
    async fn check_rule(&self, world: &str, check: RuleCheck) -> Result<RuleChecked, Failure> {
        self.post_json(
            format!("worlds/{}/check", path_segment(world)),
            &check,
            true,
        )
        .await
    }
    async fn profiles(&self) -> Result<ProfileList, Failure> {
        self.get_json("profiles".to_owned(), &()).await
    }
}
