//! One host of a test: an engine, a caller, and shorthands for what tests do and inspect.

use crate::{NOON, TestEnv, wait_for};
use remem_core::redact::SecretValue;
use remem_core::run::ForkMode;
use remem_core::{Draft, Entry, Event, MemoryRef, RecordKind, RunStatus, Scope, Seq, TenantId};
use remem_engine::jobs::{Trigger, WorkError, WorkReport};
use remem_engine::ports::Clock;
use remem_engine::registry::{self, PassMode, PassReport};
use remem_engine::runs::{ForkRequest, NewRun, Run};
use remem_engine::vault::SecretScope;
use remem_engine::{Caller, Engine, EngineError, runner};
use remem_store::{Filter, Lineage, Page, ReadAt};
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::sync::watch;

/// A running host, with a caller of one tenant.
#[derive(Clone)]
pub struct TestHost {
    /// The engine of this process.
    pub engine: Arc<Engine>,
    /// The holder of a key of the tenant with all permissions.
    pub caller: Caller,
    /// The environment that the host was started in.
    pub env: TestEnv,
}

/// The map of a JSON object.
#[must_use]
pub fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// Whether the storage, rather than the work itself, caused the error.
fn is_storage_error(error: &WorkError) -> bool {
    matches!(
        error,
        WorkError::Stopped(_) | WorkError::Failed(EngineError::Store(_))
    )
}

impl TestHost {
    /// The tenant of the caller.
    pub fn tenant(&self) -> &TenantId {
        self.caller.tenant()
    }

    /// The scope of a memory of the tenant.
    pub fn scope(&self, memory: &str) -> Scope {
        Scope::new(self.tenant().clone(), MemoryRef::parse(memory).unwrap())
    }

    /// Sets the clock to so many seconds after noon.
    pub fn at(&self, seconds: i64) {
        self.env.clock.set(NOON.plus_ms(seconds * 1_000));
    }

    /// Writes a text, a second after the last write.
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

