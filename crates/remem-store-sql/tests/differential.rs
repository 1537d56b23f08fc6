//! The two stores side by side: random sequences of operations must be answered alike and leave the same projections,
//! down to the hashes of the event chain. A failure prints its seed; rerun it with `REMEM_DIFF_SEED=<seed>`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "a fresh seed comes from the machine's clock")]

mod support;

use remem_core::{Batch, Draft, EntryId, Idempotency, MemoryRef, Origin, PrincipalId, Revision, RunId, Scope, Seq, TenantId, Timestamp};
use remem_store::conformance::{admit, id};
use remem_store::{Filter, Page, Position, Probe, ReadAt, Store, StoreError};
use remem_store_sql::{Location, PostgresStore, SqliteStore};
use std::collections::BTreeSet;

const START: i64 = 1_700_000_000_000;
const SEEDS: u64 = 8;
const STEPS: u64 = 120;
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

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

struct World {
    random: Random,
    now: i64,
    count: u64,
    /// Revisions at which a run may have begun.
    snapshots: Vec<Revision>,
    tenants: Vec<TenantId>,
}

impl World {
    fn scope(&mut self) -> Scope {
        let tenant = self.random.pick(&self.tenants);
        Scope::new(tenant, MemoryRef::parse(self.random.pick(&["m", "m/2", "日本"])).unwrap())
    }

    fn text(&mut self) -> String {
        let words = 1 + self.random.below(8);
        (0..words).map(|_| self.random.pick(&WORDS)).collect::<Vec<_>>().join(self.random.pick(&[" ", ", ", "\n"]))
    }

    /// A name that may or may not have been used: short, or longer than an index takes.
    fn name(&mut self) -> EntryId {
        let n = self.random.below(self.count + 3);
        if n.is_multiple_of(7) { id(&format!("{}{n}", "長".repeat(1_200))) } else { id(&format!("e{n}")) }
    }

    fn draft(&mut self) -> Draft {
        let tags = (0..self.random.below(3)).map(|_| self.random.pick(&["x", "source:chat", "Ü"]).to_owned()).collect::<BTreeSet<String>>();
        let expires_at = (self.random.below(4) == 0).then(|| Timestamp(self.now + 1 + self.random.below(40) as i64));
        Draft { content: self.text(), tags: tags.into_iter().collect(), expires_at, ..Draft::default() }
    }

    fn batch(&mut self) -> Batch {
        self.now += [0, 1, 3, -5][self.random.below(4) as usize];
        let scope = self.scope();
        let mut batch = Batch::new(scope.tenant.clone(), Timestamp(self.now)).by(PrincipalId::parse("key_1").unwrap());
        for _ in 0..1 + self.random.below(3) {
            batch = self.change(batch, &scope);
        }
        if self.random.below(4) == 0 {
            let (key, body) = (self.random.below(6) as u8, self.random.below(2) as u8);
            batch = batch.idempotent(Some(Idempotency { operation: "put", key: [key; 32], body: [body; 32] }));
        }
        if self.random.below(8) == 0 {
            batch = batch.expect(scope.memory_ref.clone(), self.name(), Revision(1 + self.random.below(self.count + 1)));
        }
        if self.random.below(3) == 0 {
            batch = batch.in_run(RunId::parse(self.random.pick(&["run-1", "run-2"])).unwrap());
        }
        batch
    }

    fn change(&mut self, batch: Batch, scope: &Scope) -> Batch {
        let now = Timestamp(self.now);
        match self.random.below(8) {
            0 => batch.delete(scope.memory_ref.clone(), self.name()),
            1 => batch.expire(scope.memory_ref.clone(), self.name()),
            2 => {
                let (name, created_at) = (self.name(), Some(Timestamp(self.now - self.random.below(50) as i64)));
                let origin = Some(Origin { id: name.clone(), created_at });
                let draft = Draft { origin, ..self.draft() };
                batch.put(name, admit(scope, draft, now))
            }
            _ => {
                self.count += 1;
                let (name, draft) = (id(&format!("fresh{}", self.count)), self.draft());
                batch.put(name, admit(scope, draft, now))
            }
        }
    }
}

