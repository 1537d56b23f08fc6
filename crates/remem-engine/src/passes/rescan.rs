//! rescan: redacts again, by the rules of today, what was stored under other rules. A secret that
//! comes into the vault late is thereby removed from texts that already contain it: entries,
//! workspace files with their versions, runs and what they read, archives, proposals.
//!
//! Readers never saw the secret since it was set, because reads redact again what was stored under
//! other rules; this pass removes it from the disk. Each step commits its changes together with the
//! position it reached, so a crash repeats one step at most; a step is bounded in bytes. Writes
//! that were admitted under the old rules, here or on another node, may land behind the walk: a
//! second walk follows once all of them must have been committed.

mod other_texts;

use crate::archive;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::proposals;
use crate::registry::{PassMode, PassReport};
use crate::secrets::RedactionRules;
use crate::stored::progress::StoredRescan;
use crate::stored::run::RunHead;
use crate::webhook::WebhookRecord;
use remem_core::event::FileRef;
use remem_core::sabotage;
use remem_core::{
    Admitted, Batch, Entry, EntryId, EventBody, Facets, Fence, HostText, InteractionId, Policy,
    Precondition, Record, RecordBody, RecordKind, RuleId, RunStatus, StoredRecord, TenantId,
    Timestamp, WorldId,
};
use remem_store::{RowCursor, StoreError};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The name in `PASSES`, and the key of the progress record.
pub(crate) const NAME: &str = "rescan";
/// Steps of one activation, which must end long before its lease does.
const STEPS_MAX: u32 = 100;
/// How long after its start an activation begins no further step.
const TIME_MS_MAX: i64 = 2_000;
/// Bytes of text in one step: the most expensive texts of this size take about a second. Then it is
/// the next tenant's turn.
const STEP_BYTES_MAX: usize = 256 * 1024;
/// Version of the set of places that a walk visits. Progress of an older version starts again.
const WALK_VERSION: u64 = 2;
/// How long a request that used the rules from before a secret was set may take until it is
/// committed or has failed.
const SETTLE_MS: i64 = 30_000;
/// Number of walks that complete the work for one set of rules.
const WALKS: u64 = 2;
/// Kinds of records that contain texts of callers.
const RESCANNED_KINDS: [RecordKind; 19] = [
    RecordKind::File,
    RecordKind::FileVersion,
    RecordKind::Run,
    RecordKind::RunRead,
    RecordKind::Agent,
    RecordKind::Workflow,
    RecordKind::Archive,
    RecordKind::Distillation,
    RecordKind::Commitment,
    RecordKind::CommitmentRules,
    RecordKind::Heartbeat,
    RecordKind::Prompt,
    RecordKind::Automation,
    RecordKind::ToolTrace,
    RecordKind::InstalledArtifact,
    RecordKind::Proposal,
    RecordKind::ProposalRevision,
    RecordKind::Gate,
    RecordKind::Webhook,
];
/// How often a step is tried again because a record changed; then it is left to the next
/// activation.
const STEP_TRIES: u32 = 4;

/// How far the work for one set of rules has come.
#[derive(Clone, Debug, PartialEq)]
struct RescanProgress {
    /// Fingerprint of the rules.
    scan: u64,
    /// When this pass first saw these rules for the tenant.
    since: Timestamp,
    /// Number of completed walks.
    walks: u64,
    /// Position in the current walk.
    position: WalkPosition,
}

/// The position of a walk.
#[derive(Clone, Debug, PartialEq)]
enum WalkPosition {
    Entries(Option<RowCursor>),
    /// In the kind with this index, after the record with this key.
    Records(usize, Option<String>),
    /// After the world rule with this name.
    Rules(Option<(WorldId, RuleId)>),
    /// After the actions of the entry with this row.
    Actions(Option<RowCursor>),
    Labels,
}

/// Whether the tenant's data has not been fully checked against the current rules.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let scan = engine
        .redaction_rules(tenant)
        .await?
        .fingerprint_for(engine.policy_for(tenant).await?.shapes);
    let known = engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?;
    let known = known.and_then(|record| RescanProgress::from_record(&record));
    Ok(known.is_none_or(|progress| {
        progress.scan != scan || progress.walks < sabotage!("no-second-walk", WALKS, 1)
    }))
}

