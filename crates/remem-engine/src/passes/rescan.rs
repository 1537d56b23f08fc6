//! rescan: redacts again, by the rules of today, what was stored under other rules. A secret that
//! comes into the vault late is thereby removed from texts that already contain it: entries,
//! workspace files with their versions, runs and what they read, archives, proposals.
//!
//! Readers never saw the secret since it was set, because reads redact again whatever was stored
//! under other rules; this pass removes it from the disk. Each step commits its changes together
//! with the position it reached, so a crash repeats one step at most; a step is bounded in bytes.
//! Writes that were admitted under the old rules, here or on another node, may land behind the
//! walk: a second walk follows once all of them must have been committed.

mod beside;

use crate::archive;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::proposals;
use crate::registry::{Mode, PassReport};
use crate::secrets::Rules;
use crate::webhook::Hook;
use remem_core::event::FileRef;
use remem_core::sabotage;
use remem_core::{
    Admission, Admitted, Batch, Entry, EntryId, EventBody, Facets, Fence, InteractionId, Policy,
    Precondition, Record, RecordBody, RecordKind, Redactor, RuleId, ShapePolicy, TenantId,
    Timestamp, WorldId,
};
use remem_store::{RowCursor, StoreError};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The name in `PASSES`, and the key of the progress record.
const NAME: &str = "rescan";
/// Steps of one activation, which must end long before its lease does.
const STEPS_MAX: u32 = 100;
/// How long after its start an activation begins no further step.
const TIME_MS_MAX: i64 = 2_000;
/// Bytes of text in one step: the most expensive texts of this size take about a second. Then it is
/// the next tenant's turn.
const STEP_BYTES_MAX: usize = 256 * 1024;
/// Version of the set of places that a walk visits. Progress of an older version starts again.
const REACH: u64 = 2;
/// How long a request that used the rules from before a secret was set may take until it is
/// committed or has failed.
const SETTLED_MS: i64 = 30_000;
/// Number of walks that complete the work for one set of rules.
const WALKS: u64 = 2;
/// Kinds of records that contain texts of callers.
const KINDS: [RecordKind; 19] = [
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
    RecordKind::Installed,
    RecordKind::Proposal,
    RecordKind::ProposalRevision,
    RecordKind::Gate,
    RecordKind::Webhook,
];
/// How often a step is tried again because a record changed; then it is left to the next
/// activation.
const TRIES: u32 = 4;

/// How far the work for one set of rules has come.
#[derive(Clone, Debug, PartialEq)]
struct Progress {
    /// Fingerprint of the rules.
    scan: u64,
    /// When this pass first saw these rules for the tenant.
    since: Timestamp,
    /// Number of completed walks.
    walks: u64,
    /// Position in the current walk.
    place: Place,
}

/// The position of a walk.
#[derive(Clone, Debug, PartialEq)]
enum Place {
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
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let scan = engine
        .rules(tenant)
        .await?
        .scan(engine.policy_for(tenant).await?.shapes);
    let known = engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?;
    let known = known.and_then(|record| Progress::read(&record.body));
    Ok(known.is_none_or(|progress| {
        progress.scan != scan || progress.walks < sabotage!("no-second-walk", WALKS, 1)
    }))
}

/// Does one activation, and makes sure of another one if the store failed.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let result = go_on(engine, tenant, mode, fence).await;
    if matches!(result, Err(EngineError::Store(_))) {
        engine.has_work(NAME, tenant);
    }
    result
}

