//! Calls of the model with a scripted one: which answers are used, which are not and why, and what
//! the ledger records.

use remem_core::redact::SecretValue;
use remem_core::rewrite::{Evidence, RewriteJob};
use remem_core::{
    Batch, EntryId, MemoryRef, Permission, Policy, Precondition, RecordKind, Revision, TenantId,
    Timestamp,
};
use remem_engine::keys::KeyRequest;
use remem_engine::model::{ModelCall, ModelPort, RewriteRequest, Undo};
use remem_engine::ports::{CountedIds, FixedClock, ModelError, ScriptedModel};
use remem_engine::vault::SecretScope;
use remem_engine::{Caller, Engine, EngineParts, HostKey, VaultKey};
use remem_store::Ledger;
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const NOTE: &str = "Ann pays 30 euros. Ben does not like fish.";
const GOOD: &str =
    r#"{"lines": [{"text": "Ben does not like fish and Ann pays 30 euros.", "from": [1]}]}"#;
const SECRET: &str = "hunter2-hunter2-hunter2";

struct ModelTest {
    engine: Engine,
    store: Arc<SqliteStore>,
    model: Arc<ScriptedModel>,
    caller: Caller,
}

impl ModelTest {
    async fn new(
        answers: Vec<Result<String, ModelError>>,
        key_secret: Option<&str>,
        policy: Policy,
    ) -> ModelTest {
        let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
        let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
        let clock = Arc::new(FixedClock::at(Timestamp(1_700_000_000_000)));
        let model = Arc::new(ScriptedModel::new(answers));
        let port = ModelPort {
            model: model.clone(),
            key_secret: key_secret.map(str::to_owned),
            deadline: Duration::from_secs(5),
        };
        let parts = EngineParts::new(
            store.clone(),
            directory,
            clock,
            Arc::new(CountedIds::default()),
            HostKey::new([3; 32]),
        );
        let engine = Engine::new(EngineParts {
            model: Some(port),
            vault: Some(VaultKey::new([1; 32])),
            policy,
            ..parts
        });
        let request = KeyRequest {
            tenant: tenant(),
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
            trust: None,
        };
        engine.add_key("key", request).await.unwrap();
        let caller = engine.authenticate("key").await.unwrap();
        ModelTest {
            engine,
            store,
            model,
            caller,
        }
    }

    async fn answering(answer: &str) -> ModelTest {
        ModelTest::new(vec![Ok(answer.to_owned())], None, Policy::default()).await
    }

    async fn call(&self) -> ModelCall {
        self.engine
            .rewrite(&tenant(), &request(NOTE))
            .await
            .unwrap()
            .unwrap()
    }

    async fn secret(&self, name: &str, value: &str) {
        self.engine
            .set_secret(
                &self.caller,
                SecretScope::Tenant,
                name,
                SecretValue::new("", value),
            )
            .await
            .unwrap();
    }
}

fn tenant() -> TenantId {
    TenantId::parse("t").unwrap()
}

fn request(note: &str) -> RewriteRequest {
    let evidence = vec![Evidence {
        source: "mem_1".to_owned(),
        text: note.to_owned(),
    }];
    let undo = Undo {
        archive: "ab".repeat(32),
        replaces: vec![EntryId::parse("mem_old").unwrap()],
    };
    RewriteRequest {
        job: RewriteJob {
            evidence,
            plain_text: note.to_owned(),
            words_max: 50,
        },
        memory_ref: MemoryRef::parse("m").unwrap(),
        output: EntryId::parse("mem_new"),
        undo,
    }
}

fn body(call: &ModelCall) -> Value {
    Value::Object(call.body.map().clone())
}

