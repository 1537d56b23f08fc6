//! A world for tests of the passes over memories: hosts over one store that can be meddled with,
//! and everything that is in it.
#![allow(dead_code, reason = "each test file uses its own part")]

pub use super::meddler::Meddler;
use remem_core::redact::SecretValue;
use remem_core::{
    Draft, Entry, Event, MemoryRef, Permission, Policy, RecordKind, RunStatus, Scope, Seq,
    TenantId, Timestamp,
};
use remem_engine::jobs::{Trigger, WorkError, WorkReport};
use remem_engine::keys::KeyRequest;
use remem_engine::model::ModelPort;
use remem_engine::ports::{Clock, CountedIds, FixedClock};
use remem_engine::registry::{self, Mode, PassReport};
use remem_engine::runs::{Fork, NewRun, Run};
use remem_engine::vault::SecretScope;
use remem_engine::{Caller, Engine, EngineError, HostKey, Parts, VaultKey, runner};
use remem_store::{Directory, Filter, Lineage, Page, ReadAt, Store, StoreError};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub const NOON: Timestamp = Timestamp(1_700_000_000_000);
/// A text is only compared with others that are much alike: a long common ending makes it so.
pub const ENDING: &str = " as the minutes of the weekly planning meeting say which the whole platform team attended in the big room \
    upstairs last spring before everybody left for the workshop by the lake with its boats and long wooden tables under old trees";

/// What outlives a host.
#[derive(Clone)]
pub struct Place {
    pub meddler: Arc<Meddler>,
    /// What hosts are given: the meddler, or something in front of it.
    pub store: Arc<dyn Store>,
    pub directory: Arc<dyn Directory>,
    pub clock: Arc<FixedClock>,
    pub ids: Arc<CountedIds>,
    pub policy: Policy,
    pub model: Option<ModelPort>,
}

impl Place {
    pub fn new() -> Place {
        Place::at(Location::Memory)
    }

    pub fn at(location: Location) -> Place {
        let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
        Place::on(Arc::new(SqliteStore::open(location, 1).unwrap()), directory)
    }

    pub fn on(store: Arc<dyn Store>, directory: Arc<dyn Directory>) -> Place {
        let meddler = Arc::new(Meddler::over(store));
        let clock = Arc::new(FixedClock::at(NOON));
        Place {
            store: meddler.clone(),
            meddler,
            directory,
            clock,
            ids: Arc::default(),
            policy: Policy::default(),
            model: None,
        }
    }

    pub async fn host(&self) -> Host {
        self.host_of("t").await
    }

    /// A process, seen by a tenant.
    pub async fn host_of(&self, tenant: &str) -> Host {
        let parts = Parts::new(
            self.store.clone(),
            self.directory.clone(),
            self.clock.clone(),
            self.ids.clone(),
            HostKey::new([3; 32]),
        );
        let vault = Some(VaultKey::new([1; 32]));
        let parts = Parts {
            vault,
            policy: self.policy.clone(),
            model: self.model.clone(),
            ..parts
        };
        let engine = Arc::new(Engine::new(parts));
        let tenant = TenantId::parse(tenant).unwrap();
        let key = format!("key-{}", tenant.as_str());
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
        };
        engine.add_key(&key, request).await.unwrap();
        let caller = engine.authenticate(&key).await.unwrap();
        Host {
            engine,
            caller,
            place: self.clone(),
        }
    }

    /// Later by more than any lease.
    pub fn later(&self) {
        self.clock.set(self.clock.now().plus_ms(31_000));
    }
}

pub struct Host {
    pub engine: Arc<Engine>,
    pub caller: Caller,
    pub place: Place,
}

pub fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// Whether the storage, rather than the work, is to blame.
fn is_passing(error: &WorkError) -> bool {
    matches!(
        error,
        WorkError::Stopped(_) | WorkError::Failed(EngineError::Store(_))
    )
}

impl Host {
    pub fn tenant(&self) -> &TenantId {
        self.caller.tenant()
    }

