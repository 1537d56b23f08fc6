//! Copies of whole hosts between the stores: a tenant sees the same in every direction, an
//! interrupted copy continues, a target that was written to by itself is refused. A failure prints
//! its seed; rerun it with `REMEM_TEST_SEED=<seed>`.

#![allow(
    clippy::disallowed_methods,
    reason = "a writer beside the copy is a task of its own"
)]

use crate::workshop;
use remem_core::event::{EntryRef, NodeEnded, RunEnded};
use remem_core::{
    Actor, Admission, Batch, Draft, EntryId, EventBody, Idempotency, MemoryRef, Origin, Permission,
    Policy, Precondition, PrincipalId, Record, RecordKind, RecordLinks, Redactor, RetireReason,
    Revision, RunId, Scope, Seq, ShapePolicy, Subject, TenantId, Timestamp, Trust,
};
use remem_store::{
    ChangeOutcome, Directory, DueWork, EntryState, Filter, KeyRecord, Page, Probe, ReadAt,
    RecordLookup, Review, ReviewCalls, Store, StoreError, SubjectTrace, TenantRecord,
    TracePosition,
};
use remem_store_sql::copy::{
    CopyError, CopyLocation, CopyOptions, CopyPhase, CopyProgress, TenantReport, copy,
};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use remem_testkit::conformance::{admit, admit_by, id};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{SeededRandom, cases, wait_until_blocking};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const START: i64 = 1_700_000_000_000;
const TENANTS: [&str; 3] = ["acme", "Globex", "in.it-ech"];
const WORDS: [&str; 12] = [
    "falcon",
    "falcons",
    "Über",
    "running",
    "naïve",
    "42",
    "日本語",
    "don't",
    "invoice",
    "\u{0}",
    "émigré",
    "harbour",
];

const SUBJECTS: u64 = 6;
/// The topics of records, and the longest time after the start at which they are due.
const TOPICS: [&str; 2] = ["rain", "snow"];
const DUE: u64 = 50;

fn subject(number: u8) -> Subject {
    Subject::from_bytes([number; 32])
}

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn tenants() -> Vec<TenantId> {
    TENANTS.iter().map(|name| tenant(name)).collect()
}

/// A host in a folder or in a database.
enum CopyHost {
    Folder(tempfile::TempDir),
    Database(TestDatabase),
}

impl CopyHost {
    /// A folder with its own secret.
    fn folder() -> CopyHost {
        let home = CopyHost::new_folder();
        std::fs::write(home.path().join("host.key"), [7; 32]).unwrap();
        home
    }

    fn new_folder() -> CopyHost {
        CopyHost::Folder(tempfile::tempdir().unwrap())
    }

    async fn database() -> CopyHost {
        CopyHost::Database(TestDatabase::fresh().await)
    }

    fn path(&self) -> &Path {
        match self {
            CopyHost::Folder(folder) => folder.path(),
            CopyHost::Database(_) => panic!("not a folder"),
        }
    }

    fn place(&self) -> CopyLocation {
        match self {
            CopyHost::Folder(folder) => CopyLocation::Folder(folder.path().into()),
            CopyHost::Database(database) => CopyLocation::Database {
                options: Box::new(database.options(4)),
                secret: None,
            },
        }
    }

    /// The records under review of the host.
    async fn review(&self) -> Arc<dyn Review> {
        match self {
            CopyHost::Folder(folder) => {
                Arc::new(SqliteStore::open(Location::Folder(folder.path().into()), 2).unwrap())
            }
            CopyHost::Database(database) => Arc::new(database.open().await),
        }
    }

    async fn open(&self) -> (Arc<dyn Store>, Arc<dyn Directory>) {
        match self {
            CopyHost::Folder(folder) => {
                let location = Location::Folder(folder.path().into());
                (
                    Arc::new(SqliteStore::open(location.clone(), 2).unwrap()),
                    Arc::new(SqliteDirectory::open(&location).unwrap()),
                )
            }
            CopyHost::Database(database) => {
                let store = database.open().await;
                let directory = store.directory();
                (Arc::new(store), Arc::new(directory))
            }
        }
    }
}

async fn copy_all(from: &CopyHost, to: &CopyHost) -> Result<Vec<TenantReport>, CopyError> {
    copy(
        from.place(),
        to.place(),
        &CopyOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    )
    .await
}

/// The random history of a host.
struct HostHistory {
    random: SeededRandom,
    now: i64,
    count: u64,
    /// Batches with an idempotency key.
    repeatable: Vec<Batch>,
    snapshots: Vec<Revision>,
    /// Ids that were put, by memory.
    known: HashMap<Scope, Vec<EntryId>>,
    refused: u64,
}

impl HostHistory {
    fn new() -> HostHistory {
        HostHistory {
            random: SeededRandom::fresh(),
            now: START,
            count: 0,
            repeatable: Vec::new(),
            snapshots: Vec::new(),
            known: HashMap::new(),
            refused: 0,
        }
    }

    /// A random memory that this actor can reach.
    fn scope(&mut self, tenant: &TenantId, actor: &Actor) -> Scope {
        loop {
            let name = MemoryRef::parse(self.random.pick(&[
                "notes",
                "user:1",
                "Überblick",
                "~ada/ops",
                "z",
                "~bob/z",
            ]))
            .unwrap();
            if actor.may_see(&name) {
                return Scope::new(tenant.clone(), name);
            }
        }
    }

    fn new_id(&mut self) -> EntryId {
        self.count += 1;
        match self.count % 50 {
            0 => id(&format!("{}{}", "long ".repeat(40), self.count)),
            _ => id(&format!("e{}", self.count)),
        }
    }

    /// An id that may or may not exist, removed or not.
    fn old_id(&mut self) -> EntryId {
        let number = self.random.below(self.count + 1);
        id(&format!("e{number}"))
    }

    fn draft(&mut self) -> Draft {
        let words: Vec<&str> = (0..1 + self.random.below(12))
            .map(|_| self.random.pick(&WORDS))
            .collect();
        let tags: Vec<String> = (0..self.random.below(3))
            .map(|_| self.random.pick(&["red", "blue", "Größe"]).to_owned())
            .collect();
        let metadata = self
            .random
            .one_in(4)
            .then(|| serde_json::json!({"n": self.count, "z\u{0}": [1.5, null]}));
        let subjects = (0..self.random.below(2))
            .map(|_| subject(self.random.below(SUBJECTS) as u8))
            .collect();
        let mut draft = Draft {
            content: words.join(" "),
            tags,
            subjects,
            ..Draft::default()
        };
        draft.metadata = metadata.and_then(|value| value.as_object().cloned());
        if self.random.one_in(5) {
            draft.expires_at = Some(Timestamp(self.now + 1 + self.random.below(2_000) as i64));
        }
        if self.random.one_in(2) {
            return workshop::drawn(draft, self.now, &mut |bound| self.random.below(bound));
        }
        draft
    }

    fn change(&mut self, batch: Batch) -> Batch {
        let scope = self.scope(batch.tenant(), &batch.actor());
        let at = batch.at();
        match self.random.below(20) {
            17..=19 => {
                let names = (self.mate(&scope), self.mate(&scope));
                workshop::changed(batch, &scope, names, self.now, &mut |bound| {
                    self.random.below(bound)
                })
            }
            14..=16 => self.tie(batch, &scope),
            0..=5 => {
                let id = self.new_id();
                let draft = self.draft();
                let sources = vec![self.mate(&scope), self.mate(&scope)];
                self.known
                    .entry(scope.clone())
                    .or_default()
                    .push(id.clone());
                let sources = sources
                    .into_iter()
                    .map(|source| (scope.memory_ref.clone(), source))
                    .collect();
                batch.put_derived(id, admit(&scope, draft, at), sources)
            }
            10..=13 => self.lineage_changes(batch, &scope),
            6 => {
                let id = if self.random.one_in(2) {
                    self.old_id()
                } else {
                    self.new_id()
                };
                let origin = Origin {
                    id: id.clone(),
                    created_at: Some(Timestamp(START - self.random.below(9_000) as i64)),
                };
                let draft = Draft {
                    origin: Some(origin),
                    ..self.draft()
                };
                batch.put(id, admit(&scope, draft, at))
            }
            _ => {
                let id = self.old_id();
                batch.delete(scope.memory_ref, id)
            }
        }
    }

