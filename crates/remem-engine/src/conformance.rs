//! What the seams for conformance checks plant and look for. Nothing here does anything on a host without them.

use crate::archive::Kept;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{Batch, Draft, EntryId, Origin, Permission, Rejection, Timestamp};
use remem_store::{Filter, Page, ReadAt};

/// Entries that a check's memory may hold.
const ENTRIES_MAX: u32 = 1_000;
/// When planted entries were written: the same at every call, so that what is made of them is the same.
const PLANTED_AT: Timestamp = Timestamp(1_767_225_600_000);

impl Engine {
    /// The value that must not show anywhere, if this host has seams.
    #[must_use]
    pub fn canary(&self) -> Option<String> {
        let canary = self.parts.test_secrets.iter().find(|secret| secret.id() == crate::CANARY_SECRET);
        canary.filter(|_| self.parts.seams).map(|secret| secret.expose(str::to_owned))
    }

    /// How many entries a check's memory holds.
    pub async fn planted(&self, caller: &Caller, memory_ref: &str) -> Result<u64, EngineError> {
        Ok(self.stats(caller, memory_ref, None).await?.entries)
    }

    /// Writes these texts, each under a name made of it, as if the canary were registered. With `only`, whatever else the
    /// memory holds goes.
    pub async fn plant(&self, caller: &Caller, memory_ref: &str, texts: &[String], only: bool) -> Result<(), EngineError> {
        caller.require(Permission::MemoryWrite)?;
        if !self.parts.seams {
            return Err(EngineError::NotFound);
        }
        let scope = caller.scope_to_write(memory_ref)?;
        let now = self.now_for(caller.tenant()).await?;
        let (policy, rules) = (self.policy_of(caller), self.rules(caller.tenant()).await?);
        let rules = self.parts.secrets.with(&rules, &self.parts.test_secrets);
        let mut batch = Batch::new(scope.tenant.clone(), now).by(caller.principal().clone());
        let mut names = Vec::new();
        for (n, text) in texts.iter().enumerate() {
            let name = format!("planted_{n:04}_{}", &blake3::hash(text.as_bytes()).to_hex()[..16]);
            let id = EntryId::parse(&name).ok_or(Rejection::MalformedName { field: "id" })?;
            let origin = Origin { id: id.clone(), created_at: Some(PLANTED_AT.plus_ms(n as i64)) };
            let draft = Draft { content: text.clone(), origin: Some(origin), ..Draft::default() };
            batch = batch.put(id, rules.admission(&policy, now).admit(&scope, draft)?);
            names.push(name);
        }
        if only {
            let page = Page { limit: ENTRIES_MAX, after: None };
            for entry in self.parts.store.list(&scope, &Filter::default(), &page, &ReadAt::Now(now)).await? {
                if !names.iter().any(|name| name == entry.id.as_str()) && !entry.tags.iter().any(|tag| tag == "source:distillation") {
                    batch = batch.delete(scope.memory_ref.clone(), entry.id);
                }
            }
        }
        self.parts.store.commit(batch).await?;
        Ok(())
    }

    /// Whether a text shows in what a memory holds, its archives included.
    pub async fn shows(&self, caller: &Caller, memory_ref: &str, text: &str) -> Result<bool, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let scope = caller.scope_to_write(memory_ref)?;
        let (page, at) = (Page { limit: ENTRIES_MAX, after: None }, ReadAt::Now(self.now_for(caller.tenant()).await?));
        let entries = self.parts.store.list(&scope, &Filter::default(), &page, &at).await?;
        if entries.iter().any(|entry| entry.content.contains(text) || entry.tags.iter().any(|tag| tag.contains(text))) {
            return Ok(true);
        }
        for one in self.archives(caller, memory_ref).await? {
            if let Kept::Bytes(bytes) = self.archive(caller, memory_ref, &one.sha256).await?
                && bytes.contains(text)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
