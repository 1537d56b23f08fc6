//! The engine: the parts that every operation shares, the clock, and idempotency keys. Operations
//! themselves are in files of their own.

use crate::bearer::BearerAuth;
use crate::bounded_map::BoundedMap;
use crate::caller::Caller;
use crate::commitments::CommitmentRules;
use crate::cpu::CpuPool;
use crate::embedders::Embedders;
use crate::error::EngineError;
use crate::model::ModelPort;
use crate::ports::{Clock, Ids, RecordingWebhookSender, WebhookRenderer, WebhookSender};
use crate::proposals::{ProposalSettings, ProposalStore};
use crate::registry::PassLog;
use crate::runs::RunQueue;
use crate::secrets::{RedactionRules, SecretRegistry};
use crate::vault::VaultKey;
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::sabotage;
use remem_core::{
    Agent, Batch, Idempotency, MemoryRef, Permission, Policy, Precondition, PrincipalId, Profiles,
    Record, RecordKind, Rejection, Revision, TenantId, Timestamp, Workflow,
};
use remem_store::{CommitResult, Directory, ReadAt, Store, StoreError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The host's own secret, from which every keyed digest is derived. It is stored outside the
/// database.
#[derive(Clone)]
pub struct HostKey(zeroize::Zeroizing<[u8; 32]>);

impl HostKey {
    /// Takes 32 random bytes as the secret.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> HostKey {
        HostKey(zeroize::Zeroizing::new(bytes))
    }

    /// Derives a key for one purpose. Keys of different purposes are independent: one that leaks
    /// says nothing about another.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, self.0.as_ref())
    }
}

/// The dependencies and settings that an engine is built from. The binary fills them in; it is the
/// only place that knows the concrete types.
pub struct EngineParts {
    /// Storage of entries, events and records.
    pub store: Arc<dyn Store>,
    /// Proposals waiting for a decision. The default stores none, which turns proposals off.
    pub proposal_store: ProposalStore,
    /// Settings for approving proposals and for how they take effect.
    pub proposal_settings: ProposalSettings,
    /// Storage of tenants and API keys.
    pub directory: Arc<dyn Directory>,
    /// Verifies tokens of an external issuer. Without it, callers can authenticate by API key only.
    pub bearer: Option<BearerAuth>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of fresh ids for entries, jobs and lease holders.
    pub ids: Arc<dyn Ids>,
    /// HTTP client that delivers events to webhooks.
    pub webhook_sender: Arc<dyn WebhookSender>,
    /// Language model that rewrites summaries. Without it they stay as the host composed them.
    pub model: Option<ModelPort>,
    /// Renders an event as the body of a webhook delivery, in the JSON of the wire.
    pub envelope: WebhookRenderer,
    /// Limits and defaults that hold for every tenant.
    pub policy: Policy,
    /// Secrets that the operator registered for redaction.
    pub secrets: SecretRegistry,
    /// The host's own secret, for keyed digests.
    pub host_key: HostKey,
    /// Key that encrypts the secrets callers store; without it the vault is off.
    pub vault: Option<VaultKey>,
    /// Secrets that every run may resolve. Empty except on hosts that are started to be tested.
    pub test_secrets: Vec<SecretValue>,
    /// Features that this host advertises.
    pub capabilities: Capabilities,
    /// Workflow definitions that every tenant can run.
    pub workflows: Vec<Workflow>,
    /// Whether the test endpoints for conformance checks exist, and the node types that they need.
    pub test_endpoints: bool,
    /// Agents that every tenant can use.
    pub agents: Vec<Agent>,
    /// How long the operator keeps backups of the storage, if known: erasure reports state it.
    pub backups_kept_ms: Option<i64>,
    /// Rules for recognising commitments, for tenants without rules of their own.
    pub commitments: CommitmentRules,
    /// Which memories are workshop memories, and their settings.
    pub profiles: Profiles,
    /// Embedding models. Without one, search uses words only.
    pub embedders: Embedders,
    /// Thread pool for work whose cost grows with what callers send.
    pub cpu: CpuPool,
}

impl EngineParts {
    /// Builds parts with the required dependencies; every optional part is off or at its default.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        directory: Arc<dyn Directory>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        host_key: HostKey,
    ) -> EngineParts {
        EngineParts {
            store,
            proposal_store: ProposalStore::default(),
            proposal_settings: ProposalSettings::default(),
            directory,
            bearer: None,
            clock,
            ids,
            webhook_sender: Arc::new(RecordingWebhookSender::default()),
            model: None,
            envelope: |_, _| None,
            policy: Policy::default(),
            secrets: SecretRegistry::none(&host_key),
            host_key,
            vault: None,
            capabilities: Capabilities::compute(Facts::default()),
            workflows: Vec::new(),
            test_endpoints: false,
            test_secrets: Vec::new(),
            agents: Vec::new(),
            backups_kept_ms: None,
            commitments: CommitmentRules::default(),
            profiles: Profiles::default(),
            embedders: Embedders::default(),
            cpu: CpuPool::default(),
        }
    }
}

