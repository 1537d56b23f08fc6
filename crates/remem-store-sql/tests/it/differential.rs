//! The two stores side by side: random sequences of operations must have the same results in both
//! and leave the same projections, down to the hashes of the event chain. A failure prints its
//! seed; rerun it with `REMEM_TEST_SEED=<seed>`, which compares after every step.

use crate::workshop;
use futures_util::future::join_all;
use remem_core::event::{NodeEnded, RunEnded};
use remem_core::{
    Actor, Admission, Admitted, Batch, Cause, Change, Draft, Embedding, EntryId, EventBody,
    Idempotency, MemoryRef, ModelId, Origin, Policy, Precondition, PrincipalId, Record, RecordBody,
    RecordKind, RecordLinks, Redactor, RetireReason, Revision, RunId, Scope, Seq, Subject,
    TenantId, Timestamp,
};
use remem_store::{
    CandidateSet, DueWork, EntryCalls, Filter, ListPosition, LogReads, Page, Probe, ReadAt,
    RecordLookup, Review, ReviewCalls, SearchCandidate, Store, StoreError, TracePosition, Upkeep,
};
use remem_store_sql::{Location, PostgresStore, SqliteStore};
use remem_testkit::conformance::{admit, admit_by, id};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{SeededRandom, cases, fresh_seed, given_seed};
use std::collections::{BTreeSet, HashMap};

const START: i64 = 1_700_000_000_000;
const STEPS: u64 = 120;
/// The length in bytes from which on a text is compared with rules.
const GUARDED: usize = 100;
const MEMORIES: [&str; 4] = ["m", "m/2", "日本", "~ada/m"];
const SUBJECTS: u64 = 4;
/// Kinds of records with a due time, topic or source, and their topics.
const TIED: [RecordKind; 2] = [RecordKind::Commitment, RecordKind::Firing];
const TOPICS: [&str; 3] = ["rain", "snow", "Ü"];
/// Records are due at instants below this.
const DUE: u64 = 60;
const RUNS: [&str; 3] = ["run-1", "run-2", "run-3"];
const WORDS: [&str; 14] = [
    "falcon",
    "falcons",
    "Über",
    "running",
    "ran",
    "naïve",
    "42",
    "日本語",
    "don't",
    "co-operate",
    "invoice",
    "invoices",
    "\u{0}",
    "émigré",
];

struct Workload {
    random: SeededRandom,
    now: i64,
    count: u64,
    /// Revisions at which a run may have begun, though no snapshot is open.
    snapshots: Vec<Revision>,
    tenants: Vec<TenantId>,
    /// The last text that was written for an entry: a rewrite may leave it unchanged.
    texts: HashMap<(Scope, EntryId), Draft>,
    /// Ids that were put, by memory.
    known: HashMap<Scope, Vec<EntryId>>,
    /// The ids of entries with a slot, by memory.
    answers: HashMap<Scope, Vec<EntryId>>,
}

fn run_id(name: &str) -> RunId {
    RunId::parse(name).unwrap()
}

impl Workload {
    fn scope(&mut self) -> Scope {
        let tenant = self.random.pick(&self.tenants);
        Scope::new(
            tenant,
            MemoryRef::parse(self.random.pick(&MEMORIES)).unwrap(),
        )
    }

    fn text(&mut self) -> String {
        let words = 1 + self.random.below(8);
        (0..words)
            .map(|_| self.random.pick(&WORDS))
            .collect::<Vec<_>>()
            .join(self.random.pick(&[" ", ", ", "\n"]))
    }

    /// An id that may or may not have been used: short, or longer than an index takes. Mostly one
    /// of the last entries.
    fn name(&mut self) -> EntryId {
        if self.random.below(2) == 0 {
            let back = [5, 25][self.random.below(2) as usize];
            return id(&format!(
                "fresh{}",
                self.count.saturating_sub(self.random.below(back))
            ));
        }
        let n = self.random.below(self.count + 3);
        if n.is_multiple_of(7) {
            id(&format!("{}{n}", "長".repeat(1_200)))
        } else {
            id(&format!("e{n}"))
        }
    }

    fn draft(&mut self) -> Draft {
        let tags = (0..self.random.below(3))
            .map(|_| self.random.pick(&["x", "source:chat", "Ü"]).to_owned())
            .collect::<BTreeSet<String>>();
        let expires_at = (self.random.below(4) == 0)
            .then(|| Timestamp(self.now + 1 + self.random.below(40) as i64));
        let subjects = (0..self.random.below(3))
            .map(|_| Subject::from_bytes([self.random.below(SUBJECTS) as u8; 32]))
            .collect();
        let draft = Draft {
            content: self.text(),
            tags: tags.into_iter().collect(),
            expires_at,
            subjects,
            ..Draft::default()
        };
        if self.random.below(2) == 0 {
            let mut draft = workshop::drawn(draft, self.now, &mut |bound| self.random.below(bound));
            draft.facets.slot = None; // see `answer`
            return draft;
        }
        draft
    }