    /// Writes a text about a subject, a second after the last write.
    pub async fn put_about(&self, memory: &str, text: &str, subject: &str) -> String {
        let subjects = self
            .engine
            .subject_digests(&self.caller, &[subject.to_owned()])
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

    /// Writes a draft, a second after the last write.
    pub async fn put_draft(&self, memory: &str, draft: Draft) -> String {
        self.env.clock.set(self.env.clock.now().plus_ms(1_000));
        let stored = self
            .engine
            .put(&self.caller, memory, vec![draft], None)
            .await
            .unwrap();
        stored.entries[0].id.as_str().to_owned()
    }

    /// Runs the job of a pass over one memory at once.
    pub async fn work(
        &self,
        pass: &str,
        memory: &str,
        options: Value,
    ) -> Result<WorkReport, WorkError> {
        let memory = MemoryRef::parse(memory).unwrap();
        self.engine
            .run_job_and_wait(
                self.tenant(),
                pass,
                Some(&memory),
                object(&options),
                Trigger::OnDemand,
            )
            .await
    }

    /// Runs the job again until it works; only errors of the storage are expected.
    pub async fn work_with_retries(&self, pass: &str, memory: &str, options: Value) -> WorkReport {
        for _ in 0..300 {
            match self.work(pass, memory, options.clone()).await {
                Ok(report) => return report,
                Err(error) if is_storage_error(&error) => self.env.expire_leases(),
                Err(other) => panic!("{other:?}"),
            }
        }
        panic!("it never works");
    }

    /// Runs a pass over the whole tenant.
    pub async fn run_pass(&self, name: &str) -> PassReport {
        self.engine
            .run_pass(
                registry::find(name).unwrap(),
                self.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap()
    }

    /// Puts a secret into the vault of the tenant.
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
        self.env
            .faults
            .inner()
            .list(&self.scope(memory), &Filter::default(), &page, &at)
            .await
            .unwrap()
    }

    /// The live texts of a memory, sorted.
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

    /// The lineage of an entry: its sources and the entries made from it.
    pub async fn lineage(&self, memory: &str, id: &str) -> Lineage {
        self.engine.lineage(&self.caller, memory, id).await.unwrap()
    }

    /// All events of the tenant.
    pub async fn all_events(&self) -> Vec<Event> {
        let store = self.env.faults.inner();
        store.events(self.tenant(), Seq(0), 100_000).await.unwrap()
    }

    /// All events of one kind.
    pub async fn events(&self, kind: &str) -> Vec<Event> {
        let events = self.all_events().await;
        events
            .into_iter()
            .filter(|event| event.body.kind().as_str() == kind)
            .collect()
    }

    /// The payloads of all events of one kind.
    pub async fn payloads(&self, kind: &str) -> Vec<Value> {
        self.events(kind)
            .await
            .iter()
            .map(|event| event.body.payload())
            .collect()
    }

    /// Every record of these kinds, as text.
    pub async fn records(&self, kinds: &[RecordKind]) -> Vec<String> {
        let mut texts = Vec::new();
        for kind in kinds {
            for record in self
                .env
                .faults
                .inner()
                .records(self.tenant(), *kind, "", None, 100_000)
                .await
                .unwrap()
            {
                texts.push(format!(
                    "{kind:?} {} {} {}",
                    record.key,
                    record.version,
                    Value::Object(record.body)
                ));
            }
        }
        texts
    }

    /// All data of a tenant that is not about jobs, as text: for comparisons before and after
    /// something that must change nothing.
    pub async fn dump(&self, memories: &[&str]) -> Vec<String> {
        let about_jobs = [RecordKind::Job, RecordKind::Progress];
        let kinds: Vec<RecordKind> = RecordKind::ALL
            .into_iter()
            .filter(|kind| !about_jobs.contains(kind) && !kind.is_under_review())
            .collect();
        let mut all = self.records(&kinds).await;
        for event in self.all_events().await {
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

    /// Waits until a run has ended, and returns its last state.
    pub async fn wait_for_end(&self, run: &Run) -> Run {
        wait_for("the run ends", || async {
            let run = self.engine.get_run(&self.caller, run.id.as_str()).await;
            run.ok().filter(|run| run.state.status.is_terminal())
        })
        .await
    }

    /// Installs a workflow and starts a run of it.
    pub async fn start_run(&self, workflow: Value, configurable: Value) -> Run {
        let id = workflow["id"].as_str().unwrap().to_owned();
        self.engine
            .put_workflow(&self.caller, &id, object(&workflow))
            .await
            .unwrap();
        let new = NewRun {
            workflow_id: id,
            configurable: object(&configurable),
            ..NewRun::default()
        };
        self.engine
            .create_run(&self.caller, new, None)
            .await
            .unwrap()
            .run
    }

    /// Installs a workflow and runs it to its end.
    pub async fn run_workflow(&self, workflow: Value, configurable: Value) -> Run {
        let run = self.start_run(workflow, configurable).await;
        self.run_to_end(&run).await
    }

    /// Executes runs until this one has ended.
    pub async fn run_to_end(&self, run: &Run) -> Run {
        let (_stop, stopping) = watch::channel(false);
        runner::start_run_executor(&self.engine, &stopping);
        self.wait_for_end(run).await
    }

    /// The events of a run, without its first and last ones, which contain its id and time.
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

    /// Replays a run that has ended, and waits for the end of the replay.
    pub async fn replay(&self, run: &Run) -> Run {
        let fork = ForkRequest {
            mode: ForkMode::Replay,
            from_seq: None,
            overlay: None,
        };
        let forked = self
            .engine
            .fork_run(&self.caller, run.id.as_str(), fork, None)
            .await
            .unwrap()
            .run;
        let ended = self.run_to_end(&forked).await;
        assert_eq!(
            ended.state.status,
            RunStatus::Completed,
            "{:?}",
            ended.state.error
        );
        ended
    }
}
