//! Agents: which manifests are installed, for a tenant or for the whole host, and what each of them
//! lacks here. Nothing of a prompt leaves by a list; running an agent is somebody else's work.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::Rules;
use crate::workspace::is_path;
use remem_core::admission::check_name;
use remem_core::agent::{Agent, Install, Prompt, is_agent_id};
use remem_core::proposal::{PromptTemplate, is_name};
use remem_core::sabotage;
use remem_core::{Batch, Permission, Policy, Precondition, RecordKind, Rejection, TenantId};
use remem_store::Outcome;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a reference to a prompt template begins with.
const PROMPT: &str = "prompt:";

/// An agent as it is told to callers: what it is, and what it is without.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The agent.
    pub agent: Agent,
    /// Packs and capabilities that it asks for and does not get.
    pub degraded: Vec<String>,
    /// The same for its memory, in the protocol's words.
    pub degraded_memory: Vec<&'static str>,
}

/// An agent that was just installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The agent.
    pub listed: Listed,
    /// The tenant had one of this name before.
    pub replaced: bool,
}

impl Engine {
    /// The agents that the caller sees, by name: its tenant's own and the host's.
    pub async fn agents(&self, caller: &Caller) -> Result<Vec<Listed>, EngineError> {
        caller.require(Permission::ManifestRead)?;
        let agents = self
            .installed(caller.tenant(), &self.policy_of(caller))
            .await?;
        Ok(agents
            .iter()
            .map(|agent| self.listed(agent.clone(), &agents))
            .collect())
    }

    /// One of them.
    pub async fn listed_agent(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Option<Listed>, EngineError> {
        caller.require(Permission::ManifestRead)?;
        let Some(agent) = self.agent(caller.tenant(), id).await? else {
            return Ok(None);
        };
        let installed = self
            .installed(caller.tenant(), &self.policy_of(caller))
            .await?;
        Ok(Some(self.listed(agent.without_prompt(), &installed)))
    }

    /// Installs an agent for the caller's tenant, in place of its own of the same name.
    pub async fn install_agent(
        &self,
        caller: &Caller,
        install: Install,
    ) -> Result<Installed, EngineError> {
        sabotage!(
            "anybody-installs-agents",
            caller.require(Permission::ManifestWrite)?
        );
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let agent = Agent::new(install, &policy)?;
        let rules = self.rules(tenant).await?;
        check_name(rules.redactor(), "agentId", agent.id())?;
        if self.prompt_of(tenant, &agent).await?.is_none() {
            let rule = "must be the path of one of the tenant's workspace files, or prompt: and the name of an installed template";
            return Err(Rejection::Invalid {
                field: "systemPromptRef",
                rule,
            }
            .into());
        }
        self.room_for_an_agent(tenant, agent.id()).await?;
        let now = self.now_for(tenant).await?;
        let admission = rules.admission(&policy, now);
        let body = self
            .cleaned(tenant, &admission, agent.body().clone())
            .await?;
        let agent = Agent::stored(agent.id().to_owned(), body.map().clone()).without_prompt();
        let installed = self.installed(tenant, &policy).await?;
        agent.check_peers(&installed)?;
        let batch = Batch::new(tenant.clone(), now).by(caller.principal().clone());
        let batch = batch.set(
            RecordKind::Agent,
            agent.id().to_owned(),
            Precondition::None,
            body,
        );
        let committed = self.parts.store.commit(batch).await?;
        let replaced = committed
            .outcomes
            .iter()
            .any(|o| matches!(o, Outcome::Recorded { version, .. } if *version > 1));
        Ok(Installed {
            listed: self.listed(agent, &installed),
            replaced,
        })
    }

    /// Removes an agent that the tenant installed; the host's own stay. `false` if there is none.
    pub async fn remove_agent(&self, caller: &Caller, id: &str) -> Result<bool, EngineError> {
        sabotage!(
            "anybody-installs-agents",
            caller.require(Permission::ManifestWrite)?
        );
        if !is_agent_id(id) {
            return Ok(false);
        }
        let now = self.now_for(caller.tenant()).await?;
        let batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
        let committed = self
            .parts
            .store
            .commit(batch.unset(RecordKind::Agent, id.to_owned(), Precondition::None))
            .await?;
        Ok(committed.outcomes.contains(&Outcome::Removed))
    }

    /// An agent with its whole manifest, as the tenant sees it: its own, or else the host's.
    pub(crate) async fn agent(
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
        let own = own.map(|record| Agent::stored(record.key, record.body));
        let Some(found) = own.or_else(|| {
            self.parts
                .agents
                .iter()
                .find(|agent| agent.id() == id)
                .cloned()
        }) else {
            return Ok(None);
        };
        let rules = self.rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, self.now());
        let body = found.body().clone();
        let shown = self.cleaned(tenant, &admission, body).await?;
        Ok(Some(Agent::stored(
            found.id().to_owned(),
            shown.map().clone(),
        )))
    }

