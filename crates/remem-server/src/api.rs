//! The memory API: every operation of the host as one method that takes and returns wire types.
//! HTTP handlers, MCP tools and commands all call it, so that an operation is translated between
//! wire and engine in one place, whether the engine is in this process or behind a URL.

mod commitments;
mod entries;
mod forget;
mod keys;
mod passes;
mod proposals;
mod recall;
mod workshop;

pub use commitments::{CommitmentApi, CreatedCommitment};
pub(crate) use entries::Include;
pub use forget::ForgetApi;
pub use passes::PassApi;
pub use proposals::{DecisionOutcome, ReviewApi};
pub use recall::RecallApi;
pub use workshop::WorkshopApi;

use async_trait::async_trait;
use entries::workshop_filter;
use remem_core::redact::SecretValue;
use remem_core::{MemoryRef, Rejection, Revision, Seq, ShapePolicy, TenantId};
use remem_engine::agents::AgentInfo;
use remem_engine::proposals::ProposalError;
use remem_engine::read::ListRequest;
use remem_engine::vault::SecretScope;
use remem_engine::{AuthError, Caller, Engine, EngineError};
use remem_store::{Filter, StoreError};
use remem_wire::admin::{
    KeyChange, KeyCreate, KeyCreated, KeyInfo, KeyList, TenantInfo, TenantList, TenantPut,
    TenantQuery, Whoami,
};
use remem_wire::agent::{AgentInstall, AgentInventory, AgentInventoryEntry};
use remem_wire::entry::{Deleted, EntryBeside};
use remem_wire::event::EventsQuery;
use remem_wire::memory::{
    EntryList, EntryMetadata, GetQuery, ImportAnswer, ImportRequest, ListQuery, MemoriesQuery,
    MemoryList, MemoryStats, MemorySummary, PutMany, PutManyAnswer, ReadQuery,
};
use remem_wire::secrets::{SecretInfo, SecretList, SecretPut, SecretScopeQuery, SecretsQuery};
use remem_wire::time::Instant;
use remem_wire::{EventDoc, EventPage, Failure, Problem, PutEntry, number};
use std::sync::Arc;

