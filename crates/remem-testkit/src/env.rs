//! What outlives a process: storage, a clock that tests set, and names that count up. Hosts are
//! started on it; a second one is another node, or the same after a restart.

use crate::storage::{self, Storage};
use crate::{FaultStore, NOON, TestHost};
use remem_core::{Permission, Policy, TenantId};
use remem_engine::keys::KeyRequest;
use remem_engine::model::ModelPort;
use remem_engine::ports::{Clock, CountedIds, FixedClock};
use remem_engine::proposals::Desk;
use remem_engine::{Engine, HostKey, Parts, VaultKey};
use remem_store::{Directory, Review, Store};
use remem_store_sql::Location;
use std::sync::Arc;

/// The ground that hosts of a test stand on.
#[derive(Clone)]
pub struct TestEnv {
    /// The store that fails when the test says so, in front of the real one.
    pub faults: Arc<FaultStore>,
    /// What hosts are given: `faults`, or something in its place.
    pub store: Arc<dyn Store>,
    /// Proposals under review, for hosts that have them.
    pub review: Option<Arc<dyn Review>>,
    /// Tenants and keys.
    pub directory: Arc<dyn Directory>,
    /// The time of all hosts.
    pub clock: Arc<FixedClock>,
    /// The names that hosts give.
    pub ids: Arc<CountedIds>,
    /// The limits of the next host.
    pub policy: Policy,
    /// The model of the next host.
    pub model: Option<ModelPort>,
}

impl TestEnv {
    /// On the store that the environment chooses.
    pub async fn new() -> TestEnv {
        TestEnv::over(storage::open().await)
    }

    /// On SQLite in memory, whatever the environment chooses: for tests that pause the time of
    /// their runtime, or that count the calls of a store.
    #[must_use]
    pub fn sqlite() -> TestEnv {
        TestEnv::over(storage::sqlite(Location::Memory))
    }

    /// On that storage.
    #[must_use]
    pub fn over(storage: Storage) -> TestEnv {
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

    /// The same, with hosts that reach the store past `faults`.
    #[must_use]
    pub fn past_faults(&self) -> TestEnv {
        TestEnv {
            store: self.faults.inner().clone(),
            ..self.clone()
        }
    }

    /// The same, with hosts over a store of which about `faults_in_256` of 256 calls fail.
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

    /// What an engine on this ground is made of.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let parts = Parts::new(
            self.store.clone(),
            self.directory.clone(),
            self.clock.clone(),
            self.ids.clone(),
            HostKey::new([3; 32]),
        );
        Parts {
            review: self.review.clone().map(Desk::over).unwrap_or_default(),
            vault: Some(VaultKey::new([1; 32])),
            policy: self.policy.clone(),
            model: self.model.clone(),
            ..parts
        }
    }

    /// A process, seen by the tenant `t`.
    pub async fn host(&self) -> TestHost {
        self.host_of("t").await
    }

    /// A process, seen by a tenant.
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
    pub fn pass_leases(&self) {
        self.clock.set(self.clock.now().plus_ms(31_000));
    }
}
