//! Forgetting over HTTP: what is erased, what stays, what the report says; lineage, archives, and
//! who sees none of it.

use axum::http::StatusCode;
use remem_core::distill::Archive;
use remem_core::redact::Redactor;
use remem_core::{
    Admission, Batch, MemoryRef, Permission, Policy, Precondition, RecordKind, RetireReason,
    TenantId,
};
use remem_engine::forget::verify_report;
use remem_engine::jobs::Trigger;
use remem_engine::registry::{self, PassMode};
use remem_testkit::conformance::{admit, draft, id, scope};
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestResponse, TestServer};
use serde_json::{Map, Value, json};

const BASE: &str = "/v1/host/remembrancer";
/// Words that no answer, event or record may hold.
const SUBJECT: &str = "person: Zebulon Quillfeather";

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn ids(list: &Value) -> Vec<String> {
    let mut ids: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

async fn put(host: &TestServer, memory: &str, content: &str, subjects: &[&str]) -> String {
    let put = host
        .post(
            &format!("{MEMORY}/{memory}/entries"),
            json!({"content": content, "subjects": subjects}),
        )
        .await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.json());
    put.json()["id"].as_str().unwrap().to_owned()
}

/// An entry that a pass would have made from others.
async fn derive(
    host: &TestServer,
    name: &str,
    memory: &str,
    content: &str,
    sources: &[(&str, &str)],
) {
    let scope = scope("a", memory);
    let named = |(memory, name): &(&str, &str)| (MemoryRef::parse(memory).unwrap(), id(name));
    let sources = sources.iter().map(named).collect();
    let batch = Batch::new(scope.tenant.clone(), NOON).put_derived(
        id(name),
        admit(&scope, draft(content), NOON),
        sources,
    );
    host.store.commit(batch).await.unwrap();
}

async fn forget(host: &TestServer, subject: &str, dry_run: bool) -> Value {
    let answer = host
        .post(
            &format!("{BASE}/forget"),
            json!({"subject": subject, "dryRun": dry_run}),
        )
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
    answer.json()
}

async fn lineage(host: &TestServer, memory: &str, id: &str) -> TestResponse {
    host.get(&format!("{MEMORY}/{memory}/entries/{id}/lineage"))
        .await
}

async fn entry(host: &TestServer, memory: &str, id: &str) -> StatusCode {
    host.get(&format!("{MEMORY}/{memory}/entries/{id}"))
        .await
        .status
}

#[tokio::test]
async fn forget_erases_a_subject_and_everything_derived_from_it() {
    let host = TestServer::new().await;
    let about = put(&host, "m", "Zeb likes marzipan", &[SUBJECT, "team: blue"]).await;
    let other = put(&host, "m", "Mara likes nougat", &["person: Mara"]).await;
    derive(
        &host,
        "made",
        "m",
        "Zeb likes marzipan and Mara nougat",
        &[("m", &about), ("m", &other)],
    )
    .await;
    derive(
        &host,
        "again",
        "elsewhere",
        "somebody likes marzipan",
        &[("m", "made")],
    )
    .await;

    let before = lineage(&host, "m", "made").await.json();
    assert_eq!(
        (&before["state"], &before["support"], &before["memoryRef"]),
        (&json!("live"), &json!(1), &json!("m"))
    );
    assert_eq!(
        ids(&before["sources"]),
        ids(&json!([{"id": about}, {"id": other}]))
    );
    assert_eq!(
        before["derivatives"],
        json!([{"memoryRef": "elsewhere", "id": "again", "state": "live"}])
    );

    let planned = forget(&host, "PERSON:  zebulon  quillfeather", true).await;
    assert_eq!(planned["changed"], true);
    assert_eq!(
        ids(&planned["erased"]),
        ids(&json!([{"id": about}, {"id": "made"}, {"id": "again"}]))
    );
    assert!(planned.get("signature").is_none(), "nothing was done yet");
    assert_eq!(entry(&host, "m", "made").await, StatusCode::OK);
    assert_eq!(
        host.get(&format!("{BASE}/erasures")).await.json()["erasures"],
        json!([])
    );

    let done = forget(&host, "PERSON:  zebulon  quillfeather", false).await;
    assert_eq!(
        (done["changed"].clone(), ids(&done["erased"])),
        (json!(true), ids(&planned["erased"]))
    );
    assert_eq!(
        done["counts"],
        json!({"erased": 3, "revived": 0, "archives": 0, "commitments": 0})
    );
    for (memory, gone) in [("m", about.as_str()), ("m", "made"), ("elsewhere", "again")] {
        assert_eq!(
            entry(&host, memory, gone).await,
            StatusCode::NOT_FOUND,
            "{gone}"
        );
        let skeleton = lineage(&host, memory, gone).await.json();
        assert_eq!(
            skeleton["state"], "forgotten",
            "{gone} still tells where it came from"
        );
    }
    assert_eq!(entry(&host, "m", &other).await, StatusCode::OK);
    let found = host
        .post(&format!("{MEMORY}/m/search"), json!({"query": "marzipan"}))
        .await
        .json();
    assert_eq!(found["hits"], json!([]));

    let again = forget(&host, SUBJECT, false).await;
    assert_eq!(
        (again["changed"].clone(), again["counts"]["erased"].clone()),
        (json!(false), json!(0))
    );
    let events = String::from_utf8(host.get(&format!("{BASE}/events")).await.bytes).unwrap();
    assert!(
        events.contains("forgotten") && !events.to_lowercase().contains("quillfeather"),
        "{events}"
    );
}