    pub fn scope(&self, memory: &str) -> Scope {
        Scope::new(self.tenant().clone(), MemoryRef::parse(memory).unwrap())
    }

    /// Writes a text, a second after whatever was written before.
    pub async fn put(&self, memory: &str, text: &str) -> String {
        self.put_draft(
            memory,
            Draft {
                content: text.to_owned(),
                ..Draft::default()
            },
        )
        .await
    }

    pub async fn put_about(&self, memory: &str, text: &str, subject: &str) -> String {
        let subjects = self
            .engine
            .subjects(&self.caller, &[subject.to_owned()])
            .unwrap();
        self.put_draft(
            memory,
            Draft {
                content: text.to_owned(),
                subjects,
                ..Draft::default()
            },
        )
        .await
    }

    pub async fn put_draft(&self, memory: &str, draft: Draft) -> String {
        self.place.clock.set(self.place.clock.now().plus_ms(1_000));
        let stored = self
            .engine
            .put(&self.caller, memory, vec![draft], None)
            .await
            .unwrap();
        stored.entries[0].id.as_str().to_owned()
    }

    pub async fn work(
        &self,
        pass: &str,
        memory: &str,
        options: Value,
    ) -> Result<WorkReport, WorkError> {
        let memory = MemoryRef::parse(memory).unwrap();
        self.engine
            .work_now(
                self.tenant(),
                pass,
                Some(&memory),
                map(&options),
                Trigger::OnDemand,
            )
            .await
    }

    /// Until it works: what fails is the storage.
    pub async fn insist(&self, pass: &str, memory: &str, options: Value) -> WorkReport {
        for _ in 0..300 {
            match self.work(pass, memory, options.clone()).await {
                Ok(report) => return report,
                Err(error) if is_passing(&error) => self.place.later(),
                Err(other) => panic!("{other:?}"),
            }
        }
        panic!("it never works");
    }

    pub async fn run_pass(&self, name: &str) -> PassReport {
        self.engine
            .run_pass(registry::find(name).unwrap(), self.tenant(), Mode::Apply)
            .await
            .unwrap()
    }

    pub async fn secret(&self, name: &str, value: &str) {
        self.engine
            .set_secret(
                &self.caller,
                SecretScope::Tenant,
                name,
                SecretValue::new("", value),
            )
            .await
            .unwrap();
    }

    /// The live entries of a memory, newest first.
    pub async fn live(&self, memory: &str) -> Vec<Entry> {
        let page = Page {
            limit: 100_000,
            after: None,
        };
        let at = ReadAt::Now(self.engine.now());
        self.place
            .meddler
            .inner
            .list(&self.scope(memory), &Filter::default(), &page, &at)
            .await
            .unwrap()
    }

    pub async fn texts(&self, memory: &str) -> Vec<String> {
        let mut texts: Vec<String> = self
            .live(memory)
            .await
            .into_iter()
            .map(|entry| entry.content)
            .collect();
        texts.sort();
        texts
    }

    pub async fn lineage(&self, memory: &str, id: &str) -> Lineage {
        self.engine.lineage(&self.caller, memory, id).await.unwrap()
    }

    pub async fn events(&self, kind: &str) -> Vec<Event> {
        let events = self
            .place
            .meddler
            .inner
            .events(self.tenant(), Seq(0), 100_000)
            .await
            .unwrap();
        events
            .into_iter()
            .filter(|event| event.body.kind().as_str() == kind)
            .collect()
    }

    pub async fn told(&self, kind: &str) -> Vec<Value> {
        self.events(kind)
            .await
            .iter()
            .map(|event| event.body.payload())
            .collect()
    }

    /// Every record of these kinds, as text.
    pub async fn records(&self, kinds: &[RecordKind]) -> Vec<String> {
        let mut found = Vec::new();
        for kind in kinds {
            for record in self
                .place
                .meddler
                .inner
                .records(self.tenant(), *kind, "", None, 100_000)
                .await
                .unwrap()
            {
                found.push(format!(
                    "{kind:?} {} {} {}",
                    record.key,
                    record.version,
                    Value::Object(record.body)
                ));
            }
        }
        found
    }

