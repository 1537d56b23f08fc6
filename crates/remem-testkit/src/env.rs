//! The state that outlives a process: storage, a clock that tests set, and a generator of ids.
//! Hosts are started on it; a second host is another node, or the same one after a restart.

use crate::storage::{self, TestStorage};
use crate::{FaultStore, NOON, TestHost};
use remem_core::{Permission, Policy, TenantId};
use remem_engine::keys::KeyRequest;
use remem_engine::model::ModelPort;
use remem_engine::ports::{Clock, CountedIds, FixedClock};
use remem_engine::proposals::ProposalStore;
use remem_engine::{Engine, EngineParts, HostKey, VaultKey};
use remem_store::{Directory, Review, Store};
use remem_store_sql::Location;
use std::sync::Arc;

/// The environment that the hosts of a test share.
#[derive(Clone)]
pub struct TestEnv {
    /// The store that fails on demand, in front of the real one.
    pub faults: Arc<FaultStore>,
    /// The store that hosts get: `faults`, or another one in its place.
    pub store: Arc<dyn Store>,
    /// The store of proposals under review, for hosts that have them.
    pub review: Option<Arc<dyn Review>>,
    /// The directory of tenants and keys.
    pub directory: Arc<dyn Directory>,
    /// The clock of all hosts.
    pub clock: Arc<FixedClock>,
    /// The generator of ids of all hosts.
    pub ids: Arc<CountedIds>,
    /// The policy of the next host.
    pub policy: Policy,
    /// The model of the next host.
    pub model: Option<ModelPort>,
}

impl TestEnv {
    /// Creates an environment on the store that the REMEM_TEST_STORE variable chooses.
    pub async fn new() -> TestEnv {
        TestEnv::over(storage::open().await)
    }

    /// Creates one on SQLite in memory, independent of the variable: for tests that pause the time
    /// of their runtime, or that count the calls of a store.
    #[must_use]
    pub fn sqlite() -> TestEnv {
        TestEnv::over(storage::sqlite(Location::Memory))
    }

    /// Creates one on this storage.
    #[must_use]
    pub fn over(storage: TestStorage) -> TestEnv {
        let faults = Arc::new(FaultStore::new(storage.store));
        TestEnv {
            store: faults.clone(),
            faults,
            review: Some(storage.review),
            directory: storage.directory,
            clock: Arc::new(FixedClock::at(NOON)),
            ids: Arc::default(),
            policy: Policy::default(),
            model: None,
        }
    }

    /// Returns the same environment, with hosts that use the store behind `faults`.
    #[must_use]
    pub fn without_faults(&self) -> TestEnv {
        TestEnv {
            store: self.faults.inner().clone(),
            ..self.clone()
        }
    }

    /// Returns the same environment, with hosts on a store of which about `faults_in_256` of 256
    /// calls fail.
    #[must_use]
    pub fn failing(&self, seed: u64, faults_in_256: u8) -> TestEnv {
        let inner = self.faults.inner().clone();
        let faults = Arc::new(FaultStore::failing(inner, seed, faults_in_256));
        TestEnv {
            store: faults.clone(),
            faults,
            ..self.clone()
        }
    }

    /// The parts of an engine in this environment.
    #[must_use]
    pub fn parts(&self) -> EngineParts {
        let parts = EngineParts::new(
            self.store.clone(),
            self.directory.clone(),
            self.clock.clone(),
            self.ids.clone(),
            HostKey::new([3; 32]),
        );
        EngineParts {
            proposal_store: self
                .review
                .clone()
                .map(ProposalStore::new)
                .unwrap_or_default(),
            vault: Some(VaultKey::new([1; 32])),
            policy: self.policy.clone(),
            model: self.model.clone(),
            ..parts
        }
    }

    /// Starts a host, with a caller of the tenant `t`.
    pub async fn host(&self) -> TestHost {
        self.host_of("t").await
    }

    /// Starts a host, with a caller of this tenant.
    pub async fn host_of(&self, tenant: &str) -> TestHost {
        let engine = Arc::new(Engine::new(self.parts()));
        let key = format!("key-{tenant}");
        let request = KeyRequest {
            tenant: TenantId::parse(tenant).unwrap(),
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
            trust: None,
        };
        engine.add_key(&key, request).await.unwrap();
        let caller = engine.authenticate(&key).await.unwrap();
        TestHost {
            engine,
            caller,
            env: self.clone(),
        }
    }

    /// Moves the clock beyond the end of every lease.
    pub fn expire_leases(&self) {
        self.clock.set(self.clock.now().plus_ms(31_000));
    }
}