#[tokio::test]
async fn erasure_reports_are_kept_and_verify() {
    let host = TestServer::new().await;
    for n in 0..3 {
        put(
            &host,
            "m",
            &format!("fact {n}"),
            &[&format!("{SUBJECT} {n}")],
        )
        .await;
        forget(&host, &format!("{SUBJECT} {n}"), false).await;
    }
    let first = host.get(&format!("{BASE}/erasures?limit=2")).await.json();
    assert_eq!(first["erasures"].as_array().unwrap().len(), 2);
    let next = first["nextAfter"].as_str().unwrap();
    let second = host
        .get(&format!("{BASE}/erasures?limit=2&after={next}"))
        .await
        .json();
    assert_eq!(
        (
            second["erasures"].as_array().unwrap().len(),
            second.get("nextAfter")
        ),
        (1, None)
    );
    let key = first["publicKey"].as_str().unwrap();
    for one in [
        &first["erasures"][0],
        &first["erasures"][1],
        &second["erasures"][0],
    ] {
        assert_eq!(
            one["counts"],
            json!({"erased": 1, "revived": 0, "archives": 0, "commitments": 0})
        );
        let report = host
            .get(&format!("{BASE}/erasures/{}", one["id"].as_str().unwrap()))
            .await
            .json();
        assert!(verify_report(&map(&report), key), "{report}");
        let mut forged = map(&report);
        forged.insert(
            "counts".into(),
            json!({"erased": 0, "revived": 0, "archives": 0}),
        );
        assert!(
            !verify_report(&forged, key),
            "a count is part of what is signed"
        );
        assert!(
            !report.to_string().to_lowercase().contains("quillfeather"),
            "{report}"
        );
        assert_eq!(
            report["backups"]["heldUntil"],
            Value::Null,
            "nobody said how long copies are kept"
        );
    }
    put(&host, "m", "one more", &[SUBJECT]).await;
    let answer = forget(&host, SUBJECT, false).await;
    assert!(
        verify_report(&map(&answer), key),
        "the answer itself is a report"
    );
}

