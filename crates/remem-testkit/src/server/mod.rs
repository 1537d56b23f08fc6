//! A server in the test's own process with its real routes: real engine and store, a clock that
//! tests set, ids that count up.

mod client;

pub use client::TestResponse;

use crate::TestEnv;
use axum::Router;
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{Agent, Permission, Policy, PrincipalId, TenantId, Trust, Workflow};
use remem_engine::embedders::Embedders;
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{Embedder, FixedClock, RecordingWebhookSender};
use remem_engine::proposals::{ActivationMode, ProposalSettings, ProposalStore};
use remem_engine::{Engine, EngineParts, HostKey, SecretRegistry, VaultKey, runner};
use remem_server::{App, router};
use remem_store::Store;
use std::sync::Arc;
use tokio::sync::watch;

/// The path prefix of the memory endpoints.
pub const MEMORY: &str = "/v1/host/remembrancer/memory";
/// The host's secret that conformance checks search for in all outputs.
pub const CANARY: &str = "canary-of-the-vault-7391";
/// A workflow that does nothing.
pub const NOOP: &str = r#"{"id": "conformance-noop", "nodes": [{"id": "noop", "typeId": "core.noop", "config": {"summary": true}}]}"#;

fn workflow(text: &str) -> Workflow {
    Workflow::parse(serde_json::from_str(text).unwrap()).unwrap()
}

/// The features of the server in most tests.
const FACTS: Facts = Facts {
    durable: true,
    writable: true,
    lexical: true,
    semantic: false,
    ttl: true,
    forget: false,
    compaction: false,
    attribution: true,
    snapshots: true,
    workspace: true,
    runs: true,
    agents: true,
    vault: true,
    webhooks: true,
    commitments: true,
    proposals: true,
    scheduling: true,
};

/// The parameters of a test's server.
struct ServerSetup<'a> {
    policy: Policy,
    secrets: Vec<(&'a str, &'a str)>,
    facts: Facts,
    agents: Vec<Agent>,
    seams: bool,
    vault: Option<VaultKey>,
    proposals: ProposalSettings,
    embedder: Option<Arc<dyn Embedder>>,
}

impl Default for ServerSetup<'_> {
    fn default() -> Self {
        let vault = Some(VaultKey::new([9; 32]));
        let proposals = ProposalSettings::default();
        ServerSetup {
            policy: Policy::default(),
            secrets: vec![],
            facts: FACTS,
            agents: vec![],
            seams: false,
            vault,
            proposals,
            embedder: None,
        }
    }
}

/// A server with its routes, and a client of it.
pub struct TestServer {
    /// The environment: a second server on the same one is a restart, or another node.
    pub env: TestEnv,
    /// The engine behind the routes.
    pub engine: Arc<Engine>,
    /// The store of its environment.
    pub store: Arc<dyn Store>,
    /// The clock of its environment.
    pub clock: Arc<FixedClock>,
    /// The requests that it posted to webhooks.
    pub post: Arc<RecordingWebhookSender>,
    /// The routes that calls go to.
    pub router: Router,
    /// Set to true, it makes the server stop.
    pub stop: watch::Sender<bool>,
}

impl TestServer {
    /// Starts a server as most tests need it.
    pub async fn new() -> TestServer {
        TestServer::with_policy(Policy::default(), vec![]).await
    }

    /// Starts one with the test seams, a workflow and the test secret.
    pub async fn with_seams() -> TestServer {
        TestServer::build(
            TestEnv::new().await,
            ServerSetup {
                seams: true,
                ..ServerSetup::default()
            },
        )
        .await
    }

    /// With the seams and a model that makes vectors.
    pub async fn with_seams_and_embedder(embedder: Arc<dyn Embedder>) -> TestServer {
        let facts = Facts {
            semantic: true,
            ..FACTS
        };
        TestServer::build(
            TestEnv::new().await,
            ServerSetup {
                seams: true,
                facts,
                embedder: Some(embedder),
                ..ServerSetup::default()
            },
        )
        .await
    }

    /// With a model that makes vectors, and what the facts then say.
    pub async fn with_embedder(embedder: Arc<dyn Embedder>) -> TestServer {
        let facts = Facts {
            semantic: true,
            ..FACTS
        };
        TestServer::build(
            TestEnv::new().await,
            ServerSetup {
                facts,
                embedder: Some(embedder),
                ..ServerSetup::default()
            },
        )
        .await
    }

