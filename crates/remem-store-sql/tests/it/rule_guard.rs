//! The guard of rules: PostgreSQL uses its trigram index among 20,000 rules, both stores and
//! `remem_core::trgm` give the same verdicts on texts similar to rules, and entries that are older
//! than a rule can still be redacted.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use crate::workshop;
use remem_core::trgm::{Trigrams, is_guarded};
use remem_core::{Batch, Draft, Rejection, Scope};
use remem_store::{ChangeOutcome, Ledger, ReadAt, Store, StoreError};
use remem_store_sql::{Location, SqliteStore};
use remem_testkit::conformance::{NOON, admit, admit_by, id, scope};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{SeededRandom, cases};
use workshop::{claim, rule_id, rule_text, world};

/// Never change it: a difference that was found once must be found again.
const SEED: u64 = 0x5255_4C45_0033;
const MANY: usize = 20_000;

const WORDS: [&str; 24] = [
    "release",
    "review",
    "branch",
    "ticket",
    "window",
    "schema",
    "budget",
    "quarter",
    "Übergabe",
    "Änderung",
    "élan",
    "перевод",
    "правило",
    "κανόνας",
    "規則",
    "変更",
    "確認",
    "リリース",
    "ありがとう",
    "第42条",
    "don't",
    "co-op",
    "version_7",
    "x86",
];

fn text(random: &mut SeededRandom, words: usize) -> String {
    (0..words)
        .map(|_| random.pick(&WORDS).to_owned() + random.pick(&[" ", " ", ", ", "-", "。"]))
        .collect()
}

/// The text of a rule with some words replaced: few enough to restate it about half of the time.
fn near(random: &mut SeededRandom, rule: &str) -> String {
    let mut words: Vec<String> = rule.split(' ').map(str::to_owned).collect();
    for _ in 0..random.index(1 + words.len() / 4) {
        let at = random.index(words.len());
        match random.index(5) {
            0 => words[at] = random.pick(&WORDS).to_owned(),
            1 => words[at] = words[at].to_uppercase(),
            2 => words[at].push_str("\0x"),
            3 => words.insert(at, "\0".to_owned()),
            _ => drop(words.remove(at)),
        }
        if words.is_empty() {
            return "nothing is left".to_owned();
        }
    }
    let glue = random.pick(&[" ", " ", "\0", ";\0 "]);
    words.join(glue)
}