/// The answer to a forget that takes too long is the job that goes on with it.
#[tokio::test]
async fn a_long_forget_goes_on_as_a_job() {
    let policy = Policy {
        forget_wait_ms_max: 0,
        erasure_named_max: 1,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    for n in 0..3 {
        put(&host, "m", &format!("fact {n}"), &[SUBJECT]).await;
    }
    let request = json!({"subject": SUBJECT});
    let path = format!("{BASE}/forget");
    let answer = host.post(&path, request.clone()).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.json());
    let job = answer.json();
    let at = format!("{BASE}/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(answer.headers["location"], at.as_str());
    assert_eq!(
        (&job["pass"], &job["state"]),
        (&json!("forget"), &json!("queued"))
    );
    let again = host.post(&path, request.clone()).await;
    assert_eq!(again.json()["id"], job["id"], "it is under way");
    let tenant = TenantId::parse("a").unwrap();
    let pass = registry::find("forget").unwrap();
    host.engine
        .run_pass(pass, &tenant, PassMode::Apply)
        .await
        .unwrap();
    let done = host.get(&at).await.json();
    assert_eq!(
        (&done["state"], &done["changed"]),
        (&json!("done"), &json!(3))
    );
    assert!(!done.to_string().to_lowercase().contains("quillfeather"));
    let id = done["detail"]["reportId"].as_str().unwrap();
    let report = host.get(&format!("{BASE}/erasures/{id}")).await.json();
    let key = host.get(&format!("{BASE}/erasures")).await.json()["publicKey"].clone();
    assert!(verify_report(&map(&report), key.as_str().unwrap()));
    assert_eq!(report["pages"].as_array().unwrap().len(), 1, "{report}");
    let page = host.get(&format!("{BASE}/erasures/{id}/pages/1")).await;
    assert_eq!(page.json()["erased"].as_array().unwrap().len(), 3);
    let other = host.get(&format!("{BASE}/erasures/{id}/pages/2")).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
    // Nothing is left to do, so no job is needed.
    let over = host.post(&path, request).await;
    assert_eq!(
        (over.status, &over.json()["changed"]),
        (StatusCode::OK, &json!(false))
    );
}

#[tokio::test]
async fn forgetting_an_entry_revives_entries_merged_into_it() {
    let host = TestServer::new().await;
    let kept = put(&host, "m", "the office closes at six", &[SUBJECT]).await;
    let merged = put(&host, "m", "the office closes at 6", &[]).await;
    let tenant = TenantId::parse("a").unwrap();
    let memory = MemoryRef::parse("m").unwrap();
    let retire =
        Batch::new(tenant, NOON).retire(memory, id(&merged), RetireReason::Merged, id(&kept));
    host.store.commit(retire).await.unwrap();
    let before = lineage(&host, "m", &merged).await.json();
    assert_eq!(
        (&before["state"], &before["replacedBy"]),
        (&json!("merged"), &json!(kept))
    );
    assert_eq!(lineage(&host, "m", &kept).await.json()["support"], 2);
    assert_eq!(entry(&host, "m", &merged).await, StatusCode::NOT_FOUND);

    let done = forget(&host, SUBJECT, false).await;
    assert_eq!(
        (ids(&done["erased"]), ids(&done["revived"])),
        (vec![kept.clone()], vec![merged.clone()])
    );
    assert_eq!(
        (
            entry(&host, "m", &kept).await,
            entry(&host, "m", &merged).await
        ),
        (StatusCode::NOT_FOUND, StatusCode::OK)
    );
    assert_eq!(lineage(&host, "m", &merged).await.json()["state"], "live");
}

/// A memory with enough in it to be distilled; answers the distillation's archive.
async fn distilled(host: &TestServer, memory: &str) -> Value {
    for n in 0..12 {
        let text = format!(
            "Fact {n}: the harbour of Calewick has {} cranes, and pier {n} was built in 19{:02}.",
            n + 3,
            40 + n
        );
        put(host, memory, &text, &[]).await;
    }
    put(
        host,
        memory,
        "The harbour master Zebulon keeps the key of pier seven in a marzipan tin.",
        &[SUBJECT],
    )
    .await;
    let tenant = TenantId::parse("a").unwrap();
    let memory_ref = MemoryRef::parse(memory).unwrap();
    let work = host
        .engine
        .run_job_and_wait(
            &tenant,
            "distill",
            Some(&memory_ref),
            Map::new(),
            Trigger::OnDemand,
        )
        .await;
    assert_eq!(work.unwrap().changed, 1);
    let listed = host
        .get(&format!("{MEMORY}/{memory}/archives"))
        .await
        .json();
    assert_eq!(listed["archives"].as_array().unwrap().len(), 1, "{listed}");
    listed["archives"][0].clone()
}

#[tokio::test]
async fn an_archive_is_served_byte_for_byte_and_gone_after_erasure() {
    let host = TestServer::new().await;
    let archive = distilled(&host, "m").await;
    assert_eq!(
        (&archive["erased"], &archive["sourceCount"]),
        (&json!(false), &json!(13))
    );
    let name = archive["sha256"].as_str().unwrap();
    let path = format!("{MEMORY}/m/archives/{name}");
    let kept = host.get(&path).await;
    assert_eq!(
        (
            kept.status,
            kept.header("content-type"),
            kept.header("cache-control")
        ),
        (StatusCode::OK, "application/json", "no-store")
    );
    assert_eq!(kept.header("etag"), format!("\"{name}\""));
    assert_eq!(Archive::parse(&kept.bytes).unwrap().sha256(), name);
    assert!(
        String::from_utf8_lossy(&kept.bytes).contains("marzipan"),
        "positive control"
    );
    let unknown = host.get(&format!("{MEMORY}/other/archives/{name}")).await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.code().as_str()),
        (404, "not_found"),
        "an archive belongs to its memory"
    );

    let done = forget(&host, SUBJECT, false).await;
    assert_eq!(
        (&done["archives"], &done["counts"]["erased"]),
        (&json!([name]), &json!(2)),
        "the entry and the digest of it"
    );
    let gone = host.get(&path).await;
    assert_eq!(
        (gone.status.as_u16(), gone.code().as_str()),
        (410, "archive_erased")
    );
    let listed = host.get(&format!("{MEMORY}/m/archives")).await.json();
    assert_eq!(
        (
            &listed["archives"][0]["erased"],
            &listed["archives"][0]["topics"]
        ),
        (&json!(true), &json!([]))
    );
    let files = host.get("/v1/host/workspace/files").await.json();
    for file in files["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let newest = file["version"].as_u64().unwrap();
        for version in 1..=newest {
            let read = host
                .get(&format!(
                    "/v1/host/workspace/files/{path}?version={version}"
                ))
                .await;
            assert!(
                !String::from_utf8_lossy(&read.bytes).contains(name),
                "{path} at {version} tells of what is gone"
            );
        }
    }
}