/// Does one activation, and makes sure of another one if the store failed.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let result = resume_walk(engine, tenant, mode, fence).await;
    if matches!(result, Err(EngineError::Store(_))) {
        engine.notify_work(NAME, tenant);
    }
    result
}

/// Continues the walk where the last activation ended.
async fn resume_walk(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let Some(tenant_info) = engine.parts.directory.tenant(tenant).await? else {
        return Ok(PassReport::default());
    };
    // The machine's time: that of a tenant whose last commit is in the future does not advance.
    let begun = sabotage!(
        "a-rescan-goes-by-the-time-of-its-tenant",
        engine.now(),
        engine.now_for(tenant).await?
    );
    let rules = engine.redaction_rules(tenant).await?;
    let policy = Policy {
        shapes: tenant_info.shapes,
        ..engine.parts.policy.clone()
    };
    let scan = rules.fingerprint_for(policy.shapes);
    let known = engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?;
    let known = known
        .and_then(|record| RescanProgress::from_record(&record))
        .filter(|progress| progress.scan == scan && progress.since <= begun);
    let progress = known.unwrap_or(RescanProgress {
        scan,
        since: begun,
        walks: 0,
        position: WalkPosition::Entries(None),
    });
    if progress.walks >= sabotage!("no-second-walk", WALKS, 1) {
        return Ok(PassReport::default());
    }
    if progress.walks > 0 && begun.0 - progress.since.0 < SETTLE_MS {
        engine.notify_work(NAME, tenant);
        return Ok(PassReport::default());
    }
    let walks = progress.walks;
    let mut walk = RescanWalk {
        engine,
        tenant,
        mode,
        fence,
        rules,
        policy,
        progress,
        report: PassReport::default(),
    };
    for n in 1.. {
        walk.step().await?;
        if walk.progress.walks > walks {
            break;
        }
        if n == STEPS_MAX || engine.now().0 - begun.0 > TIME_MS_MAX {
            walk.report.more = true;
            break;
        }
    }
    if mode == PassMode::DryRun {
        return Ok(walk.report);
    }
    if walk.report.more || walk.progress.walks < sabotage!("no-second-walk", WALKS, 1) {
        engine.notify_work(NAME, tenant);
    }
    if walk.report.changed > 0 {
        let now = engine.now_for(tenant).await?;
        let keys_before = now.plus_ms(-engine.parts.policy.idempotency_retention_ms);
        engine
            .parts
            .store
            .scrub(tenant, keys_before, mode == PassMode::Compact)
            .await?;
    }
    Ok(walk.report)
}

/// A walk in progress, with the rules that it applies.
struct RescanWalk<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    mode: PassMode,
    fence: Option<Fence>,
    rules: Arc<RedactionRules>,
    policy: Policy,
    progress: RescanProgress,
    report: PassReport,
}