/// The answer to a write, with the values that HTTP sends in headers.
#[derive(Clone, Debug)]
pub struct WriteAnswer<T> {
    /// The body of the answer.
    pub value: T,
    /// Revision token: a read with it as `atLeast` sees this write on every node.
    pub revision: String,
    /// Whether this repeats the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

/// The answer to the installation of an agent.
#[derive(Clone, Debug)]
pub struct InstalledAgent {
    /// The agent as the inventory lists it.
    pub entry: AgentInventoryEntry,
    /// Whether the tenant had installed an agent of this name before.
    pub replaced: bool,
}

/// Every operation of the host, on behalf of one caller.
#[async_trait]
pub trait MemoryApi:
    CommitmentApi + ForgetApi + PassApi + RecallApi + ReviewApi + WorkshopApi + Send + Sync
{
    /// Stores one entry and returns it with its metadata and facets.
    async fn put(
        &self,
        memory_ref: &str,
        entry: PutEntry,
        key: Option<&str>,
    ) -> Result<WriteAnswer<EntryBeside>, Failure>;
    /// Stores several entries in one transaction: all or none.
    async fn put_many(
        &self,
        memory_ref: &str,
        request: PutMany,
        key: Option<&str>,
    ) -> Result<WriteAnswer<PutManyAnswer>, Failure>;
    /// Stores entries under the ids that they had elsewhere.
    async fn import(
        &self,
        memory_ref: &str,
        request: ImportRequest,
    ) -> Result<WriteAnswer<ImportAnswer>, Failure>;
    /// Returns one entry, with metadata and facets if the query asks for them.
    async fn get(
        &self,
        memory_ref: &str,
        id: &str,
        query: GetQuery,
    ) -> Result<EntryBeside, Failure>;
    /// Returns the metadata of one entry.
    async fn metadata(
        &self,
        memory_ref: &str,
        id: &str,
        query: ReadQuery,
    ) -> Result<EntryMetadata, Failure>;
    /// Returns a page of entries, newest first, or those that fit a budget of tokens.
    async fn list(&self, memory_ref: &str, query: ListQuery) -> Result<EntryList, Failure>;
    /// Deletes an entry. Its text is erased, unless an action rests on it.
    async fn delete(
        &self,
        memory_ref: &str,
        id: &str,
        key: Option<&str>,
    ) -> Result<WriteAnswer<Deleted>, Failure>;
    /// Counts the entries and bytes of a memory.
    async fn stats(&self, memory_ref: &str, query: ReadQuery) -> Result<MemoryStats, Failure>;
    /// Returns a page of the tenant's memories by name, as far as the caller may see them.
    async fn memories(&self, query: MemoriesQuery) -> Result<MemoryList, Failure>;
    /// Returns a page of the tenant's events, oldest first.
    async fn events(&self, query: EventsQuery) -> Result<EventPage, Failure>;
    /// Returns the identity and rights that the caller's key or token proved.
    async fn whoami(&self) -> Result<Whoami, Failure>;
    /// Creates a key. This answer is the only one that shows it.
    async fn create_key(&self, request: KeyCreate) -> Result<KeyCreated, Failure>;
    /// Returns the records of a tenant's keys, without the keys themselves.
    async fn keys(&self, query: TenantQuery) -> Result<KeyList, Failure>;
    /// Changes the highest trust that a key may vouch for.
    async fn change_key(
        &self,
        query: TenantQuery,
        id: &str,
        change: KeyChange,
    ) -> Result<KeyInfo, Failure>;
    /// Revokes a key with immediate effect.
    async fn revoke_key(&self, query: TenantQuery, id: &str) -> Result<(), Failure>;
    /// Creates a tenant or changes its settings.
    async fn put_tenant(&self, request: TenantPut) -> Result<TenantInfo, Failure>;
    /// Returns all tenants of the host.
    async fn tenants(&self) -> Result<TenantList, Failure>;
    /// Returns the agents that the caller's tenant can call.
    async fn agents(&self) -> Result<AgentInventory, Failure>;
    /// Returns one installed agent by its id.
    async fn agent(&self, id: &str) -> Result<AgentInventoryEntry, Failure>;
    /// Installs an agent for the caller's tenant.
    async fn install_agent(&self, request: AgentInstall) -> Result<InstalledAgent, Failure>;
    /// Removes an agent that the caller's tenant installed.
    async fn remove_agent(&self, id: &str) -> Result<(), Failure>;
    /// Stores a new secret in the vault.
    async fn set_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure>;
    /// Gives a secret of the vault a new value.
    async fn rotate_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure>;
    /// Returns a page of the names in the vault, without values.
    async fn secrets(&self, query: SecretsQuery) -> Result<SecretList, Failure>;
    /// Deletes a secret from the vault with all its values.
    async fn delete_secret(&self, name: &str, query: SecretScopeQuery) -> Result<(), Failure>;
}

/// The memory API of an engine in this process.
#[derive(Clone)]
pub struct LocalApi {
    pub engine: Arc<Engine>,
    /// The caller that every operation acts for.
    pub caller: Caller,
}

/// Translates an error of the engine into its problem on the wire. Operational errors are logged
/// here, once, with their cause.
#[must_use]
pub fn engine_problem(error: EngineError) -> Problem {
    match error {
        EngineError::Rejected(rejection) => Problem::Rejected(rejection),
        EngineError::Forbidden(permission) => Problem::Forbidden(permission),
        EngineError::TrustTooHigh { claimed, most } => Problem::TrustTooHigh { claimed, most },
        EngineError::NotFound(what) => Problem::NotFound(what),
        EngineError::NotReached => Problem::NotReached,
        EngineError::FileConflict { current_version } => Problem::FileConflict { current_version },
        EngineError::FileTooLarge { limit } => Problem::FileTooLarge { limit },
        EngineError::UnknownWorkflow => Problem::UnknownWorkflow,
        EngineError::RunEnded { status } => Problem::RunEnded {
            status: status.as_str(),
        },
        EngineError::RunNotEnded => Problem::RunNotEnded,
        EngineError::UnknownSequence => Problem::UnknownSequence,
        EngineError::ReplayUnavailable {
            from_seq,
            source_run,
            reason,
        } => Problem::ReplayUnavailable {
            from_seq,
            source_run,
            reason,
        },
        EngineError::UnknownWebhook => Problem::UnknownWebhook,
        EngineError::JobEnded { state } => Problem::JobEnded {
            state: state.as_str(),
        },
        EngineError::CommitmentState { state } => Problem::CommitmentState {
            state: state.as_str(),
        },
        EngineError::WorkRefused { code, details } => Problem::WorkRefused { code, details },
        EngineError::Proposal(error) => proposal_problem(error),
        EngineError::SecretExists => Problem::SecretExists,
        EngineError::NoEmbedder => Problem::NotProvided {
            what: "search by meaning now; `remem model install` brings a model, and mode lexical works without",
        },
        EngineError::VaultOff => Problem::NotProvided {
            what: "a vault for secrets; vault.key_file or REMEM_VAULT_KEY turns it on",
        },
        EngineError::VaultLocked => Problem::VaultLocked,
        EngineError::TooManyFeeds => Problem::TooManyFeeds { limit: 0 },
        EngineError::Store(StoreError::Rejected(rejection)) => Problem::Rejected(rejection),
        EngineError::Store(StoreError::Conflict) => Problem::Conflict,
        EngineError::Store(StoreError::Busy) => Problem::Busy,
        EngineError::Store(StoreError::Full) => {
            tracing::error!("the storage is full");
            Problem::Full
        }
        EngineError::Store(StoreError::Unavailable(source)) => {
            tracing::error!(cause = %source, "the storage is unavailable");
            Problem::Unavailable
        }
        EngineError::Store(damaged @ (StoreError::Damaged(_) | StoreError::DamagedRows(_))) => {
            tracing::error!(cause = %damaged, "see `remem doctor`");
            Problem::StorageDamaged
        }
    }
}

fn proposal_problem(error: ProposalError) -> Problem {
    match error {
        ProposalError::Off => Problem::NotProvided { what: "proposals" },
        ProposalError::State(state) => Problem::ProposalState {
            state: state.as_str(),
        },
        ProposalError::Stale => Problem::ProposalStale,
        ProposalError::Malformed(rejection) => Problem::ProposalMalformed(rejection),
        ProposalError::HoldsSecret => Problem::ProposalHoldsSecret,
        ProposalError::InstallConflict => Problem::ProposalInstallConflict,
        ProposalError::NoGate => Problem::ProposalGateClosed,
        ProposalError::Denied(reason) => Problem::ProposalDenied { reason },
    }
}

/// Translates the refusal of a key into its problem on the wire.
#[must_use]
pub fn authentication_problem(denied: AuthError) -> Problem {
    match denied {
        AuthError::Unknown => Problem::Unauthenticated,
        AuthError::Expired => Problem::KeyExpired,
        AuthError::Revoked => Problem::KeyRevoked,
        AuthError::Unavailable => Problem::Unavailable,
    }
}

/// Translates an error of the engine into a failed call.
pub(crate) fn engine_failure(error: EngineError) -> Failure {
    engine_problem(error).into()
}

fn invalid_field(field: &'static str, rule: &'static str) -> Failure {
    Problem::Rejected(Rejection::Invalid { field, rule }).into()
}

/// The number in a text parameter. One that the stores cannot hold is malformed; other text breaks
/// the rule.
fn whole(text: &str, field: &'static str, rule: &'static str) -> Result<u64, Failure> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    number::parse(text).ok_or_else(|| match is_number {
        true => Problem::too_large(field).into(),
        false => invalid_field(field, rule),
    })
}

