//! A host in process: real engine, real store, fixed clock, counted ids, the real router.
#![allow(dead_code, reason = "each test file uses its own part")]

mod storage;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{Agent, Permission, Policy, TenantId, Timestamp, Workflow};
use remem_engine::embedders::Embedders;
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{CountedIds, Embedder, FixedClock, RecordedPost};
use remem_engine::proposals::{Activation, Desk, Settings};
use remem_engine::{Engine, HostKey, Parts, Secrets, VaultKey, runner};
use remem_server::{App, router};
use remem_store::{Directory, Review, Store};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tower::ServiceExt;

pub const NOON: Timestamp = Timestamp(1_700_000_000_000);
pub const MEMORY: &str = "/v1/host/remembrancer/memory";

/// What the host of most tests has.
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

pub const CANARY: &str = "canary-of-the-vault-7391";
pub const NOOP: &str = r#"{"id": "conformance-noop", "nodes": [{"id": "noop", "typeId": "core.noop", "config": {"summary": true}}]}"#;

fn workflow(text: &str) -> Workflow {
    Workflow::parse(serde_json::from_str(text).unwrap()).unwrap()
}

/// What outlives a host: a second one on the same ground is a restart, or another node.
#[derive(Clone)]
pub struct Ground {
    pub store: Arc<dyn Store>,
    pub review: Arc<dyn Review>,
    pub directory: Arc<dyn Directory>,
    pub clock: Arc<FixedClock>,
    pub ids: Arc<CountedIds>,
}

impl Ground {
    async fn fresh() -> Ground {
        let (store, review, directory) = storage::open().await;
        Ground {
            store,
            review,
            directory,
            clock: Arc::new(FixedClock::at(NOON)),
            ids: Arc::default(),
        }
    }
}

