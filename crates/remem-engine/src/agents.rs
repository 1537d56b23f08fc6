//! Agents: the manifests that are installed for a tenant or for the whole host, and the
//! capabilities that each agent does not get here. Lists contain no prompts. Running an agent is
//! done in `runs`.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::RedactionRules;
use crate::stored::file::StoredFile;
use crate::workspace::is_path;
use remem_core::admission::check_name;
use remem_core::agent::{Agent, InstallRequest, Prompt, is_agent_id};
use remem_core::proposal::{PromptTemplate, is_name};
use remem_core::sabotage;
use remem_core::{
    Batch, Permission, Policy, Precondition, RecordKind, Rejection, StoredRecord, TenantId,
};
use remem_store::ChangeOutcome;
use serde_json::Map;
use std::collections::BTreeMap;

/// Prefix of a reference to a prompt template.
const PROMPT_PREFIX: &str = "prompt:";

/// An agent as callers see it, with what it does not get here.
#[derive(Clone, Debug)]
pub struct AgentInfo {
    /// The agent's manifest, without its prompt.
    pub agent: Agent,
    /// Packs and capabilities that it requests and does not get.
    pub degraded: Vec<String>,
    /// Properties of its memory that it requests and does not get, in the protocol's words.
    pub degraded_memory: Vec<&'static str>,
}

/// The result of installing an agent.
#[derive(Clone, Debug)]
pub struct AgentInstallation {
    /// The agent as it is now.
    pub info: AgentInfo,
    /// Whether it replaced an agent with the same id.
    pub replaced: bool,
}

impl Engine {
    /// Lists the agents of the caller's tenant and of the host, by id.
    pub async fn list_agents(&self, caller: &Caller) -> Result<Vec<AgentInfo>, EngineError> {
        caller.require(Permission::ManifestRead)?;
        let agents = self
            .installed_agents(caller.tenant(), &self.policy_of(caller))
            .await?;
        Ok(agents
            .iter()
            .map(|agent| self.agent_info(agent.clone(), &agents))
            .collect())
    }

    /// Returns one agent, if it exists.
    pub async fn get_agent(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Option<AgentInfo>, EngineError> {
        caller.require(Permission::ManifestRead)?;
        let Some(agent) = self.find_agent(caller.tenant(), id).await? else {
            return Ok(None);
        };
        let installed = self
            .installed_agents(caller.tenant(), &self.policy_of(caller))
            .await?;
        Ok(Some(self.agent_info(agent.without_prompt(), &installed)))
    }

    /// Installs an agent for the caller's tenant, replacing its own agent with the same id.
    pub async fn install_agent(
        &self,
        caller: &Caller,
        install: InstallRequest,
    ) -> Result<AgentInstallation, EngineError> {
        sabotage!(
            "anybody-installs-agents",
            caller.require(Permission::ManifestWrite)?
        );
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let agent = Agent::new(install, &policy)?;
        let rules = self.redaction_rules(tenant).await?;
        check_name(rules.redactor(), "agentId", agent.id())?;
        if self.system_prompt(tenant, &agent).await?.is_none() {
            let rule = "must be the path of one of the tenant's workspace files, or prompt: and the name of an installed template";
            return Err(Rejection::Invalid {
                field: "systemPromptRef",
                rule,
            }
            .into());
        }
        self.check_agent_room(tenant, agent.id()).await?;
        let now = self.now_for(tenant).await?;
        let admission = rules.admission(&policy, now);
        let body = self
            .redact_body(tenant, &admission, agent.body().clone())
            .await?;
        let agent = Agent::from_stored(agent.id().to_owned(), body.map().clone()).without_prompt();
        let installed = self.installed_agents(tenant, &policy).await?;
        agent.check_peers(&installed)?;
        let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
        let batch = batch.set_record(
            RecordKind::Agent,
            agent.id().to_owned(),
            Precondition::None,
            body,
        );
        let committed = self.parts.store.commit(batch).await?;
        let replaced = committed
            .outcomes
            .iter()
            .any(|o| matches!(o, ChangeOutcome::Recorded { version, .. } if *version > 1));
        Ok(AgentInstallation {
            info: self.agent_info(agent, &installed),
            replaced,
        })
    }

    /// Removes an agent that the tenant installed; the host's own stay. Returns whether there was
    /// one.
    pub async fn remove_agent(&self, caller: &Caller, id: &str) -> Result<bool, EngineError> {
        sabotage!(
            "anybody-installs-agents",
            caller.require(Permission::ManifestWrite)?
        );
        if !is_agent_id(id) {
            return Ok(false);
        }
        let now = self.now_for(caller.tenant()).await?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let committed = self
            .parts
            .store
            .commit(batch.delete_record(RecordKind::Agent, id.to_owned(), Precondition::None))
            .await?;
        Ok(committed.outcomes.contains(&ChangeOutcome::Removed))
    }

    /// Finds an agent with its whole manifest: the tenant's own, or else the host's.
    pub(crate) async fn find_agent(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<Agent>, EngineError> {
        if !is_agent_id(id) {
            return Ok(None);
        }
        let own = self
            .parts
            .store
            .record(tenant, RecordKind::Agent, id)
            .await?;
        let own = own.map(|record| Agent::from_stored(record.key, record.body));
        let Some(found) = own.or_else(|| {
            self.parts
                .agents
                .iter()
                .find(|agent| agent.id() == id)
                .cloned()
        }) else {
            return Ok(None);
        };
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, self.now());
        let body = found.body().clone();
        let redacted = self.redact_body(tenant, &admission, body).await?;
        Ok(Some(Agent::from_stored(
            found.id().to_owned(),
            redacted.map().clone(),
        )))
    }

    /// The current text of an agent's system prompt; `None` if it is in a file or template that the
    /// tenant does not have.
    pub(crate) async fn system_prompt(
        &self,
        tenant: &TenantId,
        agent: &Agent,
    ) -> Result<Option<String>, EngineError> {
        let path = match agent.prompt() {
            Prompt::Text(text) => return Ok(Some(text.to_owned())),
            Prompt::File(path) if path.starts_with(PROMPT_PREFIX) => {
                return self
                    .render_prompt_template(tenant, &path[PROMPT_PREFIX.len()..])
                    .await;
            }
            Prompt::File(path) if is_path(path) => path,
            Prompt::File(_) => return Ok(None),
        };
        let Some(file) = self
            .parts
            .store
            .record(tenant, RecordKind::File, path)
            .await?
        else {
            return Ok(None);
        };
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, file.at);
        let redacted = self.redact_body(tenant, &admission, file.body).await?;
        Ok(StoredFile::from_map(redacted.map()).map(|file| file.content))
    }

