//! Search and recall through the engine, on whichever store the tests use: what is found by words
//! and by meaning, and when; the effect of changing the model; that other tenants do not influence
//! any figure; and the pass `embed` stopping at every call.

use async_trait::async_trait;
use remem_core::redact::SecretValue;
use remem_core::{Draft, Embedding, Permission, TenantId};
use remem_engine::context::RecallRequest;
use remem_engine::embedders::Embedders;
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{Embedder, EmbedderError};
use remem_engine::registry::{PASSES, PassMode};
use remem_engine::search::{SearchMode, SearchRequest, SearchResult, TimeUse};
use remem_engine::{Caller, Engine, EngineError, EngineParts, HostKey, SecretRegistry};
use remem_store::{Filter, Store};
use remem_testkit::{NOON, TestEnv};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An embedding model for tests: synonyms share an axis, every other word has its own.
struct AxisEmbedder {
    name: &'static str,
    dimensions: usize,
    answers: AtomicBool,
    /// Whether it returns vectors with only the first component.
    narrow: AtomicBool,
    calls: AtomicUsize,
    seen: Mutex<Vec<String>>,
}

const ALIKE: [&[&str]; 3] = [
    &["car", "automobile", "vehicle"],
    &["physician", "doctor"],
    &["purchase", "buy", "bought"],
];

impl AxisEmbedder {
    fn new(name: &'static str, dimensions: usize) -> Arc<AxisEmbedder> {
        Arc::new(AxisEmbedder {
            name,
            dimensions,
            answers: AtomicBool::new(true),
            narrow: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            seen: Mutex::default(),
        })
    }

