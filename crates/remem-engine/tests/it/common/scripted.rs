//! Jobs whose work is scripted by a test, page by page.

use remem_core::Draft;
use remem_engine::jobs::{JobContext, JobInfo, JobQuery, WorkError, WorkFuture, WorkReport};
use remem_engine::registry::{Pass, PassKind, PassMode, PassReport};
use remem_engine::{Engine, EngineError};
use remem_testkit::TestHost;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;

pub const PAGES: u64 = 10;

/// Operations of a host in tests of jobs.
pub trait ScriptedJobs {
    /// Writes an arbitrary entry.
    async fn put_any(&self, memory: &str);
    /// Starts a job for a memory.
    async fn start(&self, memory: Option<&str>) -> JobInfo;
    /// Runs the queued jobs with the scripted work.
    async fn work_scripted(&self) -> Result<PassReport, EngineError>;
    /// Reads one job by its id.
    async fn job(&self, id: &str) -> JobInfo;
    /// Lists all jobs of the tenant.
    async fn jobs(&self) -> Vec<JobInfo>;
}

impl ScriptedJobs for TestHost {
    async fn put_any(&self, memory: &str) {
        let draft = Draft {
            content: "x".into(),
            ..Draft::default()
        };
        self.engine
            .put(&self.caller, memory, vec![draft], None)
            .await
            .unwrap();
    }

    async fn start(&self, memory: Option<&str>) -> JobInfo {
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

    async fn work_scripted(&self) -> Result<PassReport, EngineError> {
        self.engine
            .run_pass(&SCRIPTED, self.caller.tenant(), PassMode::Apply)
            .await
    }

    async fn job(&self, id: &str) -> JobInfo {
        self.engine.get_job(&self.caller, id).await.unwrap()
    }

    async fn jobs(&self) -> Vec<JobInfo> {
        self.engine
            .list_jobs(
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
}

pub type StepFuture = Pin<Box<dyn Future<Output = Result<(), WorkError>> + Send>>;
type PageScript = Arc<dyn Fn(String, u64) -> StepFuture + Send + Sync>;

thread_local! {
    static STEP: RefCell<Option<PageScript>> = const { RefCell::new(None) };
}

/// The script for each page of the work, given the memory and the page. Every test has a thread of
/// its own.
pub fn on_page(step: impl Fn(String, u64) -> StepFuture + Send + Sync + 'static) {
    STEP.with(|place| *place.borrow_mut() = Some(Arc::new(step)));
}

fn scripted<'a>(_: &'a Engine, job: &'a JobContext<'a>) -> WorkFuture<'a> {
    let step = STEP.with(|place| place.borrow().clone());
    Box::pin(async move {
        let mut report = WorkReport::default();
        for page in 0..PAGES {
            job.report_progress("pages", page, PAGES).await?;
            if let Some(step) = &step {
                step(job.memory_ref().as_str().to_owned(), page).await?;
            }
            report.examined += 1;
        }
        report.detail.insert("pages".to_owned(), PAGES.into());
        Ok(report)
    })
}

/// A pass over memories with scripted work. It has the name of a real one, so that its jobs can be
/// read.
pub static SCRIPTED: Pass = Pass {
    name: "compact",
    doc: "",
    period_ms: 1_000,
    all_tenants_every: 1,
    due_work: None,
    lease_ms: remem_engine::registry::LEASE_MS,
    concurrent_tenants: 1,
    kind: PassKind::Memory {
        work: scripted,
        options: &[],
    },
};