    /// Renders an installed prompt template with its defaults; `None` if it does not exist or has
    /// variables without a default.
    async fn render_prompt_template(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<String>, EngineError> {
        if !is_name(id) {
            return Ok(None);
        }
        let Some(record) = self
            .parts
            .store
            .record(tenant, RecordKind::Prompt, id)
            .await?
        else {
            return Ok(None);
        };
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, record.at);
        let redacted = self.redact_body(tenant, &admission, record.body).await?;
        let template = PromptTemplate::from_map(redacted.map(), &policy).ok();
        Ok(template.and_then(|template| template.render(&Map::new()).ok()))
    }

    /// All agents of a tenant and of the host, by id and without prompts.
    async fn installed_agents(
        &self,
        tenant: &TenantId,
        policy: &Policy,
    ) -> Result<Vec<Agent>, EngineError> {
        let limit = u32::try_from(self.parts.policy.agents_max).unwrap_or(u32::MAX);
        let own = self
            .parts
            .store
            .records(tenant, RecordKind::Agent, "", None, limit)
            .await?;
        let own = own
            .into_iter()
            .map(|record| Agent::from_stored(record.key, record.body));
        let rules = self.redaction_rules(tenant).await?;
        let all = self.parts.agents.iter().cloned().chain(own);
        let all = all.map(|agent| agent.without_prompt()).collect();
        let bytes = |agent: &Agent| cpu::map_bytes(agent.body());
        let review = |agent: Agent| {
            Ok::<_, EngineError>(sabotage!(
                "agents-are-shown-as-they-are-stored",
                self.redacted_agent(&rules, policy, agent),
                agent
            ))
        };
        let all = self.parts.cpu.each(tenant, all, bytes, review).await?;
        // Later agents replace earlier ones: the tenant's own replace the host's.
        let by_name: BTreeMap<String, Agent> = all
            .into_iter()
            .map(|agent| (agent.id().to_owned(), agent))
            .collect();
        Ok(by_name.into_values().collect())
    }

    /// An agent redacted by the rules of today: it was stored under other rules, or configured by
    /// the operator.
    fn redacted_agent(&self, rules: &RedactionRules, policy: &Policy, agent: Agent) -> Agent {
        let body = rules
            .admission(policy, self.now())
            .redact_record(agent.body().clone());
        Agent::from_stored(agent.id().to_owned(), body.map().clone())
    }

    /// The agent with what it does not get here.
    fn agent_info(&self, agent: Agent, installed: &[Agent]) -> AgentInfo {
        let capabilities = &self.parts.capabilities;
        let degraded = agent.missing_requirements(installed, capabilities);
        let degraded_memory = agent
            .memory_shape()
            .map(|shape| capabilities.missing_dimensions(shape))
            .unwrap_or_default();
        AgentInfo {
            agent,
            degraded,
            degraded_memory,
        }
    }

    /// Fails if the tenant has too many agents, unless one with this id is replaced.
    async fn check_agent_room(&self, tenant: &TenantId, id: &str) -> Result<(), EngineError> {
        let limit = self.parts.policy.agents_max;
        let limit_u32 = u32::try_from(limit).unwrap_or(u32::MAX);
        let existing = self
            .parts
            .store
            .records(tenant, RecordKind::Agent, "", None, limit_u32)
            .await?;
        let too_many = Rejection::TooLarge {
            field: "agents",
            unit: "items",
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        if existing.len() < limit || existing.iter().any(|record| record.key == id) {
            Ok(())
        } else {
            Err(too_many.into())
        }
    }
}