/// What a caller can tell about an answer. Texts of errors may differ, their kind may not.
fn told<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Unavailable(_)) => "unavailable".to_owned(),
        Err(other) => format!("{other:?}"),
    }
}

async fn view(store: &dyn Store, world: &World) -> Vec<String> {
    let mut view = Vec::new();
    let mut moments = vec![ReadAt::Now(Timestamp(world.now)), ReadAt::Now(Timestamp(world.now + 25))];
    for revision in world.snapshots.iter().rev().take(2) {
        let own_runs = vec![RunId::parse("run-1").unwrap()];
        moments.push(ReadAt::Snapshot { revision: *revision, at: Timestamp(world.now), own_runs });
    }
    for tenant in &world.tenants {
        view.push(told(store.head(tenant).await));
        view.push(told(store.events(tenant, Seq(0), 10_000).await));
        view.push(told(store.expired(tenant, Timestamp(world.now + 25), 100).await.map(BTreeSet::from_iter)));
        for at in &moments {
            view.push(told(store.scopes(tenant, None, 100, at).await));
            for memory in ["m", "m/2", "日本"] {
                let scope = Scope::new(tenant.clone(), MemoryRef::parse(memory).unwrap());
                view.extend(view_memory(store, &scope, at).await);
            }
        }
    }
    view
}

async fn view_memory(store: &dyn Store, scope: &Scope, at: &ReadAt) -> Vec<String> {
    let whole = Page { limit: 10_000, after: None };
    let entries = store.list(scope, &Filter::default(), &whole, at).await.unwrap();
    let mut view = vec![told(store.stats(scope, at).await)];
    view.extend(entries.iter().map(|e| format!("{e:?} {} {:?}", e.content, e.metadata)));
    if let Some(middle) = entries.get(entries.len() / 2) {
        view.push(told(store.get(scope, &middle.id, at).await));
        let after = Some(Position { created_at: middle.created_at, id: middle.id.clone() });
        view.push(told(store.list(scope, &Filter::default(), &Page { limit: 3, after }, at).await));
    }
    let tagged = Filter { tags: vec!["x".into()], created_from: Some(Timestamp(START + 3)), created_to: None };
    view.push(told(store.list(scope, &tagged, &whole, at).await));
    for word in WORDS {
        // The two rank by formulas of their own, so the hits are compared as a set.
        let probe = Probe::Lexical { terms: vec![word.to_lowercase()] };
        let hits = store.candidates(scope, &probe, &Filter::default(), 10_000, at).await.unwrap();
        view.push(format!("{word:?} {:?}", hits.iter().map(|hit| hit.entry.id.as_str()).collect::<BTreeSet<_>>()));
    }
    view
}

async fn run(seed: u64, postgres: &PostgresStore) {
    let sqlite = SqliteStore::open(Location::Memory, 1).unwrap();
    // One database serves all seeds, each with tenants of its own; events and ids do not name them.
    let tenants = ["a", "b"].map(|name| TenantId::parse(&format!("{name}-{seed}")).unwrap()).to_vec();
    let mut world = World { random: Random(seed), now: START, count: 0, snapshots: Vec::new(), tenants };
    for step in 0..STEPS {
        let batch = world.batch();
        let tenant = batch.tenant().clone();
        let (one, other) = (told(sqlite.commit(batch.clone()).await), told(postgres.commit(batch.clone()).await));
        assert_eq!(one, other, "seed {seed}, step {step}: {batch:?}");
        if world.random.below(10) == 0 {
            world.snapshots.push(sqlite.head(&tenant).await.unwrap().revision);
        }
        if step % 30 == 29 || step + 1 == STEPS {
            let (one, other) = (view(&sqlite, &world).await, view(postgres, &world).await);
            for (one, other) in one.iter().zip(&other) {
                assert_eq!(one, other, "seed {seed}, after step {step}");
            }
            assert_eq!(one.len(), other.len());
        }
    }
    for tenant in &world.tenants {
        assert_eq!(told(sqlite.verify(tenant).await), told(postgres.verify(tenant).await), "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_answer_alike() {
    let postgres = support::Database::fresh().await.open().await;
    let first = match std::env::var("REMEM_DIFF_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => return run(seed, &postgres).await,
        None => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64,
    };
    for seed in first..first + SEEDS {
        run(seed, &postgres).await;
    }
}