#[tokio::test]
async fn a_model_rewrite_can_be_undone() {
    let host = TestServer::new().await;
    let archive = distilled(&host, "m").await;
    let written = archive["entryId"].as_str().unwrap();
    let plain = Archive::parse(
        &host
            .get(&format!(
                "{MEMORY}/m/archives/{}",
                archive["sha256"].as_str().unwrap()
            ))
            .await
            .bytes,
    )
    .unwrap();
    // The ledger's entry, as a model's call would have left it.
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOON,
    };
    let body = admission.redact_record(map(
        &json!({"accepted": true, "memoryRef": "m", "outputId": written}),
    ));
    let call = Batch::new(TenantId::parse("a").unwrap(), NOON).set_record(
        RecordKind::ModelCall,
        "call_1".into(),
        Precondition::Absent,
        body,
    );
    host.store.commit(call).await.unwrap();
    host.key("b", "key-of-b", &Permission::ALL).await;
    let undo = format!("{BASE}/model-calls/call_1/undo");
    assert_eq!(
        host.call("key-of-b", "POST", &undo, &[], "").await.status,
        StatusCode::NOT_FOUND,
        "it is not the other tenant's"
    );

    let undone = host.call("key-of-a", "POST", &undo, &[], "").await;
    assert_eq!(undone.status, StatusCode::OK, "{}", undone.json());
    let renewed = undone.json()["entryId"].as_str().unwrap().to_owned();
    let read = host
        .get(&format!("{MEMORY}/m/entries/{renewed}"))
        .await
        .json();
    assert_eq!(read["content"].as_str().unwrap(), plain.text());
    assert_eq!(entry(&host, "m", written).await, StatusCode::NOT_FOUND);
    assert_eq!(
        lineage(&host, "m", &renewed).await.json()["sources"]
            .as_array()
            .unwrap()
            .len(),
        13
    );
    assert_eq!(
        host.call("key-of-a", "POST", &undo, &[], "").await.status,
        StatusCode::NOT_FOUND,
        "once is enough"
    );
    let done = forget(&host, SUBJECT, false).await;
    assert!(
        ids(&done["erased"]).contains(&renewed),
        "what came in its place is found as well"
    );
}