/// Continues the walk where the last activation ended.
async fn go_on(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let Some(tenant_info) = engine.parts.directory.tenant(tenant).await? else {
        return Ok(PassReport::default());
    };
    // The machine's time: that of a tenant whose last commit lies ahead stands still.
    let begun = sabotage!(
        "a-rescan-goes-by-the-time-of-its-tenant",
        engine.now(),
        engine.now_for(tenant).await?
    );
    let rules = engine.rules(tenant).await?;
    let policy = Policy {
        shapes: tenant_info.shapes,
        ..engine.parts.policy.clone()
    };
    let scan = rules.scan(policy.shapes);
    let known = engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?;
    let known = known
        .and_then(|record| Progress::read(&record.body))
        .filter(|progress| progress.scan == scan && progress.since <= begun);
    let progress = known.unwrap_or(Progress {
        scan,
        since: begun,
        walks: 0,
        place: Place::Entries(None),
    });
    if progress.walks >= sabotage!("no-second-walk", WALKS, 1) {
        return Ok(PassReport::default());
    }
    if progress.walks > 0 && begun.0 - progress.since.0 < SETTLED_MS {
        engine.has_work(NAME, tenant);
        return Ok(PassReport::default());
    }
    let walks = progress.walks;
    let mut walk = Walk {
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
    if mode == Mode::DryRun {
        return Ok(walk.report);
    }
    if walk.report.more || walk.progress.walks < sabotage!("no-second-walk", WALKS, 1) {
        engine.has_work(NAME, tenant);
    }
    if walk.report.changed > 0 {
        let now = engine.now_for(tenant).await?;
        let keys_before = now.plus_ms(-engine.parts.policy.idempotency_retention_ms);
        engine
            .parts
            .store
            .scrub(tenant, keys_before, mode == Mode::Compact)
            .await?;
    }
    Ok(walk.report)
}

/// A walk in progress, with the rules that it applies.
struct Walk<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    mode: Mode,
    fence: Option<Fence>,
    rules: Arc<Rules>,
    policy: Policy,
    progress: Progress,
    report: PassReport,
}