    fn axis(&self, word: &str) -> usize {
        let group = ALIKE.iter().position(|words| words.contains(&word));
        let hash = word.bytes().fold(17usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        group.unwrap_or(ALIKE.len() + hash % (self.dimensions - ALIKE.len()))
    }
}

#[async_trait]
impl Embedder for AxisEmbedder {
    fn name(&self) -> &str {
        self.name
    }
    fn dimensions(&self) -> usize {
        self.dimensions
    }
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        if !self.answers.load(Ordering::SeqCst) {
            return Err(EmbedderError::Timeout);
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.seen.lock().unwrap().extend(texts.iter().cloned());
        let vector = |text: &String| {
            let mut components = vec![
                0.001f32;
                if self.narrow.load(Ordering::SeqCst) {
                    16
                } else {
                    self.dimensions
                }
            ];
            if components.len() == self.dimensions {
                for word in text
                    .split(|c: char| !c.is_alphanumeric())
                    .filter(|word| !word.is_empty())
                {
                    components[self.axis(&word.to_lowercase())] += 1.0;
                }
            }
            Embedding::from_components(&components).unwrap()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// A model without knowledge: a text's direction depends on its length only.
struct NoiseEmbedder;

#[async_trait]
impl Embedder for NoiseEmbedder {
    fn name(&self) -> &str {
        "noise"
    }
    fn dimensions(&self) -> usize {
        64
    }
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        let vector = |text: &String| {
            let seed = text.bytes().fold(7u64, |seed, byte| {
                seed.wrapping_mul(0x5851_F42D_4C95_7F2D)
                    .wrapping_add(byte.into())
            });
            let components: Vec<f32> = (0..64u64)
                .map(|n| {
                    ((seed ^ (n * 0x9E37_79B9)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40) as f32
                        - 8e6
                })
                .collect();
            Embedding::from_components(&components).unwrap()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

struct RecallTest {
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
    ada: Caller,
}

impl RecallTest {
    async fn over(
        env: &TestEnv,
        current: Option<Arc<dyn Embedder>>,
        previous: Option<Arc<dyn Embedder>>,
    ) -> RecallTest {
        let parts = EngineParts::new(
            env.store.clone(),
            env.directory.clone(),
            env.clock.clone(),
            env.ids.clone(),
            HostKey::new([3; 32]),
        );
        let engine = Arc::new(Engine::new(EngineParts {
            embedders: Embedders::new(current, previous),
            ..parts
        }));
        let ada = caller(&engine, "t").await;
        RecallTest {
            engine,
            store: env.store.clone(),
            ada,
        }
    }

    async fn tell(&self, texts: &[&str]) {
        for text in texts {
            let draft = Draft {
                content: (*text).to_owned(),
                ..Draft::default()
            };
            self.engine
                .put(&self.ada, "m", vec![draft], None)
                .await
                .unwrap();
        }
    }

    async fn embed(&self) {
        let pass = PASSES.iter().find(|pass| pass.name == "embed").unwrap();
        for _ in 0..5 {
            self.engine
                .run_pass(pass, self.ada.tenant(), PassMode::Apply)
                .await
                .unwrap();
        }
    }

    async fn search(&self, query: &str, mode: SearchMode) -> Result<SearchResult, EngineError> {
        self.engine
            .search(
                &self.ada,
                "m",
                SearchRequest {
                    query: query.to_owned(),
                    mode,
                    ..SearchRequest::default()
                },
            )
            .await
    }

    async fn found(&self, query: &str, mode: SearchMode) -> Vec<String> {
        self.search(query, mode)
            .await
            .unwrap()
            .hits
            .into_iter()
            .map(|hit| hit.entry.content)
            .collect()
    }
}

async fn caller(engine: &Engine, tenant: &str) -> Caller {
    let key = format!("key-{tenant}");
    let tenant = TenantId::parse(tenant).unwrap();
    let request = KeyRequest {
        tenant,
        label: String::new(),
        permissions: Permission::ALL.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
    };
    engine.add_key(&key, request).await.unwrap();
    engine.authenticate(&key).await.unwrap()
}

/// Writes entries far enough apart in time that none raises the score of another.
async fn apart(env: &TestEnv, host: &RecallTest, texts: &[&str]) {
    for (n, text) in texts.iter().enumerate() {
        env.clock.set(NOON.plus_ms(n as i64 * 3_600_000));
        host.tell(&[text]).await;
    }
}

#[tokio::test]
async fn entries_are_found_lexically_at_once_and_semantically_after_embed() {
    let env = TestEnv::new().await;
    let model = AxisEmbedder::new("axes", 64);
    let host = RecallTest::over(&env, Some(model.clone()), None).await;
    apart(
        &env,
        &host,
        &[
            "Ana sold her car in March",
            "The physician is in Lisbon",
            "Nothing else happened",
        ],
    )
    .await;
    assert_eq!(
        host.found("car", SearchMode::Hybrid).await[0],
        "Ana sold her car in March"
    );
    assert!(
        host.found("automobile", SearchMode::Semantic)
            .await
            .is_empty(),
        "there are no vectors yet"
    );
    host.embed().await;
    assert_eq!(
        host.found("automobile", SearchMode::Semantic).await[0],
        "Ana sold her car in March"
    );
    assert_eq!(
        host.found("which doctor", SearchMode::Hybrid).await[0],
        "The physician is in Lisbon"
    );
    assert!(
        host.found("automobile", SearchMode::Lexical)
            .await
            .is_empty()
    );
    let before = model.calls.load(Ordering::SeqCst);
    host.embed().await;
    assert_eq!(
        model.calls.load(Ordering::SeqCst),
        before,
        "a second pass has nothing to do"
    );
}

#[tokio::test]
async fn without_an_embedder_search_falls_back_to_lexical_and_reports_it() {
    let env = TestEnv::new().await;
    let host = RecallTest::over(&env, None, None).await;
    host.tell(&["Ana sold her car"]).await;
    let found = host.search("car", SearchMode::Hybrid).await.unwrap();
    assert_eq!((found.mode, found.hits.len()), (SearchMode::Lexical, 1));
    assert!(matches!(
        host.search("car", SearchMode::Semantic).await,
        Err(EngineError::NoEmbedder)
    ));
}

#[tokio::test]
async fn a_failing_embedder_disables_only_semantic_search() {
    let env = TestEnv::new().await;
    let model = AxisEmbedder::new("axes", 64);
    let host = RecallTest::over(&env, Some(model.clone()), None).await;
    host.tell(&["Ana sold her car"]).await;
    model.answers.store(false, Ordering::SeqCst);
    let pass = PASSES.iter().find(|pass| pass.name == "embed").unwrap();
    assert!(
        host.engine
            .run_pass(pass, host.ada.tenant(), PassMode::Apply)
            .await
            .is_err()
    );
    let found = host.search("car", SearchMode::Hybrid).await.unwrap();
    assert_eq!((found.mode, found.hits.len()), (SearchMode::Lexical, 1));
    model.answers.store(true, Ordering::SeqCst);
    model.narrow.store(true, Ordering::SeqCst);
    assert!(
        host.engine
            .run_pass(pass, host.ada.tenant(), PassMode::Apply)
            .await
            .is_err(),
        "vectors of another width are refused"
    );
    assert_eq!(
        host.store
            .vector_counts(host.ada.tenant())
            .await
            .unwrap()
            .models,
        []
    );
    assert_eq!(
        host.found("car", SearchMode::Hybrid).await,
        ["Ana sold her car"],
        "and the write is there"
    );
    model.narrow.store(false, Ordering::SeqCst);
    host.embed().await;
    assert_eq!(
        host.found("vehicle", SearchMode::Semantic).await,
        ["Ana sold her car"]
    );
}

#[tokio::test]
async fn the_embedder_receives_only_redacted_text() {
    let env = TestEnv::new().await;
    let model = AxisEmbedder::new("axes", 64);
    let host = RecallTest::over(&env, Some(model.clone()), None).await;
    let secret = concat!("ghp_", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    host.tell(&[&format!("the token is {secret}")]).await;
    host.embed().await;
    host.search(&format!("where is {secret}"), SearchMode::Hybrid)
        .await
        .unwrap();
    let seen = model.seen.lock().unwrap();
    assert!(
        seen.len() >= 2 && seen.iter().all(|text| !text.contains(secret)),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_late_registered_secret_is_not_sent_to_the_embedder() {
    let env = TestEnv::new().await;
    let model = AxisEmbedder::new("axes", 64);
    let before = RecallTest::over(&env, None, None).await;
    before.tell(&["the word is open-sesame-42-please"]).await;
    let secret = SecretValue::new("late", "open-sesame-42-please");
    let parts = EngineParts::new(
        env.store.clone(),
        env.directory.clone(),
        env.clock.clone(),
        env.ids.clone(),
        HostKey::new([3; 32]),
    );
    let secrets = SecretRegistry::new(&HostKey::new([3; 32]), vec![(None, secret)]);
    let embedders = Embedders::new(Some(model.clone()), None);
    let engine = Arc::new(Engine::new(EngineParts {
        secrets,
        embedders,
        ..parts
    }));
    let host = RecallTest {
        ada: before.ada,
        store: env.store.clone(),
        engine,
    };
    host.embed().await;
    let seen = model.seen.lock().unwrap();
    assert!(seen.len() == 1 && !seen[0].contains("sesame"), "{seen:?}");
}

#[tokio::test]
async fn a_new_embedding_model_takes_over_once_its_results_agree() {
    let env = TestEnv::new().await;
    let old: Arc<dyn Embedder> = AxisEmbedder::new("axes-1", 64);
    let new: Arc<dyn Embedder> = AxisEmbedder::new("axes-2", 128);
    let host = RecallTest::over(&env, Some(old.clone()), None).await;
    apart(
        &env,
        &host,
        &[
            "Ana sold her car",
            "The physician is in Lisbon",
            "They bought a house",
            "Rain in May",
        ],
    )
    .await;
    host.embed().await;
    let host = RecallTest::over(&env, Some(new.clone()), Some(old.clone())).await;
    assert_eq!(
        host.found("automobile", SearchMode::Semantic).await[0],
        "Ana sold her car",
        "the old vectors serve"
    );
    let counts = async || {
        host.store
            .vector_counts(host.ada.tenant())
            .await
            .unwrap()
            .models
    };
    assert_eq!(counts().await, [(old.id(), 4)]);
    host.embed().await;
    assert_eq!(
        counts().await,
        [(new.id(), 4)],
        "compared, cut over, and the old ones are gone"
    );
    assert_eq!(
        host.found("which doctor", SearchMode::Semantic).await[0],
        "The physician is in Lisbon"
    );
    let host = RecallTest::over(&env, Some(new), None).await;
    assert_eq!(
        host.found("purchase", SearchMode::Semantic).await[0],
        "They bought a house"
    );
}

#[tokio::test]
async fn a_new_embedding_model_with_different_results_is_not_used() {
    let env = TestEnv::new().await;
    let old: Arc<dyn Embedder> = AxisEmbedder::new("axes", 64);
    let host = RecallTest::over(&env, Some(old.clone()), None).await;
    let texts: Vec<String> = (0..40)
        .map(|n| format!("entry number {n} speaks of item{n} and place{n}"))
        .collect();
    apart(
        &env,
        &host,
        &texts.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
    host.embed().await;
    let host = RecallTest::over(&env, Some(Arc::new(NoiseEmbedder)), Some(old.clone())).await;
    for n in 0..12 {
        host.search(&format!("item{n} place{n}"), SearchMode::Semantic)
            .await
            .unwrap();
    }
    host.embed().await;
    assert_eq!(
        host.store
            .vector_counts(host.ada.tenant())
            .await
            .unwrap()
            .models
            .len(),
        2,
        "both are kept"
    );
    assert_eq!(
        host.found("item7 place7", SearchMode::Semantic).await[0],
        texts[7],
        "the old ones serve"
    );
}

#[tokio::test]
async fn search_scores_do_not_depend_on_other_tenants_or_memories() {
    let figures = async |others: bool| {
        let env = TestEnv::new().await;
        let model = AxisEmbedder::new("axes", 64);
        let host = RecallTest::over(&env, Some(model.clone()), None).await;
        if others {
            let bob = caller(&host.engine, "other").await;
            for n in 0..30 {
                let draft = || Draft {
                    content: format!("car physician Lisbon {n}"),
                    ..Draft::default()
                };
                host.engine
                    .put(&bob, "m", vec![draft()], None)
                    .await
                    .unwrap();
                host.engine
                    .put(&host.ada, "elsewhere", vec![draft()], None)
                    .await
                    .unwrap();
            }
            let pass = PASSES.iter().find(|pass| pass.name == "embed").unwrap();
            host.engine
                .run_pass(pass, bob.tenant(), PassMode::Apply)
                .await
                .unwrap();
        }
        apart(
            &env,
            &host,
            &[
                "Ana sold her car in March",
                "The physician is in Lisbon",
                "a car in Lisbon",
            ],
        )
        .await;
        host.embed().await;
        let mut view = Vec::new();
        for (query, mode) in [
            ("car Lisbon", SearchMode::Lexical),
            ("automobile in Lisbon", SearchMode::Hybrid),
            ("doctor", SearchMode::Semantic),
        ] {
            let found = host.search(query, mode).await.unwrap();
            view.push(format!(
                "{:016x} {:?}",
                found.probability.to_bits(),
                found.signals
            ));
            for hit in found.hits {
                view.push(format!(
                    "{} {:016x} {:?}",
                    hit.entry.content,
                    hit.score.to_bits(),
                    hit.parts
                ));
            }
        }
        view
    };
    let alone = figures(false).await;
    assert!(alone.len() > 6);
    assert_eq!(alone, figures(true).await);
}

#[tokio::test]
async fn hits_include_neighbours_and_score_parts() {
    let env = TestEnv::new().await;
    let host = RecallTest::over(&env, None, None).await;
    host.tell(&[
        "Which hotel was it?",
        "The one beside the harbour",
        "Far too expensive",
    ])
    .await;
    let request = SearchRequest {
        query: "hotel".to_owned(),
        neighbours: 2,
        ..SearchRequest::default()
    };
    let found = host.engine.search(&host.ada, "m", request).await.unwrap();
    assert_eq!(found.hits[0].entry.content, "Which hotel was it?");
    assert_eq!(found.hits[0].after.len(), 2);
    assert_eq!(
        found.hits[1].entry.content, "The one beside the harbour",
        "the answer stands beside the question"
    );
    let parts = found.hits[1].parts;
    assert!(parts.context > 0.0 && parts.lexical == 0.0, "{parts:?}");
    let sum = parts.lexical
        + parts.meaning
        + parts.typo
        + parts.context
        + parts.recency
        + parts.tier
        + parts.corroboration
        + parts.usage;
    assert!((sum - found.hits[1].score).abs() < 1e-9);
    // A neighbour of a hit counts only if it passes the filter.
    let tagged = Draft {
        content: "A hotel with a garden".to_owned(),
        tags: vec!["t".to_owned()],
        ..Draft::default()
    };
    host.engine
        .put(&host.ada, "m", vec![tagged], None)
        .await
        .unwrap();
    let filter = Filter {
        tags: vec!["t".to_owned()],
        ..Filter::default()
    };
    let found = host
        .engine
        .search(
            &host.ada,
            "m",
            SearchRequest {
                query: "hotel".into(),
                filter,
                ..SearchRequest::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(found.hits.len(), 1);
}

#[tokio::test]
async fn a_misspelled_word_matches_a_similar_term() {
    let env = TestEnv::new().await;
    let host = RecallTest::over(&env, None, None).await;
    host.tell(&[
        "Kathryn keeps the spare keys",
        "The keys of the van are lost",
    ])
    .await;
    let request = |query: &str| SearchRequest {
        query: query.to_owned(),
        ignore_neighbours: true,
        ..SearchRequest::default()
    };
    let found = host
        .engine
        .search(&host.ada, "m", request("Where does Katheryn live?"))
        .await
        .unwrap();
    assert_eq!(
        found
            .hits
            .iter()
            .map(|hit| hit.entry.content.as_str())
            .collect::<Vec<_>>(),
        ["Kathryn keeps the spare keys"]
    );
    assert!(
        found.hits[0].parts.typo > 0.9 && found.hits[0].parts.lexical == 0.0,
        "{found:?}"
    );
    let found = host
        .engine
        .search(&host.ada, "m", request("Kathryn"))
        .await
        .unwrap();
    assert!(
        found.hits[0].parts.typo == 0.0 && found.hits[0].parts.lexical > 0.9,
        "{found:?}"
    );
}

#[tokio::test]
async fn linked_actions_rank_an_entry_above_a_similar_one() {
    let env = TestEnv::new().await;
    let host = RecallTest::over(&env, None, None).await;
    host.tell(&["The harbour is closed today", "The harbour is closed again"])
        .await;
    let ask = async || {
        host.engine
            .search(
                &host.ada,
                "m",
                SearchRequest {
                    query: "harbour closed".into(),
                    ..SearchRequest::default()
                },
            )
            .await
            .unwrap()
    };
    let before = ask().await;
    let first = &before.hits[0];
    let last = &before.hits[1];
    assert!(
        first.parts.usage == 0.0 && first.score - last.score < 0.05,
        "{before:?}"
    );
    for n in 0..31 {
        host.engine
            .link_action(
                &host.ada,
                "m",
                last.entry.id.as_str(),
                "sent",
                &format!("r-{n}"),
            )
            .await
            .unwrap();
    }
    let after = ask().await;
    assert_eq!(after.hits[0].entry.id, last.entry.id);
    assert!(
        after.hits[0].parts.usage > 0.01 && after.hits[1].parts.usage == 0.0,
        "{after:?}"
    );
}

#[tokio::test]
async fn a_time_in_the_query_can_filter_results() {
    let env = TestEnv::new().await;
    let host = RecallTest::over(&env, None, None).await;
    host.tell(&["Dinner with Tom"]).await;
    env.clock.set(NOON.plus_ms(40 * 86_400_000));
    host.tell(&["Dinner with Eva"]).await;
    let ask = async |query: &str, time: TimeUse| {
        let request = SearchRequest {
            query: query.to_owned(),
            time,
            ..SearchRequest::default()
        };
        host.engine.search(&host.ada, "m", request).await.unwrap()
    };
    let found = ask("dinner in November 2023", TimeUse::Filter).await;
    assert_eq!(
        found
            .hits
            .iter()
            .map(|hit| hit.entry.content.as_str())
            .collect::<Vec<_>>(),
        ["Dinner with Tom"]
    );
    assert!(found.when.unwrap().1);
    let found = ask("dinner in July 2020", TimeUse::Filter).await;
    assert_eq!(found.hits.len(), 2, "nothing is of that time, so all count");
    assert!(!found.when.unwrap().1);
    assert_eq!(
        ask("dinner in November 2023", TimeUse::Ignore).await.when,
        None
    );
}

#[tokio::test]
async fn a_recall_block_respects_its_budget_and_can_be_empty() {
    let env = TestEnv::new().await;
    let host = RecallTest::over(&env, None, None).await;
    apart(
        &env,
        &host,
        &[
            "The invoice for March is paid",
            "The harbour is closed",
            "Lunch is at noon",
        ],
    )
    .await;
    let ask = async |query: &str, budget: u64| {
        let search = SearchRequest {
            query: query.to_owned(),
            abstain: true,
            ..SearchRequest::default()
        };
        host.engine
            .recall(
                &host.ada,
                "m",
                RecallRequest {
                    search,
                    token_budget: budget,
                    standing: true,
                },
            )
            .await
            .unwrap()
    };
    let block = ask("is the invoice for March paid", 200).await;
    assert!(
        block.relevant
            && block.block.text.contains("The invoice for March is paid")
            && block.block.tokens <= 200
    );
    assert_eq!(
        ask("is the invoice for March paid", 3)
            .await
            .block
            .ids
            .len(),
        0,
        "whole entries only"
    );
    let nothing = ask("quarterly zebra", 200).await;
    assert!(
        !nothing.relevant && nothing.block.ids.is_empty(),
        "{:?}",
        nothing.block.ids
    );
}