impl RescanWalk<'_> {
    /// Does the step at the current position.
    async fn step(&mut self) -> Result<(), EngineError> {
        match self.progress.position.clone() {
            WalkPosition::Entries(after) => self.rescan_entries(after).await,
            WalkPosition::Records(kind, after) => self.rescan_records(kind, after).await,
            WalkPosition::Rules(after) => self.rescan_world_rules(after).await,
            WalkPosition::Actions(after) => self.rescan_actions(after).await,
            WalkPosition::Labels => {
                let changed = self.rescan_labels().await?;
                self.progress.walks += 1;
                let batch = self.batch().await?;
                self.commit_step(batch, WalkPosition::Entries(None), changed)
                    .await
            }
        }
    }

    /// How many of the items one step takes, at least one. In a dry run it takes all of them: since
    /// nothing is written, the same items would be read again.
    fn count_fitting<T>(&self, items: &[T], bytes: impl Fn(&T) -> usize) -> usize {
        if self.mode == PassMode::DryRun {
            return items.len();
        }
        let mut left = sabotage!("a-step-of-rescan-is-endless", STEP_BYTES_MAX, usize::MAX);
        let fits = |item: &&T| {
            let fits = left > 0;
            left = left.saturating_sub(bytes(item));
            fits
        };
        items.iter().take_while(fits).count()
    }

    /// Redacts a page of entries again.
    async fn rescan_entries(&mut self, after: Option<RowCursor>) -> Result<(), EngineError> {
        let store = &self.engine.parts.store;
        let mut found = store
            .entries_to_rescan(
                self.tenant,
                self.progress.scan,
                after,
                self.policy.rescan_batch_max,
            )
            .await?;
        let fitting = self.count_fitting(&found.entries, bytes_of);
        // Rewritten entries are not found again, so a cut page is continued from the same position.
        let place = if fitting < found.entries.len() {
            found.entries.truncate(fitting);
            WalkPosition::Entries(after)
        } else {
            found.next.map_or(WalkPosition::Records(0, None), |next| {
                WalkPosition::Entries(Some(next))
            })
        };
        self.report.examined += found.entries.len() as u64;
        let (admitted, changed) = self.readmit(found.entries).await?;
        let batch = admitted
            .into_iter()
            .fold(self.batch().await?, |batch, (id, admitted)| {
                batch.rewrite(id, admitted)
            });
        self.commit_step(batch, place, changed).await
    }

    /// Admits the entries again by the rules of today. Returns them with the number of those whose
    /// text changed.
    async fn readmit(
        &self,
        entries: Vec<Entry>,
    ) -> Result<(Vec<(EntryId, Admitted)>, u64), EngineError> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        let mut changed = 0;
        let readmit = |entry: Entry| {
            let readmitted = admission.readmit(self.tenant, entry.clone());
            changed += u64::from(is_changed(&entry, &readmitted));
            Ok::<_, EngineError>((entry.id, readmitted))
        };
        let cpu = self.engine.cpu();
        let admitted = cpu
            .each(self.tenant, entries, cpu::entry_bytes, readmit)
            .await?;
        Ok((admitted, changed))
    }

    /// Redacts a page of records of one kind again.
    async fn rescan_records(
        &mut self,
        number: usize,
        after: Option<String>,
    ) -> Result<(), EngineError> {
        let known = RESCANNED_KINDS.get(number).copied();
        let kind = sabotage!(
            "late-secrets-stay-in-archives",
            known,
            known.map(|kind| if kind == RecordKind::Archive {
                RecordKind::Agent
            } else {
                kind
            })
        );
        let Some(kind) = kind else {
            let batch = self.batch().await?;
            return self.commit_step(batch, WalkPosition::Rules(None), 0).await;
        };
        for attempt in 1.. {
            let limit = self.policy.rescan_batch_max;
            let mut found = if kind.is_under_review() {
                self.engine
                    .proposal_records_to_rescan(self.tenant, kind, after.as_deref(), limit)
                    .await?
            } else {
                self.engine
                    .parts
                    .store
                    .records(self.tenant, kind, "", after.as_deref(), limit)
                    .await?
            };
            let is_last = found.len() < limit as usize;
            let fitting = self.count_fitting(&found, |record| bytes_of_map(&record.body));
            let is_last = is_last && fitting == found.len();
            found.truncate(fitting);
            let last = found
                .last()
                .filter(|_| !is_last)
                .map(|last| last.key.clone());
            let place = last.map_or(WalkPosition::Records(number + 1, None), |last| {
                WalkPosition::Records(number, Some(last))
            });
            let examined = found.len() as u64;
            let found = self.records_to_rewrite(found).await?;
            let changed = found.len() as u64;
            let batch = found
                .into_iter()
                .fold(self.batch().await?, |batch, (record, body)| {
                    self.rewrite_record(batch, record, body)
                });
            match self.commit_step(batch, place, changed).await {
                // One of the records was changed in the meantime: read the page again.
                Err(EngineError::Store(StoreError::Conflict)) if attempt < STEP_TRIES => {}
                other => {
                    self.report.examined += examined;
                    return other;
                }
            }
        }
        Ok(())
    }

    /// The records that redaction by the rules of today changes, with their new bodies.
    async fn records_to_rewrite(
        &self,
        mut records: Vec<Record>,
    ) -> Result<Vec<(Record, RecordBody)>, EngineError> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        // A run in progress rewrites its own record at its next step; changing the record's version
        // would only hold it up.
        records.retain(|record| {
            record.kind != RecordKind::Run
                || RunHead::read(record).is_none_or(|run| run.status != RunStatus::Running.as_str())
        });
        // A webhook's record holds a sealed secret, which must stay as it is.
        let clean = |record: &Record| match record.kind {
            RecordKind::Webhook => WebhookRecord::read(record)
                .map(|hook| hook.body(&self.policy, &self.rules, Timestamp(0)))
                .filter(|_| sabotage!("late-secrets-stay-in-tags-of-webhooks", true, false)),
            _ => Some(admission.redact_record(record.body.clone())),
        };
        // An archive is named by its bytes and an artifact by their hash, so a redacted one cannot
        // take their place: the text is erased.
        let final_body = |body, record: &Record| match record.kind {
            RecordKind::Archive => archive::erased_archive(&admission),
            _ => proposals::erased_artifact(&admission, record).unwrap_or(body),
        };
        let rewrite = |record: Record| {
            let body = clean(&record).filter(|body| *body.map() != record.body);
            let body = body.map(|body| final_body(body, &record));
            Ok::<_, EngineError>(body.map(|body| (record, body)))
        };
        let bytes = |record: &Record| cpu::map_bytes(&record.body);
        let cpu = self.engine.cpu();
        let rewritten = cpu.each(self.tenant, records, bytes, rewrite).await?;
        Ok(rewritten.into_iter().flatten().collect())
    }

    /// Adds a rewritten record to a batch. A file also gets a new version and an event: a writer
    /// that holds the old version must not overwrite the new one unawares.
    fn rewrite_record(&self, batch: Batch, record: Record, body: RecordBody) -> Batch {
        let version = Precondition::Version(record.version);
        let batch = batch.set_record_with_ties(
            record.kind,
            record.key.clone(),
            version,
            body.clone(),
            record.links,
        );
        if record.kind != RecordKind::File {
            return batch;
        }
        let version = record.version + 1;
        let batch = self.engine.add_version(batch, &record.key, version, body);
        batch.emit(EventBody::WorkspaceUpdated(FileRef {
            path: record.key,
            version,
        }))
    }

    /// An empty batch under the lease.
    async fn batch(&self) -> Result<Batch, EngineError> {
        let now = self.engine.now_for(self.tenant).await?;
        Ok(Batch::new(self.tenant.clone(), now).fenced(self.fence.clone()))
    }

    /// Commits changes together with the position that was reached.
    async fn commit_step(
        &mut self,
        batch: Batch,
        place: WalkPosition,
        changed: u64,
    ) -> Result<(), EngineError> {
        let reached = RescanProgress {
            position: place,
            ..self.progress.clone()
        };
        if self.mode != PassMode::DryRun {
            let with_progress = batch.set_stored(&reached.to_stored(), Precondition::None);
            self.engine.parts.store.commit(with_progress).await?;
        }
        self.report.changed += changed;
        self.progress = reached;
        Ok(())
    }
}