impl Walk<'_> {
    /// Does the step at the current position.
    async fn step(&mut self) -> Result<(), EngineError> {
        match self.progress.place.clone() {
            Place::Entries(after) => self.entries(after).await,
            Place::Records(kind, after) => self.records(kind, after).await,
            Place::Rules(after) => self.world_rules(after).await,
            Place::Actions(after) => self.actions(after).await,
            Place::Labels => {
                let changed = self.labels().await?;
                self.progress.walks += 1;
                let batch = self.batch().await?;
                self.commit(batch, Place::Entries(None), changed).await
            }
        }
    }

    /// How many of the items one step takes, at least one. In a dry run it takes all of them: since
    /// nothing is written, the same items would be read again.
    fn fitting<T>(&self, items: &[T], bytes: impl Fn(&T) -> usize) -> usize {
        if self.mode == Mode::DryRun {
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
    async fn entries(&mut self, after: Option<RowCursor>) -> Result<(), EngineError> {
        let store = &self.engine.parts.store;
        let mut found = store
            .stale(
                self.tenant,
                self.progress.scan,
                after,
                self.policy.rescan_batch_max,
            )
            .await?;
        let fitting = self.fitting(&found.entries, bytes_of);
        // Rewritten entries are not found again, so a cut page is continued from the same position.
        let place = if fitting < found.entries.len() {
            found.entries.truncate(fitting);
            Place::Entries(after)
        } else {
            found
                .next
                .map_or(Place::Records(0, None), |next| Place::Entries(Some(next)))
        };
        self.report.examined += found.entries.len() as u64;
        let (admitted, changed) = self.readmit(found.entries).await?;
        let batch = admitted
            .into_iter()
            .fold(self.batch().await?, |batch, (id, admitted)| {
                batch.rewrite(id, admitted)
            });
        self.commit(batch, place, changed).await
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
            changed += u64::from(differ(&entry, &readmitted));
            Ok::<_, EngineError>((entry.id, readmitted))
        };
        let cpu = self.engine.cpu();
        let admitted = cpu
            .each(self.tenant, entries, cpu::of_entry, readmit)
            .await?;
        Ok((admitted, changed))
    }

    /// Redacts a page of records of one kind again.
    async fn records(&mut self, number: usize, after: Option<String>) -> Result<(), EngineError> {
        let known = KINDS.get(number).copied();
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
            return self.commit(batch, Place::Rules(None), 0).await;
        };
        for attempt in 1.. {
            let limit = self.policy.rescan_batch_max;
            let mut found = if kind.is_inert() {
                self.engine
                    .inert_to_rescan(self.tenant, kind, after.as_deref(), limit)
                    .await?
            } else {
                self.engine
                    .parts
                    .store
                    .records(self.tenant, kind, "", after.as_deref(), limit)
                    .await?
            };
            let is_last = found.len() < limit as usize;
            let fitting = self.fitting(&found, |record| bytes_of_map(&record.body));
            let is_last = is_last && fitting == found.len();
            found.truncate(fitting);
            let last = found
                .last()
                .filter(|_| !is_last)
                .map(|last| last.key.clone());
            let place = last.map_or(Place::Records(number + 1, None), |last| {
                Place::Records(number, Some(last))
            });
            let examined = found.len() as u64;
            let found = self.changed(found).await?;
            let changed = found.len() as u64;
            let batch = found
                .into_iter()
                .fold(self.batch().await?, |batch, (record, body)| {
                    self.rewrite(batch, record, body)
                });
            match self.commit(batch, place, changed).await {
                // One of the records was changed in the meantime: read the page again.
                Err(EngineError::Store(StoreError::Conflict)) if attempt < TRIES => {}
                other => {
                    self.report.examined += examined;
                    return other;
                }
            }
        }
        Ok(())
    }

    /// The records that redaction by the rules of today changes, with their new bodies.
    async fn changed(
        &self,
        mut records: Vec<Record>,
    ) -> Result<Vec<(Record, RecordBody)>, EngineError> {
        let admission = self.rules.admission(&self.policy, Timestamp(0));
        // A run in progress rewrites its own record at its next step; changing the record's version
        // would only hold it up.
        records.retain(|record| {
            record.kind != RecordKind::Run || record.body.get("status") != Some(&json!("running"))
        });
        // A webhook's record holds a sealed secret, which must stay as it is.
        let clean = |record: &Record| match record.kind {
            RecordKind::Webhook => Hook::read(record)
                .map(|hook| hook.body(&self.policy, &self.rules, Timestamp(0)))
                .filter(|_| sabotage!("late-secrets-stay-in-tags-of-webhooks", true, false)),
            _ => Some(admission.record(record.body.clone())),
        };
        // An archive is named by its bytes and an artifact by their hash, so a redacted one cannot
        // take their place: the text is erased.
        let final_body = |body, record: &Record| match record.kind {
            RecordKind::Archive => archive::erased(&admission),
            _ => proposals::erased(&admission, record).unwrap_or(body),
        };
        let rewrite = |record: Record| {
            let body = clean(&record).filter(|body| *body.map() != record.body);
            let body = body.map(|body| final_body(body, &record));
            Ok::<_, EngineError>(body.map(|body| (record, body)))
        };
        let bytes = |record: &Record| cpu::of_map(&record.body);
        let cpu = self.engine.cpu();
        let rewritten = cpu.each(self.tenant, records, bytes, rewrite).await?;
        Ok(rewritten.into_iter().flatten().collect())
    }

    /// Adds a rewritten record to a batch. A file also gets a new version and an event: a writer
    /// that holds the old version must not overwrite the new one unawares.
    fn rewrite(&self, batch: Batch, record: Record, body: RecordBody) -> Batch {
        let version = Precondition::Version(record.version);
        let batch = batch.set_tied(
            record.kind,
            record.key.clone(),
            version,
            body.clone(),
            record.ties,
        );
        if record.kind != RecordKind::File {
            return batch;
        }
        let version = record.version + 1;
        let batch = self.engine.keep_version(batch, &record.key, version, body);
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
    async fn commit(
        &mut self,
        batch: Batch,
        place: Place,
        changed: u64,
    ) -> Result<(), EngineError> {
        let reached = Progress {
            place,
            ..self.progress.clone()
        };
        if self.mode != Mode::DryRun {
            let with_progress = batch.set(
                RecordKind::Progress,
                NAME.to_owned(),
                Precondition::None,
                reached.written(),
            );
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
fn differ(entry: &Entry, anew: &Admitted) -> bool {
    let metadata = anew
        .metadata()
        .and_then(|text| serde_json::from_str(text).ok());
    entry.content != anew.content()
        || !entry.tags.iter().map(String::as_str).eq(anew.tags())
        || entry.metadata != metadata
        || names(&entry.facets) != names(anew.facets())
}

/// The names in an entry's facets that callers chose.
fn names(facets: &Facets) -> (&WorldId, Option<&str>, Option<&InteractionId>) {
    (
        &facets.world,
        facets.slot.as_deref(),
        facets.interaction.as_ref(),
    )
}

impl Progress {
    fn read(body: &Map<String, Value>) -> Option<Progress> {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let number = |name: &str| body.get(name).and_then(Value::as_i64);
        if number("reach") != Some(REACH.cast_signed()) {
            return None;
        }
        let row = || number("row").map(|row| RowCursor(number("scope").unwrap_or(0), row));
        let rule = || {
            let world = WorldId::parse(text("world")?)?;
            Some((world, RuleId::parse(text("after")?)?))
        };
        let place = match (number("kind"), text("place")) {
            (Some(kind), _) => Place::Records(
                usize::try_from(kind).ok()?,
                text("after").map(str::to_owned),
            ),
            (None, Some("rules")) => Place::Rules(rule()),
            (None, Some("actions")) => Place::Actions(row()),
            (None, Some("labels")) => Place::Labels,
            (None, _) => Place::Entries(row()),
        };
        let walks = u64::try_from(number("walks")?).ok()?;
        Some(Progress {
            scan: u64::from_str_radix(text("scan")?, 16).ok()?,
            since: Timestamp(number("since")?),
            walks,
            place,
        })
    }

    /// The body of the progress record. It is stored without redaction: its ids and numbers are the
    /// host's own, and some look like secrets to a strict detector.
    fn written(&self) -> RecordBody {
        let mut body = json!({"scan": format!("{:016x}", self.scan), "since": self.since.0, "walks": self.walks, "reach": REACH});
        if let Place::Entries(Some(RowCursor(scope, row)))
        | Place::Actions(Some(RowCursor(scope, row))) = &self.place
        {
            body["scope"] = json!(scope);
            body["row"] = json!(row);
        }
        match &self.place {
            Place::Entries(_) => {}
            Place::Actions(_) => body["place"] = json!("actions"),
            Place::Labels => body["place"] = json!("labels"),
            Place::Rules(after) => {
                body["place"] = json!("rules");
                if let Some((world, id)) = after {
                    body["world"] = json!(world.as_str());
                    body["after"] = json!(id.as_str());
                }
            }
            Place::Records(kind, after) => {
                body["kind"] = json!(kind);
                body["after"] = json!(after);
            }
        }
        let policy = Policy {
            shapes: ShapePolicy::Off,
            ..Policy::default()
        };
        let admission = Admission {
            policy: &policy,
            redactor: &Redactor::empty(),
            scan: 0,
            now: Timestamp(0),
        };
        admission.record(body.as_object().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written() {
        let places = [
            Place::Entries(None),
            Place::Entries(Some(RowCursor(3, 12_345_678))),
            Place::Records(0, None),
            Place::Records(3, Some("run_1/000".to_owned())),
            Place::Rules(None),
            Place::Rules(WorldId::parse("w").zip(RuleId::parse("r"))),
            Place::Actions(None),
            Place::Actions(Some(RowCursor(3, 12_345_678))),
            Place::Labels,
        ];
        for place in places {
            let progress = Progress {
                scan: u64::MAX - 5,
                since: Timestamp(1_700_000_000_000),
                walks: 1,
                place,
            };
            assert_eq!(Progress::read(progress.written().map()), Some(progress));
        }
        assert_eq!(Progress::read(&Map::new()), None);
    }
}