#[tokio::test]
async fn a_rewrite_is_returned_with_its_ledger_record() {
    let host = ModelTest::answering(GOOD).await;
    let call = host.call().await;
    let rewrite = call.rewrite.as_ref().unwrap();
    assert_eq!(
        rewrite.text,
        "Ben does not like fish and Ann pays 30 euros."
    );
    let mut ledger = body(&call);
    let hashes = ["requestHash", "responseHash"]
        .map(|name| ledger.as_object_mut().unwrap().remove(name).unwrap());
    assert!(hashes.iter().all(|hash| hash.as_str().unwrap().len() == 64) && hashes[0] != hashes[1]);
    let plain = blake3::hash(GOOD.as_bytes()).to_hex().to_string();
    assert_ne!(hashes[1], json!(plain), "keyed: nobody can try out answers");
    let expected = json!({
        "model": "scripted", "accepted": true, "why": "accepted", "durationMs": 0, "memoryRef": "m", "outputId": "mem_new",
        "evidence": [{"line": 1, "source": "mem_1", "start": 0, "end": 18}, {"line": 1, "source": "mem_1", "start": 19, "end": 42}],
        "undo": {"archive": "ab".repeat(32), "replaces": ["mem_old"]},
    });
    assert_eq!(ledger, expected);
    assert!(!format!("{call:?}").contains("fish"));
}