    /// Adds an entry with a slot, after all other changes of the batch: SQLite checks windows row
    /// by row, PostgreSQL at the end, so the change that makes room has to come first.
    fn answer(&mut self, batch: Batch, scope: &Scope) -> Batch {
        self.count += 1;
        let name = id(&format!("fresh{}", self.count));
        loop {
            let plain = Draft {
                content: self.text(),
                ..Draft::default()
            };
            let draft = workshop::drawn(plain, self.now, &mut |bound| self.random.below(bound));
            if draft.facets.slot.is_some() {
                self.texts
                    .insert((scope.clone(), name.clone()), draft.clone());
                self.answers
                    .entry(scope.clone())
                    .or_default()
                    .push(name.clone());
                return batch.put(name, admit(scope, draft, Timestamp(self.now)));
            }
        }
    }

    /// Adds a change to an entry with a slot, or to any entry.
    fn workshop(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let answers = self
            .answers
            .get(scope)
            .map_or(&[][..], |all| &all[all.len().saturating_sub(7)..])
            .to_vec();
        let names = match self.random.below(3) {
            0 => (self.mate(scope), self.mate(scope)),
            _ if answers.is_empty() => (self.mate(scope), self.mate(scope)),
            _ => (self.random.pick(&answers), self.random.pick(&answers)),
        };
        workshop::changed(batch, scope, names, self.now, &mut |bound| {
            self.random.below(bound)
        })
    }

    /// Some batches that are committed at once. The first commit of a tenant is alone: it opens the
    /// file.
    fn group(&mut self) -> Vec<Batch> {
        let scope = self.scope();
        let size = if self.count > 5 && self.random.below(4) == 0 {
            2 + self.random.below(4)
        } else {
            1
        };
        if size == 1 && self.random.below(2) == 0 {
            let batch = self.batch(&scope);
            return vec![self.answer(batch, &scope)];
        }
        (0..size).map(|_| self.batch(&scope)).collect()
    }

    fn batch(&mut self, scope: &Scope) -> Batch {
        self.now += [0, 1, 3, -5][self.random.below(4) as usize];
        let mut batch = Batch::new(scope.tenant.clone(), Timestamp(self.now));
        // A user, the owner of a memory, or the host.
        if let Some(user) = self
            .random
            .pick(&[Some("key_1"), Some("key_1"), Some("ada"), None])
        {
            batch = batch.with_principal(PrincipalId::parse(user).unwrap());
        }
        if self.random.below(2) == 0 {
            batch = batch.in_run(run_id(self.random.pick(&RUNS)));
        }
        for _ in 0..1 + self.random.below(4) {
            batch = self.change(batch, scope);
        }
        if self.random.below(4) == 0 {
            let key = self.random.below(6) as u8;
            let body = self.random.below(2) as u8;
            batch = batch.idempotent(Some(Idempotency {
                operation: "put",
                key: [key; 32],
                body: [body; 32],
            }));
        }
        if self.random.below(8) == 0 {
            batch = batch.expect_entry(
                scope.memory_ref.clone(),
                self.name(),
                Revision(1 + self.random.below(self.count + 1)),
            );
        }
        if self.random.below(8) == 0 {
            let wanted = self.random.pick(&[
                Precondition::Absent,
                Precondition::Version(1),
                Precondition::None,
            ]);
            batch = batch.expect_record(
                self.random.pick(&TIED),
                format!("r{}", self.random.below(14)),
                wanted,
            );
        }
        batch
    }

