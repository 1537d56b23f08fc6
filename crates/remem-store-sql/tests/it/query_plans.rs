//! The statements that the store sends, as a recorder between it and the server saw them: every
//! statement runs under an identity and binds that tenant, and PostgreSQL serves each read from an
//! index that starts with the tenant, policies included.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use crate::recorder::{SentStatement, StatementLog, recorded};
use remem_core::event::NodeEnded;
use remem_core::{
    Actor, Batch, Draft, Embedding, EventBody, ModelId, PrincipalId, RetireReason, Revision, RunId,
    Scope, Seq, ShapePolicy, Subject, Tier, Timestamp, Trust,
};
use remem_store::{
    ChangeOutcome, Directory, EntryCalls, EntryReads, Filter, KeyRecord, Ledger, LineageReads,
    ListPosition, LogCalls, LogReads, Page, Probe, ReadAt, RowCursor, TenantRecord, TracePosition,
};
use remem_store_sql::PostgresStore;
use remem_store_sql::postgres::PostgresOptions;
use remem_testkit::conformance::{self, NOON, admit, delete, draft, id, scope};
use remem_testkit::postgres::TestDatabase;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use tokio::sync::OnceCell;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Statements that name no tenant, and the reasons why that is right.
fn across_tenants(sql: &str) -> bool {
    // Before an identity is known: which tenants are due (names and instants only), and the tenant
    // of a key.
    sql.starts_with("SELECT tenant_id FROM remem.upkeep WHERE next_")
        || sql.contains("FROM remem.api_key WHERE hash = $1")
        // Tables that hold no tenant's rows.
        || ["remem.schema_step", "remem.host_secret", "remem.tenant "].iter().any(|table| sql.contains(table))
}

const WALLED: [&str; 18] = [
    "action_link",
    "rule",
    "tenant_clock",
    "scope",
    "entry",
    "entry_tag",
    "posting",
    "event",
    "idempotency",
    "record",
    "snapshot",
    "lineage",
    "entry_subject",
    "signature",
    "vector",
    "lease",
    "upkeep",
    "api_key",
];

/// How often a statement names a table of tenants' rows.
fn mentions(sql: &str) -> usize {
    let words = sql.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    words
        .filter(|word| {
            word.strip_prefix("remem.")
                .is_some_and(|table| WALLED.contains(&table))
        })
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_runs_under_an_identity_and_binds_that_tenant() {
    let database = TestDatabase::fresh().await;
    // With a limit of two vectors of a kind, the indexes are used.
    let (store, log) = recorded(
        &database,
        PostgresOptions {
            exact_max: 1,
            ..database.options(4)
        },
    )
    .await;
    use_the_directory(&store).await;
    conformance::exercise(&store).await;
    store.host_secret(&[1; 32]).await.unwrap();
    let mut identity = HashMap::<usize, Option<String>>::new();
    let mut texts = HashMap::<String, usize>::new();
    for sent in log.take() {
        let now = identity.entry(sent.connection).or_default();
        if sent.sql.starts_with("BEGIN") || sent.sql == "COMMIT" {
            *now = sent.tenant();
        } else if mentions(&sent.sql) > 0 {
            let who = now
                .as_ref()
                .unwrap_or_else(|| panic!("a statement without an identity: {}", sent.sql));
            *texts.entry(sent.sql.clone()).or_default() += 1;
            if !across_tenants(&sent.sql) {
                assert!(
                    !who.is_empty() && sent.params.contains(&who.as_bytes().to_vec()),
                    "its tenant is the one that acts: {}",
                    sent.sql
                );
            }
        }
    }
    assert!(
        texts.len() > 30,
        "the recorder saw the store's statements: {}",
        texts.len()
    );
    for part in [
        "ORDER BY (v.direction::public.halfvec(384))",
        ") e OFFSET $",
        "v.row_id = e.row_id",
    ] {
        assert!(
            texts.keys().any(|sql| sql.contains(part)),
            "vectors were looked for in every way: {part}"
        );
    }
    for sql in texts.keys().filter(|sql| !across_tenants(sql)) {
        let inserts = sql.starts_with("INSERT")
            && (sql.contains("SELECT c.tenant_id,") || sql.contains("VALUES ($1,"));
        let bound = sql.matches("tenant_id = $").count() + usize::from(inserts);
        assert!(
            bound >= mentions(sql),
            "each of its tables is bound to the tenant's parameter: {sql}"
        );
        assert!(
            !sql.contains("SELECT $1,"),
            "rows take the tenant from its clock: {sql}"
        );
    }
}

async fn use_the_directory(store: &PostgresStore) {
    let directory = store.directory();
    let tenant = scope("keys", "m").tenant;
    directory
        .put_tenant(&TenantRecord {
            id: tenant.clone(),
            created_at: NOON,
            shapes: ShapePolicy::Off,
        })
        .await
        .unwrap();
    let name = PrincipalId::parse("k").unwrap();
    let key = KeyRecord {
        id: name.clone(),
        principal: name.clone(),
        tenant: tenant.clone(),
        label: String::new(),
        hash: [1; 32],
        permissions: Vec::new(),
        created_at: NOON,
        expires_at: None,
        revoked_at: None,
        trust: None,
    };
    assert!(directory.add_key(&key).await.unwrap());
    assert!(directory.find_key(&[1; 32]).await.unwrap().is_some());
    assert_eq!(directory.keys(&tenant).await.unwrap().len(), 1);
    assert!(
        directory
            .set_key_trust(&tenant, &name, Trust::Model, &[])
            .await
            .unwrap()
    );
    assert!(directory.revoke_key(&tenant, &name, NOON).await.unwrap());
    assert_eq!(
        (
            directory.tenants().await.unwrap().len(),
            directory.tenant(&tenant).await.unwrap().is_some()
        ),
        (1, true)
    );
}

/// The entries of a tenant's large memory, the number of them that hold the rare word, and the
/// small memories beside it.
const ENTRIES: usize = 4_000;
const BATCH: usize = 500;
const RARE: usize = 8;
const SMALL: usize = 250;
const PAGE: usize = 20;

/// Four tenants whose memories have the same names, ids and words: 20,000 entries. Loaded once,
/// only read afterwards.
async fn loaded() -> &'static TestDatabase {
    static LOADED: OnceCell<TestDatabase> = OnceCell::const_new();
    LOADED
        .get_or_init(|| {
            TestDatabase::shared("plans", async |database: &TestDatabase| {
                load(database, &database.open().await).await;
            })
        })
        .await
}

