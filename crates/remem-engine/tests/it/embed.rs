//! The pass `embed`: its cost grows with what was written, not with what there is, and no entry
//! stays without a vector, whatever happens to entries, hosts and models meanwhile.

use async_trait::async_trait;
use remem_core::{Draft, Embedding, ModelId};
use remem_engine::embedders::Embedders;
use remem_engine::ports::{Clock, Embedder, EmbedderError};
use remem_engine::registry::{self, PassKind, PassMode, PassReport};
use remem_engine::{Engine, EngineError, EngineParts};
use remem_testkit::{SeededRandom, TestEnv, TestHost, cases, given_seed};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const DAY: i64 = 86_400;

/// An embedding model whose vectors depend on the length of a text, and that fails on demand.
struct LengthEmbedder {
    name: &'static str,
    fails: AtomicBool,
}

impl LengthEmbedder {
    fn new(name: &'static str) -> Arc<LengthEmbedder> {
        Arc::new(LengthEmbedder {
            name,
            fails: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl Embedder for LengthEmbedder {
    fn name(&self) -> &str {
        self.name
    }
    fn dimensions(&self) -> usize {
        16
    }
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(EmbedderError::Timeout);
        }
        let vector = |text: &String| {
            let mut components = [0.1f32; 16];
            components[text.len() % 16] = 1.0;
            Embedding::from_components(&components).unwrap()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// A host with this model.
async fn host(env: &TestEnv, model: &Arc<LengthEmbedder>) -> TestHost {
    let made = env.host().await;
    let engine = Arc::new(Engine::new(EngineParts {
        embedders: Embedders::new(Some(model.clone()), None),
        ..env.parts()
    }));
    TestHost { engine, ..made }
}

async fn embed_once(host: &TestHost) -> Result<PassReport, EngineError> {
    let pass = registry::find("embed").unwrap();
    let tenant = host.tenant();
    host.engine.run_pass(pass, tenant, PassMode::Apply).await
}

async fn has_work(host: &TestHost) -> Result<bool, EngineError> {
    let PassKind::Tenant { has_work, .. } = registry::find("embed").unwrap().kind else {
        panic!("it works on tenants");
    };
    has_work(&host.engine, host.tenant()).await
}

/// Runs the pass for as long as it has work, as the runner does.
async fn embed(host: &TestHost) {
    for _ in 0..1_000 {
        match has_work(host).await {
            Ok(false) => return,
            Ok(true) => drop(embed_once(host).await),
            Err(_) => {}
        }
        host.env.expire_leases();
    }
    panic!("it never ends");
}

/// Writes so many entries at once.
async fn fill(host: &TestHost, memory: &str, entries: usize) {
    let draft = |n| Draft {
        content: format!("Entry {n} of many."),
        ..Draft::default()
    };
    let drafts = (0..entries).map(draft).collect();
    host.engine
        .put(&host.caller, memory, drafts, None)
        .await
        .unwrap();
}

/// The entries that have a text and no vector of this model.
async fn missing(host: &TestHost, model: ModelId) -> Vec<String> {
    let store = host.env.faults.inner();
    let found = store
        .entries_without_vector(host.tenant(), model, None, 10_000)
        .await
        .unwrap();
    found.into_iter().map(|(_, entry)| entry.content).collect()
}

#[tokio::test]
async fn an_activation_reads_what_was_written_and_not_what_there_is() {
    let env = TestEnv::sqlite();
    let model = LengthEmbedder::new("m");
    let host = host(&env, &model).await;
    fill(&host, "m", 400).await;
    embed(&host).await;
    assert_eq!(missing(&host, model.id()).await, [""; 0]);
    let looks = || env.faults.take_calls("entries_without_vector");
    let named = || env.faults.take_calls("named_entries_without_vector");
    looks();
    named();
    env.faults.take_calls("discard_vectors");
    for _ in 0..3 {
        host.put("other", "One more.").await;
        assert!(has_work(&host).await.unwrap());
        let report = embed_once(&host).await.unwrap();
        assert_eq!((report.examined, report.changed), (1, 1));
        assert!(!has_work(&host).await.unwrap());
    }
    assert_eq!((looks().calls, looks().entries), (0, 0));
    assert_eq!(named().entries, 3);
    let discards = env.faults.take_calls("discard_vectors");
    assert_eq!(discards.calls, 0, "it counts all rows of the tenant");
    // What is of no concern moves the position now and then, so that it is not read for ever.
    for n in 0..70 {
        let id = host.put("m", &format!("Brief {n}.")).await;
        host.engine
            .delete(&host.caller, "m", &id, None)
            .await
            .unwrap();
    }
    embed(&host).await;
    assert!(!has_work(&host).await.unwrap());
    assert_eq!(looks().calls, 0);
}

#[tokio::test]
async fn a_restart_and_another_node_continue_from_the_stored_position() {
    let env = TestEnv::sqlite();
    let model = LengthEmbedder::new("m");
    let first = host(&env, &model).await;
    fill(&first, "m", 100).await;
    embed(&first).await;
    env.faults.take_calls("entries_without_vector");
    let second = host(&env, &model).await;
    assert!(!has_work(&second).await.unwrap());
    second.put("m", "Written by the other node.").await;
    embed(&first).await;
    assert!(!has_work(&second).await.unwrap());
    assert_eq!(missing(&first, model.id()).await, [""; 0]);
    assert_eq!(env.faults.take_calls("entries_without_vector").calls, 0);
}

#[tokio::test]
async fn an_entry_redacted_again_gets_its_vector_at_the_next_activation() {
    let env = TestEnv::sqlite();
    let model = LengthEmbedder::new("m");
    let host = host(&env, &model).await;
    host.put("m", "The gate opens with a-late-value-1234.")
        .await;
    host.put("m", "Nothing to hide.").await;
    embed(&host).await;
    host.secret("late", "a-late-value-1234").await;
    host.run_pass("rescan").await;
    assert_eq!(missing(&host, model.id()).await.len(), 1);
    assert!(has_work(&host).await.unwrap());
    embed(&host).await;
    assert_eq!(missing(&host, model.id()).await, [""; 0]);
}

/// The store refuses a vector if the entry was checked against other rules since it was read. If
/// its text is the same, there is no event that says so.
#[tokio::test]
async fn a_refused_vector_is_made_again() {
    let env = TestEnv::sqlite();
    let model = LengthEmbedder::new("m");
    let host = host(&env, &model).await;
    embed(&host).await;
    host.put("m", "Nothing to hide.").await;
    let other = env.without_faults().host().await;
    let is_first = AtomicBool::new(true);
    env.faults.before_each_commit(move |_| {
        let other = other.clone();
        let is_first = is_first.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            if is_first {
                other.secret("late", "a-late-value-1234").await;
                other.run_pass("rescan").await;
            }
        })
    });
    embed(&host).await;
    env.faults.clear_hook();
    assert_eq!(missing(&host, model.id()).await, [""; 0]);
}

#[tokio::test]
async fn all_entries_are_looked_through_once_a_day() {
    let env = TestEnv::sqlite();
    let model = LengthEmbedder::new("m");
    let host = host(&env, &model).await;
    fill(&host, "m", 50).await;
    embed(&host).await;
    let store = env.faults.inner();
    store.discard_vectors(host.tenant(), &[], 7).await.unwrap();
    embed(&host).await;
    assert_eq!(
        missing(&host, model.id()).await.len(),
        7,
        "no event says so"
    );
    host.at(2 * DAY);
    embed(&host).await;
    assert_eq!(missing(&host, model.id()).await, [""; 0]);
}

#[tokio::test]
async fn a_record_of_an_earlier_version_is_read_and_all_entries_are_looked_through() {
    let env = TestEnv::sqlite();
    let model = LengthEmbedder::new("m");
    let host = host(&env, &model).await;
    fill(&host, "m", 50).await;
    embed(&host).await;
    // What an earlier version writes when it has made another model serve.
    let note = async || {
        let kind = remem_core::RecordKind::Progress;
        let found = env.store.record(host.tenant(), kind, "embed").await;
        found.unwrap().unwrap()
    };
    let known = note().await;
    assert_eq!(known.body["serving"], json!(model.id().0));
    assert_eq!(known.body["held"], json!(null));
    let body = remem_core::Admission {
        policy: &remem_core::Policy::default(),
        redactor: &remem_core::Redactor::empty(),
        redaction_fingerprint: 0,
        now: env.clock.now(),
    }
    .redact_record(remem_testkit::host::object(
        &json!({"serving": 7, "held": null}),
    ));
    let batch = remem_core::Batch::new(host.tenant().clone(), env.clock.now()).set_record(
        remem_core::RecordKind::Progress,
        "embed".to_owned(),
        remem_core::Precondition::Version(known.version),
        body,
    );
    env.store.commit(batch).await.unwrap();
    let store = env.faults.inner();
    store.discard_vectors(host.tenant(), &[], 50).await.unwrap();
    assert!(has_work(&host).await.unwrap());
    embed(&host).await;
    assert_eq!(missing(&host, model.id()).await, [""; 0]);
    assert_eq!(note().await.body["serving"], json!(model.id().0));
}

/// What happens to a tenant while two nodes embed its entries.
struct EmbedWorld {
    env: TestEnv,
    random: SeededRandom,
    models: [Arc<LengthEmbedder>; 2],
    /// The model of both nodes.
    current: usize,
    nodes: [TestHost; 2],
    written: Mutex<Vec<(&'static str, String)>>,
    secrets: u64,
}

impl EmbedWorld {
    async fn new(seed: u64) -> EmbedWorld {
        let env = TestEnv::sqlite().failing(seed, 10);
        env.faults.restart();
        let models = [LengthEmbedder::new("a"), LengthEmbedder::new("b")];
        let nodes = [host(&env, &models[0]).await, host(&env, &models[0]).await];
        EmbedWorld {
            env,
            random: SeededRandom::new(seed),
            models,
            current: 0,
            nodes,
            written: Mutex::default(),
            secrets: 0,
        }
    }

    async fn step(&mut self) {
        let node = self.random.index(2);
        let sure = TestHost {
            env: self.env.without_faults(),
            ..self.env.without_faults().host().await
        };
        match self.random.below(20) {
            0..=5 => {
                let memory = self.random.pick(&["m", "z", "~/own", "a"]);
                let text = format!("word{} of many.", self.random.below(8));
                let id = sure.put(memory, &text).await;
                self.written.lock().unwrap().push((memory, id));
            }
            6 => fill(&sure, "many", 40).await,
            7..=8 => {
                let written = self.written.lock().unwrap().pop();
                if let Some((memory, id)) = written {
                    let deleted = sure.engine.delete(&sure.caller, memory, &id, None);
                    deleted.await.unwrap();
                }
            }
            9 => {
                self.secrets += 1;
                let value = format!("word{} of many.", self.random.below(8));
                sure.secret(&format!("late{}", self.secrets), &value).await;
            }
            10..=11 => {
                sure.run_pass("rescan").await;
            }
            12 => {
                // Another model: both nodes are started anew.
                self.current = self.random.index(2);
                for n in 0..2 {
                    self.nodes[n] = host(&self.env, &self.models[self.current]).await;
                }
            }
            13 => self.nodes[node] = host(&self.env, &self.models[self.current]).await,
            14 => {
                let fails = !self.models[0].fails.load(Ordering::SeqCst);
                for model in &self.models {
                    model.fails.store(fails, Ordering::SeqCst);
                }
            }
            _ => {
                // The work itself or the store may fail: a later activation goes on.
                self.env.fail_some(self.random.next());
                if has_work(&self.nodes[node]).await.unwrap_or(true) {
                    let _ = embed_once(&self.nodes[node]).await;
                }
                self.env.faults.restart();
                self.env.expire_leases();
            }
        }
    }
}

trait FailSome {
    fn fail_some(&self, seed: u64);
}

impl FailSome for TestEnv {
    /// Lets one of the next calls fail, some of the time.
    fn fail_some(&self, seed: u64) {
        if seed.is_multiple_of(2) {
            self.faults
                .fail_at(seed / 4 % 16, (seed / 2).is_multiple_of(2));
        }
    }
}

#[tokio::test]
async fn no_entry_stays_without_a_vector() {
    let all = || (1..=u64::from(cases(12, 200))).collect();
    let seeds: Vec<u64> = given_seed().map_or_else(all, |seed| vec![seed]);
    for seed in seeds {
        let mut world = EmbedWorld::new(seed).await;
        for _ in 0..60 {
            world.step().await;
        }
        for model in &world.models {
            model.fails.store(false, Ordering::SeqCst);
        }
        let node = &world.nodes[1];
        let began = world.env.clock.now();
        embed(node).await;
        let model = world.models[world.current].id();
        assert_eq!(missing(node, model).await, [""; 0], "seed {seed}");
        let took = world.env.clock.now().0 - began.0;
        assert!(took < DAY * 1_000, "seed {seed}: a day's look hides gaps");
        let counts = world.env.faults.inner().vector_counts(node.tenant());
        let counts = counts.await.unwrap();
        assert_eq!(counts.models, [(model, counts.texts)], "seed {seed}");
    }
}
