//! A world for tests of jobs and schedules: engines over one store, and work that does what a test
//! says, page by page.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod meddler;
#[path = "../../../../remem-server/tests/it/common/storage.rs"]
pub mod storage;
pub mod world;

use remem_core::{Draft, Event, Permission, Policy, Seq, TenantId, Timestamp};
use remem_engine::jobs::{Job, JobInfo, JobQuery, WorkError, WorkFuture, WorkReport};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{CountedIds, FixedClock};
use remem_engine::proposals::Desk;
use remem_engine::registry::{Mode, Over, Pass, PassReport};
use remem_engine::{Caller, Engine, EngineError, HostKey, Parts};
use remem_store::{Directory, FaultyStore, Review, Store};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;

pub const NOON: Timestamp = Timestamp(1_700_000_000_000);
pub const PAGES: u64 = 10;

/// What outlives an engine.
#[derive(Clone)]
pub struct Ground {
    pub store: Arc<dyn Store>,
    pub review: Option<Arc<dyn Review>>,
    pub directory: Arc<dyn Directory>,
    pub clock: Arc<FixedClock>,
    pub ids: Arc<CountedIds>,
    pub policy: Policy,
}

impl Ground {
    pub async fn fresh() -> Ground {
        let (store, review, directory) = storage::open().await;
        Ground {
            store,
            review: Some(review),
            directory,
            clock: Arc::new(FixedClock::at(NOON)),
            ids: Arc::default(),
            policy: Policy::default(),
        }
    }

    /// On SQLite in any case: for what goes by the test's clock, or by a clock that stands still.
    pub fn sqlite(store: Arc<dyn Store>) -> Ground {
        let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
        let clock = Arc::new(FixedClock::at(NOON));
        Ground {
            store,
            review: None,
            directory,
            clock,
            ids: Arc::default(),
            policy: Policy::default(),
        }
    }

    /// A node, or the next process.
    pub async fn node(&self) -> Node {
        let parts = Parts::new(
            self.store.clone(),
            self.directory.clone(),
            self.clock.clone(),
            self.ids.clone(),
            HostKey::new([3; 32]),
        );
        let review = self.review.clone().map(Desk::over).unwrap_or_default();
        let engine = Arc::new(Engine::new(Parts {
            policy: self.policy.clone(),
            review,
            ..parts
        }));
        let tenant = TenantId::parse("t").unwrap();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
        };
        engine.add_key("key", request).await.unwrap();
        let caller = engine.authenticate("key").await.unwrap();
        Node {
            engine,
            caller,
            clock: self.clock.clone(),
            store: self.store.clone(),
        }
    }
}

#[derive(Clone)]
pub struct Node {
    pub engine: Arc<Engine>,
    pub caller: Caller,
    pub clock: Arc<FixedClock>,
    pub store: Arc<dyn Store>,
}

impl Node {
    pub fn at(&self, seconds: i64) {
        self.clock.set(NOON.plus_ms(seconds * 1_000));
    }

    pub async fn put(&self, memory: &str) {
        let draft = Draft {
            content: "x".into(),
            ..Draft::default()
        };
        self.engine
            .put(&self.caller, memory, vec![draft], None)
            .await
            .unwrap();
    }

    pub async fn start(&self, memory: Option<&str>) -> JobInfo {
        self.engine
            .start_job(
                &self.caller,
                "compact",
                memory,
                serde_json::Map::new(),
                None,
            )
            .await
            .unwrap()
            .job
    }

    /// Does the jobs that wait, by the work that the test says.
    pub async fn work(&self) -> Result<PassReport, EngineError> {
        self.engine
            .run_pass(&SCRIPTED, self.caller.tenant(), Mode::Apply)
            .await
    }

    pub async fn job(&self, id: &str) -> JobInfo {
        self.engine.job(&self.caller, id).await.unwrap()
    }

    pub async fn jobs(&self) -> Vec<JobInfo> {
        self.engine
            .jobs(
                &self.caller,
                &JobQuery {
                    limit: Some(0),
                    ..JobQuery::default()
                },
            )
            .await
            .unwrap()
            .0
    }

    pub async fn events(&self, kind: &str) -> Vec<Event> {
        let events = all_events(self.store.as_ref(), self.caller.tenant()).await;
        events
            .into_iter()
            .filter(|event| event.body.kind().as_str() == kind)
            .collect()
    }
}

pub async fn all_events(store: &dyn Store, tenant: &TenantId) -> Vec<Event> {
    store.events(tenant, Seq(0), 100_000).await.unwrap()
}

pub type StepFuture = Pin<Box<dyn Future<Output = Result<(), WorkError>> + Send>>;
type Step = Arc<dyn Fn(String, u64) -> StepFuture + Send + Sync>;

thread_local! {
    static STEP: RefCell<Option<Step>> = const { RefCell::new(None) };
}

/// Two handles on one store: one that fails on purpose, and one to see what really happened.
pub async fn faulty(seed: u64) -> (tempfile::TempDir, Arc<FaultyStore<SqliteStore>>, Node, Node) {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(Location::Folder(folder.path().to_owned()), 1).unwrap();
    let store = Arc::new(FaultyStore::new(open(), seed, 40));
    let ground = Ground::sqlite(store.clone());
    let quiet = Ground {
        store: Arc::new(open()),
        ..ground.clone()
    };
    (folder, store, ground.node().await, quiet.node().await)
}

/// What happens on each page of the work, given the memory and the page. A test has its thread for
/// itself.
pub fn on_page(step: impl Fn(String, u64) -> StepFuture + Send + Sync + 'static) {
    STEP.with(|place| *place.borrow_mut() = Some(Arc::new(step)));
}

fn scripted<'a>(_: &'a Engine, job: &'a Job<'a>) -> WorkFuture<'a> {
    let step = STEP.with(|place| place.borrow().clone());
    Box::pin(async move {
        let mut report = WorkReport::default();
        for page in 0..PAGES {
            job.progress("pages", page, PAGES).await?;
            if let Some(step) = &step {
                step(job.memory_ref().as_str().to_owned(), page).await?;
            }
            report.examined += 1;
        }
        report.detail.insert("pages".to_owned(), PAGES.into());
        Ok(report)
    })
}

/// A pass over memories whose work is the test's. It has the name of a real one, so that its jobs
/// are known.
pub static SCRIPTED: Pass = Pass {
    name: "compact",
    doc: "",
    period_ms: 1_000,
    all_every: 1,
    store_knows: None,
    lease_ms: remem_engine::registry::LEASE_MS,
    tenants_at_once: 1,
    over: Over::Memory {
        work: scripted,
        options: &[],
    },
};