    /// Adds a record with a source or a topic, a record under review, or the deletion of one.
    fn tie(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let at = batch.at();
        let key = format!("r{}", self.random.below(30));
        let policy = Policy::default();
        let redactor = Redactor::empty();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 1,
            now: at,
        };
        let body = admission.redact_record(
            serde_json::json!({"n": self.count, "z": "日本語"})
                .as_object()
                .cloned()
                .unwrap(),
        );
        let due =
            (!self.random.one_in(4)).then(|| Timestamp(START + self.random.below(DUE) as i64));
        let topic = self
            .random
            .one_in(2)
            .then(|| self.random.pick(&TOPICS).to_owned());
        match self.random.below(8) {
            0 => batch.delete_record(RecordKind::Commitment, key, Precondition::None),
            1 => batch.delete_record(RecordKind::Gate, key, Precondition::None),
            2 => batch.set_record_with_ties(
                RecordKind::Gate,
                key,
                Precondition::None,
                body,
                RecordLinks {
                    due,
                    ..RecordLinks::default()
                },
            ),
            3 => batch.set_record(RecordKind::Proposal, key, Precondition::None, body),
            4 => batch.set_record_with_ties(
                RecordKind::Firing,
                key,
                Precondition::None,
                body,
                RecordLinks {
                    due,
                    topic,
                    source: None,
                },
            ),
            _ => {
                let id = self.new_id();
                let draft = self.draft();
                self.known
                    .entry(scope.clone())
                    .or_default()
                    .push(id.clone());
                let ties = RecordLinks {
                    due,
                    topic,
                    source: Some((scope.memory_ref.clone(), id.clone())),
                };
                let batch = batch.put(id, admit(scope, draft, at));
                batch.set_record_with_ties(
                    RecordKind::Commitment,
                    key,
                    Precondition::None,
                    body,
                    ties,
                )
            }
        }
    }

    /// One of the last entries of the memory.
    fn mate(&mut self, scope: &Scope) -> EntryId {
        let known = self
            .known
            .get(scope)
            .map_or(&[][..], |known| &known[known.len().saturating_sub(9)..]);
        if known.is_empty() {
            id("nobody")
        } else {
            known[self.random.below(known.len() as u64) as usize].clone()
        }
    }

    fn lineage_changes(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let memory = scope.memory_ref.clone();
        let name = self.mate(scope);
        let other = self.mate(scope);
        match self.random.below(8) {
            0..=2 => batch.retire(memory, name, RetireReason::Merged, other),
            3 => batch.retire(memory, name, RetireReason::Superseded, other),
            4 => batch.retire(memory, name, RetireReason::Compacted, other),
            5 => batch.store_signature(memory, name, 1, vec![7; 16]),
            _ => batch.forget(memory.clone(), name).revive(memory, other),
        }
    }

    fn batch(&mut self, tenant: &TenantId) -> Batch {
        self.now += self.random.below(5) as i64;
        let mut batch = Batch::new(tenant.clone(), Timestamp(self.now));
        if self.random.one_in(3) {
            batch = batch
                .with_principal(PrincipalId::parse(self.random.pick(&["key_1", "ada"])).unwrap())
                .in_run(RunId::parse("run-7").unwrap());
        }
        for _ in 0..1 + self.random.below(5) {
            batch = self.change(batch);
        }
        if self.random.one_in(4) {
            let key = *blake3(self.count, self.now)
                .as_slice()
                .first_chunk()
                .unwrap();
            batch = batch.idempotent(Some(Idempotency {
                operation: "entries.put",
                key,
                body: [3; 32],
            }));
        }
        batch
    }

    async fn write(&mut self, store: &dyn Store, tenant: &TenantId, batches: u64) {
        for _ in 0..batches {
            let mut batch = self.batch(tenant);
            if self.random.one_in(3) {
                let scope = self.scope(tenant, &batch.actor());
                let new = (self.new_id(), self.draft());
                self.known
                    .entry(scope.clone())
                    .or_default()
                    .push(new.0.clone());
                batch = workshop::succeeded(store, batch, &scope, new, &mut |bound| {
                    self.random.below(bound)
                })
                .await;
            }
            match store.commit(batch.clone()).await {
                Ok(committed) => self.snapshots.push(committed.revision),
                // Two ids of one batch were the same; a slot is taken; a text restates a rule.
                Err(
                    StoreError::Unavailable(_) | StoreError::Conflict | StoreError::Rejected(_),
                ) => {
                    self.refused += 1;
                    continue;
                }
                Err(error) => panic!("{error:?}"),
            }
            if batch.idempotency().is_some() {
                self.repeatable.push(batch);
            }
            if self.random.one_in(20) {
                self.purge(store, tenant).await;
            }
        }
    }

    async fn purge(&mut self, store: &dyn Store, tenant: &TenantId) {
        let at = Timestamp(self.now);
        let mut batch = Batch::new(tenant.clone(), at);
        for (memory_ref, id) in store.expired_entries(tenant, at, 100).await.unwrap() {
            batch = batch.expire(memory_ref, id);
        }
        for (memory_ref, id) in store.erasable_entries(tenant, 5).await.unwrap() {
            batch = batch.erase(memory_ref, id);
        }
        store.commit(batch).await.unwrap();
    }

    /// Writes tenants with keys and memory; fewer batches in the gate.
    async fn fill(&mut self, home: &CopyHost, batches: u64) {
        let full = u32::try_from(batches).unwrap();
        let batches = u64::from(cases((full / 3).max(5), full));
        let (store, directory) = home.open().await;
        for (n, tenant) in tenants().into_iter().enumerate() {
            let shapes = if n == 1 {
                ShapePolicy::Off
            } else {
                ShapePolicy::Redact
            };
            directory
                .put_tenant(&TenantRecord {
                    id: tenant.clone(),
                    created_at: Timestamp(START + n as i64),
                    shapes,
                })
                .await
                .unwrap();
            for number in 0..3u8 {
                directory
                    .add_key(&key(&tenant, n as u8 * 10 + number))
                    .await
                    .unwrap();
            }
            self.write(store.as_ref(), &tenant, batches).await;
        }
    }
}

fn blake3(count: u64, now: i64) -> Vec<u8> {
    let mut seed = SeededRandom::new(count.rotate_left(32) ^ now.cast_unsigned());
    (0..32).map(|_| seed.below(256) as u8).collect()
}

fn key(tenant: &TenantId, number: u8) -> KeyRecord {
    KeyRecord {
        id: PrincipalId::parse(&format!("key_{number}")).unwrap(),
        // Some of them belong to the same user.
        principal: PrincipalId::parse(&format!("user_{}", number % 4)).unwrap(),
        tenant: tenant.clone(),
        label: "Schlüssel".to_owned(),
        hash: [number; 32],
        permissions: vec![Permission::MemoryWrite, Permission::MemoryRead],
        created_at: Timestamp(START),
        expires_at: number.is_multiple_of(2).then_some(Timestamp(START * 2)),
        revoked_at: number.is_multiple_of(3).then_some(Timestamp(START + 5)),
        trust: Some(Trust::Tool).filter(|_| number % 5 == 1),
    }
}

/// The relations of the last entries of each memory.
/// All entries that carry a subject, on one page.
async fn trace_all(store: &dyn Store, tenant: &TenantId, subject: &Subject) -> SubjectTrace {
    store
        .trace_subject(tenant, subject, TracePosition::default(), 10_000)
        .await
        .unwrap()
}

async fn view_lineage(
    home: &CopyHost,
    tenant: &TenantId,
    known: &HashMap<Scope, Vec<EntryId>>,
) -> Vec<String> {
    let (store, _) = home.open().await;
    let mut seen = Vec::new();
    for number in 0..SUBJECTS {
        let mut trace = trace_all(&*store, tenant, &subject(number as u8)).await;
        // A copy may order its rows otherwise.
        trace.entries.sort_by_key(|entry| format!("{entry:?}"));
        trace.merged_survivors.sort();
        seen.push(format!("{trace:?}"));
    }
    let mut own: Vec<_> = known
        .iter()
        .filter(|(scope, _)| &scope.tenant == tenant)
        .collect();
    own.sort_by_key(|(scope, _)| scope.memory_ref.as_str());
    for (scope, names) in own {
        for name in names.iter().rev().take(12) {
            seen.push(format!(
                "{name} {:?}",
                store.lineage(&scope.clone().as_host(), name).await.unwrap()
            ));
        }
    }
    seen
}