#[tokio::test]
async fn every_write_operation_accepts_subjects() {
    let host = TestServer::new().await;
    let batch = json!({"entries": [{"content": "one", "subjects": [SUBJECT]}, {"content": "two"}]});
    assert_eq!(
        host.post(&format!("{MEMORY}/m/entries:batch"), batch)
            .await
            .status,
        StatusCode::CREATED
    );
    let import = json!({"entries": [{"id": "old", "content": "three", "subjects": [SUBJECT]}]});
    assert_eq!(
        host.post(&format!("{MEMORY}/m/entries:import"), import.clone())
            .await
            .status,
        StatusCode::OK
    );
    assert_eq!(forget(&host, SUBJECT, false).await["counts"]["erased"], 2);
    let left = host.get(&format!("{MEMORY}/m/entries")).await.json();
    assert_eq!(left["entries"].as_array().unwrap().len(), 1);
    let again = host
        .post(&format!("{MEMORY}/m/entries:import"), import)
        .await
        .json();
    assert_eq!(
        again["skipped"], 1,
        "what was forgotten is not imported back"
    );

    let path = format!("{MEMORY}/m/entries");
    let put = async |body: Value| {
        host.call(
            "key-of-a",
            "POST",
            &path,
            &[("idempotency-key", "k")],
            body.to_string(),
        )
        .await
    };
    let first = put(json!({"content": "x", "subjects": [SUBJECT]})).await;
    assert_eq!(first.status, StatusCode::CREATED);
    assert_eq!(
        put(json!({"content": "x", "subjects": [SUBJECT]}))
            .await
            .json(),
        first.json()
    );
    for other in [
        json!({"content": "x"}),
        json!({"content": "x", "subjects": ["somebody else"]}),
    ] {
        assert_eq!(
            put(other).await.code(),
            "idempotency_key_mismatch",
            "whom it is about is part of the request"
        );
    }
}

#[tokio::test]
async fn forget_and_its_reports_are_isolated_by_tenant() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let about = put(&host, "m", "Zeb likes marzipan", &[SUBJECT]).await;
    let archive = distilled(&host, "n").await;
    let strange = async |method: &str, path: String, body: &str| {
        host.call("key-of-b", method, &path, &[], body.to_owned())
            .await
    };
    let same = json!({"subject": SUBJECT}).to_string();
    let forgotten = strange("POST", format!("{BASE}/forget"), &same)
        .await
        .json();
    assert_eq!(
        (&forgotten["changed"], &forgotten["erased"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(entry(&host, "m", &about).await, StatusCode::OK);

    let report = forget(&host, SUBJECT, false).await;
    assert_ne!(
        report["subject"], forgotten["subject"],
        "the same words are another digest elsewhere"
    );
    for path in [
        format!("{MEMORY}/m/entries/{about}/lineage"),
        format!(
            "{MEMORY}/n/archives/{}",
            archive["sha256"].as_str().unwrap()
        ),
        format!("{BASE}/erasures/{}", report["id"].as_str().unwrap()),
    ] {
        assert_ne!(
            host.get(&path).await.status,
            StatusCode::NOT_FOUND,
            "positive control: {path}"
        );
        let refused = strange("GET", path.clone(), "").await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (404, "not_found"),
            "{path}"
        );
    }
    assert_eq!(
        strange("GET", format!("{MEMORY}/n/archives"), "")
            .await
            .json(),
        json!({"archives": []})
    );
    assert_eq!(
        strange("GET", format!("{BASE}/erasures"), "").await.json()["erasures"],
        json!([])
    );
}
