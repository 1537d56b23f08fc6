//! compact: makes one entry of many. For now it only counts what there is.

use crate::engine::Engine;
use crate::jobs::{Job, WorkError, WorkReport};
use remem_store::{Filter, Page, Position, ReadAt};

/// Entries read at once.
const PAGE: u32 = 500;

/// One activation over one memory.
pub async fn work(engine: &Engine, job: &Job<'_>) -> Result<WorkReport, WorkError> {
    let (store, filter) = (&engine.parts.store, Filter::default());
    let at = ReadAt::Now(engine.now_for(job.tenant()).await?);
    let total = store.stats(job.scope(), &at).await?.entries;
    let (mut report, mut after) = (WorkReport::default(), None);
    loop {
        job.progress("counting", report.examined, total).await?;
        let page = store.list(job.scope(), &filter, &Page { limit: PAGE, after }, &at).await?;
        report.examined += page.len() as u64;
        let Some(last) = page.last().filter(|_| page.len() == PAGE as usize) else { return Ok(report) };
        after = Some(Position { created_at: last.created_at, id: last.id.clone() });
    }
}