/// The users' views of their own memories and of the tenant's.
async fn view_workshop(
    home: &CopyHost,
    tenant: &TenantId,
    known: &HashMap<Scope, Vec<EntryId>>,
    at: Timestamp,
) -> Vec<String> {
    let mut memories: Vec<Scope> = known
        .keys()
        .filter(|scope| &scope.tenant == tenant)
        .cloned()
        .collect();
    memories.sort_by(|a, b| a.memory_ref.cmp(&b.memory_ref));
    let last = |scope: &Scope| {
        known[scope]
            .iter()
            .rev()
            .take(20)
            .map(|name| (scope.clone(), name.clone()))
            .collect::<Vec<_>>()
    };
    let names: Vec<_> = memories.iter().flat_map(last).collect();
    workshop::view(home.open().await.0.as_ref(), tenant, &memories, &names, at).await
}

fn format_records(records: Vec<Record>) -> String {
    let one = |r: &Record| {
        format!(
            "{:?} {} {} {:?} {:?} {:?}",
            r.kind, r.key, r.version, r.at, r.links, r.body
        )
    };
    records.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Records by each way to find them, and records under review.
async fn view_ties(home: &CopyHost, tenant: &TenantId) -> Vec<String> {
    let (store, _) = home.open().await;
    let review = home.review().await;
    let mut seen = Vec::new();
    for kind in [RecordKind::Commitment, RecordKind::Firing] {
        seen.push(format_records(
            store.records(tenant, kind, "", None, 1_000).await.unwrap(),
        ));
        let until = Timestamp(START + DUE as i64 / 2);
        seen.push(format_records(
            store
                .records_by(
                    tenant,
                    kind,
                    &RecordLookup::Due { until, after: None },
                    1_000,
                )
                .await
                .unwrap(),
        ));
        for topic in TOPICS {
            seen.push(format_records(
                store
                    .records_by(
                        tenant,
                        kind,
                        &RecordLookup::Topic {
                            topic: topic.to_owned(),
                            after: None,
                        },
                        1_000,
                    )
                    .await
                    .unwrap(),
            ));
        }
    }
    for kind in [RecordKind::Gate, RecordKind::Proposal] {
        seen.push(format_records(
            review
                .review_records(tenant, kind, "", None, 1_000)
                .await
                .unwrap(),
        ));
        seen.push(format_records(
            review
                .due_review_records(tenant, kind, Timestamp(START + DUE as i64 / 2), 1_000)
                .await
                .unwrap(),
        ));
    }
    for after in (0..=DUE).step_by(10) {
        let due = store
            .tenants_with_work(DueWork::Records, Timestamp(START + after as i64))
            .await
            .unwrap();
        seen.push(format!("due after {after}: {}", due.contains(tenant)));
    }
    seen
}

/// Everything that a tenant can see, as text.
async fn view(
    home: &CopyHost,
    tenant: &TenantId,
    at: Timestamp,
    snapshots: &[Revision],
    scores: bool,
) -> Vec<String> {
    let (store, directory) = home.open().await;
    let mut seen = vec![
        format!("{:?}", directory.tenant(tenant).await.unwrap()),
        format!("{:?}", directory.keys(tenant).await.unwrap()),
        format!("{:?}", store.head(tenant).await.unwrap()),
        format!(
            "{:?}",
            store.events(tenant, Seq(0), 1_000_000).await.unwrap()
        ),
        format!(
            "{:?}",
            store
                .expired_entries(tenant, at, 1_000_000)
                .await
                .unwrap()
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
        ),
    ];
    for run in ["run-7", "run-8"] {
        seen.push(format!(
            "{:?}",
            store
                .run_events(tenant, &RunId::parse(run).unwrap(), 0, 1_000_000)
                .await
                .unwrap()
        ));
    }
    let ended: std::collections::BTreeSet<_> = store
        .erasable_entries(tenant, 1_000_000)
        .await
        .unwrap()
        .into_iter()
        .collect();
    assert!(
        ended.is_empty()
            || store
                .tenants_with_work(remem_store::DueWork::Purge, at)
                .await
                .unwrap()
                .contains(tenant),
        "what can be erased is somebody's work"
    );
    seen.push(format!("{ended:?}"));
    for kind in [RecordKind::Run, RecordKind::RunRead] {
        seen.push(format!(
            "{:?}",
            store.records(tenant, kind, "", None, 1_000).await.unwrap()
        ));
    }
    let mut moments = vec![ReadAt::Now(at), ReadAt::Now(Timestamp(START))];
    let own_runs = vec![RunId::parse("run-7").unwrap()];
    moments.extend(snapshots.iter().map(|r| ReadAt::Snapshot {
        revision: *r,
        at,
        since: at,
        own_runs: own_runs.clone(),
    }));
    for moment in &moments {
        let scopes = store
            .memories(tenant, &Actor::Host, None, 1_000, moment)
            .await
            .unwrap();
        seen.push(format!("{scopes:?}"));
        for memory in scopes {
            seen.extend(
                view_memory(
                    store.as_ref(),
                    &Scope::new(tenant.clone(), memory.memory_ref).as_host(),
                    moment,
                    scores,
                )
                .await,
            );
        }
    }
    store.verify(tenant).await.unwrap();
    seen
}

async fn view_memory(store: &dyn Store, scope: &Scope, at: &ReadAt, scores: bool) -> Vec<String> {
    let mut seen = vec![format!("{:?}", store.stats(scope, at).await.unwrap())];
    let red = Filter {
        tags: vec!["red".to_owned()],
        ..Filter::default()
    };
    for filter in [Filter::default(), red] {
        let entries = store
            .list(
                scope,
                &filter,
                &Page {
                    limit: 1_000_000,
                    after: None,
                },
                at,
            )
            .await
            .unwrap();
        seen.extend(entries.iter().map(workshop::shown));
        for entry in entries.iter().step_by(17) {
            assert_eq!(
                store.get(scope, &entry.id, at).await.unwrap().as_ref(),
                Some(entry)
            );
        }
    }
    for word in WORDS {
        let probe = Probe::words(vec![word.to_lowercase()]);
        let found = store
            .search(scope, &probe, &Filter::default(), 1_000_000, at)
            .await
            .unwrap()
            .candidates;
        let mut found: Vec<String> = found
            .iter()
            .map(|c| {
                if scores {
                    format!("{} {}", c.entry.id, c.lexical)
                } else {
                    c.entry.id.to_string()
                }
            })
            .collect();
        if !scores {
            found.sort();
        }
        seen.push(format!("{word}: {found:?}"));
    }
    seen
}

#[track_caller]
fn assert_same(left: &[String], right: &[String]) {
    for (l, r) in left.iter().zip(right) {
        assert!(
            l == r,
            "\n{}\n{}",
            &l.chars().take(600).collect::<String>(),
            &r.chars().take(600).collect::<String>()
        );
    }
    assert_eq!(left.len(), right.len());
}

/// Compares two hosts for every tenant, and the results of a repeated request.
async fn compare(world: &mut HostHistory, left: &CopyHost, right: &CopyHost, scores: bool) {
    let at = Timestamp(world.now);
    let some: Vec<Revision> = (0..2)
        .map(|_| world.snapshots[world.random.below(world.snapshots.len() as u64) as usize])
        .collect();
    for tenant in tenants() {
        assert_same(
            &view(left, &tenant, at, &some, scores).await,
            &view(right, &tenant, at, &some, scores).await,
        );
        assert_same(
            &view_lineage(left, &tenant, &world.known).await,
            &view_lineage(right, &tenant, &world.known).await,
        );
        assert_same(
            &view_ties(left, &tenant).await,
            &view_ties(right, &tenant).await,
        );
        assert_same(
            &view_workshop(left, &tenant, &world.known, at).await,
            &view_workshop(right, &tenant, &world.known, at).await,
        );
    }
    let (here, _) = left.open().await;
    let (there, directory) = right.open().await;
    for batch in world.repeatable.iter().rev().take(40) {
        let one = here.commit(batch.clone()).await.unwrap();
        let other = there.commit(batch.clone()).await.unwrap();
        assert!(other.replayed);
        assert_eq!(one, other);
    }
    let found = directory.find_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!(
        (found.tenant, found.id.as_str()),
        (tenant(TENANTS[0]), "key_1")
    );
}

fn assert_verified(reports: &[TenantReport]) {
    assert_eq!(
        reports
            .iter()
            .map(|r| r.tenant.clone())
            .collect::<std::collections::BTreeSet<_>>(),
        tenants().into_iter().collect()
    );
    for report in reports {
        assert!(
            report.verified
                && !report.source_changed
                && report.hash.len() == 32
                && report.entries > 0
                && report.events > 0,
            "{report:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_copies_between_stores_and_back_without_loss() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    let b = CopyHost::database().await;
    let c = CopyHost::new_folder();
    let d = CopyHost::database().await;
    world.fill(&a, 70).await;
    let first = copy_all(&a, &b).await.unwrap();
    assert_verified(&first);
    compare(&mut world, &a, &b, false).await;
    assert_eq!(
        copy_all(&a, &b).await.unwrap(),
        first,
        "a second copy finds everything there"
    );
    // The copy is written to, and copied back into files.
    let (store, directory) = b.open().await;
    for tenant in tenants() {
        world.write(store.as_ref(), &tenant, 30).await;
    }
    let second = copy_all(&b, &c).await.unwrap();
    assert_verified(&second);
    assert_ne!(first, second);
    compare(&mut world, &b, &c, false).await;
    assert_eq!(std::fs::read(c.path().join("host.key")).unwrap(), [7; 32]);
    // More is written and removed, keys are revoked: the same is erased in the copy.
    for tenant in tenants() {
        world.write(store.as_ref(), &tenant, 30).await;
        world.purge(store.as_ref(), &tenant).await;
    }
    directory
        .revoke_key(
            &tenant(TENANTS[0]),
            &PrincipalId::parse("key_1").unwrap(),
            Timestamp(START + 9),
        )
        .await
        .unwrap();
    // One key's trust is lowered, which is so in the copy from then on.
    let lowered = PrincipalId::parse("key_2").unwrap();
    let all = [Permission::MemoryWrite, Permission::MemoryLink];
    directory
        .set_key_trust(&tenant(TENANTS[0]), &lowered, Trust::Model, &all)
        .await
        .unwrap();
    let third = copy_all(&b, &c).await.unwrap();
    assert_verified(&third);
    compare(&mut world, &b, &c, false).await;
    // And into another database: every host has the same hash.
    assert_eq!(copy_all(&c, &d).await.unwrap(), third);
    compare(&mut world, &c, &d, false).await;
    let (store, _) = d.open().await;
    for tenant in tenants() {
        world.write(store.as_ref(), &tenant, 10).await;
        store.verify(&tenant).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_between_folders_preserves_search_scores() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    let b = CopyHost::new_folder();
    world.fill(&a, 100).await;
    assert_verified(&copy_all(&a, &b).await.unwrap());
    compare(&mut world, &a, &b, true).await;
}

/// A page is bounded by its bytes, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_pages_are_bounded_by_bytes() {
    let a = CopyHost::folder();
    let b = CopyHost::database().await;
    let c = CopyHost::new_folder();
    let big = tenant("big");
    let (store, directory) = a.open().await;
    directory
        .put_tenant(&TenantRecord {
            id: big.clone(),
            created_at: Timestamp(START),
            shapes: ShapePolicy::Off,
        })
        .await
        .unwrap();
    let scope = Scope::new(big.clone(), MemoryRef::parse("m").unwrap());
    for n in 0..200 {
        let draft = Draft {
            content: "x".repeat(60_000),
            ..Draft::default()
        };
        store
            .commit(
                Batch::new(big.clone(), Timestamp(START))
                    .put(id(&format!("e{n}")), admit(&scope, draft, Timestamp(START))),
            )
            .await
            .unwrap();
    }
    for (from, to) in [(&a, &b), (&b, &c)] {
        let mut seen = Vec::new();
        let mut watch = |p: &CopyProgress| {
            seen.push(p.entries.0);
            ControlFlow::Continue(())
        };
        let reports = copy(
            from.place(),
            to.place(),
            &CopyOptions::default(),
            &mut watch,
        )
        .await
        .unwrap();
        assert!(reports[0].verified && reports[0].entries == 200);
        let largest = seen
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .max();
        assert!((1..=71).contains(&largest.unwrap()), "{seen:?}");
    }
}

/// The rows that a tenant's runs leave: their own logs, facts that a replay repeats, reads, entries
/// that they removed and that are not erased yet.
struct RunScenario<'a> {
    store: &'a dyn Store,
    scope: Scope,
    at: Timestamp,
}

impl RunScenario<'_> {
    fn batch(&self, run: &str) -> Batch {
        Batch::new(self.scope.tenant.clone(), self.at).in_run(RunId::parse(run).unwrap())
    }

    async fn commit(&self, batch: Batch) {
        self.store.commit(batch).await.unwrap();
    }

    fn admission<R>(&self, scan: u64, with: impl FnOnce(&Admission<'_>) -> R) -> R {
        let policy = Policy::default();
        let redactor = Redactor::empty();
        with(&Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: scan,
            now: self.at,
        })
    }

    async fn rewrite(&self, name: &str, text: &str, scan: u64) {
        let tags = vec!["red".to_owned(), format!("by {scan}")];
        let draft = Draft {
            content: text.to_owned(),
            tags,
            ..Draft::default()
        };
        let admitted = self
            .admission(scan, |admission| admission.admit(&self.scope, draft))
            .unwrap();
        self.commit(Batch::new(self.scope.tenant.clone(), self.at).rewrite(id(name), admitted))
            .await;
    }

    /// The number of this memory's entries that can be erased. Others of the tenant may have some
    /// left from before.
    async fn ended(&self) -> usize {
        let ended = self
            .store
            .erasable_entries(&self.scope.tenant, 1_000)
            .await
            .unwrap();
        ended
            .iter()
            .filter(|(memory_ref, _)| *memory_ref == self.scope.memory_ref)
            .count()
    }

    /// A run that opens a snapshot, writes, reads and deletes, beside another; then a replay of it.
    /// Both have ended.
    async fn populate(&self) {
        let names = [
            "kept", "same", "changed", "turned", "gone", "gone too", "wiped", "given up",
        ];
        let all = names.iter().fold(self.batch("run-7"), |batch, name| {
            let draft = Draft {
                content: format!("falcon text of {name}"),
                tags: vec!["red".into()],
                ..Draft::default()
            };
            batch.put(id(name), admit(&self.scope, draft, self.at))
        });
        self.commit(all).await;
        let read = self.admission(1, |admission| {
            admission.redact_record(serde_json::Map::new())
        });
        let batch = self.batch("run-7").hold_snapshot().set_record(
            RecordKind::RunRead,
            "run-7/000.001".into(),
            Precondition::None,
            read.clone(),
        );
        self.commit(batch.emit(EventBody::NodeCompleted(NodeEnded {
            node_id: "n".into(),
        })))
        .await;
        self.commit(self.batch("run-8").hold_snapshot()).await;
        let delete =
            |batch: Batch, name: &str| batch.delete(self.scope.memory_ref.clone(), id(name));
        self.commit(delete(delete(self.batch("run-7"), "gone"), "wiped"))
            .await;
        self.commit(delete(
            Batch::new(self.scope.tenant.clone(), self.at),
            "gone too",
        ))
        .await;
        let entry = EntryRef::new(&self.scope.memory_ref, &id("gone"));
        let replay = self
            .batch("run-8")
            .emit_replayed(EventBody::Deleted(entry), Timestamp(START - 5));
        let replay = replay.set_record(
            RecordKind::RunRead,
            "run-8/000.001".into(),
            Precondition::None,
            read,
        );
        self.commit(
            replay
                .emit_replayed(
                    EventBody::RunCompleted(RunEnded { duration_ms: 5 }),
                    Timestamp(START - 4),
                )
                .release_snapshot(),
        )
        .await;
        self.commit(self.batch("run-7").release_snapshot()).await;
        assert_eq!(self.ended().await, 3, "taken away, not erased");
    }

    /// Changes between two copies: texts scanned with other rules, rules that come and go, text
    /// that is erased.
    async fn change_after_copy(&self) {
        self.rewrite("same", "falcon text of same", 2).await;
        self.rewrite("changed", "another text of changed", 2).await;
        self.rewrite("turned", "the secret was in turned", 2).await;
        self.rewrite("turned", "the secret was in turned", 1).await;
        self.rewrite("gone too", "redacted though it is taken away", 2)
            .await;
        self.rewrite("wiped", "redacted, then erased", 2).await;
        self.rewrite("given up", "redacted, then deleted", 2).await;
        let memory = || self.scope.memory_ref.clone();
        let batch = Batch::new(self.scope.tenant.clone(), self.at)
            .erase(memory(), id("wiped"))
            .erase(memory(), id("gone"));
        self.commit(batch.delete(memory(), id("given up"))).await;
        assert_eq!(self.ended().await, 1);
    }
}

async fn copy_with_runs(from: CopyHost, to: CopyHost) {
    let mut world = HostHistory::new();
    world.fill(&from, 10).await;
    let (store, _) = from.open().await;
    let at = Timestamp(world.now);
    let stories = tenants()
        .into_iter()
        .map(|tenant| Scope::new(tenant, MemoryRef::parse("runs").unwrap()));
    let stories: Vec<RunScenario<'_>> = stories
        .map(|scope| RunScenario {
            store: store.as_ref(),
            scope,
            at,
        })
        .collect();
    for story in &stories {
        story.populate().await;
    }
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
    for story in &stories {
        story.change_after_copy().await;
    }
    half(&from, &to).await;
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
    // The purge pass finds its work at the target.
    let (there, _) = to.open().await;
    let acme = &stories[0];
    let erase = Batch::new(acme.scope.tenant.clone(), at)
        .erase(acme.scope.memory_ref.clone(), id("gone too"));
    assert_eq!(
        there.commit(erase).await.unwrap().outcomes,
        [remem_store::ChangeOutcome::Removed]
    );
    there.verify(&acme.scope.tenant).await.unwrap();
    // A run that is under way prevents the copy of its tenant.
    acme.commit(acme.batch("run-9").hold_snapshot()).await;
    let error = copy_all(&from, &CopyHost::new_folder()).await.unwrap_err();
    assert!(
        matches!(&error, CopyError::OpenRuns(whose) if whose == &acme.scope.tenant),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("runs of tenant acme are under way"),
        "{error}"
    );
    acme.commit(acme.batch("run-9").release_snapshot()).await;
    copy_all(&from, &CopyHost::new_folder()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_copied_into_a_database() {
    copy_with_runs(CopyHost::folder(), CopyHost::database().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_copied_into_files() {
    let seed = CopyHost::folder();
    let middle = CopyHost::database().await;
    seed.open().await;
    copy_all(&seed, &middle).await.unwrap(); // carries the secret
    copy_with_runs(middle, CopyHost::new_folder()).await;
}

/// Every way in which an entry replaces another, and the changes between two copies.
struct LineageScenario<'a> {
    store: &'a dyn Store,
    scope: Scope,
}

impl LineageScenario<'_> {
    fn batch(&self) -> Batch {
        Batch::new(self.scope.tenant.clone(), Timestamp(START))
    }

    async fn put(&self, name: &str, subjects: &[u8], sources: &[&str]) {
        let subjects = subjects.iter().map(|number| subject(*number)).collect();
        let draft = Draft {
            content: format!("falcon {name}"),
            subjects,
            ..Draft::default()
        };
        let sources = sources
            .iter()
            .map(|source| (self.scope.memory_ref.clone(), id(source)))
            .collect();
        let batch = self.batch().put_derived(
            id(name),
            admit(&self.scope, draft, Timestamp(START)),
            sources,
        );
        self.store.commit(batch).await.unwrap();
    }

    async fn retire(&self, name: &str, reason: RetireReason, by: &str) {
        let batch = self
            .batch()
            .retire(self.scope.memory_ref.clone(), id(name), reason, id(by));
        assert_eq!(
            self.store.commit(batch).await.unwrap().outcomes,
            [ChangeOutcome::Removed],
            "{name} {by}"
        );
    }

    async fn forget(&self, name: &str) {
        let batch = self.batch().forget(self.scope.memory_ref.clone(), id(name));
        assert_eq!(
            self.store.commit(batch).await.unwrap().outcomes,
            [ChangeOutcome::Removed],
            "{name}"
        );
    }

    /// The entry that replaces others is sometimes older than they, sometimes newer.
    async fn populate(&self) {
        for name in [
            "old", "a", "b", "c", "d", "told", "spare", "deleted", "guest",
        ] {
            self.put(name, &[1], &[]).await;
        }
        self.put("gist", &[], &["a", "told"]).await;
        self.put("about both", &[1, 2], &["gist"]).await;
        self.retire("a", RetireReason::Merged, "b").await;
        self.retire("d", RetireReason::Merged, "c").await;
        self.retire("old", RetireReason::Superseded, "b").await;
        self.retire("told", RetireReason::Compacted, "gist").await;
        self.forget("spare").await;
        self.store
            .commit(
                self.batch()
                    .delete(self.scope.memory_ref.clone(), id("deleted")),
            )
            .await
            .unwrap();
    }

    /// Merged entries come back and are merged into others, superseded ones are deleted, subjects
    /// are forgotten.
    async fn change_after_copy(&self) {
        let memory = || self.scope.memory_ref.clone();
        let outcomes = self
            .store
            .commit(
                self.batch()
                    .forget(memory(), id("b"))
                    .revive(memory(), id("a")),
            )
            .await
            .unwrap()
            .outcomes;
        assert_eq!(outcomes, [ChangeOutcome::Removed, ChangeOutcome::Done]);
        self.retire("a", RetireReason::Merged, "c").await;
        self.retire("gist", RetireReason::Superseded, "guest").await;
        self.forget("about both").await;
        let draft = Draft {
            content: "falcon redacted".to_owned(),
            ..Draft::default()
        };
        let other = admit_by(&self.scope, draft, Timestamp(START), 2);
        self.store
            .commit(self.batch().rewrite(id("guest"), other))
            .await
            .unwrap();
    }

    async fn sign(&self, names: &[&str]) {
        let batch = names.iter().fold(self.batch(), |batch, name| {
            batch.store_signature(self.scope.memory_ref.clone(), id(name), 1, vec![7; 16])
        });
        self.store.commit(batch).await.unwrap();
    }

    async fn state(&self, name: &str) -> (EntryState, Option<EntryId>, u64) {
        let lineage = self
            .store
            .lineage(&self.scope, &id(name))
            .await
            .unwrap()
            .unwrap();
        (lineage.state, lineage.replaced_by, lineage.support)
    }
}

async fn copy_with_lineage(from: CopyHost, to: CopyHost) {
    let mut world = HostHistory::new();
    world.fill(&from, 10).await;
    let (here, _) = from.open().await;
    let scope = Scope::new(tenant(TENANTS[0]), MemoryRef::parse("kin").unwrap());
    let source = LineageScenario {
        store: here.as_ref(),
        scope: scope.clone(),
    };
    source.populate().await;
    source.sign(&["b", "c"]).await;
    let names = [
        "old",
        "a",
        "b",
        "c",
        "d",
        "told",
        "spare",
        "deleted",
        "guest",
        "gist",
        "about both",
    ];
    world.known.insert(scope.clone(), names.map(id).to_vec());
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
    let (there, _) = to.open().await;
    let target = LineageScenario {
        store: there.as_ref(),
        scope: scope.clone(),
    };
    assert_eq!(
        target.state("a").await,
        (EntryState::Retired(RetireReason::Merged), Some(id("b")), 1)
    );
    assert_eq!(
        (target.state("b").await.2, target.state("c").await.2),
        (2, 2)
    );
    assert!(
        there.signatures(&scope, None, 99).await.unwrap().is_empty(),
        "they are computed anew"
    );
    target.sign(&["guest"]).await;
    source.change_after_copy().await;
    half(&from, &to).await;
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
    assert_eq!(
        target.state("a").await,
        (EntryState::Retired(RetireReason::Merged), Some(id("c")), 1)
    );
    assert_eq!(
        (target.state("old").await.0, target.state("c").await.2),
        (EntryState::Deleted, 3)
    );
    assert!(
        trace_all(&*there, &scope.tenant, &subject(2))
            .await
            .entries
            .iter()
            .all(|e| e.id != id("about both"))
    );
    assert!(
        there.signatures(&scope, None, 99).await.unwrap().is_empty(),
        "a signature goes with the text it was made from"
    );
    // The target continues: deleting an entry deletes those that it replaced.
    there
        .commit(target.batch().delete(scope.memory_ref.clone(), id("c")))
        .await
        .unwrap();
    let ended: std::collections::BTreeSet<_> = there
        .erasable_entries(&scope.tenant, 99)
        .await
        .unwrap()
        .into_iter()
        .collect();
    for name in ["a", "d", "old"] {
        assert!(
            ended.contains(&(scope.memory_ref.clone(), id(name))),
            "{name}: {ended:?}"
        );
    }
    there.verify(&scope.tenant).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lineage_is_copied_into_a_database() {
    copy_with_lineage(CopyHost::folder(), CopyHost::database().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lineage_is_copied_into_files() {
    let seed = CopyHost::folder();
    let middle = CopyHost::database().await;
    seed.open().await;
    copy_all(&seed, &middle).await.unwrap(); // carries the secret
    copy_with_lineage(middle, CopyHost::new_folder()).await;
}

/// Stops at every point in turn; the source changes in between.
async fn copy_with_interruptions(from: CopyHost, to: CopyHost) {
    let mut world = HostHistory::new();
    world.fill(&from, 40).await;
    let (store, _) = from.open().await;
    world.write(store.as_ref(), &tenant(TENANTS[0]), 280).await; // more than a page
    let mut stops = 0;
    for round in 0.. {
        let mut left = world.random.below(1 + 2 * round);
        let mut stop = |_: &CopyProgress| {
            left = left.wrapping_sub(1);
            if left == u64::MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        match copy(from.place(), to.place(), &CopyOptions::default(), &mut stop).await {
            Ok(reports) => {
                assert_verified(&reports);
                break;
            }
            Err(CopyError::Stopped) => stops += 1,
            Err(error) => panic!("{error:?}"),
        }
        if world.random.one_in(3) {
            let tenant = tenant(world.random.pick(&TENANTS));
            world.write(store.as_ref(), &tenant, 3).await;
        }
    }
    assert!(stops > 5, "{stops}");
    copy_all(&from, &to).await.unwrap();
    compare(&mut world, &from, &to, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_copy_into_a_database_resumes() {
    copy_with_interruptions(CopyHost::folder(), CopyHost::database().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_copy_into_files_resumes() {
    let seed = CopyHost::folder();
    let middle = CopyHost::database().await;
    seed.open().await;
    copy_all(&seed, &middle).await.unwrap(); // carries the secret
    copy_with_interruptions(middle, CopyHost::new_folder()).await;
}

/// A copy that stops when the first entries are copied, before the clock is.
async fn half(from: &CopyHost, to: &CopyHost) {
    stopped(from, to, |_| true).await;
}

/// A copy that stops at the first entries of the tenant that `at` selects.
async fn stopped(from: &CopyHost, to: &CopyHost, at: impl Fn(&TenantId) -> bool + Send + Sync) {
    let mut stop = |p: &CopyProgress| {
        if at(&p.tenant) && p.entries.0 > 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    assert!(matches!(
        copy(from.place(), to.place(), &CopyOptions::default(), &mut stop).await,
        Err(CopyError::Stopped)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partially_copied_tenant_is_not_served_or_writable() {
    for to in [CopyHost::new_folder(), CopyHost::database().await] {
        let mut world = HostHistory::new();
        let from = CopyHost::folder();
        world.fill(&from, 40).await;
        half(&from, &to).await;
        let (store, directory) = to.open().await;
        assert_eq!(directory.tenants().await.unwrap(), []);
        assert_eq!(directory.find_key(&[1; 32]).await.unwrap(), None);
        let first = tenants().into_iter().min().unwrap();
        assert_eq!(store.head(&first).await.unwrap().seq, Seq(0));
        let scope = world.scope(&first, &Actor::NoUser);
        let batch = Batch::new(first.clone(), Timestamp(world.now)).put(
            id("new"),
            admit(
                &scope,
                Draft {
                    content: "x".into(),
                    ..Draft::default()
                },
                Timestamp(world.now),
            ),
        );
        assert!(store.commit(batch).await.is_err());
        drop(store);
        assert_verified(&copy_all(&from, &to).await.unwrap());
        compare(&mut world, &from, &to, false).await;
    }
}

/// A copy of a host that is being written to is one commit of each tenant, and reports that there
/// are later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_source_under_writes_is_copied_at_one_commit_per_tenant() {
    let mut world = HostHistory::new();
    let from = CopyHost::folder();
    let to = CopyHost::database().await;
    world.fill(&from, 80).await;
    let (store, _) = from.open().await;
    let done = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let flag = done.clone();
    let count = written.clone();
    let writing = tokio::spawn(async move {
        while !flag.load(Ordering::SeqCst) {
            let tenant = tenant(world.random.pick(&TENANTS));
            world.write(store.as_ref(), &tenant, 1).await;
            count.fetch_add(1, Ordering::SeqCst);
        }
        world
    });
    let mut pace = |p: &CopyProgress| {
        if p.phase == CopyPhase::Checking {
            let before = written.load(Ordering::SeqCst);
            wait_until_blocking("the writer goes on", || {
                written.load(Ordering::SeqCst) > before + 10
            });
        }
        ControlFlow::Continue(())
    };
    let reports = copy(from.place(), to.place(), &CopyOptions::default(), &mut pace)
        .await
        .unwrap();
    done.store(true, Ordering::SeqCst);
    let mut world = writing.await.unwrap();
    assert!(written.load(Ordering::SeqCst) > 10);
    assert!(
        reports.iter().all(|r| r.verified) && reports.iter().any(|r| r.source_changed),
        "{reports:?}"
    );
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
}

/// Idempotency records that the source has deleted since are deleted at the target.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrubbed_idempotency_records_do_not_break_a_repeated_copy() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    let b = CopyHost::database().await;
    world.fill(&a, 40).await;
    let first = copy_all(&a, &b).await.unwrap();
    let (store, _) = a.open().await;
    for before in [START + (world.now - START) / 2, i64::MAX] {
        for tenant in tenants() {
            store
                .scrub(&tenant, Timestamp(before), false)
                .await
                .unwrap();
        }
        let again = copy_all(&a, &b).await.unwrap();
        assert_verified(&again);
        assert_ne!(first, again);
    }
}

async fn refusal(from: CopyLocation, to: CopyLocation) -> String {
    let error = copy(from, to, &CopyOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .await
    .unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_source_and_target_locations_are_rejected() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    let b = CopyHost::database().await;
    world.fill(&a, 20).await;
    let nowhere = CopyLocation::Folder(a.path().join("nowhere"));
    assert!(
        refusal(nowhere, b.place())
            .await
            .contains("host.db not found")
    );
    let empty = CopyHost::Database(TestDatabase {
        app_url: String::new(),
        ..TestDatabase::empty().await
    });
    let CopyHost::Database(unprepared) = &empty else {
        unreachable!()
    };
    let open = |d: &TestDatabase| {
        let mut options = d.options(2);
        options.target = remem_store_sql::postgres::PostgresTarget::parse(&d.admin_url).unwrap();
        CopyLocation::Database {
            options: Box::new(options),
            secret: None,
        }
    };
    let unprepared = TestDatabase {
        app_url: unprepared.admin_url.clone(),
        name: unprepared.name.clone(),
        admin_url: unprepared.admin_url.clone(),
    };
    let text = refusal(a.place(), open(&unprepared)).await;
    assert!(
        text.contains("target") && text.contains("remem migrate"),
        "{text}"
    );
    assert!(
        refusal(open(&unprepared), a.place())
            .await
            .contains("the source cannot be used: this database is not prepared")
    );
    assert!(
        refusal(a.place(), CopyLocation::Folder(a.path().join(".")))
            .await
            .contains("the same place")
    );
    copy_all(&a, &b).await.unwrap();
    assert!(
        refusal(b.place(), b.place())
            .await
            .contains("the same place")
    );
    let only = CopyOptions {
        tenant: Some(tenant("nobody")),
        dry_run: false,
    };
    let error = copy(a.place(), b.place(), &only, &mut |_| {
        ControlFlow::Continue(())
    })
    .await
    .unwrap_err();
    assert!(matches!(error, CopyError::NoTenant(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_with_a_diverged_history_is_rejected() {
    for to in [CopyHost::new_folder(), CopyHost::database().await] {
        let mut world = HostHistory::new();
        let from = CopyHost::folder();
        world.fill(&from, 10).await;
        copy_all(&from, &to).await.unwrap();
        let (store, _) = to.open().await;
        let globex = tenant("Globex");
        world.write(store.as_ref(), &globex, 20).await;
        let text = refusal(from.place(), to.place()).await;
        assert!(
            text.contains("tenant Globex at the target is ahead"),
            "{text}"
        );
        // Both were written to after the copy.
        let (store, _) = from.open().await;
        world.write(store.as_ref(), &globex, 60).await;
        let text = refusal(from.place(), to.place()).await;
        assert!(
            text.contains("tenant Globex at the target has another history"),
            "{text}"
        );
        // A source that was never written to.
        let other = CopyHost::folder();
        let (_, directory) = other.open().await;
        directory
            .put_tenant(&TenantRecord {
                id: globex,
                created_at: Timestamp(0),
                shapes: ShapePolicy::Off,
            })
            .await
            .unwrap();
        assert!(
            refusal(other.place(), to.place())
                .await
                .contains("another history")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_or_mismatched_host_secrets_are_rejected() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    world.fill(&a, 5).await;
    for to in [CopyHost::new_folder(), CopyHost::database().await] {
        let other = CopyHost::new_folder();
        std::fs::write(other.path().join("host.key"), [8; 32]).unwrap();
        let (_, directory) = other.open().await;
        copy_all(&other, &to).await.unwrap(); // carries the other secret, and nothing else
        let text = refusal(a.place(), to.place()).await;
        assert!(
            text.contains("another host secret, on which no key depends"),
            "{text}"
        );
        directory
            .put_tenant(&TenantRecord {
                id: tenant("x"),
                created_at: Timestamp(0),
                shapes: ShapePolicy::Off,
            })
            .await
            .unwrap();
        directory.add_key(&key(&tenant("x"), 1)).await.unwrap();
        copy_all(&other, &to).await.unwrap();
        let text = refusal(a.place(), to.place()).await;
        assert!(
            text.contains("a host with another secret and holds its keys"),
            "{text}"
        );
    }
    std::fs::remove_file(a.path().join("host.key")).unwrap();
    assert!(
        refusal(a.place(), CopyHost::database().await.place())
            .await
            .contains("the source has no host secret")
    );
    // A secret that is stored outside the database.
    let b = TestDatabase::fresh().await;
    let secret = Some([7; 32]);
    std::fs::write(a.path().join("host.key"), [7; 32]).unwrap();
    let outside = || CopyLocation::Database {
        options: Box::new(b.options(4)),
        secret,
    };
    assert_verified(
        &copy(a.place(), outside(), &CopyOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .await
        .unwrap(),
    );
    let rows = b
        .admin()
        .await
        .query("SELECT 1 FROM remem.host_secret", &[])
        .await
        .unwrap();
    assert!(rows.is_empty());
    assert!(
        refusal(
            CopyLocation::Database {
                options: Box::new(b.options(4)),
                secret: None
            },
            CopyHost::new_folder().place()
        )
        .await
        .contains("no host secret")
    );
    assert_verified(
        &copy(
            outside(),
            CopyHost::new_folder().place(),
            &CopyOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .await
        .unwrap(),
    );
}

/// An entry that the log reports and that cannot be read must not be left out silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_with_lost_rows_is_rejected() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    let b = CopyHost::database().await;
    world.fill(&a, 10).await;
    copy_all(&a, &b).await.unwrap();
    let CopyHost::Database(database) = &b else {
        unreachable!()
    };
    let sql = "BEGIN; ALTER TABLE remem.entry DISABLE TRIGGER b_no_hard_delete; ALTER TABLE remem.entry DISABLE TRIGGER ALL;
               DELETE FROM remem.entry WHERE (tenant_id, scope_id, row_id) IN (SELECT tenant_id, scope_id, row_id FROM remem.entry
                 WHERE tenant_id = 'acme' LIMIT 1);
               ALTER TABLE remem.entry ENABLE TRIGGER ALL; COMMIT";
    database.admin().await.batch_execute(sql).await.unwrap();
    let text = refusal(b.place(), CopyHost::new_folder().place()).await;
    assert!(
        text.contains("tenant acme") && text.contains("would not be whole"),
        "{text}"
    );
}

/// Damage at the target is reported with the tenant's name, and the tenant gets no keys there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_at_the_target_is_reported() {
    for (sql, what) in [
        (
            "UPDATE remem.entry SET written_by = 'somebody' WHERE ctid IN (SELECT ctid FROM remem.entry WHERE tenant_id = 'acme' LIMIT 1)",
            "contents of rows differ",
        ),
        (
            // Newer than anything: a record that is older than all of the source would be deleted.
            "INSERT INTO remem.idempotency VALUES ('acme', 'x', '\\x01', '\\x02', 9223372036854775807, 1, '[]')",
            "numbers of idempotency records",
        ),
        (
            "DELETE FROM remem.posting WHERE ctid IN (SELECT ctid FROM remem.posting WHERE tenant_id = 'acme' LIMIT 1)",
            "the target's check",
        ),
        (
            "UPDATE remem.rule SET body = body || ' ' WHERE tenant_id = 'acme' AND id = 'kept'",
            "contents of rows differ",
        ),
        (
            "INSERT INTO remem.rule VALUES ('acme', 'w9', 'r', 'planted', 1)",
            "numbers of rules",
        ),
        (
            "UPDATE remem.action_link SET linked_by = 'somebody' WHERE reference = 'told'",
            "contents of rows differ",
        ),
        (
            "UPDATE remem.entry SET trust = 'operator' WHERE tenant_id = 'acme' AND id = 'told of'",
            "contents of rows differ",
        ),
    ] {
        let mut world = HostHistory::new();
        let a = CopyHost::folder();
        let b = CopyHost::database().await;
        world.fill(&a, 10).await;
        let (store, _) = a.open().await;
        let scope = Scope::new(tenant("acme"), MemoryRef::parse("told").unwrap());
        let batch = Batch::new(scope.tenant.clone(), Timestamp(world.now)).put(
            id("told of"),
            admit(&scope, workshop::claim("x", "-"), Timestamp(world.now)),
        );
        let batch = batch.link_action(
            scope.memory_ref.clone(),
            id("told of"),
            "act".into(),
            "told".into(),
        );
        store
            .commit(batch.set_rule(
                workshop::world("w3"),
                workshop::rule_id("kept"),
                Some(workshop::rule_text("a rule")),
            ))
            .await
            .unwrap();
        copy_all(&a, &b).await.unwrap();
        let CopyHost::Database(database) = &b else {
            unreachable!()
        };
        assert_eq!(
            database.admin().await.execute(sql, &[]).await.unwrap(),
            1,
            "one row is damaged"
        );
        let text = refusal(a.place(), b.place()).await;
        assert!(
            text.contains("tenant acme") && text.contains(what),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_counts_and_writes_nothing() {
    let mut world = HostHistory::new();
    let a = CopyHost::folder();
    let b = CopyHost::database().await;
    world.fill(&a, 10).await;
    let options = CopyOptions {
        tenant: None,
        dry_run: true,
    };
    let counted = copy(a.place(), b.place(), &options, &mut |_| {
        ControlFlow::Continue(())
    })
    .await
    .unwrap();
    assert!(
        counted
            .iter()
            .all(|r| r.entries > 0 && !r.verified && r.hash.is_empty())
    );
    let CopyHost::Database(database) = &b else {
        unreachable!()
    };
    for table in ["tenant", "event", "entry", "host_secret", "tenant_clock"] {
        let rows = database
            .admin()
            .await
            .query(&format!("SELECT 1 FROM remem.{table}"), &[])
            .await
            .unwrap();
        assert!(rows.is_empty(), "{table}");
    }
    let nowhere = a.path().join("not/there");
    let same = copy(
        a.place(),
        CopyLocation::Folder(nowhere.clone()),
        &options,
        &mut |_| ControlFlow::Continue(()),
    )
    .await
    .unwrap();
    assert_eq!(same, counted);
    assert!(!nowhere.exists());
    let one = CopyOptions {
        tenant: Some(tenant("Globex")),
        dry_run: false,
    };
    let one = copy(a.place(), b.place(), &one, &mut |_| {
        ControlFlow::Continue(())
    })
    .await
    .unwrap();
    assert_eq!(
        one.iter().map(|r| r.tenant.as_str()).collect::<Vec<_>>(),
        ["Globex"]
    );
    assert_eq!(b.open().await.1.tenants().await.unwrap().len(), 1);
}

/// The rules, windows and successors that are hard to copy: entries that are older than a rule that
/// the target has already, a window that comes back to where another one was, and a replacement
/// that is final.
struct WorkshopScenario<'a> {
    store: &'a dyn Store,
    scope: Scope,
}

impl WorkshopScenario<'_> {
    fn batch(&self) -> Batch {
        Batch::new(self.scope.tenant.clone(), Timestamp(START + 1_000_000))
    }

    async fn commit(&self, batch: Batch) {
        self.store.commit(batch).await.unwrap();
    }

    fn put(
        &self,
        batch: Batch,
        name: &str,
        text: &str,
        typology: remem_core::Typology,
        slot: Option<&str>,
    ) -> Batch {
        let facets = remem_core::Facets {
            slot: slot.map(str::to_owned),
            world: workshop::world("w9"),
            ..Default::default()
        };
        let draft = Draft {
            content: text.to_owned(),
            typology,
            facets,
            ..Draft::default()
        };
        let admitted = admit(&self.scope, draft, batch.at());
        batch.put(id(name), admitted)
    }

    fn rule(&self, body: Option<&str>) -> Batch {
        self.batch().set_rule(
            workshop::world("w9"),
            workshop::rule_id("r1"),
            body.map(workshop::rule_text),
        )
    }

    async fn populate(&self) {
        use remem_core::Typology::{Procedural, Semantic};
        let memory = || self.scope.memory_ref.clone();
        self.commit(self.put(
            self.batch(),
            "before the rule",
            workshop::RULES[0],
            Semantic,
            None,
        ))
        .await;
        self.commit(self.rule(Some(workshop::RULES[0]))).await;
        self.commit(self.put(
            self.put(self.batch(), "first", "it is red", Semantic, Some("q")),
            "stays",
            "a gist",
            Semantic,
            None,
        ))
        .await;
        self.commit(
            self.batch()
                .retire(memory(), id("first"), RetireReason::Merged, id("stays")),
        )
        .await;
        self.commit(self.put(self.batch(), "second", "it is blue", Semantic, Some("q")))
            .await;
        self.commit(self.put(self.batch(), "old way", "by hand", Procedural, Some("how")))
            .await;
        let next = self.batch().close(
            memory(),
            id("old way"),
            remem_core::ClosingReason::ReplacedNow,
            Some(id("new way")),
        );
        self.commit(self.put(next, "new way", "by script", Procedural, Some("how")))
            .await;
        self.commit(
            self.batch()
                .link_action(memory(), id("old way"), "audit".into(), "1".into())
                .link_action(memory(), id("before the rule"), "told".into(), "1".into())
                .link_action(memory(), id("before the rule"), "told".into(), "2".into()),
        )
        .await;
    }

    async fn change_after_copy(&self) {
        let memory = || self.scope.memory_ref.clone();
        self.commit(self.rule(None)).await;
        self.commit(self.put(
            self.batch(),
            "between rules",
            &workshop::RULES[0].to_uppercase(),
            remem_core::Typology::Semantic,
            None,
        ))
        .await;
        self.commit(self.rule(Some(workshop::RULES[0]))).await;
        // The window of the first comes back to where that of the second was.
        self.commit(
            self.batch()
                .delete(memory(), id("second"))
                .forget(memory(), id("stays"))
                .forget(memory(), id("before the rule"))
                .revive(memory(), id("first")),
        )
        .await;
        let draft = Draft {
            content: "by [REDACTED]".to_owned(),
            typology: remem_core::Typology::Procedural,
            facets: remem_core::Facets {
                slot: Some("how".to_owned()),
                ..remem_core::Facets::default()
            },
            ..Draft::default()
        };
        self.commit(self.batch().rewrite(
            id("old way"),
            admit_by(&self.scope, draft, Timestamp(START), 2),
        ))
        .await;
        self.commit(
            self.batch()
                .link_action(memory(), id("old way"), "audit".into(), "2".into()),
        )
        .await;
    }
}

async fn copy_with_workshop(from: CopyHost, to: CopyHost) {
    let mut world = HostHistory::new();
    world.fill(&from, 5).await;
    let (here, _) = from.open().await;
    let scope = Scope::new(
        tenant(TENANTS[0]),
        MemoryRef::parse("~ada/workshop").unwrap(),
    );
    let source = WorkshopScenario {
        store: here.as_ref(),
        scope: scope.clone(),
    };
    source.populate().await;
    world.now = START + 1_000_000;
    let names = [
        "before the rule",
        "first",
        "stays",
        "second",
        "old way",
        "new way",
        "between rules",
    ];
    world.known.insert(scope.clone(), names.map(id).to_vec());
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
    let (there, _) = to.open().await;
    let rules = async || {
        there
            .rules(&scope.tenant, &workshop::world("w9"), None, 9)
            .await
            .unwrap()
            .len()
    };
    stopped(&from, &to, |name| *name == scope.tenant).await;
    assert_eq!(
        rules().await,
        1,
        "without anything new the rules stay, however early the copy stops"
    );
    source.change_after_copy().await;
    stopped(&from, &to, |name| *name == scope.tenant).await;
    let target = WorkshopScenario {
        store: there.as_ref(),
        scope: scope.clone(),
    };
    let unguarded = target.put(
        target.batch(),
        "planted",
        workshop::RULES[0],
        remem_core::Typology::Semantic,
        None,
    );
    assert!(
        there.commit(unguarded).await.is_err(),
        "whether or not its rules are there, nothing is written meanwhile"
    );
    assert_verified(&copy_all(&from, &to).await.unwrap());
    compare(&mut world, &from, &to, false).await;
    assert_eq!(rules().await, 1);
    let linked = there
        .entries_with_actions(&scope.tenant, None, 99)
        .await
        .unwrap();
    let words = |linked: &remem_store::EntryActions| linked.actions.len();
    let erased_links = linked.iter().filter(|linked| linked.is_erased);
    assert_eq!(erased_links.clone().map(words).sum::<usize>(), 2);
    let said =
        |linked: &remem_store::EntryActions| linked.actions.iter().all(|a| a.action.is_empty());
    assert!(
        erased_links.clone().all(said),
        "what was forgotten left its links"
    );
    let answers = there
        .slot_history(&scope.clone().as_host(), "how", 9)
        .await
        .unwrap();
    let old = answers
        .iter()
        .find(|answer| answer.entry.id == id("old way"))
        .unwrap();
    assert_eq!(
        (old.entry.content.as_str(), old.replaced_by.clone()),
        ("by [REDACTED]", Some(id("new way")))
    );
    // The target continues by itself: its guard of rules works, and its next memory gets a new
    // number.
    let again = target.put(
        target.batch(),
        "planted",
        workshop::RULES[0],
        remem_core::Typology::Semantic,
        None,
    );
    assert!(matches!(
        there.commit(again).await,
        Err(StoreError::Rejected(_))
    ));
    let fresh = Scope::new(scope.tenant.clone(), MemoryRef::parse("~bob/new").unwrap());
    let put = target.batch().put(
        id("e"),
        admit(
            &fresh,
            Draft {
                content: "x".into(),
                ..Draft::default()
            },
            Timestamp(world.now),
        ),
    );
    there.commit(put).await.unwrap();
    there.verify(&scope.tenant).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workshop_is_copied_into_a_database() {
    copy_with_workshop(CopyHost::folder(), CopyHost::database().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workshop_is_copied_into_files() {
    let seed = CopyHost::folder();
    let middle = CopyHost::database().await;
    seed.open().await;
    copy_all(&seed, &middle).await.unwrap(); // carries the secret
    copy_with_workshop(middle, CopyHost::new_folder()).await;
}

/// Vectors are not copied. If the record of how far they have come were, the target would believe
/// that it has them.
async fn copy_without_embedding_progress(source: CopyHost, target: CopyHost) {
    let acme = tenant("acme");
    let (store, directory) = source.open().await;
    directory
        .put_tenant(&TenantRecord {
            id: acme.clone(),
            created_at: Timestamp(START),
            shapes: ShapePolicy::Redact,
        })
        .await
        .unwrap();
    let admission = Admission {
        policy: &Policy::default(),
        redactor: &Redactor::empty(),
        redaction_fingerprint: 1,
        now: Timestamp(START),
    };
    let names = ["deliver", "embed", "infer"];
    let batch = names
        .iter()
        .fold(Batch::new(acme.clone(), Timestamp(START)), |batch, name| {
            let body = admission.redact_record(serde_json::Map::new());
            let kind = RecordKind::Progress;
            batch.set_record(kind, (*name).to_owned(), Precondition::Absent, body)
        });
    store.commit(batch).await.unwrap();
    drop((store, directory));
    copy_all(&source, &target).await.unwrap();
    let (there, _) = target.open().await;
    let copied = there
        .records(&acme, RecordKind::Progress, "", None, 10)
        .await
        .unwrap();
    let copied: Vec<&str> = copied.iter().map(|record| &*record.key).collect();
    assert_eq!(copied, ["deliver", "infer"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedding_progress_is_not_copied() {
    copy_without_embedding_progress(CopyHost::folder(), CopyHost::new_folder()).await;
    copy_without_embedding_progress(CopyHost::folder(), CopyHost::database().await).await;
}