    /// The text of an agent's system prompt now; `None` if it is in a file or template that the
    /// tenant does not have.
    pub(crate) async fn prompt_of(
        &self,
        tenant: &TenantId,
        agent: &Agent,
    ) -> Result<Option<String>, EngineError> {
        let path = match agent.prompt() {
            Prompt::Text(text) => return Ok(Some(text.to_owned())),
            Prompt::File(path) if path.starts_with(PROMPT) => {
                return self.prompt_template(tenant, &path[PROMPT.len()..]).await;
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
        let rules = self.rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, file.at);
        let shown = self.cleaned(tenant, &admission, file.body).await?;
        Ok(shown
            .map()
            .get("content")
            .and_then(Value::as_str)
            .map(str::to_owned))
    }

    /// The text of an installed prompt template with its defaults; `None` if it is not there, or
    /// asks for more than it has.
    async fn prompt_template(
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
        let rules = self.rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, record.at);
        let shown = self.cleaned(tenant, &admission, record.body).await?;
        let template = PromptTemplate::from_map(shown.map(), &policy).ok();
        Ok(template.and_then(|template| template.render(&Map::new()).ok()))
    }

    /// Everything that is installed for a tenant, by name and without prompts.
    async fn installed(
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
            .map(|record| Agent::stored(record.key, record.body));
        let rules = self.rules(tenant).await?;
        let all = self.parts.agents.iter().cloned().chain(own);
        let all = all.map(|agent| agent.without_prompt()).collect();
        let bytes = |agent: &Agent| cpu::of_map(agent.body());
        let look = |agent: Agent| {
            Ok::<_, EngineError>(sabotage!(
                "agents-are-shown-as-they-are-stored",
                self.looked_at(&rules, policy, agent),
                agent
            ))
        };
        let all = self.parts.cpu.each(tenant, all, bytes, look).await?;
        // A later one takes the place of an earlier one: the tenant's own win.
        let by_name: BTreeMap<String, Agent> = all
            .into_iter()
            .map(|agent| (agent.id().to_owned(), agent))
            .collect();
        Ok(by_name.into_values().collect())
    }

    /// What was stored under other rules, or given by the host, leaves as it would be stored today.
    fn looked_at(&self, rules: &Rules, policy: &Policy, agent: Agent) -> Agent {
        let body = rules
            .admission(policy, self.now())
            .record(agent.body().clone());
        Agent::stored(agent.id().to_owned(), body.map().clone())
    }

    fn listed(&self, agent: Agent, installed: &[Agent]) -> Listed {
        let capabilities = &self.parts.capabilities;
        let degraded = agent.degraded(installed, capabilities);
        let degraded_memory = agent
            .memory_shape()
            .map(|shape| capabilities.degraded(shape))
            .unwrap_or_default();
        Listed {
            agent,
            degraded,
            degraded_memory,
        }
    }

    async fn room_for_an_agent(&self, tenant: &TenantId, id: &str) -> Result<(), EngineError> {
        let limit = self.parts.policy.agents_max;
        let asked = u32::try_from(limit).unwrap_or(u32::MAX);
        let there = self
            .parts
            .store
            .records(tenant, RecordKind::Agent, "", None, asked)
            .await?;
        let full = Rejection::TooLarge {
            field: "agents",
            unit: "items",
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        if there.len() < limit || there.iter().any(|record| record.key == id) {
            Ok(())
        } else {
            Err(full.into())
        }
    }
}