fn parse_revision(token: Option<&str>) -> Result<Option<Revision>, Failure> {
    token
        .map(|t| whole(t, "atLeast", "must be a revision token").map(Revision))
        .transpose()
}

impl LocalApi {
    fn tenant_or_own(&self, query: &Option<String>) -> Result<TenantId, Failure> {
        match query {
            None => Ok(self.caller.tenant().clone()),
            Some(name) => TenantId::parse(name).ok_or_else(|| {
                Problem::Rejected(Rejection::MalformedName { field: "tenant" }).into()
            }),
        }
    }
}

#[async_trait]
impl MemoryApi for LocalApi {
    async fn put(
        &self,
        memory_ref: &str,
        entry: PutEntry,
        key: Option<&str>,
    ) -> Result<WriteAnswer<EntryBeside>, Failure> {
        let stored = self
            .engine
            .put(&self.caller, memory_ref, vec![self.put_draft(entry)?], key)
            .await
            .map_err(engine_failure)?;
        let value = stored
            .entries
            .into_iter()
            .next()
            .map(|entry| Include::ALL.render(entry))
            .ok_or(Problem::Internal)?;
        Ok(WriteAnswer {
            value,
            revision: stored.revision.0.to_string(),
            replayed: stored.replayed,
        })
    }

    async fn put_many(
        &self,
        memory_ref: &str,
        request: PutMany,
        key: Option<&str>,
    ) -> Result<WriteAnswer<PutManyAnswer>, Failure> {
        let drafts = request
            .entries
            .into_iter()
            .map(|entry| self.put_draft(entry))
            .collect::<Result<_, _>>()?;
        let stored = self
            .engine
            .put(&self.caller, memory_ref, drafts, key)
            .await
            .map_err(engine_failure)?;
        let revision = stored.revision.0.to_string();
        let EntryList {
            entries,
            metadata,
            facets,
            ..
        } = Include::ALL.render_list(stored.entries);
        let value = PutManyAnswer {
            entries,
            revision: revision.clone(),
            metadata,
            facets,
        };
        Ok(WriteAnswer {
            value,
            revision,
            replayed: stored.replayed,
        })
    }

