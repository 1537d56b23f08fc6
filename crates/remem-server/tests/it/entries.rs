//! Entries over HTTP: what is put is read back, pages join up, writes can be repeated, reads can
//! insist on a revision.

use axum::http::StatusCode;
use remem_core::Permission;
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestServer};
use serde_json::json;

#[tokio::test]
async fn put_get_list_search_delete() {
    let host = TestServer::new().await;
    let put = host
        .post(
            &format!("{MEMORY}/m%2F1/entries"),
            json!({"content": "Ana drinks tea", "tags": ["source:chat"], "metadata": {"k": 1}}),
        )
        .await;
    assert_eq!(put.status, StatusCode::CREATED);
    let entry = put.json();
    assert_eq!(
        entry,
        json!({"id": entry["id"], "content": "Ana drinks tea", "tags": ["source:chat"], "createdAt": "2023-11-14T22:13:20.000Z"})
    );
    assert_eq!(
        (put.header("remem-revision"), put.header("cache-control")),
        ("1", "no-store")
    );
    let id = entry["id"].as_str().unwrap();
    assert_eq!(
        host.get(&format!("{MEMORY}/m%2F1/entries/{id}"))
            .await
            .json(),
        entry
    );
    assert_eq!(
        host.get(&format!("{MEMORY}/m%2F1/entries/{id}/metadata"))
            .await
            .json(),
        json!({"metadata": {"k": 1}})
    );
    assert_eq!(
        host.get(&format!("{MEMORY}/m%2F1/entries")).await.json(),
        json!({"entries": [entry]})
    );
    let with = host
        .get(&format!("{MEMORY}/m%2F1/entries?include=metadata"))
        .await
        .json();
    assert_eq!(
        with,
        json!({"entries": [entry], "metadata": {id: {"k": 1}}})
    );
    let hits = host
        .post(&format!("{MEMORY}/m%2F1/search"), json!({"query": "tea"}))
        .await
        .json();
    assert_eq!(
        hits["hits"][0]["score"],
        json!(1.0),
        "the best hit is the measure of the others"
    );
    assert_eq!(
        (&hits["hits"][0]["entry"], &hits["hits"][0]["metadata"]),
        (&entry, &json!({"k": 1}))
    );
    let stats = host.get(&format!("{MEMORY}/m%2F1/stats")).await.json();
    assert_eq!(
        (&stats["entries"], &stats["contentBytes"]),
        (&json!(1), &json!(14))
    );
    let memories = host.get(MEMORY).await.json();
    assert_eq!(
        memories,
        json!({"memories": [{"memoryRef": "m/1", "entries": 1}]})
    );
    let deleted = host.delete(&format!("{MEMORY}/m%2F1/entries/{id}")).await;
    assert_eq!(
        (
            deleted.status,
            deleted.header("remem-revision"),
            deleted.bytes.len()
        ),
        (StatusCode::NO_CONTENT, "2", 0)
    );
    assert_eq!(
        host.get(&format!("{MEMORY}/m%2F1/entries/{id}"))
            .await
            .code(),
        "not_found"
    );
    assert_eq!(
        host.delete(&format!("{MEMORY}/m%2F1/entries/{id}"))
            .await
            .status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn pages_are_contiguous_and_limits_are_applied() {
    let host = TestServer::new().await;
    let entries: Vec<_> =
        (0..250).map(|n| json!({"content": format!("n{n}"), "tags": [if n % 2 == 0 { "even" } else { "odd" }]})).collect();
    let batch = host
        .post(
            &format!("{MEMORY}/m/entries:batch"),
            json!({"entries": entries}),
        )
        .await;
    assert_eq!(
        (
            batch.status,
            batch.json()["entries"].as_array().unwrap().len()
        ),
        (StatusCode::CREATED, 250)
    );
    let count = async |query: &str| {
        host.get(&format!("{MEMORY}/m/entries{query}")).await.json()["entries"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (
            count("").await,
            count("?limit=0").await,
            count("?limit=7").await,
            count("?limit=100000").await
        ),
        (100, 250, 7, 250)
    );
    assert_eq!(count("?tag=even&limit=0").await, 125);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = host
            .get(&format!("{MEMORY}/m/entries?limit=60&tag=odd{cursor}"))
            .await
            .json();
        seen.extend(
            page["entries"]
                .as_array()
                .unwrap()
                .iter()
                .map(|e| e["content"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let mut expected: Vec<String> = (0..250)
        .filter(|n| n % 2 == 1)
        .map(|n| format!("n{n}"))
        .collect();
    expected.reverse();
    assert_eq!(seen, expected);
    let foreign = host
        .get(&format!("{MEMORY}/other/entries?x=1{cursor}"))
        .await;
    assert_eq!(
        foreign.status,
        StatusCode::BAD_REQUEST,
        "unknown parameters are refused"
    );
    let foreign = host
        .get(&format!("{MEMORY}/other/entries?limit=1{cursor}"))
        .await;
    assert_eq!(
        (foreign.status.as_u16(), foreign.code().as_str()),
        (422, "validation_error"),
        "a cursor belongs to its list"
    );
}

#[tokio::test]
async fn a_batch_is_all_or_nothing() {
    let host = TestServer::new().await;
    let bad = host
        .post(
            &format!("{MEMORY}/m/entries:batch"),
            json!({"entries": [{"content": "fine"}, {"content": ""}]}),
        )
        .await;
    assert_eq!(bad.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        host.get(&format!("{MEMORY}/m/stats")).await.json()["entries"],
        json!(0)
    );
    assert_eq!(
        host.get("/v1/host/remembrancer/events").await.json(),
        json!({"events": [], "nextAfter": 0})
    );
}

#[tokio::test]
async fn the_same_idempotency_key_and_body_replay_the_first_response() {
    let host = TestServer::new().await;
    let path = format!("{MEMORY}/m/entries");
    let put = async |key: &str, body: &str| {
        host.call(
            "key-of-a",
            "POST",
            &path,
            &[("idempotency-key", key)],
            body.to_owned(),
        )
        .await
    };
    let first = put("k1", r#"{"content": "x", "tags": ["a"]}"#).await;
    let again = put("k1", r#"{ "tags": ["a"], "content": "x" }"#).await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(
        (
            first.header("openwop-idempotent-replay"),
            again.header("openwop-idempotent-replay")
        ),
        ("", "true")
    );
    assert_eq!(again.header("remem-revision"), "1");
    let other = put("k1", r#"{"content": "y"}"#).await;
    assert_eq!(
        (other.status.as_u16(), other.code().as_str()),
        (409, "idempotency_key_mismatch")
    );
    // The first answer is given again even after the entry is gone, and without a stored copy of
    // its text.
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let delete = async |key: &str| {
        host.call(
            "key-of-a",
            "DELETE",
            &format!("{path}/{id}"),
            &[("idempotency-key", key)],
            "",
        )
        .await
    };
    assert_eq!(delete("d1").await.status, StatusCode::NO_CONTENT);
    assert_eq!(delete("d1").await.status, StatusCode::NO_CONTENT);
    assert_eq!(delete("d2").await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        put("k1", r#"{"content": "x", "tags": ["a"]}"#).await.json(),
        first.json()
    );
    assert_eq!(host.get(&path).await.json(), json!({"entries": []}));
    host.key("b", "key-of-b", &Permission::ALL).await;
    let stranger = host
        .call(
            "key-of-b",
            "POST",
            &path,
            &[("idempotency-key", "k1")],
            r#"{"content": "y"}"#.to_owned(),
        )
        .await;
    assert_eq!(
        stranger.status,
        StatusCode::CREATED,
        "a key belongs to its tenant"
    );
}

#[tokio::test]
async fn a_read_can_require_a_minimum_revision() {
    let policy = remem_core::Policy {
        at_least_wait_ms_max: 50,
        ..remem_core::Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    let put = host
        .post(&format!("{MEMORY}/m/entries"), json!({"content": "x"}))
        .await;
    let token = put.header("remem-revision").to_owned();
    for path in ["entries", "stats"] {
        assert_eq!(
            host.get(&format!("{MEMORY}/m/{path}?atLeast={token}"))
                .await
                .status,
            StatusCode::OK
        );
    }
    assert_eq!(
        host.post(
            &format!("{MEMORY}/m/search"),
            json!({"query": "x", "atLeast": token})
        )
        .await
        .status,
        StatusCode::OK
    );
    let future = host.get(&format!("{MEMORY}/m/entries?atLeast=99")).await;
    assert_eq!(
        (
            future.status.as_u16(),
            future.code().as_str(),
            future.header("retry-after")
        ),
        (503, "revision_not_reached", "1")
    );
}

#[tokio::test]
async fn an_entry_expires_at_its_millisecond_and_is_not_revived() {
    let host = TestServer::new().await;
    let path = format!("{MEMORY}/m/entries");
    let put = host
        .post(
            &path,
            json!({"content": "falcon", "expiresAt": NOON.0 + 1_000}),
        )
        .await;
    assert_eq!(put.json()["expiresAt"], json!("2023-11-14T22:13:21.000Z"));
    let visible = async || {
        let listed = host.get(&path).await.json()["entries"]
            .as_array()
            .unwrap()
            .len();
        let found = host
            .post(&format!("{MEMORY}/m/search"), json!({"query": "falcon"}))
            .await
            .json()["hits"]
            .as_array()
            .unwrap()
            .len();
        (listed, found)
    };
    host.clock.set(NOON.plus_ms(999));
    assert_eq!(visible().await, (1, 1));
    host.clock.set(NOON.plus_ms(1_000));
    assert_eq!(visible().await, (0, 0));
    host.clock.set(NOON.plus_ms(-86_400_000));
    assert_eq!(
        visible().await,
        (0, 0),
        "a clock that jumps back brings nothing back"
    );
    let past = host
        .post(
            &path,
            json!({"content": "x", "expiresAt": "2023-11-14T22:13:20.999Z"}),
        )
        .await;
    assert_eq!(
        (past.status.as_u16(), past.code().as_str()),
        (422, "validation_error")
    );
    let purged = host
        .post("/v1/host/remembrancer/passes/purge/run", json!({}))
        .await
        .json();
    assert_eq!(purged, json!({"examined": 1, "changed": 1, "more": false}));
    let events = host.get("/v1/host/remembrancer/events").await.json();
    assert_eq!(events["events"][1]["type"], json!("memory.expired"));
}

#[tokio::test]
async fn secrets_are_redacted_on_write_and_again_on_read() {
    let host = TestServer::with_policy(
        remem_core::Policy::default(),
        vec![("db", "hunter2-hunter2")],
    )
    .await;
    let put = host
        .post(
            &format!("{MEMORY}/m/entries"),
            json!({"content": "pw hunter2-hunter2", "tags": ["hunter2-hunter2"]}),
        )
        .await;
    assert_eq!(
        (&put.json()["content"], &put.json()["tags"]),
        (&json!("pw [REDACTED:db]"), &json!(["[REDACTED:db]"]))
    );
    let refused = host
        .post(
            &format!("{MEMORY}/hunter2-hunter2/entries"),
            json!({"content": "x"}),
        )
        .await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        !String::from_utf8(refused.bytes)
            .unwrap()
            .contains("hunter2")
    );
    for (path, body) in [
        (
            "keys",
            json!({"scopes": ["memory:read"], "label": "hunter2-hunter2"}),
        ),
        ("tenants", json!({"id": "hunter2-hunter2"})),
    ] {
        let refused = host
            .post(&format!("/v1/host/remembrancer/{path}"), body)
            .await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (422, "validation_error"),
            "{path}"
        );
    }
    // Written while shapes were off, read after the tenant's policy was made stricter.
    let tenant = |shapes: &str| json!({"id": "a", "shapes": shapes});
    host.post("/v1/host/remembrancer/tenants", tenant("off"))
        .await;
    let aws = "key AKIAQ3EGRIZNHQDLXJ7B end";
    let off = host
        .post(&format!("{MEMORY}/m/entries"), json!({"content": aws}))
        .await
        .json();
    assert_eq!(off["content"], json!(aws));
    host.post("/v1/host/remembrancer/tenants", tenant("redact"))
        .await;
    let read = host
        .get(&format!(
            "{MEMORY}/m/entries/{}",
            off["id"].as_str().unwrap()
        ))
        .await
        .json();
    assert!(
        !read["content"]
            .as_str()
            .unwrap()
            .contains("AKIAQ3EGRIZNHQDLXJ7B"),
        "{read}"
    );
    host.post("/v1/host/remembrancer/tenants", tenant("flag"))
        .await;
    let flagged = host
        .post(&format!("{MEMORY}/m/entries"), json!({"content": aws}))
        .await
        .json();
    assert_eq!(flagged["content"], json!(aws));
    let events = host
        .get("/v1/host/remembrancer/events?after=2")
        .await
        .json();
    assert_eq!(
        events["events"][0]["payload"]["flags"]
            .as_array()
            .map(Vec::len),
        Some(1),
        "{events}"
    );
}