    fn change(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let now = Timestamp(self.now);
        match self.random.below(66) {
            54..=65 => self.workshop(batch, scope),
            44..=53 => self.tie(batch, scope),
            24..=43 => self.lineage_changes(batch, scope),
            0..=2 => batch.delete(scope.memory_ref.clone(), self.name()),
            3 => batch.expire(scope.memory_ref.clone(), self.name()),
            4..=5 => {
                let name = self.name();
                let created_at = Some(Timestamp(self.now - self.random.below(50) as i64));
                let origin = Some(Origin {
                    id: name.clone(),
                    created_at,
                });
                let draft = Draft {
                    origin,
                    ..self.draft()
                };
                self.texts
                    .entry((scope.clone(), name.clone()))
                    .or_insert_with(|| draft.clone());
                batch.put(name, admit(scope, draft, now))
            }
            6..=8 => {
                let name = self.name();
                let times = 1 + self.random.below(2);
                (0..times).fold(batch, |batch, _| self.rewrite(batch, scope, &name))
            }
            9 => batch.erase(scope.memory_ref.clone(), self.name()),
            10 => batch.emit(self.fact()),
            11 => batch.emit_replayed(
                self.fact(),
                Timestamp(self.now - self.random.below(1_000) as i64),
            ),
            12..=13 if batch.run().is_some() => batch.hold_snapshot(),
            14 => batch.release_snapshot(),
            15 => {
                let (batch, name) = self.put(batch, scope);
                let batch = self.rewrite(batch, scope, &name);
                match self.random.below(4) {
                    // The tables refuse an entry that ends with the commit that it begins with, in
                    // both stores.
                    0 => batch.delete(scope.memory_ref.clone(), name),
                    1 => batch.erase(scope.memory_ref.clone(), name),
                    _ => self.rewrite(batch, scope, &name),
                }
            }
            _ => self.put(batch, scope).0,
        }
    }

    /// One of the last entries of the memory, so that entries that replace each other are often
    /// chosen twice.
    fn mate(&mut self, scope: &Scope) -> EntryId {
        let known = self
            .known
            .get(scope)
            .map_or(&[][..], |known| &known[known.len().saturating_sub(9)..])
            .to_vec();
        if known.is_empty() {
            id("nobody")
        } else {
            self.random.pick(&known)
        }
    }

    fn retire(&mut self, batch: Batch, scope: &Scope, by: EntryId) -> Batch {
        let name = self.mate(scope);
        let reason = self.random.pick(&[
            RetireReason::Merged,
            RetireReason::Merged,
            RetireReason::Superseded,
            RetireReason::Compacted,
        ]);
        batch.retire(scope.memory_ref.clone(), name, reason, by)
    }

    /// Adds replacements of entries, alone and in the orders in which passes make them.
    fn lineage_changes(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let memory = || scope.memory_ref.clone();
        let name = self.mate(scope);
        match self.random.below(14) {
            0..=4 => self.retire(batch, scope, name),
            5 => batch.forget(memory(), name),
            6 => batch.revive(memory(), name),
            7 => batch
                .forget(memory(), name)
                .revive(memory(), self.mate(scope))
                .revive(memory(), self.mate(scope)),
            8 => batch
                .delete(memory(), name)
                .revive(memory(), self.mate(scope)),
            9 => batch.erase(memory(), name),
            10..=11 => {
                let signature = vec![self.random.below(256) as u8; 3];
                batch.store_signature(memory(), name, self.random.below(9), signature)
            }
            _ => {
                let (batch, gist) = self.put(batch, scope);
                let batch = self.retire(batch, scope, gist.clone());
                self.retire(batch, scope, gist)
            }
        }
    }

    /// Adds a record with a due time, topic or source, a record under review, or the deletion of
    /// one.
    fn tie(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let kind = self.random.pick(&TIED);
        let key = format!("r{}", self.random.below(14));
        let precondition = match self.random.below(8) {
            0 => Precondition::Absent,
            1 => Precondition::Version(1 + self.random.below(3)),
            _ => Precondition::None,
        };
        let due = (self.random.below(4) > 0).then(|| Timestamp(self.random.below(DUE) as i64));
        let body = self.body();
        match self.random.below(12) {
            0 => batch.delete_record(kind, key, precondition),
            1 => batch.delete_record(RecordKind::Gate, key, Precondition::None),
            2..=3 => batch.set_record_with_ties(
                RecordKind::Gate,
                key,
                precondition,
                body,
                RecordLinks {
                    due,
                    ..RecordLinks::default()
                },
            ),
            4..=8 => {
                let (batch, new) = self.put(batch, scope);
                let ties = RecordLinks {
                    due,
                    topic: self.topic(),
                    source: Some((scope.memory_ref.clone(), new)),
                };
                batch.set_record_with_ties(kind, key, precondition, body, ties)
            }
            9..=10 => batch.set_record_with_ties(
                kind,
                key,
                precondition,
                body,
                RecordLinks {
                    due,
                    topic: self.topic(),
                    source: None,
                },
            ),
            // A source that may have ended, which is refused; or of another memory.
            _ => {
                let from = Scope::new(
                    scope.tenant.clone(),
                    MemoryRef::parse(self.random.pick(&MEMORIES)).unwrap(),
                );
                let ties = RecordLinks {
                    due,
                    topic: self.topic(),
                    source: Some((from.memory_ref.clone(), self.mate(&from))),
                };
                batch.set_record_with_ties(kind, key, precondition, body, ties)
            }
        }
    }

    fn topic(&mut self) -> Option<String> {
        (self.random.below(2) == 0).then(|| self.random.pick(&TOPICS).to_owned())
    }