/// The application: every operation is a method. Share it by `Arc`.
pub struct Engine {
    pub(crate) parts: EngineParts,
    /// The largest instant that the machine's clock has reported: [`Engine::now`] never runs
    /// backwards.
    high_water: AtomicI64,
    /// Instant of each tenant's last commit, as read when this process met the tenant. Inside a
    /// tenant time never runs backwards, so nothing that ended comes back. One tenant's instant
    /// never affects another's. What is dropped is read again, and never earlier.
    last_commits: Mutex<BoundedMap<TenantId, Timestamp>>,
    pub(crate) open_feeds: Mutex<HashMap<TenantId, usize>>,
    pub(crate) pass_log: PassLog,
    pub(crate) run_queue: RunQueue,
}

impl Engine {
    /// Creates an engine; it starts no tasks.
    #[must_use]
    pub fn new(parts: EngineParts) -> Engine {
        Engine {
            parts,
            high_water: AtomicI64::new(i64::MIN),
            last_commits: Mutex::new(BoundedMap::new(LAST_COMMITS_MAX)),
            open_feeds: Mutex::default(),
            pass_log: PassLog::default(),
            run_queue: RunQueue::default(),
        }
    }

    /// The features that this host advertises.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.parts.capabilities
    }

    /// Whether the test endpoints for conformance checks exist here.
    #[must_use]
    pub fn has_test_endpoints(&self) -> bool {
        self.parts.test_endpoints
    }

    /// Ids of the workflows that conformance checks may run here.
    #[must_use]
    pub fn test_workflow_ids(&self) -> Vec<String> {
        let named = self
            .parts
            .workflows
            .iter()
            .filter(|_| self.parts.test_endpoints)
            .map(|workflow| workflow.id.clone());
        named.collect()
    }

    /// How approved proposals take effect on this host.
    #[must_use]
    pub fn activation(&self) -> crate::proposals::ActivationMode {
        self.parts.proposal_settings.activation
    }

    /// Limits and defaults that hold for every tenant.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.parts.policy
    }

    /// Which memories have which profile. Needs permission to read memory.
    pub fn profiles(&self, caller: &Caller) -> Result<&Profiles, EngineError> {
        caller.require(Permission::MemoryRead)?;
        Ok(&self.parts.profiles)
    }

    /// The current time by the machine's clock, never earlier than it was before. For what happens
    /// inside a tenant use `now_for`.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = self.parts.clock.now().0;
        Timestamp(sabotage!(
            "time-runs-backwards",
            self.high_water.fetch_max(now, Ordering::SeqCst).max(now),
            now
        ))
    }

    /// How far the machine's clock is behind the latest instant that it reported, in milliseconds.
    #[must_use]
    pub fn clock_behind_ms(&self) -> i64 {
        (self.now().0 - self.parts.clock.now().0).max(0)
    }

    /// Tenants whose last commit was more than an hour in the future when this process first met
    /// them, and by how many milliseconds. Until the clock catches up their time does not advance,
    /// and entries expire early. The commit came from a host with a wrong clock.
    #[must_use]
    pub fn tenants_ahead(&self) -> Vec<(TenantId, i64)> {
        let now = self.now();
        let mut ahead: Vec<(TenantId, i64)> = self
            .last_commits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(tenant, last)| (tenant.clone(), last.0.saturating_sub(now.0)))
            .filter(|(_, ms)| *ms > AHEAD_MS_MAX)
            .collect();
        ahead.sort();
        ahead
    }

    /// The current time for a tenant: like [`Engine::now`], and never earlier than the tenant's
    /// last commit by any process.
    pub(crate) async fn now_for(&self, tenant: &TenantId) -> Result<Timestamp, EngineError> {
        let known = self
            .last_commits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(tenant)
            .copied();
        let last = match known {
            Some(last) => last,
            None => self.load_last_commit(tenant).await?,
        };
        Ok(sabotage!(
            "time-runs-backwards",
            self.now().max(last),
            self.now()
        ))
    }

    /// Reads the instant of a tenant's last commit into `last_commits`, and logs a warning if it is
    /// far in the future.
    async fn load_last_commit(&self, tenant: &TenantId) -> Result<Timestamp, EngineError> {
        let last = self.parts.store.head(tenant).await?.at;
        sabotage!("a-tenant-s-clock-moves-every-tenant-s", {}, {
            self.high_water.fetch_max(last.0, Ordering::SeqCst);
        });
        self.last_commits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(tenant.clone(), last);
        let ahead_ms = last.0.saturating_sub(self.now().0);
        if ahead_ms > AHEAD_MS_MAX {
            tracing::warn!(tenant = %tenant, ahead_ms, "the last commit of a tenant is ahead of the clock: its time stands still until then");
        }
        self.record_tenants_ahead();
        Ok(last)
    }

    /// Sets the metric that counts tenants whose time is ahead.
    pub(crate) fn record_tenants_ahead(&self) {
        metrics::gauge!("remem_tenants_ahead").set(self.tenants_ahead().len() as f64);
    }

    /// The snapshot that a read uses: now, once this node has at least the revision `at_least`.
    pub(crate) async fn read_at(
        &self,
        caller: &Caller,
        at_least: Option<Revision>,
    ) -> Result<ReadAt, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        if let Some(revision) = at_least {
            self.wait_for(caller.tenant(), revision).await?;
        }
        Ok(ReadAt::Now(now))
    }

    /// Waits until this node has `revision`, which makes "read your writes" hold on any node. Fails
    /// with `NotReached` after the policy's longest wait.
    async fn wait_for(&self, tenant: &TenantId, revision: Revision) -> Result<(), EngineError> {
        let store = &self.parts.store;
        if store.head(tenant).await?.revision >= revision {
            return Ok(());
        }
        let deadline = Duration::from_millis(self.parts.policy.at_least_wait_ms_max);
        let reached = async {
            let mut watch = store.watch_commits(tenant).await?;
            loop {
                // Commits of other processes may trigger no notification, so poll as well.
                let notified = tokio::time::timeout(AT_LEAST_POLL, watch.changed()).await;
                if let Ok(Err(_)) = notified {
                    // The store closed the tenant's idle file: get a new watch. The old one would
                    // report its end at once, again and again.
                    sabotage!(
                        "a-closed-watch-is-polled-without-a-pause",
                        watch = store.watch_commits(tenant).await?
                    );
                }
                if store.head(tenant).await?.revision >= revision {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(deadline, reached)
            .await
            .unwrap_or(Err(EngineError::NotReached))
    }

    /// The policy of a tenant, for work that has no caller.
    pub(crate) async fn policy_for(&self, tenant: &TenantId) -> Result<Policy, EngineError> {
        let found = self.parts.directory.tenant(tenant).await?;
        let shapes = found.map_or(self.parts.policy.shapes, |tenant| tenant.shapes);
        Ok(Policy {
            shapes,
            ..self.parts.policy.clone()
        })
    }

    /// The policy of the caller's tenant.
    pub(crate) fn policy_of(&self, caller: &Caller) -> Policy {
        Policy {
            shapes: caller.shapes,
            ..self.parts.policy.clone()
        }
    }

    /// The redaction rules of a tenant: the registered secrets and those of its vault. Cached; the
    /// vault is checked again after `VAULT_RECHECK_MS`.
    pub(crate) async fn redaction_rules(
        &self,
        tenant: &TenantId,
    ) -> Result<Arc<RedactionRules>, EngineError> {
        let secrets = &self.parts.secrets;
        let now = self.now();
        let known = secrets.cached(tenant);
        if let Some(known) = known
            .as_ref()
            .filter(|known| now.0 - known.checked_at.0 < VAULT_RECHECK_MS)
        {
            return Ok(known.rules.clone());
        }
        let look = secrets.begin_read(tenant);
        // A tenant that does not exist has no vault, and reading its records could create its
        // database file.
        let exists = self.parts.directory.tenant(tenant).await?.is_some();
        let records = if exists {
            self.vault_records(tenant).await?
        } else {
            Vec::new()
        };
        let vault = vault_digest(&records);
        if let Some(known) = known.filter(|known| known.vault_digest == vault) {
            secrets.confirm_unchanged(tenant, look, now);
            return Ok(known.rules);
        }
        let _turn = secrets.lock_build(tenant).await;
        if let Some(known) = secrets
            .cached(tenant)
            .filter(|known| known.vault_digest == vault)
        {
            return Ok(known.rules);
        }
        let values = self.vault_values(tenant, &records)?;
        Ok(secrets.build_rules(tenant, look, vault, now, values).await)
    }

    /// Turns an idempotency key and its request into digests; nothing readable of either is stored.
    pub(crate) fn idempotency(
        &self,
        operation: &'static str,
        key: Option<&str>,
        body: &RequestDigest,
    ) -> Result<Option<Idempotency>, Rejection> {
        let Some(key) = key else { return Ok(None) };
        let chars = key.chars().count();
        let limit = self.parts.policy.idempotency_key_chars_max;
        if chars == 0 {
            return Err(Rejection::Empty {
                field: "Idempotency-Key",
            });
        }
        if chars > limit {
            return Err(Rejection::TooLarge {
                field: "Idempotency-Key",
                unit: "characters",
                limit: limit as u64,
                actual: chars as u64,
            });
        }
        let secret = self.parts.host_key.derive("remembrancer idempotency v1");
        let digest = |bytes: &[u8]| *blake3::keyed_hash(&secret, bytes).as_bytes();
        // A key used in one user's own memory belongs to that user: other users who send the same
        // key learn nothing about it.
        let key = match sabotage!(
            "keys-of-others-are-known",
            body.owner(),
            body.owner().filter(|_| false)
        ) {
            Some(owner) => digest(format!("{owner}\0{key}").as_bytes()),
            None => digest(key.as_bytes()),
        };
        Ok(Some(Idempotency {
            operation,
            key,
            body: digest(&body.0),
        }))
    }
}

impl Engine {
    /// The committed result of an earlier request with the same key and body, if there was one.
    /// Must be called before a keyed write is refused: a repetition gets the first answer even if
    /// the write would no longer be possible. The same key with another body is an error.
    pub(crate) async fn replayed_commit(
        &self,
        tenant: &TenantId,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<CommitResult>, EngineError> {
        let Some(idempotency) = sabotage!(
            "a-repetition-is-refused-before-its-key-is-looked-up",
            idempotency,
            idempotency.filter(|_| false)
        ) else {
            return Ok(None);
        };
        let now = self.now_for(tenant).await?;
        // No record has this version, so the commit conflicts and writes nothing, unless the store
        // knows the key and replays its result.
        let never = Precondition::Version(u64::from(u32::MAX) << 16);
        let batch = Batch::new(tenant.clone(), now).idempotent(Some(idempotency.clone()));
        match self
            .parts
            .store
            .commit(batch.delete_record(RecordKind::File, String::new(), never))
            .await
        {
            Ok(committed) => Ok(Some(committed)),
            Err(StoreError::Conflict) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }
}

/// How long a read that waits for a revision waits for a notification before it looks itself.
const AT_LEAST_POLL: Duration = Duration::from_millis(20);

/// Tenants whose last commit is remembered.
const LAST_COMMITS_MAX: usize = 100_000;

/// How far ahead a tenant's last commit must be before it is reported.
const AHEAD_MS_MAX: i64 = 3_600_000;

/// How long a tenant's vault is cached before changes by other nodes are looked for.
const VAULT_RECHECK_MS: i64 = 1_000;

/// Digest that identifies the content of a vault. Versions alone would not do: a secret that is
/// deleted and set again begins at 1.
fn vault_digest(records: &[Record]) -> [u8; 32] {
    let mut digest = RequestDigest::default();
    for record in records {
        digest.part(record.key.as_bytes());
        digest.part(&record.version.to_le_bytes());
        digest.part(
            serde_json::to_string(&record.body)
                .unwrap_or_default()
                .as_bytes(),
        );
    }
    *blake3::hash(&digest.0).as_bytes()
}

/// The meaning of a request as bytes, each part with its length in front, so that two different
/// requests never have the same bytes.
#[derive(Clone, Default)]
pub(crate) struct RequestDigest(Vec<u8>);

impl RequestDigest {
    /// Appends a part, with its length in front of it.
    pub fn part(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u64).to_le_bytes());
        self.0.extend(bytes);
    }

    /// Starts the digest of a request that belongs to one user although it names no memory.
    pub fn of_user(user: &PrincipalId) -> RequestDigest {
        let mut digest = RequestDigest::default();
        digest.part(format!("~{user}/-").as_bytes());
        digest
    }

    /// The user that the request belongs to, if it does: its first part names a memory of that
    /// user.
    fn owner(&self) -> Option<String> {
        let (length, rest) = self.0.split_first_chunk::<8>()?;
        let first = rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let memory_ref = MemoryRef::parse(std::str::from_utf8(first).ok()?)?;
        memory_ref.owner().map(str::to_owned)
    }

    /// The bytes collected so far.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_digest_names_the_owner_of_a_private_memory() {
        let owner = |first: &str| {
            let mut digest = RequestDigest::default();
            digest.part(first.as_bytes());
            digest.part(b"more");
            digest.owner()
        };
        assert_eq!(
            (
                owner("~ada/ops").as_deref(),
                owner("ops"),
                owner("~/ops"),
                owner("")
            ),
            (Some("ada"), None, None, None)
        );
        assert_eq!(
            RequestDigest::of_user(&PrincipalId::parse("bob").unwrap())
                .owner()
                .as_deref(),
            Some("bob")
        );
        assert_eq!(RequestDigest::default().owner(), None);
    }
}
