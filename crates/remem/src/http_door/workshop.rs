//! Workshop memory over HTTP.

use super::{Call, HttpDoor, parse, segment, urlencoded, written};
use async_trait::async_trait;
use remem_server::{WorkshopDoor, Written};
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
    format!("memory/{}/slots/{}", segment(memory_ref), segment(slot))
}

fn rules_path(world: &str) -> String {
    format!("worlds/{}/rules", segment(world))
}

fn rule_path(world: &str, id: &str) -> String {
    format!("{}/{}", rules_path(world), segment(id))
}

impl HttpDoor {
    /// Sends a write that is idempotent, and therefore retried.
    async fn write_idempotent<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        method: Method,
        path: String,
        body: &B,
    ) -> Result<Written<T>, Failure> {
        let call = Call {
            method,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable: true,
        };
        let response = self.call(call).await?;
        let (revision, replayed) = written(&response);
        Ok(Written {
            value: parse(response).await?,
            revision,
            replayed,
        })
    }

    /// Deletes a resource. Not retried: a second attempt would find nothing left and answer 404.
    async fn delete_resource(
        &self,
        path: String,
        query: Option<String>,
    ) -> Result<Written<()>, Failure> {
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        let (revision, replayed) = written(&self.call(call).await?);
        Ok(Written {
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
        let call = Call::<()> {
            method: Method::POST,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable,
        };
        parse(self.call(call).await?).await
    }
}

#[async_trait]
impl WorkshopDoor for HttpDoor {
    async fn history(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<SlotHistory, Failure> {
        self.read(slot_path(memory_ref, slot), &query).await
    }
    async fn retract(
        &self,
        memory_ref: &str,
        slot: &str,
        query: SlotQuery,
    ) -> Result<Written<()>, Failure> {
        self.delete_resource(slot_path(memory_ref, slot), Some(urlencoded(&query)))
            .await
    }
    async fn sessions(&self, memory_ref: &str) -> Result<SessionList, Failure> {
        self.read(format!("memory/{}/sessions", segment(memory_ref)), &())
            .await
    }
    async fn close_session(&self, memory_ref: &str) -> Result<SessionDoc, Failure> {
        self.post_empty(
            format!("memory/{}/sessions/close", segment(memory_ref)),
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
                segment(memory_ref),
                segment(interaction)
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
    ) -> Result<Written<Linked>, Failure> {
        self.write_idempotent(
            Method::POST,
            format!(
                "memory/{}/entries/{}/links",
                segment(memory_ref),
                segment(id)
            ),
            &link,
        )
        .await
    }
    async fn audit(&self, memory_ref: &str, id: &str) -> Result<EntryAudit, Failure> {
        self.read(
            format!(
                "memory/{}/entries/{}/audit",
                segment(memory_ref),
                segment(id)
            ),
            &(),
        )
        .await
    }
    async fn retention(&self, query: RetentionQuery) -> Result<RetentionStatus, Failure> {
        self.read("retention".to_owned(), &query).await
    }
    async fn put_rule(
        &self,
        world: &str,
        id: &str,
        rule: RulePut,
    ) -> Result<Written<RulesWritten>, Failure> {
        self.write_idempotent(Method::PUT, rule_path(world, id), &rule)
            .await
    }
    async fn put_rules(
        &self,
        world: &str,
        rules: RulesPut,
    ) -> Result<Written<RulesWritten>, Failure> {
        self.write_idempotent(Method::POST, rules_path(world), &rules)
            .await
    }
    async fn delete_rule(&self, world: &str, id: &str) -> Result<Written<()>, Failure> {
        self.delete_resource(rule_path(world, id), None).await
    }
    async fn rules(&self, world: &str, query: RulesQuery) -> Result<RuleList, Failure> {
        self.read(rules_path(world), &query).await
    }
    async fn check_rule(&self, world: &str, check: RuleCheck) -> Result<RuleChecked, Failure> {
        self.post(format!("worlds/{}/check", segment(world)), &check, true)
            .await
    }
    async fn profiles(&self) -> Result<ProfileList, Failure> {
        self.read("profiles".to_owned(), &()).await
    }
}