    async fn import(
        &self,
        memory_ref: &str,
        request: ImportRequest,
    ) -> Result<WriteAnswer<ImportAnswer>, Failure> {
        let drafts = request
            .entries
            .into_iter()
            .map(|entry| self.import_draft(entry))
            .collect::<Result<_, _>>()?;
        let done = self
            .engine
            .import(&self.caller, memory_ref, drafts)
            .await
            .map_err(engine_failure)?;
        let revision = done.revision.0.to_string();
        let value = ImportAnswer {
            imported: done.imported,
            skipped: done.skipped,
            revision: revision.clone(),
        };
        Ok(WriteAnswer {
            value,
            revision,
            replayed: false,
        })
    }

    async fn get(
        &self,
        memory_ref: &str,
        id: &str,
        query: GetQuery,
    ) -> Result<EntryBeside, Failure> {
        let include = Include::parse(query.include.as_deref())?;
        let at_least = parse_revision(query.at_least.as_deref())?;
        let entry = self
            .engine
            .get(&self.caller, memory_ref, id, at_least)
            .await
            .map_err(engine_failure)?;
        Ok(include.render(entry.ok_or(Problem::NotFound("entry"))?))
    }

    async fn metadata(
        &self,
        memory_ref: &str,
        id: &str,
        query: ReadQuery,
    ) -> Result<EntryMetadata, Failure> {
        let at_least = parse_revision(query.at_least.as_deref())?;
        let entry = self
            .engine
            .get(&self.caller, memory_ref, id, at_least)
            .await
            .map_err(engine_failure)?;
        Ok(EntryMetadata {
            metadata: entry
                .ok_or(Problem::NotFound("entry"))?
                .metadata
                .unwrap_or_default(),
        })
    }

    async fn list(&self, memory_ref: &str, query: ListQuery) -> Result<EntryList, Failure> {
        let budget = recall::list_budget(&query)?;
        let include = Include::parse(query.include.as_deref())?;
        let session = query.session.as_deref();
        let interaction = query.interaction.as_deref();
        let request = ListRequest {
            limit: query.limit,
            filter: Filter {
                tags: query.tag.into_iter().collect(),
                ..workshop_filter(query.tier, query.typology, session, interaction)?
            },
            cursor: query.cursor,
            at_least: parse_revision(query.at_least.as_deref())?,
            as_of: query.as_of.map(|t| t.0),
        };
        if let Some(budget) = budget {
            return self
                .list_within_budget(memory_ref, request, budget, include)
                .await;
        }
        let listed = self
            .engine
            .list(&self.caller, memory_ref, request)
            .await
            .map_err(engine_failure)?;
        Ok(EntryList {
            next_cursor: listed.next_cursor,
            ..include.render_list(listed.entries)
        })
    }

    async fn delete(
        &self,
        memory_ref: &str,
        id: &str,
        key: Option<&str>,
    ) -> Result<WriteAnswer<Deleted>, Failure> {
        let deleted = self
            .engine
            .delete(&self.caller, memory_ref, id, key)
            .await
            .map_err(engine_failure)?;
        Ok(WriteAnswer {
            value: Deleted {
                held: deleted.text_retained,
            },
            revision: deleted.revision.0.to_string(),
            replayed: deleted.replayed,
        })
    }

    async fn stats(&self, memory_ref: &str, query: ReadQuery) -> Result<MemoryStats, Failure> {
        let stats = self
            .engine
            .stats(
                &self.caller,
                memory_ref,
                parse_revision(query.at_least.as_deref())?,
            )
            .await
            .map_err(engine_failure)?;
        Ok(MemoryStats {
            entries: stats.entries,
            content_bytes: stats.content_bytes,
            expiring: stats.expiring,
            with_subject: stats.with_subject,
            oldest: stats.oldest.map(Instant),
            newest: stats.newest.map(Instant),
        })
    }