    /// Starts one where applying a proposal takes so many approvals.
    pub async fn with_approval_gate(quorum: u32) -> TestServer {
        let proposals = ProposalSettings {
            activation: ActivationMode::ApprovalGate,
            quorum,
            ..ProposalSettings::default()
        };
        TestServer::build(
            TestEnv::new().await,
            ServerSetup {
                proposals,
                ..ServerSetup::default()
            },
        )
        .await
    }

    /// Starts one with another policy, and secrets of the host.
    pub async fn with_policy(policy: Policy, secrets: Vec<(&str, &str)>) -> TestServer {
        TestServer::with_facts(policy, secrets, FACTS, vec![]).await
    }

    /// Starts one with the given features and agents.
    pub async fn with_facts(
        policy: Policy,
        secrets: Vec<(&str, &str)>,
        facts: Facts,
        agents: Vec<Agent>,
    ) -> TestServer {
        TestServer::build(
            TestEnv::new().await,
            ServerSetup {
                policy,
                secrets,
                facts,
                agents,
                ..ServerSetup::default()
            },
        )
        .await
    }

    /// Starts one in an environment that another server was started in.
    pub async fn on(
        env: TestEnv,
        policy: Policy,
        secrets: Vec<(&str, &str)>,
        vault: Option<VaultKey>,
    ) -> TestServer {
        TestServer::build(
            env,
            ServerSetup {
                policy,
                secrets,
                vault,
                ..ServerSetup::default()
            },
        )
        .await
    }

    async fn build(env: TestEnv, setup: ServerSetup<'_>) -> TestServer {
        let post = Arc::new(RecordingWebhookSender::default());
        let key = HostKey::new([7; 32]);
        let secrets = setup
            .secrets
            .into_iter()
            .map(|(id, value)| (None, SecretValue::new(id, value)))
            .collect();
        let engine = Arc::new(Engine::new(EngineParts {
            proposal_store: env
                .review
                .clone()
                .map(ProposalStore::new)
                .unwrap_or_default(),
            proposal_settings: setup.proposals,
            webhook_sender: post.clone(),
            envelope: remem_wire::webhook::envelope,
            policy: setup.policy,
            secrets: SecretRegistry::new(&key, secrets),
            vault: setup.vault,
            test_secrets: [remem_engine::TEST_SECRET, remem_engine::CANARY_SECRET]
                .map(|id| SecretValue::new(id, CANARY))
                .to_vec(),
            capabilities: Capabilities::compute(setup.facts),
            workflows: if setup.seams {
                vec![workflow(NOOP)]
            } else {
                Vec::new()
            },
            test_endpoints: setup.seams,
            agents: setup.agents,
            embedders: Embedders::new(setup.embedder, None),
            ..EngineParts::new(
                env.store.clone(),
                env.directory.clone(),
                env.clock.clone(),
                env.ids.clone(),
                key,
            )
        }));
        let (stop, stopping) = watch::channel(false);
        runner::start_run_executor(&engine, &stopping);
        let router = router(App::new(engine.clone(), None, false, stopping));
        let host = TestServer {
            store: env.store.clone(),
            clock: env.clock.clone(),
            env,
            engine,
            post,
            router,
            stop,
        };
        host.key("a", "key-of-a", &Permission::ALL).await;
        host
    }

    /// Adds a key whose secret is `text`.
    pub async fn key(&self, tenant: &str, text: &str, permissions: &[Permission]) {
        let tenant = TenantId::parse(tenant).unwrap();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: permissions.to_vec(),
            expires_at: None,
            principal: None,
            trust: Some(Trust::Operator),
        };
        self.engine.add_key(text, request).await.unwrap();
    }

    /// Adds a key of a user of tenant `a`; its secret is the user's name.
    pub async fn user(&self, name: &str) {
        let tenant = TenantId::parse("a").unwrap();
        let principal = PrincipalId::parse(name);
        let permissions = Permission::ALL.to_vec();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions,
            expires_at: None,
            principal,
            trust: Some(Trust::Operator),
        };
        self.engine.add_key(name, request).await.unwrap();
    }
}