/// Bytes of text in an entry.
fn bytes_of(entry: &Entry) -> usize {
    let tags: usize = entry.tags.iter().map(String::len).sum();
    entry.content.len() + tags + entry.metadata.as_ref().map_or(0, bytes_of_map)
}

fn bytes_of_map(map: &Map<String, Value>) -> usize {
    map.iter()
        .map(|(name, value)| name.len() + bytes_of_value(value))
        .sum()
}

fn bytes_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of_value).sum(),
        Value::Object(map) => bytes_of_map(map),
        _ => 0,
    }
}

/// Whether redaction changed the text, tags, metadata or names of an entry.
fn is_changed(entry: &Entry, anew: &Admitted) -> bool {
    let metadata = anew
        .metadata()
        .and_then(|text| serde_json::from_str(text).ok());
    entry.content != anew.content()
        || !entry.tags.iter().map(String::as_str).eq(anew.tags())
        || entry.metadata != metadata
        || facet_names(&entry.facets) != facet_names(anew.facets())
}

/// The names in an entry's facets that callers chose.
fn facet_names(facets: &Facets) -> (&WorldId, Option<&str>, Option<&InteractionId>) {
    (
        &facets.world,
        facets.slot.as_deref(),
        facets.interaction.as_ref(),
    )
}