    async fn memories(&self, query: MemoriesQuery) -> Result<MemoryList, Failure> {
        if query
            .after
            .as_deref()
            .is_some_and(|after| MemoryRef::parse(after).is_none())
        {
            return Err(invalid_field("after", "must be a memoryRef"));
        }
        let (found, more) = self
            .engine
            .memories(
                &self.caller,
                query.after.as_deref(),
                query.limit,
                parse_revision(query.at_least.as_deref())?,
            )
            .await
            .map_err(engine_failure)?;
        let summary = |s: &remem_store::MemorySummary| MemorySummary {
            memory_ref: s.memory_ref.as_str().to_owned(),
            entries: s.entries,
        };
        let memories: Vec<_> = found.iter().map(summary).collect();
        let next_after = memories
            .last()
            .filter(|_| more)
            .map(|last| last.memory_ref.clone());
        Ok(MemoryList {
            memories,
            next_after,
        })
    }

    async fn events(&self, query: EventsQuery) -> Result<EventPage, Failure> {
        let after = self.event_position(query.after.as_deref()).await?;
        let (events, reached) = self
            .engine
            .list_events(&self.caller, after, query.limit)
            .await
            .map_err(engine_failure)?;
        // A position beyond the end is answered with the end: a client that came from another host
        // finds its way back.
        let next_after = if reached == after {
            after.0.min(
                self.engine
                    .newest_seq(&self.caller)
                    .await
                    .map_err(engine_failure)?
                    .0,
            )
        } else {
            reached.0
        };
        Ok(EventPage {
            events: events.iter().map(EventDoc::from).collect(),
            next_after,
        })
    }

    async fn whoami(&self) -> Result<Whoami, Failure> {
        let proven = self
            .engine
            .whoami(&self.caller)
            .await
            .map_err(engine_failure)?;
        Ok(keys::whoami_doc(proven))
    }

    async fn create_key(&self, request: KeyCreate) -> Result<KeyCreated, Failure> {
        self.issue_key(request).await
    }

    async fn keys(&self, query: TenantQuery) -> Result<KeyList, Failure> {
        let keys = self
            .engine
            .list_keys(&self.caller, &self.tenant_or_own(&query.tenant)?)
            .await
            .map_err(engine_failure)?;
        Ok(KeyList {
            keys: keys.iter().map(keys::key_info).collect(),
        })
    }

    async fn change_key(
        &self,
        query: TenantQuery,
        id: &str,
        change: KeyChange,
    ) -> Result<KeyInfo, Failure> {
        self.set_key_trust(query, id, change).await
    }

    async fn revoke_key(&self, query: TenantQuery, id: &str) -> Result<(), Failure> {
        self.engine
            .revoke_key(&self.caller, &self.tenant_or_own(&query.tenant)?, id)
            .await
            .map_err(engine_failure)
    }

    async fn put_tenant(&self, request: TenantPut) -> Result<TenantInfo, Failure> {
        let shapes = match &request.shapes {
            None => ShapePolicy::default(),
            Some(text) => text
                .parse()
                .map_err(|_| invalid_field("shapes", "must be redact, flag or off"))?,
        };
        self.engine
            .put_tenant(&self.caller, &request.id, shapes)
            .await
            .map_err(engine_failure)?;
        let found = self
            .tenants()
            .await?
            .tenants
            .into_iter()
            .find(|t| t.id == request.id);
        found.ok_or_else(|| Problem::Internal.into())
    }

    async fn tenants(&self) -> Result<TenantList, Failure> {
        let tenants = self
            .engine
            .list_tenants(&self.caller)
            .await
            .map_err(engine_failure)?;
        let info = |t: &remem_store::TenantRecord| TenantInfo {
            id: t.id.as_str().to_owned(),
            created_at: Instant(t.created_at),
            shapes: t.shapes.to_string(),
        };
        Ok(TenantList {
            tenants: tenants.iter().map(info).collect(),
        })
    }

    async fn agents(&self) -> Result<AgentInventory, Failure> {
        let agents: Vec<_> = self
            .engine
            .list_agents(&self.caller)
            .await
            .map_err(engine_failure)?
            .into_iter()
            .map(inventory_entry)
            .collect();
        Ok(AgentInventory {
            total: agents.len() as u64,
            agents,
        })
    }