/// What a test's host is made of.
struct Setup<'a> {
    policy: Policy,
    secrets: Vec<(&'a str, &'a str)>,
    facts: Facts,
    agents: Vec<Agent>,
    seams: bool,
    vault: Option<VaultKey>,
    proposals: Settings,
    embedder: Option<Arc<dyn Embedder>>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        let vault = Some(VaultKey::new([9; 32]));
        let proposals = Settings::default();
        Setup {
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

pub struct Host {
    pub ground: Ground,
    pub engine: Arc<Engine>,
    pub store: Arc<dyn Store>,
    pub clock: Arc<FixedClock>,
    pub post: Arc<RecordedPost>,
    pub router: Router,
    pub stop: watch::Sender<bool>,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }
    pub fn code(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

impl Host {
    pub async fn new() -> Host {
        Host::with(Policy::default(), vec![]).await
    }

    /// With the seams, a few workflows and the test secret.
    pub async fn with_seams() -> Host {
        Host::made(
            Ground::fresh().await,
            Setup {
                seams: true,
                ..Setup::default()
            },
        )
        .await
    }

    /// With a model that makes vectors, and what the facts then say.
    pub async fn with_embedder(embedder: Arc<dyn Embedder>) -> Host {
        let facts = Facts {
            semantic: true,
            ..FACTS
        };
        Host::made(
            Ground::fresh().await,
            Setup {
                facts,
                embedder: Some(embedder),
                ..Setup::default()
            },
        )
        .await
    }

    /// Where applying a proposal takes so many approvals.
    pub async fn gated(quorum: u32) -> Host {
        let proposals = Settings {
            activation: Activation::ApprovalGate,
            quorum,
            ..Settings::default()
        };
        Host::made(
            Ground::fresh().await,
            Setup {
                proposals,
                ..Setup::default()
            },
        )
        .await
    }

    pub async fn with(policy: Policy, secrets: Vec<(&str, &str)>) -> Host {
        Host::of(policy, secrets, FACTS, vec![]).await
    }

    /// A host that has what the facts say, and agents of its own.
    pub async fn of(
        policy: Policy,
        secrets: Vec<(&str, &str)>,
        facts: Facts,
        agents: Vec<Agent>,
    ) -> Host {
        Host::made(
            Ground::fresh().await,
            Setup {
                policy,
                secrets,
                facts,
                agents,
                ..Setup::default()
            },
        )
        .await
    }

    pub async fn on(
        ground: Ground,
        policy: Policy,
        secrets: Vec<(&str, &str)>,
        vault: Option<VaultKey>,
    ) -> Host {
        Host::made(
            ground,
            Setup {
                policy,
                secrets,
                vault,
                ..Setup::default()
            },
        )
        .await
    }

    async fn made(ground: Ground, setup: Setup<'_>) -> Host {
        let post = Arc::new(RecordedPost::default());
        let key = HostKey::new([7; 32]);
        let secrets = setup
            .secrets
            .into_iter()
            .map(|(id, value)| (None, SecretValue::new(id, value)))
            .collect();
        let engine = Arc::new(Engine::new(Parts {
            review: Desk::over(ground.review.clone()),
            proposals: setup.proposals,
            post: post.clone(),
            envelope: remem_wire::webhook::envelope,
            policy: setup.policy,
            secrets: Secrets::new(&key, secrets),
            vault: setup.vault,
            test_secrets: vec![SecretValue::new(remem_engine::TEST_SECRET, CANARY)],
            capabilities: Capabilities::compute(setup.facts),
            workflows: if setup.seams {
                vec![workflow(NOOP)]
            } else {
                Vec::new()
            },
            seams: setup.seams,
            agents: setup.agents,
            embedders: Embedders::new(setup.embedder, None),
            ..Parts::new(
                ground.store.clone(),
                ground.directory.clone(),
                ground.clock.clone(),
                ground.ids.clone(),
                key,
            )
        }));
        let (stop, stopping) = watch::channel(false);
        runner::start_runs(&engine, &stopping);
        let router = router(App::new(engine.clone(), None, false, stopping));
        let host = Host {
            store: ground.store.clone(),
            clock: ground.clock.clone(),
            ground,
            engine,
            post,
            router,
            stop,
        };
        host.key("a", "key-of-a", &Permission::ALL).await;
        host
    }

    pub async fn key(&self, tenant: &str, text: &str, permissions: &[Permission]) {
        let tenant = TenantId::parse(tenant).unwrap();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: permissions.to_vec(),
            expires_at: None,
            principal: None,
        };
        self.engine.add_key(text, request).await.unwrap();
    }

    /// A key of a user of tenant `a`; its text is the user's name.
    pub async fn user(&self, name: &str) {
        let tenant = TenantId::parse("a").unwrap();
        let principal = remem_core::PrincipalId::parse(name);
        let permissions = Permission::ALL.to_vec();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions,
            expires_at: None,
            principal,
        };
        self.engine.add_key(name, request).await.unwrap();
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes().to_vec(),
        }
    }

    /// A call with a key; headers as pairs.
    pub async fn call(
        &self,
        key: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("key-of-a", "GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("key-of-a", "POST", path, &[], body.to_string())
            .await
    }

    /// Installs a workflow.
    pub async fn install(&self, id: &str, nodes: Value) {
        let definition = serde_json::json!({"id": id, "nodes": nodes}).to_string();
        let path = format!("/v1/host/remembrancer/workflows/{id}");
        let put = self.call("key-of-a", "PUT", &path, &[], definition).await;
        assert!(put.status.is_success(), "{}", put.json());
    }

    /// Starts a run; answers its name.
    pub async fn start(&self, body: Value) -> String {
        let created = self.post("/v1/runs", body).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.json());
        created.json()["runId"].as_str().unwrap().to_owned()
    }

    /// Waits for a run's end; answers its events.
    pub async fn ended(&self, id: &str) -> Vec<Value> {
        for _ in 0..200 {
            let page = self.get(&format!("/v1/runs/{id}/events/poll")).await.json();
            if page["isComplete"] == true {
                return page["events"].as_array().unwrap().clone();
            }
            let last = page["events"].as_array().unwrap().len() - 1;
            self.get(&format!(
                "/v1/runs/{id}/events/poll?lastSequence={last}&timeout=5"
            ))
            .await;
        }
        panic!("the run {id} does not end");
    }

    /// Runs to the end; answers the run's name and state.
    pub async fn run(&self, body: Value) -> (String, Value) {
        let id = self.start(body).await;
        self.ended(&id).await;
        let state = self.get(&format!("/v1/runs/{id}")).await.json();
        (id, state)
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.call("key-of-a", "DELETE", path, &[], "").await
    }
}