impl RescanProgress {
    /// Reads the progress from its record; `None` if it is that of an earlier form of the walk.
    fn from_record(record: &Record) -> Option<RescanProgress> {
        StoredRescan::read(record).and_then(RescanProgress::from_stored)
    }

    fn from_stored(stored: StoredRescan) -> Option<RescanProgress> {
        if stored.reach != Some(WALK_VERSION) {
            return None;
        }
        let after = stored.after.flatten().map(HostText::into_string);
        let row = stored
            .row
            .map(|row| RowCursor(stored.scope.unwrap_or(0), row));
        let place = stored.place.as_ref().map(HostText::as_str);
        let position = match (stored.kind, place) {
            (Some(kind), _) => WalkPosition::Records(usize::try_from(kind).ok()?, after),
            (None, Some("rules")) => {
                let rule = after.as_deref().and_then(RuleId::parse);
                WalkPosition::Rules(stored.world.zip(rule))
            }
            (None, Some("actions")) => WalkPosition::Actions(row),
            (None, Some("labels")) => WalkPosition::Labels,
            (None, _) => WalkPosition::Entries(row),
        };
        Some(RescanProgress {
            scan: u64::from_str_radix(stored.scan.as_str(), 16).ok()?,
            since: stored.since,
            walks: stored.walks,
            position,
        })
    }

    /// The progress as it is stored.
    fn to_stored(&self) -> StoredRescan {
        let row = match &self.position {
            WalkPosition::Entries(row) | WalkPosition::Actions(row) => row.as_ref(),
            _ => None,
        };
        let mut stored = StoredRescan {
            scan: HostText::new(format!("{:016x}", self.scan)),
            since: self.since,
            walks: self.walks,
            reach: Some(WALK_VERSION),
            scope: row.map(|RowCursor(scope, _)| *scope),
            row: row.map(|RowCursor(_, row)| *row),
            place: None,
            kind: None,
            world: None,
            after: None,
        };
        match &self.position {
            WalkPosition::Entries(_) => {}
            WalkPosition::Actions(_) => stored.place = Some(HostText::from("actions")),
            WalkPosition::Labels => stored.place = Some(HostText::from("labels")),
            WalkPosition::Rules(after) => {
                stored.place = Some(HostText::from("rules"));
                if let Some((world, id)) = after {
                    stored.world = Some(world.clone());
                    stored.after = Some(Some(HostText::from(id)));
                }
            }
            WalkPosition::Records(kind, after) => {
                stored.kind = Some(*kind as u64);
                stored.after = Some(after.as_deref().map(HostText::new));
            }
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescan_progress_round_trips() {
        let places = [
            WalkPosition::Entries(None),
            WalkPosition::Entries(Some(RowCursor(3, 12_345_678))),
            WalkPosition::Records(0, None),
            WalkPosition::Records(3, Some("run_1/000".to_owned())),
            WalkPosition::Rules(None),
            WalkPosition::Rules(WorldId::parse("w").zip(RuleId::parse("r"))),
            WalkPosition::Actions(None),
            WalkPosition::Actions(Some(RowCursor(3, 12_345_678))),
            WalkPosition::Labels,
        ];
        for place in places {
            let progress = RescanProgress {
                scan: u64::MAX - 5,
                since: Timestamp(1_700_000_000_000),
                walks: 1,
                position: place,
            };
            assert_eq!(
                StoredRescan::from_map(&progress.to_stored().to_map())
                    .and_then(RescanProgress::from_stored),
                Some(progress)
            );
        }
        assert!(StoredRescan::from_map(&Map::new()).is_none());
    }
}