async fn put(store: &dyn Store, s: &Scope, name: &str, draft: Draft) -> Option<bool> {
    match store
        .commit(Batch::new(s.tenant.clone(), NOON).put(id(name), admit(s, draft, NOON)))
        .await
    {
        Ok(_) => Some(false),
        Err(StoreError::Rejected(Rejection::ShadowsRule { .. })) => Some(true),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_35_verdicts_are_the_same_on_both_stores_and_in_rust() {
    let postgres = TestDatabase::fresh().await.open().await;
    let sqlite = SqliteStore::open(Location::Memory, 1).unwrap();
    let mut random = SeededRandom::new(SEED);
    let s = scope("a", "m");
    let rules: Vec<String> = (0..60)
        .map(|n| text(&mut random, 12 + n / 2).trim().to_owned())
        .collect();
    let all =
        rules
            .iter()
            .enumerate()
            .fold(Batch::new(s.tenant.clone(), NOON), |batch, (n, rule)| {
                batch.set_rule(
                    world("w1"),
                    rule_id(&format!("r{n}")),
                    Some(rule_text(rule)),
                )
            });
    for store in [&sqlite as &dyn Store, &postgres] {
        store.commit(all.clone()).await.unwrap();
    }
    let known: Vec<Trigrams> = rules.iter().map(|rule| Trigrams::of(rule)).collect();
    let texts = cases(300, 2_000) as usize;
    let mut restate = 0;
    let mut short = 0;
    for n in 0..texts {
        let rule = &rules[random.index(rules.len())];
        let said = if n % 20 == 0 {
            text(&mut random, 30)
        } else {
            near(&mut random, rule)
        };
        let grams = Trigrams::of(&said);
        let expected = is_guarded(&said) && known.iter().any(|rule| grams.restates(rule));
        let name = format!("e{n}");
        for store in [&sqlite as &dyn Store, &postgres] {
            assert_eq!(
                put(store, &s, &name, claim(&said, "w1")).await,
                Some(expected),
                "text {n}: {said:?}"
            );
            assert_eq!(
                store
                    .restated_rule(&s.tenant, &world("w1"), &said)
                    .await
                    .unwrap()
                    .is_some(),
                expected,
                "text {n}: {said:?}"
            );
        }
        restate += usize::from(expected);
        short += usize::from(!is_guarded(&said));
    }
    println!(
        "{texts} texts near 60 rules: {restate} restate one, {short} are too short to be guarded"
    );
    assert!(
        restate > texts / 5 && restate < texts * 9 / 10 && short > texts / 100,
        "{restate} {short}: the texts test nothing"
    );
}

/// An entry that is older than a rule that it restates must still be redacted and rescanned.
async fn redacts_what_is_older_than_a_rule(store: &dyn Store) {
    let s = scope("b", "m");
    let rule = workshop::RULES[0];
    assert_eq!(put(store, &s, "old", claim(rule, "w1")).await, Some(false));
    let write = Batch::new(s.tenant.clone(), NOON).set_rule(
        world("w1"),
        rule_id("r1"),
        Some(rule_text(rule)),
    );
    store.commit(write).await.unwrap();
    assert_eq!(put(store, &s, "new", claim(rule, "w1")).await, Some(true));
    for (scan, text, outcome) in [
        (2, rule.to_owned(), ChangeOutcome::NoChange),
        (
            3,
            rule.replace("second", "[REDACTED]"),
            ChangeOutcome::Removed,
        ),
    ] {
        let again = Batch::new(s.tenant.clone(), NOON)
            .rewrite(id("old"), admit_by(&s, claim(&text, "w1"), NOON, scan));
        assert_eq!(
            store.commit(again).await.unwrap().outcomes,
            [outcome],
            "{scan}"
        );
        let entry = store
            .get(&s, &id("old"), &ReadAt::Now(NOON))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((entry.content, entry.redaction_fingerprint), (text, scan));
    }
    // A text that restated no rule may not be rewritten so that it does.
    assert_eq!(
        put(
            store,
            &s,
            "far",
            claim(&"far from any rule ".repeat(9), "w1")
        )
        .await,
        Some(false)
    );
    let turned = Batch::new(s.tenant.clone(), NOON)
        .rewrite(id("far"), admit_by(&s, claim(rule, "w1"), NOON, 2));
    let refused = store.commit(turned).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Rejected(Rejection::ShadowsRule { .. }))
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn entries_older_than_a_rule_can_be_redacted_sqlite() {
    redacts_what_is_older_than_a_rule(&SqliteStore::open(Location::Memory, 1).unwrap()).await;
}

#[tokio::test]
async fn entries_older_than_a_rule_can_be_redacted_postgres() {
    redacts_what_is_older_than_a_rule(&TestDatabase::fresh().await.open().await).await;
}

/// A word of two to four syllables: with fewer possible words, all of 20,000 short rules would
/// resemble each other.
fn word(random: &mut SeededRandom) -> String {
    let onsets = [
        "b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr",
        "pl",
    ];
    let syllable = |random: &mut SeededRandom| {
        [
            random.pick(&onsets),
            random.pick(&["a", "e", "i", "o", "u", "ea", "ou"]),
        ]
        .concat()
    };
    (0..2 + random.index(3)).map(|_| syllable(random)).collect()
}

/// The plans of all statements that PostgreSQL runs for a write of the application into the world,
/// as it reports them itself. The plan of the statement alone would not do: inside the trigger it
/// has other collations.
async fn plans_of_write(database: &TestDatabase, said: &str) -> String {
    let (client, mut connection) =
        tokio_postgres::connect(&database.admin_url, tokio_postgres::NoTls)
            .await
            .unwrap();
    let (tell, mut reported) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let tokio_postgres::AsyncMessage::Notice(notice) = message {
                let _ = tell.send(notice.message().to_owned());
            }
        }
    });
    let explain = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
                   SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on; SET client_min_messages = log";
    client.batch_execute(explain).await.unwrap();
    let insert = format!(
        "BEGIN; SET LOCAL app.tenant_id = 'a'; SET LOCAL ROLE {}_app;
         INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, created_at, scan, rev_from, world)
         VALUES ('a', 1, 900000, 'x', 'x', 'persistent', 'semantic', convert_to('{said}', 'UTF8'), '[]', 1, 1, 1, 'w1')",
        database.name
    );
    let _ = client.batch_execute(&insert).await; // refused, if it restates a rule
    client.batch_execute("ROLLBACK").await.unwrap();
    drop(client);
    let mut plans = String::new();
    while let Some(message) = reported.recv().await {
        if message.contains("remem.rule") {
            plans.push_str(&message);
        }
    }
    plans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_33_twenty_thousand_rules_are_searched_through_the_index() {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    let s = scope("a", "m");
    let mut random = SeededRandom::new(SEED);
    let mut rules = Vec::with_capacity(MANY);
    for start in (0..MANY).step_by(250) {
        let mut batch = Batch::new(s.tenant.clone(), NOON);
        for n in start..start + 250 {
            let rule: String = format!(
                "Rule {n}: {}",
                (0..40).map(|_| word(&mut random) + " ").collect::<String>()
            )
            .chars()
            .take(210)
            .collect();
            batch = batch.set_rule(
                world("w1"),
                rule_id(&format!("r{n}")),
                Some(rule_text(&rule)),
            );
            rules.push(rule);
        }
        store.commit(batch).await.unwrap();
    }
    let far: String = (0..40)
        .map(|_| word(&mut random) + " ")
        .collect::<String>()
        .chars()
        .take(210)
        .collect();
    assert_eq!(
        put(&store, &s, "first", claim("the memory is there", "-")).await,
        Some(false)
    );
    for said in [far.clone(), rules[777].to_uppercase()] {
        let plan = plans_of_write(&database, &said).await;
        println!("{plan}\n");
        assert!(
            plan.contains("Index Scan using rule_body")
                || plan.contains("Bitmap Index Scan on rule_body"),
            "{plan}"
        );
        let condition = plan
            .lines()
            .find(|line| line.contains("Index Cond"))
            .unwrap_or_default();
        assert!(
            !plan.contains("Seq Scan on rule") && condition.contains("body OPERATOR(public.%)"),
            "{plan}"
        );
    }
    for world_of in ["-", "w1"] {
        let mut taken = Vec::new();
        for n in 0..200 {
            let said: String = (0..40)
                .map(|_| word(&mut random) + " ")
                .collect::<String>()
                .chars()
                .take(210)
                .collect();
            let begun = std::time::Instant::now();
            assert_eq!(
                put(
                    &store,
                    &s,
                    &format!("{world_of}{n}"),
                    claim(&said, world_of)
                )
                .await,
                Some(false)
            );
            taken.push(begun.elapsed());
        }
        taken.sort_unstable();
        println!(
            "200 writes into the world {world_of:?}: p50 {:?}, p95 {:?}, p99 {:?}",
            taken[99], taken[189], taken[197]
        );
    }
    assert_eq!(put(&store, &s, "far", claim(&far, "w1")).await, Some(false));
    assert_eq!(
        put(&store, &s, "near", claim(&rules[777].to_uppercase(), "w1")).await,
        Some(true)
    );
}