    fn body(&mut self) -> RecordBody {
        let policy = Policy::default();
        let redactor = Redactor::empty();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 1,
            now: Timestamp(self.now),
        };
        admission.redact_record(
            serde_json::json!({"n": self.random.below(100), "text": self.text()})
                .as_object()
                .cloned()
                .unwrap(),
        )
    }

    fn fact(&mut self) -> EventBody {
        match self.random.below(2) {
            0 => EventBody::NodeCompleted(NodeEnded {
                node_id: self.random.pick(&["n1", "n2"]).to_owned(),
            }),
            _ => EventBody::RunCompleted(RunEnded {
                duration_ms: self.random.below(100),
            }),
        }
    }

    fn put(&mut self, batch: Batch, scope: &Scope) -> (Batch, EntryId) {
        self.count += 1;
        let name = id(&format!("fresh{}", self.count));
        let draft = self.draft();
        self.texts
            .insert((scope.clone(), name.clone()), draft.clone());
        let admitted = admit(scope, draft, Timestamp(self.now));
        let cause = Cause {
            node: batch.run().map(|_| "n1".to_owned()),
            agent: None,
        };
        let batch = if self.random.below(2) == 0 {
            batch.put_caused_by(name.clone(), admitted, cause)
        } else {
            let other = Scope::new(
                scope.tenant.clone(),
                MemoryRef::parse(self.random.pick(&MEMORIES)).unwrap(),
            );
            let sources = [scope.clone(), other, scope.clone()]
                .map(|from| (from.memory_ref.clone(), self.mate(&from)));
            batch.put_derived(name.clone(), admitted, sources.to_vec())
        };
        self.known
            .entry(scope.clone())
            .or_default()
            .push(name.clone());
        (batch, name)
    }

    /// Another text, or the same one scanned with other rules, or no change at all. A text that a
    /// rule may refuse is rewritten at most once in a batch: SQLite checks every text as it comes,
    /// PostgreSQL the last one.
    fn rewrite(&mut self, batch: Batch, scope: &Scope, name: &EntryId) -> Batch {
        let long = |id: &EntryId, admitted: &Admitted| {
            id == name && admitted.scope() == scope && admitted.content().len() >= GUARDED
        };
        let guarded = |change: &Change| match change {
            Change::Put { id, admitted, .. } | Change::Rewrite { id, admitted } => {
                long(id, admitted)
            }
            _ => false,
        };
        if batch.changes().iter().any(guarded) {
            return batch;
        }
        let before = self.texts.get(&(scope.clone(), name.clone())).cloned();
        let draft = match before {
            Some(draft) if self.random.below(2) == 0 => draft,
            _ => self.draft(),
        };
        // Like the pass that rescans stored entries: only texts change.
        let kept = self
            .texts
            .get(&(scope.clone(), name.clone()))
            .unwrap_or(&draft);
        let tier = kept.tier;
        let typology = kept.typology;
        let facets = kept.facets.clone();
        let draft = Draft {
            expires_at: None,
            origin: None,
            tier,
            typology,
            facets,
            ..draft
        };
        self.texts
            .insert((scope.clone(), name.clone()), draft.clone());
        let scan = 1 + self.random.below(3);
        let now = Timestamp(self.now);
        batch.rewrite(name.clone(), admit_by(scope, draft, now, scan))
    }
}

/// The parts of a result that a caller can distinguish. Texts of errors may differ, their kinds may
/// not.
fn format_result<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        // If a batch has several reasons to be refused, the store chooses which one it reports.
        Err(
            StoreError::Unavailable(_)
            | StoreError::Conflict
            | StoreError::Rejected(remem_core::Rejection::ShadowsRule { .. }),
        ) => "refused".to_owned(),
        Err(other) => format!("{other:?}"),
    }
}

