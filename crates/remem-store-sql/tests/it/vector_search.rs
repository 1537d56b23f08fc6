//! The indexes of vectors hold those of all tenants, and a walk along one ends after so many steps.
//! With any other contents of the index, and even if a filter matches few entries, a search by
//! meaning has the same result as a comparison of everything.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_core::{
    Batch, Draft, Embedding, Entry, ModelId, Scope, SessionId, Tier, Timestamp, Typology,
};
use remem_store::{EntryReads, Filter, Ledger, Probe, ReadAt};
use remem_store_sql::PostgresStore;
use remem_store_sql::postgres::PostgresOptions;
use remem_testkit::conformance::{NOON, admit, all, draft, id, in_session, scope};
use remem_testkit::postgres::TestDatabase;

const MODEL: ModelId = ModelId(7);
const FACTS: usize = 300;
const EPISODES: usize = 40;
/// More rows than one step of a walk visits (`hnsw.ef_search`).
const FOREIGN: usize = 700;
const DEPTH: u32 = 150;

fn later(n: usize) -> Timestamp {
    NOON.plus_ms(1_000 * n as i64)
}

fn now() -> ReadAt {
    ReadAt::Now(later(100_000))
}

/// A vector at this distance from the vector of the query, each in its own plane.
fn direction(away: f32, n: usize) -> Embedding {
    let mut components = vec![0f32; 384];
    (components[0], components[1 + n % 383]) = (1.0, away);
    Embedding::from_components(&components).unwrap()
}

/// Writes entries and their vectors.
async fn fill(store: &PostgresStore, s: &Scope, drafts: Vec<Draft>, away: impl Fn(usize) -> f32) {
    for (n, draft) in drafts.into_iter().enumerate() {
        let batch = Batch::new(s.tenant.clone(), later(n))
            .put(id(&format!("e{n:04}")), admit(s, draft, later(n)));
        store.commit(batch).await.unwrap();
    }
    let place = |entry: &Entry| entry.id.as_str()[1..].parse::<usize>().unwrap();
    let entries = all(store, s, &now()).await;
    let batch = Batch::new(s.tenant.clone(), later(0)).as_host();
    let batch = entries.iter().fold(batch, |batch, entry| {
        batch.store_embedding(entry, MODEL, direction(away(place(entry)), place(entry)))
    });
    store.commit(batch).await.unwrap();
}

fn fact(n: usize) -> Draft {
    let tags = if n.is_multiple_of(25) {
        vec!["seldom".to_owned()]
    } else {
        Vec::new()
    };
    Draft {
        tags,
        ..draft(&format!("fact {n}"))
    }
}

fn episode(n: usize) -> Draft {
    Draft {
        tier: Tier::Session,
        typology: Typology::Episodic,
        facets: in_session("s1"),
        ..draft(&format!("episode {n}"))
    }
}

/// The entries found, with their similarity to the bit.
async fn found(store: &PostgresStore, s: &Scope, filter: &Filter) -> Vec<(String, Option<u64>)> {
    let probe = Probe {
        terms: Vec::new(),
        vector: Some((MODEL, direction(0.0, 0))),
    };
    let found = store
        .search(s, &probe, filter, DEPTH, &now())
        .await
        .unwrap();
    found
        .candidates
        .into_iter()
        .map(|hit| (hit.entry.id.to_string(), hit.cosine.map(f64::to_bits)))
        .collect()
}

fn filters() -> Vec<(Filter, usize)> {
    let all = Filter::default;
    vec![
        (all(), DEPTH as usize),
        (
            Filter {
                tier: Some(Tier::Session),
                ..all()
            },
            EPISODES,
        ),
        (
            Filter {
                tier: Some(Tier::Interaction),
                typology: Some(Typology::Semantic),
                ..all()
            },
            0,
        ),
        (
            Filter {
                typology: Some(Typology::Semantic),
                ..all()
            },
            DEPTH as usize,
        ),
        (
            Filter {
                tags: vec!["seldom".into()],
                ..all()
            },
            FACTS.div_ceil(25),
        ),
        (
            Filter {
                created_from: Some(later(200)),
                created_to: Some(later(210)),
                ..all()
            },
            10,
        ),
        (
            Filter {
                session: SessionId::parse("s1"),
                ..all()
            },
            EPISODES,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenants_vectors_do_not_displace_results() {
    let database = TestDatabase::fresh().await;
    // A walk ends after its first step.
    let short = format!(
        "ALTER DATABASE {} SET hnsw.max_scan_tuples = 1",
        database.name
    );
    database.admin().await.batch_execute(&short).await.unwrap();
    let exact = database.open().await;
    let along = PostgresStore::open(PostgresOptions {
        exact_max: 100,
        ..database.options(2)
    })
    .await
    .unwrap();
    let own = scope("a", "m");
    let foreign = scope("b", "m");
    fill(
        &exact,
        &own,
        (0..FACTS)
            .map(fact)
            .chain((FACTS..FACTS + EPISODES).map(episode))
            .collect(),
        |n| 0.5 + n as f32 / 1_000.0,
    )
    .await;
    let mut alone = Vec::new();
    for (filter, most) in filters() {
        let answer = found(&exact, &own, &filter).await;
        assert_eq!(answer.len(), most, "{filter:?}");
        alone.push(answer);
    }
    // Every entry of the other tenant is nearer.
    fill(&exact, &foreign, (0..FOREIGN).map(fact).collect(), |n| {
        n as f32 / 2_000.0
    })
    .await;
    for ((filter, _), alone) in filters().into_iter().zip(alone) {
        assert_eq!(
            found(&exact, &own, &filter).await,
            alone,
            "compared one by one, {filter:?}"
        );
        // By kind there may be more entries, behind those.
        let mut answer = found(&along, &own, &filter).await;
        answer.truncate(alone.len());
        assert_eq!(answer, alone, "along the index, {filter:?}");
    }
}