#[tokio::test]
async fn without_a_model_rewrite_returns_none() {
    let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
    let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
    let clock = Arc::new(FixedClock::at(Timestamp(1)));
    let engine = Engine::new(EngineParts::new(
        store,
        directory,
        clock,
        Arc::new(CountedIds::default()),
        HostKey::new([3; 32]),
    ));
    assert!(!engine.has_model());
    assert!(
        engine
            .rewrite(&tenant(), &request(NOTE))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn failing_or_invalid_model_answers_yield_no_rewrite() {
    let good = || Ok(GOOD.to_owned());
    let rows = [
        (vec![Err(ModelError::Timeout), good()], "timeout", 1),
        (vec![Err(ModelError::Malformed), good()], "malformed", 1),
        (vec![Err(ModelError::TooLarge), good()], "too_large", 1),
        (vec![Err(ModelError::Status(429)), good()], "status", 1),
        (
            vec![
                Err(ModelError::Status(500)),
                Err(ModelError::Status(503)),
                good(),
            ],
            "status",
            2,
        ),
        (
            vec![
                Err(ModelError::Unreachable),
                Err(ModelError::Unreachable),
                good(),
            ],
            "unreachable",
            2,
        ),
        (vec![Err(ModelError::Unreachable), good()], "accepted", 2),
        (vec![], "timeout", 1),
        (vec![Ok("x".repeat(65_537)), good()], "too_large", 1),
        (vec![Ok("Sure!".to_owned()), good()], "not_json", 1),
        (
            vec![Ok(GOOD.replace("30", "31")), good()],
            "invented_number",
            1,
        ),
        (
            vec![Ok(GOOD.replace("does not like", "likes")), good()],
            "dropped_negation",
            1,
        ),
    ];
    for (answers, why, asked) in rows {
        let host = ModelTest::new(answers, None, Policy::default()).await;
        let call = host.call().await;
        assert_eq!(
            (
                call.outcome,
                call.rewrite.is_some(),
                host.model.take_requests().len()
            ),
            (why, why == "accepted", asked)
        );
        let ledger = body(&call);
        assert_eq!(
            (&ledger["why"], &ledger["accepted"]),
            (&json!(why), &json!(why == "accepted"))
        );
        assert_eq!(ledger["status"].is_number(), why == "status", "{why}");
        assert_eq!(
            ledger["evidence"].as_array().unwrap().is_empty(),
            why != "accepted"
        );
    }
}

#[tokio::test]
async fn secrets_are_neither_sent_to_the_model_nor_accepted_from_it() {
    // In the answer: redacted before any check, which then fails.
    let host = ModelTest::answering(&GOOD.replace("30 euros", SECRET)).await;
    host.secret("token", SECRET).await;
    let call = host.call().await;
    assert_eq!(
        (call.outcome, call.rewrite.is_none()),
        ("secret_in_answer", true)
    );
    // In the evidence: no request is sent to the model.
    let call = host
        .engine
        .rewrite(&tenant(), &request(&format!("Ann has the key {SECRET}.")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (
            call.outcome,
            call.rewrite.is_none(),
            host.model.take_requests().len()
        ),
        ("secret_in_evidence", true, 1)
    );
    assert!(!body(&call).to_string().contains(SECRET));
    // A redaction marker in the evidence may be copied.
    let host = ModelTest::answering(
        r#"{"lines": [{"text": "Ann has the key [REDACTED:token].", "from": [1]}]}"#,
    )
    .await;
    host.secret("token", SECRET).await;
    let call = host
        .engine
        .rewrite(&tenant(), &request("Ann has the key [REDACTED:token]."))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(call.outcome, "accepted");
}

#[tokio::test]
async fn the_model_api_key_comes_from_the_tenant_vault() {
    let host = ModelTest::new(
        vec![Ok(GOOD.to_owned())],
        Some("model-key"),
        Policy::default(),
    )
    .await;
    let call = host.call().await;
    assert_eq!(
        (call.outcome, host.model.take_requests().len()),
        ("no_key", 0)
    );
    host.secret("model-key", "the-key-of-the-model").await;
    let call = host.call().await;
    assert_eq!(call.outcome, "accepted");
    let asked = host.model.take_requests();
    assert_eq!(asked[0].1.as_deref(), Some("the-key-of-the-model"));
    assert!(!body(&call).to_string().contains("the-key"));
    // For another tenant it is not shown.
    let other = TenantId::parse("u").unwrap();
    host.engine
        .ensure_tenant(other.clone(), remem_core::ShapePolicy::default())
        .await
        .unwrap();
    assert_eq!(
        host.engine
            .rewrite(&other, &request(NOTE))
            .await
            .unwrap()
            .unwrap()
            .outcome,
        "no_key"
    );
}

#[tokio::test]
async fn a_prompt_over_the_size_limit_is_not_sent() {
    let host = ModelTest::new(
        vec![Ok(GOOD.to_owned())],
        None,
        Policy {
            model_prompt_bytes_max: 100,
            ..Policy::default()
        },
    )
    .await;
    assert_eq!(
        (host.call().await.outcome, host.model.take_requests().len()),
        ("prompt_too_large", 0)
    );
}

#[tokio::test]
async fn the_ledger_is_paged_redacted_and_requires_permission() {
    let host = ModelTest::new(
        (0..5).map(|_| Ok(GOOD.to_owned())).collect(),
        None,
        Policy::default(),
    )
    .await;
    for _ in 0..5 {
        let call = host.call().await;
        let batch = Batch::new(tenant(), host.engine.now()).set_record(
            RecordKind::ModelCall,
            call.key,
            Precondition::Absent,
            call.body,
        );
        assert!(host.store.commit(batch).await.unwrap().revision > Revision(0));
    }
    let (first, more) = host
        .engine
        .list_model_calls(&host.caller, None, Some(3))
        .await
        .unwrap();
    assert_eq!((first.len(), more), (3, true));
    let (rest, more) = host
        .engine
        .list_model_calls(&host.caller, Some(&first[2].id), Some(3))
        .await
        .unwrap();
    assert_eq!((rest.len(), more), (2, false));
    let ids: Vec<&str> = first
        .iter()
        .chain(&rest)
        .map(|call| call.id.as_str())
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    // A value that became a secret later is not shown.
    let known = rest[0].body["requestHash"].as_str().unwrap().to_owned();
    host.secret("late", &known).await;
    let (again, _) = host
        .engine
        .list_model_calls(&host.caller, None, None)
        .await
        .unwrap();
    assert!(
        again
            .iter()
            .all(|call| call.body["requestHash"] == json!("[REDACTED:late]")
                && call.body["why"] == json!("accepted"))
    );
    let all = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::MemoryAdmin)
        .collect();
    let request = KeyRequest {
        tenant: tenant(),
        label: String::new(),
        permissions: all,
        expires_at: None,
        principal: None,
        trust: None,
    };
    host.engine.add_key("other", request).await.unwrap();
    let other = host.engine.authenticate("other").await.unwrap();
    assert!(
        host.engine
            .list_model_calls(&other, None, None)
            .await
            .is_err()
    );
}