async fn view(store: &dyn Store, world: &Workload) -> Vec<String> {
    let mut view = Vec::new();
    let now = Timestamp(world.now);
    for tenant in &world.tenants {
        view.extend(view_log(store, tenant).await);
        view.push(format_result(
            store
                .expired_entries(tenant, now.plus_ms(25), 100)
                .await
                .map(BTreeSet::from_iter),
        ));
        let mut moments = vec![ReadAt::Now(now), ReadAt::Now(now.plus_ms(25))];
        let held = store.snapshots(tenant).await.unwrap();
        // The reads of each run, with or without another run's changes; and of a revision without
        // an open snapshot.
        for (n, snapshot) in held.iter().take(2).enumerate() {
            let own_runs = [
                vec![snapshot.run.clone()],
                vec![snapshot.run.clone(), run_id(RUNS[0])],
            ][n]
                .clone();
            moments.push(ReadAt::Snapshot {
                revision: snapshot.revision,
                at: now.plus_ms(10 * n as i64),
                since: snapshot.at,
                own_runs,
            });
        }
        if let Some(revision) = world.snapshots.last() {
            moments.push(ReadAt::Snapshot {
                revision: *revision,
                at: now,
                since: now,
                own_runs: Vec::new(),
            });
        }
        view.push(format_result(Ok(held)));
        view.extend(view_work(store, tenant, now).await);
        view.extend(view_lineage(store, tenant, world).await);
        view.extend(view_ties(store, tenant, world).await);
        view.extend(view_workshop(store, tenant, world).await);
        for at in &moments {
            for actor in [Actor::NoUser, Actor::Host, workshop::user("ada")] {
                view.push(format_result(
                    store.memories(tenant, &actor, None, 100, at).await,
                ));
            }
            for memory in MEMORIES {
                let scope = Scope::new(tenant.clone(), MemoryRef::parse(memory).unwrap()).as_host();
                view.extend(view_memory(store, &scope, at).await);
            }
        }
    }
    view
}

async fn view_workshop(store: &dyn Store, tenant: &TenantId, world: &Workload) -> Vec<String> {
    let memories =
        MEMORIES.map(|memory| Scope::new(tenant.clone(), MemoryRef::parse(memory).unwrap()));
    let names = memories.iter().flat_map(|scope| {
        let all = world
            .known
            .get(scope)
            .into_iter()
            .chain(world.answers.get(scope));
        all.flat_map(|names| names.iter().rev().take(8))
            .map(|name| (scope.clone(), name.clone()))
            .collect::<Vec<_>>()
    });
    workshop::view(
        store,
        tenant,
        &memories,
        &names.collect::<Vec<_>>(),
        Timestamp(world.now),
    )
    .await
}

async fn view_log(store: &dyn Store, tenant: &TenantId) -> Vec<String> {
    let mut view = vec![
        format_result(store.head(tenant).await),
        format_result(store.events(tenant, Seq(0), 10_000).await),
    ];
    for run in RUNS {
        let events = store
            .run_events(tenant, &run_id(run), 0, 10_000)
            .await
            .unwrap();
        let places: Vec<u64> = events
            .iter()
            .filter_map(|event| event.run.as_ref().map(|run| run.seq))
            .collect();
        assert_eq!(
            places,
            (0..events.len() as u64).collect::<Vec<_>>(),
            "{run} has no gap"
        );
        view.push(format_result(Ok(events)));
        view.push(format_result(
            store.run_events(tenant, &run_id(run), 3, 2).await,
        ));
    }
    view
}