async fn load(database: &TestDatabase, store: &PostgresStore) {
    for tenant in ["t0", "t1", "t2", "t3"] {
        let big = scope(tenant, "big");
        for start in (0..ENTRIES + 4 * SMALL).step_by(BATCH) {
            let at = Timestamp(NOON.0 + start as i64);
            let mut batch = Batch::new(big.tenant.clone(), at);
            for n in start..start + BATCH {
                let s = if n < ENTRIES {
                    big.clone()
                } else {
                    scope(tenant, &format!("small {}", n % SMALL))
                };
                let rare = if n % BATCH == 7 { "quagga" } else { "horse" };
                let tags = if start + BATCH == ENTRIES {
                    vec!["late".to_owned()]
                } else {
                    Vec::new()
                };
                let text = format!(
                    "the falcon number{n} saw a {rare} by river{} on day{}",
                    n % 50,
                    n % 365
                );
                batch = batch.put(
                    id(&format!("e{n:05}")),
                    admit(
                        &s,
                        Draft {
                            tags,
                            subjects: vec![Subject::from_bytes([(n % 250) as u8; 32])],
                            ..draft(&text)
                        },
                        at,
                    ),
                );
            }
            store.commit(batch).await.unwrap();
        }
    }
    let admin = database.admin().await;
    admin.batch_execute(VECTORS).await.unwrap();
    admin.batch_execute(LINKS).await.unwrap();
    for table in WALLED {
        admin
            .batch_execute(&format!("VACUUM ANALYZE remem.{table}"))
            .await
            .unwrap();
    }
}

/// An action for every tenth entry.
const LINKS: &str =
    "INSERT INTO remem.action_link (tenant_id, scope_id, row_id, action, reference, linked_at)
     SELECT tenant_id, scope_id, row_id, 'sent', 'r-1', 0 FROM remem.entry WHERE row_id % 10 = 0";

/// A vector for every entry of the large memories of three tenants, each in another direction.
const VECTORS: &str = "INSERT INTO remem.vector (tenant_id, scope_id, row_id, model, tier, typology, dimensions, bytes, direction)
     SELECT e.tenant_id, e.scope_id, e.row_id, 5, e.tier, e.typology, 384,
       (SELECT string_agg(CASE WHEN (e.row_id * (n * 31 + 7) + n) % 5 < 2 THEN '\\x7f'::bytea ELSE '\\x81'::bytea END, '' ORDER BY n) FROM generate_series(1, 384) n),
       (SELECT array_agg(CASE WHEN (e.row_id * (n * 31 + 7) + n) % 5 < 2 THEN 127 ELSE -127 END::real ORDER BY n) FROM generate_series(1, 384) n)::public.halfvec
     FROM remem.entry e JOIN remem.scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
     WHERE s.memory_ref = 'big' AND e.tenant_id IN ('t1', 't2', 't3')";

/// A node of a query plan.
struct PlanNode {
    kind: String,
    relation: String,
    index: String,
    condition: String,
    /// Rows that it returned or discarded, over all loops.
    read: f64,
}

impl fmt::Debug for PlanNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} read {}",
            self.kind, self.relation, self.index, self.condition, self.read
        )
    }
}

