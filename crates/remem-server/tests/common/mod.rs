//! A host in process: real engine, real store, fixed clock, counted ids, the real router.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod storage;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use remem_core::capability::{Capabilities, Facts};
use remem_core::redact::SecretValue;
use remem_core::{Permission, Policy, TenantId, Timestamp};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{CountedIds, FixedClock};
use remem_engine::{Engine, HostKey, Parts, Secrets, VaultKey};
use remem_server::{App, router};
use remem_store::{Directory, Store};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tower::ServiceExt;

pub const NOON: Timestamp = Timestamp(1_700_000_000_000);
pub const MEMORY: &str = "/v1/host/remembrancer/memory";

/// What outlives a host: a second one on the same ground is a restart, or another node.
#[derive(Clone)]
pub struct Ground {
    pub store: Arc<dyn Store>,
    pub directory: Arc<dyn Directory>,
    pub clock: Arc<FixedClock>,
    pub ids: Arc<CountedIds>,
}

pub struct Host {
    pub ground: Ground,
    pub engine: Arc<Engine>,
    pub clock: Arc<FixedClock>,
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

    pub async fn with(policy: Policy, secrets: Vec<(&str, &str)>) -> Host {
        let (store, directory) = storage::open().await;
        let ground = Ground { store, directory, clock: Arc::new(FixedClock::at(NOON)), ids: Arc::default() };
        Host::on(ground, policy, secrets, Some(VaultKey::new([9; 32]))).await
    }

    pub async fn on(ground: Ground, policy: Policy, secrets: Vec<(&str, &str)>, vault: Option<VaultKey>) -> Host {
        let key = HostKey::new([7; 32]);
        let secrets = secrets.into_iter().map(|(id, value)| (None, SecretValue::new(id, value))).collect();
        let engine = Arc::new(Engine::new(Parts {
            store: ground.store.clone(),
            directory: ground.directory.clone(),
            clock: ground.clock.clone(),
            ids: ground.ids.clone(),
            policy,
            secrets: Secrets::new(&key, secrets),
            key,
            vault,
            test_secrets: Vec::new(),
            capabilities: Capabilities::compute(Facts { durable: true, writable: true, lexical: true, ttl: true, ..Facts::default() }),
        }));
        let (stop, stopping) = watch::channel(false);
        let router = router(App::new(engine.clone(), None, false, stopping));
        let host = Host { clock: ground.clock.clone(), ground, engine, router, stop };
        host.key("a", "key-of-a", &Permission::ALL).await;
        host
    }

    pub async fn key(&self, tenant: &str, text: &str, permissions: &[Permission]) {
        let tenant = TenantId::parse(tenant).unwrap();
        let request = KeyRequest { tenant, label: String::new(), permissions: permissions.to_vec(), expires_at: None };
        self.engine.add_key(text, request).await.unwrap();
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer { status: parts.status, headers: parts.headers, bytes: body.collect().await.unwrap().to_bytes().to_vec() }
    }

    /// A call with a key; headers as pairs.
    pub async fn call(&self, key: &str, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
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
        self.call("key-of-a", "POST", path, &[], body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.call("key-of-a", "DELETE", path, &[], "").await
    }
}