/// The work that passes would find. Cursors are specific to a store, so the entries behind them are
/// compared as a set.
async fn view_work(store: &dyn Store, tenant: &TenantId, now: Timestamp) -> Vec<String> {
    let ended = store.erasable_entries(tenant, 10_000).await.unwrap();
    if !ended.is_empty()
        || !store
            .expired_entries(tenant, now, 1)
            .await
            .unwrap()
            .is_empty()
    {
        assert!(
            store
                .tenants_with_work(remem_store::DueWork::Purge, now)
                .await
                .unwrap()
                .contains(tenant),
            "there is work, and nobody is told: {ended:?}"
        );
    }
    let mut view = vec![format_result(Ok(ended
        .into_iter()
        .collect::<BTreeSet<_>>()))];
    for scan in [1, 2] {
        let mut found = BTreeSet::new();
        let mut cursor = None;
        loop {
            let page = store
                .entries_to_rescan(tenant, scan, cursor, 7)
                .await
                .unwrap();
            assert!(page.entries.len() <= 7);
            for e in page.entries {
                assert!(
                    found.insert(format!("{} {e:?} {} {:?}", e.memory_ref, e.content, e.tags)),
                    "no entry comes twice"
                );
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        view.push(format!("{found:?}"));
    }
    view
}

/// The pages of a trace, which both stores have in the order in which entries were written.
async fn trace_pages(
    store: &dyn Store,
    tenant: &TenantId,
    subject: &Subject,
    limit: u32,
) -> Vec<String> {
    let mut pages = Vec::new();
    let mut after = Some(TracePosition::default());
    while let Some(position) = after {
        let page = store
            .trace_subject(tenant, subject, position, limit)
            .await
            .unwrap();
        after = page.next;
        pages.push(format!(
            "{:?} {:?} {}",
            page.entries,
            page.merged_survivors,
            after.is_some()
        ));
    }
    pages
}

/// The relations of entries. Row ids are specific to a store; the entries behind them are not.
async fn view_lineage(store: &dyn Store, tenant: &TenantId, world: &Workload) -> Vec<String> {
    let mut view = Vec::new();
    for number in 0..SUBJECTS {
        let subject = Subject::from_bytes([number as u8; 32]);
        for limit in [3, 10_000] {
            view.extend(trace_pages(store, tenant, &subject, limit).await);
        }
    }
    for memory in MEMORIES {
        let scope = Scope::new(tenant.clone(), MemoryRef::parse(memory).unwrap());
        let names = world
            .known
            .get(&scope)
            .into_iter()
            .chain(world.answers.get(&scope));
        let scope = scope.clone().as_host();
        for name in names.flat_map(|names| names.iter().rev().take(15)) {
            view.push(format!(
                "{name} {}",
                format_result(store.lineage(&scope, name).await)
            ));
        }
        let unsigned = store
            .entries_without_signature(&scope, None, 10_000)
            .await
            .unwrap();
        let signed = store.signatures(&scope, None, 10_000).await.unwrap();
        let places: Vec<_> = unsigned
            .iter()
            .map(|(row, _)| *row)
            .chain(signed.iter().map(|s| s.row))
            .step_by(2)
            .collect();
        let at = store.entries_at(&scope, &places).await.unwrap();
        view.extend([unsigned, at].map(|found| {
            format!(
                "{:?}",
                found.iter().map(|(_, entry)| entry).collect::<Vec<_>>()
            )
        }));
        view.extend(signed.iter().map(|s| {
            format!(
                "{} {:?} {:?} {} {:?}",
                s.id, s.created_at, s.typology, s.pass, s.signature
            )
        }));
    }
    view
}

fn format_records(records: Vec<Record>) -> String {
    let one = |r: &Record| {
        format!(
            "{} {} {:?} {:?} {:?}",
            r.key, r.version, r.at, r.links, r.body
        )
    };
    records.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Records by each way to find them, whole and in pages.
async fn view_ties(store: &dyn Store, tenant: &TenantId, world: &Workload) -> Vec<String> {
    let mut view = Vec::new();
    for kind in TIED {
        view.push(format_records(
            store.records(tenant, kind, "", None, 1_000).await.unwrap(),
        ));
        for until in [0, DUE / 4, DUE / 2, DUE] {
            let due = |after| RecordLookup::Due {
                until: Timestamp(until as i64),
                after,
            };
            let all = store
                .records_by(tenant, kind, &due(None), 1_000)
                .await
                .unwrap();
            if let Some(middle) = all.get(all.len() / 2) {
                let after = Some((middle.links.due.unwrap(), middle.key.clone()));
                view.push(format_records(
                    store
                        .records_by(tenant, kind, &due(after), 3)
                        .await
                        .unwrap(),
                ));
            }
            view.push(format_records(all));
        }
        for topic in TOPICS {
            for after in [None, Some("r2".to_owned())] {
                view.push(format_records(
                    store
                        .records_by(
                            tenant,
                            kind,
                            &RecordLookup::Topic {
                                topic: topic.to_owned(),
                                after,
                            },
                            4,
                        )
                        .await
                        .unwrap(),
                ));
            }
        }
        for memory in MEMORIES {
            let scope = Scope::new(tenant.clone(), MemoryRef::parse(memory).unwrap());
            let names = || world.known.get(&scope).into_iter().flatten().rev().take(25);
            let sources = names()
                .map(|name| (scope.memory_ref.clone(), name.clone()))
                .collect();
            let sources = RecordLookup::Sources(sources);
            view.push(format_records(
                store.records_by(tenant, kind, &sources, 100).await.unwrap(),
            ));
            for name in names() {
                let source = RecordLookup::Source(scope.memory_ref.clone(), name.clone());
                view.push(format_records(
                    store.records_by(tenant, kind, &source, 100).await.unwrap(),
                ));
            }
        }
    }
    for at in (0..=DUE).step_by(4) {
        let due = store
            .tenants_with_work(DueWork::Records, Timestamp(at as i64))
            .await
            .unwrap();
        view.push(format!("due at {at}: {}", due.contains(tenant)));
    }
    view
}

async fn view_review(review: &dyn Review, world: &Workload) -> Vec<String> {
    let mut view = Vec::new();
    for tenant in &world.tenants {
        view.push(format_records(
            review
                .review_records(tenant, RecordKind::Gate, "", None, 1_000)
                .await
                .unwrap(),
        ));
        view.push(format_records(
            review
                .review_records(tenant, RecordKind::Gate, "r1", Some("r10"), 2)
                .await
                .unwrap(),
        ));
        view.push(format_records(
            review
                .due_review_records(tenant, RecordKind::Gate, Timestamp(DUE as i64 / 2), 5)
                .await
                .unwrap(),
        ));
        view.push(format!(
            "{:?}",
            review
                .review_record(tenant, RecordKind::Gate, "r3")
                .await
                .unwrap()
        ));
    }
    view
}

/// Compares the statistics, which come from totals, with those of a snapshot of the same moment,
/// which are counted; and likewise the list of memories. Also long before and after the moment,
/// when other windows are open.
async fn assert_stats_are_counted(store: &dyn Store, scope: &Scope, now: Timestamp) {
    let revision = store.head(&scope.tenant).await.unwrap().revision;
    for now in [-10_000, -40, 0, 40, 10_000].map(|ms| now.plus_ms(ms)) {
        let counted = ReadAt::Snapshot {
            revision,
            at: now,
            since: now,
            own_runs: Vec::new(),
        };
        let at = ReadAt::Now(now);
        let stats = async |at: &ReadAt| store.stats(scope, at).await.unwrap();
        assert_eq!(stats(&at).await, stats(&counted).await, "{now:?}");
        let memories = async |at: &ReadAt| {
            let listed = store.memories(&scope.tenant, &scope.actor, None, 1_000, at);
            listed.await.unwrap()
        };
        assert_eq!(memories(&at).await, memories(&counted).await, "{now:?}");
    }
}

async fn view_memory(store: &dyn Store, scope: &Scope, at: &ReadAt) -> Vec<String> {
    let whole = Page {
        limit: 10_000,
        after: None,
    };
    let entries = store
        .list(scope, &Filter::default(), &whole, at)
        .await
        .unwrap();
    if let ReadAt::Now(now) = at {
        assert_stats_are_counted(store, scope, *now).await;
    }
    let mut view = vec![format_result(store.stats(scope, at).await)];
    view.extend(entries.iter().map(workshop::shown));
    if let Some(middle) = entries.get(entries.len() / 2) {
        view.push(format_result(store.get(scope, &middle.id, at).await));
        let after = Some(ListPosition {
            created_at: middle.created_at,
            id: middle.id.clone(),
        });
        view.push(format_result(
            store
                .list(scope, &Filter::default(), &Page { limit: 3, after }, at)
                .await,
        ));
    }
    let tagged = Filter {
        tags: vec!["x".into()],
        created_from: Some(Timestamp(START + 3)),
        created_to: None,
        ..Filter::default()
    };
    let some = store.list(scope, &tagged, &whole, at).await.unwrap();
    if let Some(middle) = some.get(some.len() / 2) {
        let after = Some(ListPosition {
            created_at: middle.created_at,
            id: middle.id.clone(),
        });
        view.push(format_result(
            store
                .list(scope, &tagged, &Page { limit: 2, after }, at)
                .await,
        ));
    }
    view.push(format_result(Ok(some)));
    for word in WORDS {
        let probe = Probe::words(vec![word.to_lowercase()]);
        view.push(format!(
            "{word:?} {}",
            figures(
                store
                    .search(scope, &probe, &Filter::default(), 10_000, at)
                    .await
                    .unwrap()
            )
        ));
        // The same with two letters exchanged.
        let mut letters: Vec<char> = word.to_lowercase().chars().collect();
        if let [.., a, b, _] = letters.as_mut_slice() {
            std::mem::swap(a, b);
        }
        let probe = Probe::words(vec![letters.iter().collect(), "falcno".into()]);
        view.push(format!(
            "slip of {word:?} {}",
            figures(
                store
                    .search(scope, &probe, &tagged, 10_000, at)
                    .await
                    .unwrap()
            )
        ));
        let probe = Probe {
            terms: vec![word.to_lowercase(), "falcon".into()],
            vector: Some((MODEL, direction(word))),
        };
        view.push(format!(
            "near {word:?} {}",
            figures(
                store
                    .search(scope, &probe, &Filter::default(), 10, at)
                    .await
                    .unwrap()
            )
        ));
        view.push(format!(
            "near, tagged {word:?} {}",
            figures(store.search(scope, &probe, &tagged, 10, at).await.unwrap())
        ));
    }
    view
}

const MODEL: ModelId = ModelId(11);

/// A vector for a name: another one for every name.
fn direction(name: &str) -> Embedding {
    let seed = name.bytes().fold(7u64, |seed, byte| {
        seed.wrapping_mul(31).wrapping_add(byte.into())
    });
    let mut random = SeededRandom::new(seed);
    let components: Vec<f32> = (0..16)
        .map(|_| random.below(2_001) as f32 - 1_000.0)
        .collect();
    Embedding::from_components(&components).unwrap()
}

/// A search result with every figure, to the last bit.
fn figures(found: CandidateSet) -> String {
    let hit = |hit: &SearchCandidate| {
        let figures = (
            hit.lexical.to_bits(),
            hit.correction_score.to_bits(),
            hit.cosine.map(f64::to_bits),
            hit.support,
            hit.uses,
        );
        format!("{} {figures:x?}", hit.entry.id)
    };
    format!(
        "{:016x} {:?}",
        found.lexical_max.to_bits(),
        found.candidates.iter().map(hit).collect::<Vec<_>>()
    )
}

/// Stores vectors for half of the entries without one, in both stores.
async fn embed(stores: [&dyn Store; 2], tenant: &TenantId, place: &str) {
    for store in stores {
        let mut missing = store
            .entries_without_vector(tenant, MODEL, None, 10_000)
            .await
            .unwrap();
        missing.sort_by(|(_, a), (_, b)| (&a.memory_ref, &a.id).cmp(&(&b.memory_ref, &b.id)));
        for (_, entry) in missing.iter().step_by(2) {
            let batch = Batch::new(tenant.clone(), Timestamp(START))
                .as_host()
                .store_embedding(entry, MODEL, direction(entry.id.as_str()));
            store.commit(batch).await.unwrap();
        }
    }
    let one = stores[0].vector_counts(tenant).await.unwrap();
    let other = stores[1].vector_counts(tenant).await.unwrap();
    assert_eq!(one, other, "{place}");
}

/// Commits the same group of batches in both stores, all at once.
async fn commit(stores: [&dyn Store; 2], group: Vec<Batch>, place: &str) {
    let answers = async |store: &dyn Store| {
        join_all(group.iter().map(|batch| store.commit(batch.clone())))
            .await
            .into_iter()
            .map(format_result)
            .collect::<Vec<_>>()
    };
    let one = answers(stores[0]).await;
    let other = answers(stores[1]).await;
    assert_eq!(one, other, "{place}: {group:?}");
}

async fn compare(stores: [&dyn Store; 2], world: &Workload, place: &str) {
    let one = view(stores[0], world).await;
    let other = view(stores[1], world).await;
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one, other, "{place}");
    }
    assert_eq!(one.len(), other.len());
}

async fn run(seed: u64, postgres: &PostgresStore) {
    let sqlite = SqliteStore::open(Location::Memory, 1).unwrap();
    let stores: [&dyn Store; 2] = [&sqlite, postgres];
    // One database serves all seeds, each with tenants of its own; events and ids do not name them.
    let tenants = ["a", "b"]
        .map(|name| TenantId::parse(&format!("{name}-{seed}")).unwrap())
        .to_vec();
    let mut world = Workload {
        random: SeededRandom::new(seed),
        now: START,
        count: 0,
        snapshots: Vec::new(),
        tenants,
        texts: HashMap::new(),
        known: HashMap::new(),
        answers: HashMap::new(),
    };
    for tenant in world.tenants.clone() {
        let scope = Scope::new(tenant, MemoryRef::parse(MEMORIES[0]).unwrap());
        commit(stores, vec![world.batch(&scope)], "first").await;
    }
    for step in 0..STEPS {
        let place = format!("seed {seed}, step {step}");
        let group = world.group();
        let tenant = group[0].tenant().clone();
        commit(stores, group, &place).await;
        if world.random.below(10) == 0 {
            world
                .snapshots
                .push(sqlite.head(&tenant).await.unwrap().revision);
        }
        if step % 20 == 17 {
            let ended = sqlite.erasable_entries(&tenant, 3).await.unwrap();
            let empty = Batch::new(tenant.clone(), Timestamp(world.now));
            let batch = ended
                .into_iter()
                .fold(empty, |batch, (memory_ref, id)| batch.erase(memory_ref, id));
            commit(stores, vec![batch], &place).await;
            for store in stores {
                store.scrub(&tenant, Timestamp(0), false).await.unwrap();
            }
        }
        let closely = given_seed().is_some();
        if closely || step % 40 == 39 {
            for tenant in &world.tenants {
                embed(stores, tenant, &place).await;
            }
            compare(stores, &world, &place).await;
            assert_eq!(
                view_review(&sqlite, &world).await,
                view_review(postgres, &world).await,
                "{place}"
            );
        }
    }
    for tenant in &world.tenants {
        assert_eq!(
            format_result(sqlite.verify(tenant).await),
            format_result(postgres.verify(tenant).await),
            "seed {seed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_give_equal_results_for_random_operations() {
    let postgres = TestDatabase::fresh().await.open().await;
    if let Some(seed) = given_seed() {
        return run(seed, &postgres).await;
    }
    let first = fresh_seed() >> 1;
    for seed in first..first + u64::from(cases(2, 6)) {
        run(seed, &postgres).await;
    }
}