    async fn agent(&self, id: &str) -> Result<AgentInventoryEntry, Failure> {
        let found = self
            .engine
            .get_agent(&self.caller, id)
            .await
            .map_err(engine_failure)?;
        Ok(inventory_entry(found.ok_or(Problem::NotFound("agent"))?))
    }

    async fn install_agent(&self, request: AgentInstall) -> Result<InstalledAgent, Failure> {
        let installed = self
            .engine
            .install_agent(&self.caller, request.into())
            .await
            .map_err(engine_failure)?;
        Ok(InstalledAgent {
            entry: inventory_entry(installed.info),
            replaced: installed.replaced,
        })
    }

    async fn remove_agent(&self, id: &str) -> Result<(), Failure> {
        let removed = self
            .engine
            .remove_agent(&self.caller, id)
            .await
            .map_err(engine_failure)?;
        if removed {
            Ok(())
        } else {
            Err(Problem::NotFound("agent").into())
        }
    }

    async fn set_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure> {
        let (scope, value) = parse_secret(name, request)?;
        self.engine
            .set_secret(&self.caller, scope, name, value)
            .await
            .map(secret_info)
            .map_err(engine_failure)
    }

    async fn rotate_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure> {
        let (scope, value) = parse_secret(name, request)?;
        self.engine
            .rotate_secret(&self.caller, scope, name, value)
            .await
            .map(secret_info)
            .map_err(engine_failure)
    }

    async fn secrets(&self, query: SecretsQuery) -> Result<SecretList, Failure> {
        let place = |after: &'_ str| -> Option<(SecretScope, String)> {
            let (scope, name) = after.split_once('/')?;
            Some((SecretScope::parse(scope)?, name.to_owned()))
        };
        let unknown = || invalid_field("after", "must be the nextAfter of an earlier page");
        let after = query
            .after
            .as_deref()
            .map(|after| place(after).ok_or_else(unknown))
            .transpose()?;
        let after = after.as_ref().map(|(scope, name)| (*scope, name.as_str()));
        let (found, more) = self
            .engine
            .list_secrets(&self.caller, query.owner.as_deref(), after, query.limit)
            .await
            .map_err(engine_failure)?;
        let next_after = found
            .last()
            .filter(|_| more)
            .map(|last| format!("{}/{}", last.scope.as_str(), last.name));
        Ok(SecretList {
            secrets: found.into_iter().map(secret_info).collect(),
            next_after,
        })
    }

    async fn delete_secret(&self, name: &str, query: SecretScopeQuery) -> Result<(), Failure> {
        let scope = secret_scope(query.scope.as_deref())?;
        self.engine
            .delete_secret(&self.caller, query.owner.as_deref(), scope, name)
            .await
            .map_err(engine_failure)
    }
}

fn inventory_entry(listed: AgentInfo) -> AgentInventoryEntry {
    AgentInventoryEntry::new(&listed.agent, listed.degraded, &listed.degraded_memory)
}

fn secret_scope(scope: Option<&str>) -> Result<SecretScope, Failure> {
    scope
        .map_or(Some(SecretScope::Tenant), SecretScope::parse)
        .ok_or_else(|| invalid_field("scope", "must be tenant or user"))
}

fn parse_secret(name: &str, request: SecretPut) -> Result<(SecretScope, SecretValue), Failure> {
    let value = SecretValue::new(name, request.value.as_str());
    Ok((secret_scope(request.scope.as_deref())?, value))
}

fn secret_info(info: remem_engine::vault::SecretInfo) -> SecretInfo {
    SecretInfo {
        name: info.name,
        scope: info.scope.as_str().to_owned(),
        created_at: Instant(info.created_at),
        rotated_at: info.rotated_at.map(Instant),
        versions: info.versions,
    }
}

impl LocalApi {
    /// Parses a position in the tenant's event log: the sequence of an event, or `latest`.
    pub async fn event_position(&self, after: Option<&str>) -> Result<Seq, Failure> {
        match after {
            None => Ok(Seq(0)),
            Some("latest") => self
                .engine
                .newest_seq(&self.caller)
                .await
                .map_err(engine_failure),
            Some(text) => {
                whole(text, "after", "must be the sequence of an event, or latest").map(Seq)
            }
        }
    }
}
