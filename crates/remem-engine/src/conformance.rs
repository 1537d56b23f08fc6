//! What the test endpoints for conformance checks write and read. Nothing here has an effect on a
//! host without them.

mod decisions;
mod ticks;

pub use decisions::Gated;

use crate::archive::ArchiveContent;
use crate::caller::Caller;
use crate::commitments::{CommitmentChange, CommitmentInfo};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{Trigger, WorkError, WorkReport};
use crate::passes::distill::PLANTED;
use crate::registry::{self, PassMode};
use remem_core::commitment::CommitmentState;
use remem_core::redact::SecretValue;
use remem_core::sabotage;
use remem_core::{
    Batch, Draft, EntryId, EventBody, Facets, Origin, Permission, RecordKind, Rejection, Seq,
    ShapePolicy, TenantId, Timestamp,
};
use remem_store::{Filter, Page, ReadAt, RecordLookup, StoreError};
use serde_json::Value;
use std::time::Duration;

/// Fewest characters of a word with "canary" in it that is treated as a planted secret.
const CANARY_CHARS_MIN: usize = 12;
/// Entries that a check's memory may hold.
const ENTRIES_MAX: u32 = 1_000;
/// Creation time of planted entries: the same at every call, so that what is made from them is the
/// same.
const PLANTED_AT: Timestamp = Timestamp(1_767_225_600_000);

impl Engine {
    /// The value of the secret that must appear nowhere, on a host with test endpoints.
    #[must_use]
    pub fn canary(&self) -> Option<String> {
        let canary = self
            .parts
            .test_secrets
            .iter()
            .find(|secret| secret.id() == crate::CANARY_SECRET);
        canary
            .filter(|_| self.parts.test_endpoints)
            .map(|secret| secret.expose(str::to_owned))
    }

    /// Number of entries in a check's memory.
    pub async fn count_planted(
        &self,
        caller: &Caller,
        memory_ref: &str,
    ) -> Result<u64, EngineError> {
        Ok(self.stats(caller, memory_ref, None).await?.entries)
    }

    /// Refuses on a host without seams.
    fn only_with_seams(&self) -> Result<(), EngineError> {
        if self.parts.test_endpoints {
            return Ok(());
        }
        Err(EngineError::NotFound("path"))
    }

    /// A tenant that only checks use, which no key reaches.
    async fn sandbox(&self, name: &str) -> Result<TenantId, EngineError> {
        let tenant = TenantId::parse(&format!("conformance:{name}"))
            .ok_or(Rejection::MalformedName { field: "tenant" })?;
        if self.parts.directory.tenant(&tenant).await?.is_none() {
            self.ensure_tenant(tenant.clone(), ShapePolicy::default())
                .await?;
        }
        Ok(tenant)
    }