fn nodes(plan: &Value, found: &mut Vec<PlanNode>) {
    let text = |key: &str| plan[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| plan[key].as_f64().unwrap_or_default();
    let rows = number("Actual Rows")
        + number("Rows Removed by Filter")
        + number("Rows Removed by Index Recheck");
    let read = rows * number("Actual Loops");
    let kind = text("Node Type");
    let relation = text("Relation Name");
    let index = text("Index Name");
    found.push(PlanNode {
        kind,
        relation,
        index,
        condition: text("Index Cond"),
        read,
    });
    plan["Plans"]
        .as_array()
        .into_iter()
        .flatten()
        .for_each(|below| nodes(below, found));
}

/// A parameter as an SQL literal.
fn literal(kind: &Type, raw: &[u8]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match *kind {
        Type::TEXT => quoted(std::str::from_utf8(raw).unwrap()),
        Type::TEXT_ARRAY => {
            let texts = Vec::<String>::from_sql(kind, raw).unwrap();
            format!(
                "ARRAY[{}]::text[]",
                texts
                    .iter()
                    .map(|text| quoted(text))
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
        Type::INT8 => i64::from_sql(kind, raw).unwrap().to_string(),
        Type::BYTEA => format!(
            "'\\x{}'",
            raw.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        ),
        Type::BYTEA_ARRAY => {
            let all = Vec::<Vec<u8>>::from_sql(kind, raw).unwrap();
            format!(
                "ARRAY[{}]::bytea[]",
                all.iter()
                    .map(|one| literal(&Type::BYTEA, one))
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
        Type::BOOL_ARRAY => {
            format!(
                "'{{{}}}'",
                Vec::<bool>::from_sql(kind, raw)
                    .unwrap()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
        Type::INT8_ARRAY => {
            format!(
                "'{{{}}}'",
                Vec::<i64>::from_sql(kind, raw)
                    .unwrap()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
        ref other => panic!("a parameter of a kind that this test does not know: {other}"),
    }
}

async fn explained(client: &Client, explain: &str) -> Value {
    let answer = client.simple_query(explain).await.unwrap();
    let text = answer.iter().find_map(|message| {
        if let SimpleQueryMessage::Row(row) = message {
            row.get(0)
        } else {
            None
        }
    });
    serde_json::from_str(text.unwrap()).unwrap()
}

/// The plans of a statement for the application, the first time and after ten executions: the store
/// prepares its statements, and from the sixth execution on PostgreSQL may use a generic plan for
/// all parameters.
async fn plans(
    app: &Client,
    (begin, sent): &(String, SentStatement),
    tenant: &str,
) -> Vec<Vec<PlanNode>> {
    let kinds = app.prepare(&sent.sql).await.unwrap();
    let arguments: Vec<String> = kinds
        .params()
        .iter()
        .zip(&sent.params)
        .map(|(kind, raw)| literal(kind, raw))
        .collect();
    let execute = format!("EXECUTE real({})", arguments.join(", "));
    app.batch_execute(&format!(
        "{begin}; SET LOCAL app.tenant_id = '{tenant}'; PREPARE real AS {}",
        sent.sql
    ))
    .await
    .unwrap();
    let mut plans = Vec::new();
    for uses in [0, 10] {
        for _ in 0..uses {
            app.batch_execute(&execute).await.unwrap();
        }
        let plan = explained(app, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {execute}")).await;
        let mut found = Vec::new();
        nodes(&plan[0]["Plan"], &mut found);
        assert!(
            !found.iter().any(|node| node.kind.contains("Seq Scan")),
            "after {uses} uses of {}: {found:#?}",
            sent.sql
        );
        plans.push(found);
    }
    app.batch_execute("DEALLOCATE real; ROLLBACK")
        .await
        .unwrap();
    plans
}

/// The number of rows that a plan reads from a table, after checks of the index and its columns.
fn reads_by(plan: &[PlanNode], relation: &str, index: &str, columns: &[&str]) -> f64 {
    let on: Vec<&PlanNode> = plan
        .iter()
        .filter(|node| node.relation == relation || node.index.starts_with(index))
        .collect();
    let by = on
        .iter()
        .find(|node| !node.index.is_empty())
        .unwrap_or_else(|| panic!("{relation} by an index: {plan:#?}"));
    assert!(
        by.index.starts_with(index),
        "{relation} by {index}: {plan:#?}"
    );
    for column in columns {
        assert!(
            by.condition.contains(column),
            "{relation} by {column}: {plan:#?}"
        );
    }
    on.iter().map(|node| node.read).fold(0.0, f64::max)
}

/// The loaded database: a store with a recorder, and a connection of the application with the same
/// settings as the store's.
async fn watched() -> (PostgresStore, StatementLog, Client) {
    watch(loaded().await).await
}

async fn watch(database: &TestDatabase) -> (PostgresStore, StatementLog, Client) {
    watch_with(database, database.options(4)).await
}

async fn watch_with(
    database: &TestDatabase,
    options: PostgresOptions,
) -> (PostgresStore, StatementLog, Client) {
    let (store, log) = recorded(database, options).await;
    let app = database.app().await;
    store.head(&scope("t1", "big").tenant).await.unwrap();
    let settings: Vec<SentStatement> = log
        .take()
        .into_iter()
        .filter(|sent| sent.sql.starts_with("SET lock_timeout"))
        .collect();
    assert_eq!(settings.len(), 1, "a connection is set up once");
    app.batch_execute(&settings[0].sql).await.unwrap();
    (store, log, app)
}

fn late() -> ReadAt {
    ReadAt::Now(NOON.plus_ms(1_000_000))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_search_reads_only_its_postings_and_result_entries() {
    let (store, log, app) = watched().await;
    let s = scope("t1", "big");
    // A word of a few entries, one of every entry, and both.
    for (terms, hits) in [
        (vec!["quagga"], RARE),
        (vec!["falcon"], ENTRIES),
        (vec!["quagga", "falcon"], ENTRIES + RARE),
    ] {
        let probe = Probe::words(terms.iter().map(|term| (*term).to_owned()).collect());
        let found = store
            .search(&s, &probe, &Filter::default(), PAGE as u32, &late())
            .await
            .unwrap()
            .candidates;
        assert_eq!(found.len(), hits.min(PAGE));
        for plan in plans(&app, &log.last(), "t1").await {
            let postings = reads_by(
                &plan,
                "posting",
                "posting_pkey",
                &["tenant_id", "scope_id", "word"],
            );
            assert!(
                postings <= hits as f64,
                "{postings} postings for {hits} hits: {plan:#?}"
            );
            let entries = reads_by(
                &plan,
                "entry",
                "entry_pkey",
                &["tenant_id", "scope_id", "row_id"],
            );
            assert!(
                entries <= 3.0 * PAGE as f64,
                "{entries} entries for a page of {PAGE}: {plan:#?}"
            );
            assert!(
                reads_by(&plan, "scope", "scope_", &["tenant_id", "memory_ref"]) <= 1.0,
                "{plan:#?}"
            );
            let uses = reads_by(
                &plan,
                "action_link",
                "action_link_pkey",
                &["tenant_id", "scope_id", "row_id"],
            );
            assert!(
                uses <= PAGE as f64,
                "{uses} actions for a page of {PAGE}: {plan:#?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_words_are_checked_with_one_posting_each() {
    let (store, log, app) = watched().await;
    let s = scope("t1", "big");
    let probe = Probe::words(vec!["falcom".into(), "quaga".into()]);
    assert_eq!(
        store
            .search(&s, &probe, &Filter::default(), PAGE as u32, &late())
            .await
            .unwrap()
            .candidates
            .len(),
        PAGE
    );
    let sent: Vec<SentStatement> = log
        .take()
        .into_iter()
        .filter(|sent| sent.sql.starts_with("BEGIN") || sent.sql.contains("remem."))
        .collect();
    assert_eq!(
        sent.len(),
        6,
        "what was asked for, what is one slip away, and the search: {sent:?}"
    );
    for plan in plans(&app, &(sent[2].sql.clone(), sent[3].clone()), "t1").await {
        let postings = reads_by(
            &plan,
            "posting",
            "posting_pkey",
            &["tenant_id", "scope_id", "word"],
        );
        assert!(
            postings <= 2.0,
            "{postings} postings for two words that are held: {plan:#?}"
        );
    }
}

fn direction() -> Option<(ModelId, Embedding)> {
    let components: Vec<f32> = (0..384)
        .map(|n| if n % 3 == 0 { 1.0 } else { -0.5 })
        .collect();
    Some((ModelId(5), Embedding::from_components(&components).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_search_reads_only_the_vectors_of_its_memory() {
    let (store, log, app) = watched().await;
    let s = scope("t1", "big");
    let probe = Probe {
        terms: Vec::new(),
        vector: direction(),
    };
    assert_eq!(
        store
            .search(&s, &probe, &Filter::default(), PAGE as u32, &late())
            .await
            .unwrap()
            .candidates
            .len(),
        PAGE
    );
    for plan in plans(&app, &log.last(), "t1").await {
        let vectors = reads_by(&plan, "vector", "vector_pkey", &["tenant_id", "scope_id"]);
        assert!(
            vectors <= (ENTRIES + 2 * PAGE) as f64,
            "{vectors} vectors: {plan:#?}"
        );
        let of_memory = |node: &PlanNode| node.condition.contains("scope_id");
        assert!(
            plan.iter()
                .filter(|node| node.index.starts_with("vector_"))
                .all(of_memory),
            "{plan:#?}"
        );
        let entries = reads_by(
            &plan,
            "entry",
            "entry_pkey",
            &["tenant_id", "scope_id", "row_id"],
        );
        assert!(
            entries <= 3.0 * PAGE as f64,
            "{entries} entries for a page of {PAGE}: {plan:#?}"
        );
    }
}

/// Up to so many vectors of a kind are all compared; for a memory that has more, the indexes are
/// used.
const COMPARED: u32 = 1_000;

/// The statements of one search and their `BEGIN`s: the look-up of words and kinds, and the search
/// itself as often as it was made.
fn transactions(log: &StatementLog) -> Vec<(String, SentStatement)> {
    let sent: Vec<SentStatement> = log
        .take()
        .into_iter()
        .filter(|sent| sent.sql.starts_with("BEGIN") || sent.sql.contains("remem."))
        .collect();
    sent.chunks(2)
        .map(|pair| (pair[0].sql.clone(), pair[1].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_search_in_a_large_memory_uses_per_kind_indexes() {
    let database = loaded().await;
    let (store, log, app) = watch_with(
        database,
        PostgresOptions {
            exact_max: COMPARED,
            ..database.options(4)
        },
    )
    .await;
    let s = scope("t3", "big");
    let probe = Probe {
        terms: Vec::new(),
        vector: direction(),
    };
    let found = store
        .search(&s, &probe, &Filter::default(), PAGE as u32, &late())
        .await
        .unwrap()
        .candidates;
    assert_eq!(
        found.len(),
        PAGE,
        "another tenant's vectors are in the same index, and nobody gets fewer for it"
    );
    let sent = transactions(&log);
    // The graph of the index is random: if a walk through it ends early, the search is made again.
    let searches = sent.len() - 1;
    assert!((1..=2).contains(&searches), "{searches} searches");
    let kind = ["tenant_id", "scope_id", "model", "tier", "typology"];
    for plan in plans(&app, &sent[0], "t3").await {
        let vectors = reads_by(&plan, "vector", "vector_kind", &kind);
        // PostgreSQL reports whole numbers of rows for each of the six kinds.
        assert!(
            vectors <= f64::from(COMPARED) + 6.0,
            "{vectors} vectors to know that they are many: {plan:#?}"
        );
    }
    for plan in plans(&app, &sent[1], "t3").await {
        let used = |start: &str| {
            plan.iter()
                .filter(|node| node.index.starts_with(start))
                .count()
        };
        assert_eq!(used("vector_near_persistent_semantic"), 1, "{plan:#?}");
        assert_eq!(
            (used("vector_near"), used("vector_kind")),
            (1, 5),
            "few of a kind are compared: {plan:#?}"
        );
        let entries = reads_by(
            &plan,
            "entry",
            "entry_pkey",
            &["tenant_id", "scope_id", "row_id"],
        );
        assert!(
            entries <= 10.0 * PAGE as f64,
            "{entries} entries for a page of {PAGE}: {plan:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_of_other_tiers_are_not_read() {
    let database = loaded().await;
    let (store, log, app) = watch_with(
        database,
        PostgresOptions {
            exact_max: COMPARED,
            ..database.options(4)
        },
    )
    .await;
    let s = scope("t3", "big");
    let probe = Probe {
        terms: Vec::new(),
        vector: direction(),
    };
    let wanted = Filter {
        tier: Some(Tier::Session),
        ..Filter::default()
    };
    assert!(
        store
            .search(&s, &probe, &wanted, PAGE as u32, &late())
            .await
            .unwrap()
            .candidates
            .is_empty()
    );
    for plan in plans(&app, transactions(&log).last().unwrap(), "t3").await {
        assert!(
            plan.iter()
                .filter(|node| node.index.starts_with("vector_"))
                .all(|node| node.read == 0.0),
            "{plan:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selective_filter_is_read_through_its_own_index() {
    let database = loaded().await;
    let s = scope("t3", "big");
    let probe = Probe {
        terms: Vec::new(),
        vector: direction(),
    };
    // Each filter matches one batch, which is fewer than are wanted; that is known before, or only
    // after a walk has ended early.
    let tagged = Filter {
        tags: vec!["late".into()],
        ..Filter::default()
    };
    let recent = Filter {
        created_from: Some(Timestamp(NOON.0 + (ENTRIES - BATCH) as i64)),
        ..Filter::default()
    };
    for (exact_max, searches) in [(4 * BATCH, 1), (COMPARED as usize, 2)] {
        let (store, log, app) = watch_with(
            database,
            PostgresOptions {
                exact_max: exact_max as u32,
                ..database.options(4)
            },
        )
        .await;
        for (filter, table, index) in [
            (&tagged, "entry_tag", "entry_tag"),
            (&recent, "entry", "entry_list"),
        ] {
            let found = store
                .search(&s, &probe, filter, 2 * BATCH as u32, &late())
                .await
                .unwrap()
                .candidates;
            assert_eq!(found.len(), BATCH, "{filter:?}");
            let sent = transactions(&log);
            assert_eq!(
                sent.len(),
                2 + searches,
                "what is held, whether it is little, searches: {sent:?}"
            );
            let left = |plan: &[PlanNode]| {
                let first: Vec<&PlanNode> = plan
                    .iter()
                    .filter(|node| node.relation == table && node.index.starts_with(index))
                    .collect();
                assert!(!first.is_empty(), "{table} by {index}: {plan:#?}");
                assert!(
                    first.iter().all(|node| node.read <= BATCH as f64),
                    "{plan:#?}"
                );
            };
            plans(&app, &sent[1], "t3")
                .await
                .iter()
                .for_each(|plan| left(plan));
            for plan in plans(&app, sent.last().unwrap(), "t3").await {
                left(&plan);
                let vectors = reads_by(
                    &plan,
                    "vector",
                    "vector_pkey",
                    &["tenant_id", "scope_id", "row_id", "model"],
                );
                assert!(
                    vectors <= 2.0 * BATCH as f64,
                    "{vectors} vectors for {BATCH}: {plan:#?}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_and_an_event_page_read_only_their_rows() {
    let (store, log, app) = watched().await;
    let s = scope("t1", "big");
    assert!(
        store
            .get(&s, &id("e01234"), &late())
            .await
            .unwrap()
            .is_some()
    );
    for plan in plans(&app, &log.one(), "t1").await {
        assert!(
            reads_by(
                &plan,
                "entry",
                "entry_tenant_id_scope_id_id_hash",
                &["tenant_id", "scope_id", "id_hash"]
            ) <= 1.0,
            "{plan:#?}"
        );
        assert!(
            reads_by(&plan, "scope", "scope_", &["tenant_id", "memory_ref"]) <= 1.0,
            "{plan:#?}"
        );
    }
    assert_eq!(
        store
            .events(&s.tenant, Seq(4_000), 100)
            .await
            .unwrap()
            .len(),
        100
    );
    for plan in plans(&app, &log.one(), "t1").await {
        assert!(
            reads_by(&plan, "event", "event_pkey", &["tenant_id", "seq"]) <= 100.0,
            "{plan:#?}"
        );
    }
}

/// The cost of a search must not grow with the size of a memory, only with its results.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_are_found_through_the_id_and_list_indexes() {
    let (store, log, app) = watched().await;
    let s = scope("t1", "big");
    let names = ["e00008", "e01234", "e02345"].map(id);
    let around = store.neighbours(&s, &names, 1, &late()).await.unwrap();
    assert!(
        around.len() == names.len()
            && around
                .iter()
                .all(|one| one.before.len() == 1 && one.after.len() == 1)
    );
    for plan in plans(&app, &log.one(), "t1").await {
        let on: Vec<&PlanNode> = plan
            .iter()
            .filter(|node| node.relation == "entry")
            .collect();
        let by = |index: &str, column: &str| {
            on.iter()
                .filter(|node| node.index.starts_with(index) && node.condition.contains(column))
                .count()
        };
        assert_eq!(
            (
                on.len(),
                by("entry_tenant_id_scope_id_id_hash", "id_hash"),
                by("entry_list", "created_at")
            ),
            (3, 1, 2),
            "{plan:#?}"
        );
        // The entries of one batch were written at one instant.
        let most = on.iter().map(|node| node.read).fold(0.0, f64::max);
        assert!(
            most <= (names.len() * (BATCH + 1)) as f64,
            "{most} entries beside {}: {plan:#?}",
            names.len()
        );
    }
}

/// In the index's own order: rows that are not shown are not read, let alone sorted.
/// Statistics come from totals: of the entries, only the oldest and the newest are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_do_not_read_the_entries() {
    let (store, log, app) = watched().await;
    let stats = store.stats(&scope("t1", "big"), &late()).await.unwrap();
    assert_eq!(stats.entries, ENTRIES as u64);
    let of_memory = log.last();
    let tenant = scope("t1", "big").tenant;
    let at = late();
    let memories = store.memories(&tenant, &Actor::Host, None, 1_000, &at);
    assert_eq!(memories.await.unwrap().len(), SMALL + 1);
    for sent in [of_memory, log.last()] {
        for plan in plans(&app, &sent, "t1").await {
            let entries = reads_by(&plan, "entry", "entry_", &["tenant_id"]);
            assert!(entries <= 1.0, "{entries} entries: {plan:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_page_reads_only_its_rows() {
    let (store, log, app) = watched().await;
    let s = scope("t1", "big");
    let after = Some(ListPosition {
        created_at: Timestamp(NOON.0 + 2_000),
        id: id("e02345"),
    });
    for (after, tags, table, index) in [
        (None, vec![], "entry", "entry_list"),
        (after, vec![], "entry", "entry_list"),
        (None, vec!["late".to_owned()], "entry_tag", "entry_tag_pkey"),
    ] {
        let filter = Filter {
            tags,
            ..Filter::default()
        };
        let page = Page {
            limit: PAGE as u32,
            after,
        };
        assert_eq!(
            store.list(&s, &filter, &page, &late()).await.unwrap().len(),
            PAGE
        );
        for plan in plans(&app, &log.one(), "t1").await {
            let read = reads_by(&plan, table, index, &["tenant_id", "scope_id"]);
            // A page may begin inside a batch, all of which was written at one instant.
            assert!(
                read <= (BATCH + 10 * PAGE) as f64,
                "{read} rows of {index}: {plan:#?}"
            );
        }
    }
}

/// The entries of a memory that passes have read; the number with a common subject; the number
/// merged into the first one; the length of the chains in which they were made from each other.
const RELATED_ENTRIES: usize = 3_000;
const WITH_SUBJECT: usize = 30;
const MERGED: usize = 40;
const CHAIN: usize = 10;

/// Two tenants with the same names, each with a memory in which every entry is signed and one in
/// which none is. Entries are made from their neighbours, in short chains.
async fn related(database: &TestDatabase, store: &PostgresStore) {
    for tenant in ["t1", "t2"] {
        for memory in ["signed", "fresh"] {
            let s = scope(tenant, memory);
            for start in (0..RELATED_ENTRIES).step_by(BATCH) {
                let mut batch = Batch::new(s.tenant.clone(), NOON);
                for n in start..start + BATCH {
                    let subjects = vec![Subject::from_bytes([(n / WITH_SUBJECT) as u8; 32])];
                    let admitted = admit(
                        &s,
                        Draft {
                            subjects,
                            ..draft(&format!("falcon number{n}"))
                        },
                        NOON,
                    );
                    let sources = if n % CHAIN == 0 {
                        vec![]
                    } else {
                        vec![(s.memory_ref.clone(), id(&format!("e{:05}", n - 1)))]
                    };
                    batch = batch.put_derived(id(&format!("e{n:05}")), admitted, sources);
                    if memory == "signed" {
                        batch = batch.store_signature(
                            s.memory_ref.clone(),
                            id(&format!("e{n:05}")),
                            1,
                            vec![7; 16],
                        );
                    }
                }
                store.commit(batch).await.unwrap();
            }
            let names =
                (RELATED_ENTRIES - MERGED..RELATED_ENTRIES).map(|n| id(&format!("e{n:05}")));
            let empty = Batch::new(s.tenant.clone(), NOON);
            let merge = names.fold(empty, |batch, name| {
                batch.retire(
                    s.memory_ref.clone(),
                    name,
                    RetireReason::Merged,
                    id("e00000"),
                )
            });
            store.commit(merge).await.unwrap();
        }
        // Enough other memories for an index to be worthwhile.
        let beside: Vec<Scope> = (0..SMALL)
            .map(|n| scope(tenant, &format!("small {n}")))
            .collect();
        let empty = Batch::new(beside[0].tenant.clone(), NOON);
        let small = beside.iter().fold(empty, |batch, s| {
            batch.put(id("e"), admit(s, draft("small"), NOON))
        });
        store.commit(small).await.unwrap();
    }
    for table in WALLED {
        database
            .admin()
            .await
            .batch_execute(&format!("VACUUM ANALYZE remem.{table}"))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signatures_and_lineage_are_read_through_indexes() {
    let database = TestDatabase::fresh().await;
    related(&database, &database.open().await).await;
    let (store, log, app) = watch(&database).await;
    let signed = scope("t1", "signed");
    let fresh = scope("t1", "fresh");
    let first = store
        .entries_without_signature(&fresh, None, PAGE as u32)
        .await
        .unwrap();
    log.take();
    assert_eq!(
        store
            .entries_without_signature(&fresh, Some(first[PAGE - 1].0), PAGE as u32)
            .await
            .unwrap()
            .len(),
        PAGE
    );
    for plan in plans(&app, &log.one(), "t1").await {
        assert!(
            reads_by(
                &plan,
                "entry",
                "entry_pkey",
                &["tenant_id", "scope_id", "row_id"]
            ) <= 10.0 * PAGE as f64,
            "{plan:#?}"
        );
        assert!(
            reads_by(
                &plan,
                "signature",
                "signature_pkey",
                &["tenant_id", "scope_id"]
            ) <= RELATED_ENTRIES as f64,
            "{plan:#?}"
        );
    }
    let some = store.signatures(&signed, None, PAGE as u32).await.unwrap();
    log.take();
    assert_eq!(
        store
            .signatures(&signed, Some(some[PAGE - 1].row), PAGE as u32)
            .await
            .unwrap()
            .len(),
        PAGE
    );
    for plan in plans(&app, &log.one(), "t1").await {
        assert!(
            reads_by(
                &plan,
                "signature",
                "signature_pkey",
                &["tenant_id", "scope_id", "row_id"]
            ) <= 10.0 * PAGE as f64,
            "{plan:#?}"
        );
        assert!(
            reads_by(
                &plan,
                "entry",
                "entry_pkey",
                &["tenant_id", "scope_id", "row_id"]
            ) <= 10.0 * PAGE as f64,
            "{plan:#?}"
        );
    }
    let places: Vec<RowCursor> = some.iter().map(|s| s.row).collect();
    assert_eq!(
        store.entries_at(&signed, &places).await.unwrap().len(),
        PAGE
    );
    for plan in plans(&app, &log.one(), "t1").await {
        assert!(
            reads_by(
                &plan,
                "entry",
                "entry_pkey",
                &["tenant_id", "scope_id", "row_id"]
            ) <= 2.0 * PAGE as f64,
            "{plan:#?}"
        );
    }
    // Both memories have such entries.
    let trace = store
        .trace_subject(
            &signed.tenant,
            &Subject::from_bytes([0; 32]),
            TracePosition::default(),
            10_000,
        )
        .await
        .unwrap();
    assert_eq!(
        (trace.entries.len(), trace.merged_survivors.len()),
        (2 * WITH_SUBJECT, 2 * MERGED)
    );
    let sent = log.take();
    let begin = sent
        .iter()
        .find(|sent| sent.sql.starts_with("BEGIN"))
        .unwrap()
        .sql
        .clone();
    let traces: Vec<SentStatement> = sent
        .into_iter()
        .filter(|sent| sent.sql.contains("RECURSIVE"))
        .collect();
    assert_eq!(traces.len(), 2);
    for sent in traces {
        // Survivors are looked for upwards, each to the beginning of its chain, everything else
        // downwards.
        let (index, columns, links_max) = if sent.sql.contains("merged (") {
            let columns = ["tenant_id", "scope_id", "row_id"];
            ("lineage_pkey", columns, 2 * MERGED * CHAIN)
        } else {
            let columns = ["tenant_id", "source_scope", "source_row"];
            ("lineage_source", columns, 4 * (WITH_SUBJECT + MERGED))
        };
        for plan in plans(&app, &(begin.clone(), sent), "t1").await {
            let subjects = reads_by(
                &plan,
                "entry_subject",
                "entry_subject_pkey",
                &["tenant_id", "subject", "scope_id", "row_id"],
            );
            assert!(
                subjects <= 2.0 * (WITH_SUBJECT + MERGED) as f64,
                "{subjects}: {plan:#?}"
            );
            let links = reads_by(&plan, "lineage", index, &columns);
            assert!(links <= links_max as f64, "{links}: {plan:#?}");
            let entries: f64 = plan
                .iter()
                .filter(|node| node.relation == "entry")
                .map(|node| node.read)
                .fold(0.0, f64::max);
            assert!(
                entries <= 2.0 * (WITH_SUBJECT + MERGED) as f64,
                "{entries}: {plan:#?}"
            );
        }
    }
}

/// The cost of a deletion for the entries that were replaced by the deleted one, and the entries
/// that the purge finds afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_and_purge_read_only_the_affected_entries() {
    let database = TestDatabase::fresh().await;
    related(&database, &database.open().await).await;
    let links = "INSERT INTO remem.action_link (tenant_id, scope_id, row_id, action, reference, linked_at)
                 SELECT tenant_id, scope_id, row_id, 'act', n::text, 1 FROM remem.entry, generate_series(1, 4) n WHERE tenant_id = 't2'";
    database.admin().await.batch_execute(links).await.unwrap();
    database
        .admin()
        .await
        .batch_execute("VACUUM ANALYZE remem.action_link")
        .await
        .unwrap();
    let (store, log, app) = watch(&database).await;
    let s = scope("t1", "signed");
    assert_eq!(
        delete(&store, &s, "e00000", NOON).await.outcomes,
        [ChangeOutcome::Removed]
    );
    let runs = "INSERT INTO remem.snapshot (tenant_id, run_id, revision, at) SELECT 't2', 'run-' || n, 1, 1 FROM generate_series(1, 5000) n";
    database.admin().await.batch_execute(runs).await.unwrap();
    database
        .admin()
        .await
        .batch_execute("VACUUM ANALYZE remem.snapshot")
        .await
        .unwrap();
    // The entries that the deleted one replaced, and the actions that rest on them.
    let loads: Vec<SentStatement> = log
        .take()
        .into_iter()
        .filter(|sent| sent.sql.contains("d.replaced_by = n.row_id"))
        .collect();
    assert_eq!(loads.len(), 2);
    for load in loads {
        for plan in plans(&app, &("BEGIN".to_owned(), load), "t1").await {
            let of_entries = plan.iter().filter(|node| node.relation == "entry");
            let read: f64 = of_entries.clone().map(|node| node.read).sum();
            assert!(
                of_entries.clone().all(|node| !node.index.is_empty())
                    && of_entries
                        .clone()
                        .any(|node| node.index == "entry_replaced"),
                "{plan:#?}"
            );
            assert!(read <= MERGED as f64 + 2.0, "{read}: {plan:#?}");
        }
    }
    assert_eq!(
        store
            .erasable_entries(&s.tenant, PAGE as u32)
            .await
            .unwrap()
            .len(),
        PAGE
    );
    for plan in plans(&app, &log.one(), "t1").await {
        let read = reads_by(&plan, "entry", "entry_spent", &["tenant_id"]);
        assert!(read <= MERGED as f64, "{read}: {plan:#?}");
    }
}

/// The entries of a memory that a run reads; the number removed since, and written since.
const MANY: usize = 30_000;
const ENDED: usize = 120;
const LATER: usize = 300;

/// A memory with an old snapshot of the run `run_1`: most entries existed before, some were deleted
/// long ago, some were deleted since, some were written since.
async fn with_a_run(database: &TestDatabase, store: &PostgresStore) -> Revision {
    let s = scope("t1", "big");
    let run = || Batch::new(s.tenant.clone(), NOON).in_run(RunId::parse("run_1").unwrap());
    let node = || {
        EventBody::NodeCompleted(NodeEnded {
            node_id: "n".to_owned(),
        })
    };
    let first = admit(
        &s,
        Draft {
            tags: vec!["often".to_owned()],
            ..draft("first")
        },
        NOON,
    );
    let revision = store
        .commit(run().put(id("e00000"), first).hold_snapshot().emit(node()))
        .await
        .unwrap()
        .revision;
    // Rows as commits would have left them.
    let rows = format!(
        "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref) SELECT 't1', 1 + n, 'small ' || n FROM generate_series(1, 1000) n;
         INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, created_at, scan, content_hash,
             rev_from, rev_to, removed_reason, erased_at, world)
           SELECT e.tenant_id, e.scope_id, 1 + n, 'e' || lpad(n::text, 5, '0'), decode(md5(n::text), 'hex'), e.tier, e.typology,
             CASE WHEN n % 10 = 3 THEN ''::bytea ELSE 'text' END, CASE WHEN n % 10 = 3 THEN '[]' ELSE '[\"often\"]' END,
             e.created_at + n / 100, 1, CASE WHEN n % 10 <> 3 THEN e.content_hash END, CASE WHEN n > {MANY} - {LATER} THEN 5 ELSE 1 END,
             CASE WHEN n % ({MANY} / {ENDED}) = 0 THEN 7 WHEN n % 10 = 3 THEN 6 END,
             CASE WHEN n % ({MANY} / {ENDED}) = 0 OR n % 10 = 3 THEN 'deleted' END,
             CASE WHEN n % 10 = 3 THEN 1 END, e.world
           FROM remem.entry e, generate_series(1, {MANY}) n WHERE e.tenant_id = 't1';
         INSERT INTO remem.entry_tag (tenant_id, scope_id, tag, created_at, id_head, row_id)
           SELECT tenant_id, scope_id, 'often', created_at, id, row_id FROM remem.entry WHERE row_id > 1 AND erased_at IS NULL;
         INSERT INTO remem.event (tenant_id, seq, revision, at, run_id, run_seq, kind, payload, hash)
           SELECT tenant_id, 10 + n, revision, at, CASE WHEN n % 4 > 0 THEN 'run_' || n % 40 + 2 END,
             CASE WHEN n % 4 > 0 THEN n END, kind, payload, hash
           FROM remem.event, generate_series(1, {MANY}) n WHERE seq = 1"
    );
    let admin = database.admin().await;
    admin.batch_execute(&rows).await.unwrap();
    for table in WALLED {
        admin
            .batch_execute(&format!("VACUUM ANALYZE remem.{table}"))
            .await
            .unwrap();
    }
    revision
}

/// Checks that a plan of a snapshot reads only a page, the changes since, and entries of one
/// instant, never the whole memory.
fn reads_little(plan: &[PlanNode]) {
    let most = plan.iter().map(|node| node.read).fold(0.0, f64::max);
    assert!(
        most <= (2 * PAGE + LATER + 2 * ENDED + 100) as f64,
        "{most} rows: {plan:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_reads_cost_a_page_plus_the_changes_since() {
    let database = TestDatabase::fresh().await;
    let revision = with_a_run(&database, &database.open().await).await;
    let (store, log, app) = watch(&database).await;
    let s = scope("t1", "big");
    let at = ReadAt::Snapshot {
        revision,
        at: NOON,
        since: NOON,
        own_runs: vec![RunId::parse("run_1").unwrap()],
    };
    let after = Some(ListPosition {
        created_at: Timestamp(NOON.0 + 150),
        id: id("e15050"),
    });
    for (after, tags, index) in [
        (None, vec![], "entry_list"),
        (after, vec![], "entry_list"),
        (None, vec!["often".to_owned()], "entry_tag_pkey"),
    ] {
        let filter = Filter {
            tags,
            ..Filter::default()
        };
        let page = Page {
            limit: PAGE as u32,
            after,
        };
        assert_eq!(
            store.list(&s, &filter, &page, &at).await.unwrap().len(),
            PAGE
        );
        for plan in plans(&app, &log.one(), "t1").await {
            let by = |name: &str| {
                plan.iter()
                    .any(|node| node.index == name && node.condition.contains("tenant_id"))
            };
            assert!(by(index) && by("entry_ended"), "{plan:#?}");
            reads_little(&plan);
        }
    }
    let run = RunId::parse("run_7").unwrap();
    assert_eq!(
        store
            .run_events(&s.tenant, &run, 300, 10)
            .await
            .unwrap()
            .len(),
        10
    );
    for plan in plans(&app, &log.one(), "t1").await {
        assert!(
            reads_by(
                &plan,
                "event",
                "event_run",
                &["tenant_id", "run_id", "run_seq"]
            ) <= 10.0,
            "{plan:#?}"
        );
    }
}

/// The reason why words have a table of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_level_security_disables_the_full_text_index() {
    let database = loaded().await;
    let admin = database.admin().await;
    let app = database.app().await;
    let copy = format!(
        "CREATE SCHEMA contrast;
         CREATE TABLE contrast.entry AS SELECT tenant_id, row_id, convert_from(content, 'UTF8') AS content FROM remem.entry;
         CREATE INDEX words ON contrast.entry USING gin (to_tsvector('simple', content));
         GRANT USAGE ON SCHEMA contrast TO {name}_app; GRANT SELECT ON contrast.entry TO {name}_app",
        name = database.name
    );
    admin.batch_execute(&copy).await.unwrap();
    admin.batch_execute("ANALYZE contrast.entry").await.unwrap();
    let explain = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT row_id FROM contrast.entry
                   WHERE tenant_id = 't1' AND to_tsvector('simple', content) @@ to_tsquery('simple', 'quagga')";
    let indexes = async |client: &Client| {
        client
            .batch_execute("BEGIN; SET LOCAL app.tenant_id = 't1'; SET LOCAL enable_seqscan = off")
            .await
            .unwrap();
        let plan = explained(client, explain).await;
        client.batch_execute("ROLLBACK").await.unwrap();
        let mut found = Vec::new();
        nodes(&plan[0]["Plan"], &mut found);
        found.iter().any(|node| node.index == "words")
    };
    assert!(indexes(&app).await, "without a policy, the index answers");
    admin
        .batch_execute(
            "ALTER TABLE contrast.entry ENABLE ROW LEVEL SECURITY; ALTER TABLE contrast.entry FORCE ROW LEVEL SECURITY;
             CREATE POLICY tenant_wall ON contrast.entry USING (tenant_id = remem.current_tenant())",
        )
        .await
        .unwrap();
    assert!(
        !indexes(&app).await,
        "with one, it does not, not even where nothing else is left"
    );
}