    /// All that a tenant has and that is not about jobs: to be the same before and after something
    /// that must do nothing.
    pub async fn everything(&self, memories: &[&str]) -> Vec<String> {
        let about_jobs = [RecordKind::Job, RecordKind::Progress];
        let kinds: Vec<RecordKind> = RecordKind::ALL
            .into_iter()
            .filter(|kind| !about_jobs.contains(kind) && !kind.is_inert())
            .collect();
        let mut all = self.records(&kinds).await;
        for event in self
            .place
            .meddler
            .inner
            .events(self.tenant(), Seq(0), 100_000)
            .await
            .unwrap()
        {
            if !event.body.kind().as_str().starts_with("pass.") {
                all.push(format!(
                    "{} {}",
                    event.body.kind().as_str(),
                    event.body.payload()
                ));
            }
        }
        for memory in memories {
            for entry in self.live(memory).await {
                let lineage = self.lineage(memory, entry.id.as_str()).await;
                all.push(format!(
                    "{memory} {} {} {:?} {lineage:?}",
                    entry.id.as_str(),
                    entry.content,
                    entry.tags
                ));
            }
        }
        all
    }

    pub async fn has_ended(&self, run: &Run) -> Run {
        for _ in 0..3_000 {
            let run = self
                .engine
                .run(&self.caller, run.id.as_str())
                .await
                .unwrap();
            if run.state.status.is_terminal() {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("the run never ends");
    }

    pub async fn begin(&self, workflow: Value, configurable: Value) -> Run {
        let id = workflow["id"].as_str().unwrap().to_owned();
        self.engine
            .put_workflow(&self.caller, &id, map(&workflow))
            .await
            .unwrap();
        let new = NewRun {
            workflow_id: id,
            configurable: map(&configurable),
            ..NewRun::default()
        };
        self.engine
            .create_run(&self.caller, new, None)
            .await
            .unwrap()
            .run
    }

    pub async fn run(&self, workflow: Value, configurable: Value) -> Run {
        let run = self.begin(workflow, configurable).await;
        self.carry_on(&run).await
    }

    pub async fn carry_on(&self, run: &Run) -> Run {
        let (_stop, stopping) = watch::channel(false);
        runner::start_runs(&self.engine, &stopping);
        self.has_ended(run).await
    }

    /// What happened in a run, without its begin and its end, which tell of its own name and time.
    pub async fn log(&self, run: &Run) -> Vec<String> {
        let (log, _) = self
            .engine
            .run_events(&self.caller, run.id.as_str(), 0)
            .await
            .unwrap();
        let line =
            |event: &Event| format!("{} {}", event.body.kind().as_str(), event.body.payload());
        let lines = log
            .iter()
            .filter(|event| !event.body.kind().as_str().starts_with("run."));
        lines
            .map(|event| line(event).replace(run.id.as_str(), "RUN"))
            .collect()
    }

    /// A replay of a run that has ended.
    pub async fn replay(&self, run: &Run) -> Run {
        let fork = Fork {
            mode: remem_core::run::ForkMode::Replay,
            from_seq: None,
            overlay: None,
        };
        let forked = self
            .engine
            .fork_run(&self.caller, run.id.as_str(), fork, None)
            .await
            .unwrap()
            .run;
        let ended = self.carry_on(&forked).await;
        assert_eq!(
            ended.state.status,
            RunStatus::Completed,
            "{:?}",
            ended.state.error
        );
        ended
    }
}

/// Forgets until the storage lets it.
pub async fn insist_on_forgetting(host: &Host, words: &str) {
    for _ in 0..300 {
        match host.engine.forget(&host.caller, words, false).await {
            Ok(_) => return,
            Err(EngineError::Store(StoreError::Unavailable(_) | StoreError::Busy)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it never works");
}