    /// Writes these texts as if the canary were registered, and every canary that they hold. Answers
    /// how the names of their entries begin: the same texts always have the same names, and other
    /// texts have others, since a name that was taken once stays taken.
    pub async fn plant_entries(
        &self,
        caller: &Caller,
        memory_ref: &str,
        texts: &[String],
    ) -> Result<String, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        self.only_with_seams()?;
        let scope = caller.scope_to_write(memory_ref)?;
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(caller.tenant()).await?;
        let mut secrets = self.parts.test_secrets.clone();
        let own = canaries(texts);
        let own = own
            .iter()
            .map(|value| SecretValue::new(crate::CANARY_SECRET, value));
        sabotage!("a-planted-canary-is-stored-in-clear", secrets.extend(own));
        let rules = self.parts.secrets.with_values(&rules, &secrets);
        let mut digest = blake3::Hasher::new();
        for text in texts {
            digest.update(&(text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        }
        let set = format!("planted_{}_", &digest.finalize().to_hex()[..16]);
        let mut batch =
            Batch::new(scope.tenant.clone(), now).with_principal(caller.principal().clone());
        for (n, text) in texts.iter().enumerate() {
            let id = EntryId::parse(&format!("{set}{n:04}"))
                .ok_or(Rejection::MalformedName { field: "id" })?;
            let origin = Origin {
                id: id.clone(),
                created_at: Some(PLANTED_AT.plus_ms(n as i64)),
            };
            let draft = Draft {
                content: text.clone(),
                origin: Some(origin),
                facets: Facets {
                    trust: caller.default_trust(),
                    ..Facets::default()
                },
                ..Draft::default()
            };
            batch = batch.put(id, rules.admission(&policy, now).admit(&scope, draft)?);
        }
        self.parts.store.commit(batch).await?;
        Ok(set)
    }

    /// Distills the entries whose planted ids begin with `set`, and no other entry of the memory.
    pub async fn distill_planted(
        &self,
        caller: &Caller,
        memory_ref: &str,
        set: &str,
        token_budget: Option<u64>,
    ) -> Result<WorkReport, WorkError> {
        let memory_ref = caller
            .memory_ref(memory_ref)
            .ok_or(Rejection::MalformedName { field: "memoryRef" })?;
        let pass = registry::find("distill").ok_or(EngineError::NotFound("pass"))?;
        let budget = token_budget.map(|budget| ("tokenBudget".to_owned(), Value::from(budget)));
        let options = budget.into_iter().collect();
        let tenant = caller.tenant();
        let trigger = Trigger::OnDemand;
        let mut job = self
            .new_job(tenant, pass, Some(memory_ref), options, trigger)
            .await?;
        job.options.insert(PLANTED.to_owned(), Value::from(set));
        self.carry_out(tenant, pass, job).await
    }

    /// Whether a text occurs in a memory's entries or archives.
    pub async fn contains_text(
        &self,
        caller: &Caller,
        memory_ref: &str,
        text: &str,
    ) -> Result<bool, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let scope = caller.scope_to_write(memory_ref)?;
        let page = Page {
            limit: ENTRIES_MAX,
            after: None,
        };
        let at = ReadAt::Now(self.now_for(caller.tenant()).await?);
        let entries = self
            .parts
            .store
            .list(&scope, &Filter::default(), &page, &at)
            .await?;
        if entries.iter().any(|entry| {
            entry.content.contains(text) || entry.tags.iter().any(|tag| tag.contains(text))
        }) {
            return Ok(true);
        }
        for archive in self.list_archives(caller, memory_ref).await? {
            if let ArchiveContent::Bytes(bytes) = self
                .get_archive(caller, memory_ref, &archive.sha256)
                .await?
                && bytes.contains(text)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Words of texts that a check means to be secrets, as the protocol's own do: it plants them and
/// looks for them afterwards.
#[must_use]
pub fn canaries(texts: &[String]) -> Vec<String> {
    let is_between = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    let is_canary = |word: &&str| {
        word.len() >= CANARY_CHARS_MIN && word.to_ascii_lowercase().contains("canary")
    };
    let words = texts
        .iter()
        .flat_map(|text| text.split(is_between))
        .map(|word| word.trim_matches('.'));
    words.filter(is_canary).map(str::to_owned).collect()
}

/// A commitment that a check saw fire.
#[derive(Clone, Debug, PartialEq)]
pub struct RehearsalResult {
    /// The payload of the event that it fired.
    pub event: Value,
    /// Number of times that it fired.
    pub fires: u64,
    /// Words of the commitment's text, which must occur in memory only.
    pub intention: String,
}

/// How often a check polls for a result, `POLL_INTERVAL` apart.
const POLLS_MAX: u32 = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How far in the future a rehearsed commitment is due.
const DUE_IN_MS: i64 = 200;

impl Engine {
    /// Writes a text with a commitment, and lets it be recognised and fire as any other: an entry,
    /// the pass `infer`, and either an observation or the pass `fire` when it is due.
    pub async fn rehearse_commitment(
        &self,
        caller: &Caller,
        memory_ref: &str,
        condition: &str,
    ) -> Result<RehearsalResult, EngineError> {
        sabotage!(
            "seams-of-what-stands-are-open-to-all",
            caller.require(Permission::MemoryAdmin)?
        );
        self.only_with_seams()?;
        let by_time = match condition {
            "time" => true,
            "predicate" => false,
            _ => {
                return Err(Rejection::Invalid {
                    field: "condition",
                    rule: "must be time or predicate",
                }
                .into());
            }
        };
        let number = blake3::hash(self.parts.ids.unique_name().as_bytes());
        let intention = format!(
            "canary {}",
            u32::from_le_bytes([
                number.as_bytes()[0],
                number.as_bytes()[1],
                number.as_bytes()[2],
                0
            ])
        );
        let when = if by_time {
            "in 20 minutes"
        } else {
            "when the rehearsal invoice clears"
        };
        let begun = self.parts.store.head(caller.tenant()).await?.seq;
        let draft = Draft {
            content: format!("Remind me to feed the {intention} {when}."),
            ..Draft::default()
        };
        let stored = self.put(caller, memory_ref, vec![draft], None).await?;
        let entry = stored
            .entries
            .first()
            .map(|entry| entry.id.clone())
            .ok_or(EngineError::NotFound("path"))?;
        let id = self.wait_for_commitment(caller, memory_ref, &entry).await?;
        if by_time {
            let soon = self.now_for(caller.tenant()).await?.plus_ms(DUE_IN_MS);
            self.change_commitment(caller, &id, CommitmentChange::Snooze(soon))
                .await?;
            self.wait_until_fired(caller, &id).await?;
        } else {
            for _ in 0..2 {
                self.observe(
                    caller,
                    memory_ref,
                    "the rehearsal invoice has cleared",
                    true,
                )
                .await?;
            }
        }
        let fires = self.fires_since(caller, begun, &id).await?;
        let event = fires
            .first()
            .cloned()
            .ok_or(EngineError::NotFound("path"))?;
        Ok(RehearsalResult {
            event,
            fires: fires.len() as u64,
            intention,
        })
    }

    /// Waits until the commitment in an entry is recognised, and confirms it if it is a condition.
    async fn wait_for_commitment(
        &self,
        caller: &Caller,
        memory_ref: &str,
        entry: &EntryId,
    ) -> Result<String, EngineError> {
        let tenant = caller.tenant();
        let scope = caller.scope_to_write(memory_ref)?;
        let tie = RecordLookup::Source(scope.memory_ref, entry.clone());
        for _ in 0..POLLS_MAX {
            self.run_pass_by_name("infer", tenant).await?;
            if let Some(record) = self
                .parts
                .store
                .records_by(tenant, RecordKind::Commitment, &tie, 1)
                .await?
                .pop()
            {
                let info = CommitmentInfo::from_record(record)?;
                if info.commitment.state == CommitmentState::Pending
                    && info.commitment.next_at.is_none()
                {
                    self.change_commitment(caller, &info.id, CommitmentChange::Confirm)
                        .await?;
                }
                return Ok(info.id);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        // On this host commitments are not recognised in texts.
        Err(EngineError::NotFound("commitment"))
    }

    /// Waits until a commitment has fired.
    async fn wait_until_fired(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        for _ in 0..POLLS_MAX {
            self.run_pass_by_name("fire", caller.tenant()).await?;
            if self.get_commitment(caller, id).await?.commitment.fired > 0 {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(StoreError::Busy.into())
    }

    /// Runs a pass, unless another process is running it, which has the same effect.
    async fn run_pass_by_name(&self, name: &str, tenant: &TenantId) -> Result<(), EngineError> {
        let pass = registry::find(name).ok_or(EngineError::NotFound("pass"))?;
        match self.run_pass(pass, tenant, PassMode::Apply).await {
            Ok(_) | Err(EngineError::Store(StoreError::Busy | StoreError::Conflict)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// The payloads of the events that a commitment fired after a position in the log.
    async fn fires_since(
        &self,
        caller: &Caller,
        begun: Seq,
        id: &str,
    ) -> Result<Vec<Value>, EngineError> {
        let mut after = begun;
        let mut found = Vec::new();
        loop {
            let events = self
                .parts
                .store
                .events(caller.tenant(), after, ENTRIES_MAX)
                .await?;
            let Some(last) = events.last().map(|event| event.seq) else {
                return Ok(found);
            };
            let fired = events.iter().filter(|event| matches!(&event.body, EventBody::CommitmentFired(fired) if fired.commitment_id == id));
            found.extend(fired.map(|event| event.body.payload()));
            after = last;
        }
    }
}
