//! Workspace files: versions, conditions, limits, redaction, isolation, events.

use remem_core::{Permission, Policy, RecordKind, TenantId};
use remem_testkit::{TestResponse, TestServer};
use serde_json::json;

const FILES: &str = "/v1/host/workspace/files";

async fn put(host: &TestServer, path: &str, content: &str, if_match: Option<&str>) -> TestResponse {
    let headers: Vec<(&str, &str)> = if_match
        .map(|etag| ("if-match", etag))
        .into_iter()
        .collect();
    host.call(
        "key-of-a",
        "PUT",
        &format!("{FILES}/{path}"),
        &headers,
        json!({"content": content}).to_string(),
    )
    .await
}

#[tokio::test]
async fn file_versions_restart_after_a_delete() {
    let host = TestServer::new().await;
    for round in 0..2 {
        let first = put(&host, "behavior%2FCRUD.md", "one", None).await;
        assert_eq!(
            (first.status.as_u16(), &first.json()["version"]),
            (200, &json!(1)),
            "round {round}: {}",
            first.json()
        );
        let file = first.json();
        assert_eq!(
            (&file["path"], &file["content"], &file["contentType"]),
            (
                &json!("behavior/CRUD.md"),
                &json!("one"),
                &json!("text/markdown")
            )
        );
        assert_eq!(first.header("etag"), file["etag"].as_str().unwrap());
        let second = put(&host, "behavior/CRUD.md", "two", None).await.json();
        assert_eq!(second["version"], 2, "a slash may be encoded or not");
        assert_eq!(
            host.get(&format!("{FILES}/behavior%2FCRUD.md"))
                .await
                .json(),
            second
        );
        assert_eq!(
            host.get(&format!("{FILES}/behavior/CRUD.md?version=1"))
                .await
                .json()["content"],
            "one"
        );
        assert_eq!(
            host.get(&format!("{FILES}/behavior/CRUD.md?version=3"))
                .await
                .status,
            404
        );
        let listed = host.get(&format!("{FILES}?prefix=behavior/")).await.json();
        assert_eq!(listed["files"][0]["path"], "behavior/CRUD.md");
        assert!(
            listed["files"][0].get("content").is_none(),
            "a list holds no texts"
        );
        assert_eq!(
            host.get(&format!("{FILES}?prefix=other")).await.json(),
            json!({"files": []})
        );
        assert_eq!(
            host.delete(&format!("{FILES}/behavior/CRUD.md"))
                .await
                .status,
            204
        );
        for gone in ["", "?version=1", "?version=2"] {
            assert_eq!(
                host.get(&format!("{FILES}/behavior/CRUD.md{gone}"))
                    .await
                    .status,
                404
            );
        }
        assert_eq!(
            host.delete(&format!("{FILES}/behavior/CRUD.md"))
                .await
                .status,
            404
        );
    }
    let events = host.get("/v1/host/remembrancer/events").await.json();
    let reported: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["type"].clone(), e["payload"].clone()))
        .collect();
    let updated = |version: u64| {
        (
            json!("workspace.updated"),
            json!({"path": "behavior/CRUD.md", "version": version}),
        )
    };
    assert_eq!(
        reported,
        [
            updated(1),
            updated(2),
            updated(3),
            updated(1),
            updated(2),
            updated(3)
        ]
    );
}

#[tokio::test]
async fn a_failed_condition_reports_the_current_version() {
    let host = TestServer::new().await;
    let missing = put(&host, "a.md", "x", Some("\"1-0123456789abcdef\"")).await;
    assert_eq!(
        (missing.status.as_u16(), missing.code().as_str()),
        (409, "workspace_conflict")
    );
    assert_eq!(missing.json()["details"], json!({"currentVersion": 0}));
    let first = put(&host, "a.md", "one", None).await.json();
    let etag = first["etag"].as_str().unwrap().to_owned();
    for good in [
        etag.clone(),
        etag.trim_matches('"').to_owned(),
        format!("W/{etag}"),
    ] {
        let newest = host.get(&format!("{FILES}/a.md")).await.json()["etag"]
            .as_str()
            .unwrap()
            .to_owned();
        let asked = if newest == etag { good } else { newest };
        assert_eq!(
            put(&host, "a.md", "again", Some(&asked)).await.status,
            200,
            "{asked}"
        );
    }
    let stale = put(&host, "a.md", "lost", Some(&etag)).await;
    assert_eq!(
        (stale.status.as_u16(), stale.json()["details"].clone()),
        (409, json!({"currentVersion": 4}))
    );
    let kept = host
        .call(
            "key-of-a",
            "DELETE",
            &format!("{FILES}/a.md"),
            &[("if-match", &etag)],
            "",
        )
        .await;
    assert_eq!(kept.status, 409);
    assert_eq!(
        host.get(&format!("{FILES}/a.md")).await.json()["content"],
        "again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_conditional_writers_exactly_one_succeeds() {
    let host = TestServer::new().await;
    put(&host, "a.md", "one", None).await;
    for _ in 0..20 {
        let etag = host.get(&format!("{FILES}/a.md")).await.json()["etag"]
            .as_str()
            .unwrap()
            .to_owned();
        let (a, b) = tokio::join!(
            put(&host, "a.md", "left", Some(&etag)),
            put(&host, "a.md", "right", Some(&etag))
        );
        let mut statuses = [a.status.as_u16(), b.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
    }
    assert_eq!(
        host.get(&format!("{FILES}/a.md")).await.json()["version"],
        21
    );
    // Without a condition both are written, one after the other.
    let (a, b) = tokio::join!(
        put(&host, "a.md", "left", None),
        put(&host, "a.md", "right", None)
    );
    assert_eq!((a.status.as_u16(), b.status.as_u16()), (200, 200));
    assert_eq!(
        host.get(&format!("{FILES}/a.md")).await.json()["version"],
        23
    );
}

#[tokio::test]
async fn files_are_limited_and_unsafe_paths_refused() {
    let policy = Policy {
        file_bytes_max: 10,
        files_max: 3,
        file_versions_max: 2,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    let large = put(&host, "a.md", "eleven char", None).await;
    assert_eq!(
        (large.status.as_u16(), large.code().as_str()),
        (413, "workspace_too_large")
    );
    assert_eq!(large.json()["details"]["limit"], 10);
    for bad in [
        "..%2Fa",
        "a%2F..%2Fb",
        "%2Fa",
        ".hidden",
        "a%20b",
        "a%00",
        "%E4",
        "a//b",
        "a@1",
        &"x".repeat(257),
    ] {
        assert_eq!(put(&host, bad, "x", None).await.status, 422, "{bad}");
        assert_eq!(
            host.get(&format!("{FILES}/{bad}")).await.status,
            404,
            "{bad}"
        );
        assert_eq!(
            host.delete(&format!("{FILES}/{bad}")).await.status,
            404,
            "{bad}"
        );
    }
    for n in 0..5 {
        put(&host, "a.md", &format!("v{n}"), None).await;
    }
    let kept: Vec<bool> = {
        let mut kept = Vec::new();
        for version in 1..=5 {
            kept.push(
                host.get(&format!("{FILES}/a.md?version={version}"))
                    .await
                    .status
                    == 200,
            );
        }
        kept
    };
    assert_eq!(
        kept,
        [false, false, false, true, true],
        "two versions are kept"
    );
    assert_eq!(put(&host, "b.md", "x", None).await.status, 200);
    assert_eq!(put(&host, "c.md", "x", None).await.status, 200);
    assert_eq!(
        put(&host, "d.md", "x", None).await.status,
        422,
        "three files are enough"
    );
    assert_eq!(
        put(&host, "a.md", "x", None).await.status,
        200,
        "an old one may still be written"
    );
    let unknown = host
        .call(
            "key-of-a",
            "PUT",
            &format!("{FILES}/a.md"),
            &[],
            r#"{"content": "x", "canary": 1}"#,
        )
        .await;
    assert_eq!(unknown.status, 400);
    assert!(!String::from_utf8_lossy(&unknown.bytes).contains("canary"));
}

#[tokio::test]
async fn files_are_redacted_and_isolated_by_tenant() {
    let host = TestServer::with_policy(Policy::default(), vec![("db", "hunter2-hunter2")]).await;
    let file = put(&host, "a.md", "the password is hunter2-hunter2", None)
        .await
        .json();
    assert_eq!(file["content"], "the password is [REDACTED:db]");
    for kind in [RecordKind::File, RecordKind::FileVersion] {
        let kept = host
            .env
            .store
            .records(&TenantId::parse("a").unwrap(), kind, "", None, 9)
            .await
            .unwrap();
        assert_eq!(kept.len(), 1);
        assert!(
            !json!(kept[0].body).to_string().contains("hunter2"),
            "it is stored like that, not only shown like that"
        );
    }
    let named = put(&host, "hunter2-hunter2.md", "x", None).await;
    assert_eq!(named.status, 422);
    assert!(!String::from_utf8_lossy(&named.bytes).contains("hunter2"));
    host.key("b", "key-of-b", &Permission::ALL).await;
    let theirs = async |method: &str, path: &str, body: &str| {
        host.call(
            "key-of-b",
            method,
            &format!("{FILES}{path}"),
            &[],
            body.to_owned(),
        )
        .await
    };
    assert_eq!(
        theirs("GET", "/a.md", "").await.bytes,
        theirs("GET", "/never-was.md", "").await.bytes
    );
    assert_eq!(theirs("DELETE", "/a.md", "").await.status, 404);
    assert_eq!(theirs("GET", "", "").await.json(), json!({"files": []}));
    assert_eq!(
        theirs("PUT", "/a.md", r#"{"content": "of b"}"#)
            .await
            .json()["version"],
        1,
        "its own name"
    );
    assert_eq!(host.get(&format!("{FILES}/a.md")).await.json(), file);
    host.key("a", "reader", &[Permission::WorkspaceRead]).await;
    host.key("a", "writer", &[Permission::WorkspaceWrite]).await;
    for (key, method, scope) in [
        ("reader", "PUT", "workspace:write"),
        ("reader", "DELETE", "workspace:write"),
        ("writer", "GET", "workspace:read"),
    ] {
        let refused = host
            .call(
                key,
                method,
                &format!("{FILES}/a.md"),
                &[],
                r#"{"content": "x"}"#,
            )
            .await;
        assert_eq!(
            (refused.status.as_u16(), refused.json()["details"].clone()),
            (403, json!({"scopeRequired": scope}))
        );
    }
}

#[tokio::test]
async fn a_repeated_request_returns_the_first_response() {
    let host = TestServer::new().await;
    let call = async |method: &str, key: &str, etag: &str, content: &str| {
        let headers = [("idempotency-key", key), ("if-match", etag)];
        let headers = if etag.is_empty() {
            &headers[..1]
        } else {
            &headers[..]
        };
        host.call(
            "key-of-a",
            method,
            &format!("{FILES}/a.md"),
            headers,
            json!({"content": content}).to_string(),
        )
        .await
    };
    let first = call("PUT", "k1", "", "one").await.json();
    assert_eq!(
        call("PUT", "k1", "", "one").await.json(),
        first,
        "no second version"
    );
    assert_eq!(
        call("PUT", "k1", "", "other").await.status,
        409,
        "another text is another request"
    );
    let etag = first["etag"].as_str().unwrap();
    let second = call("PUT", "k2", etag, "two").await.json();
    assert_eq!(second["version"], 2);
    assert_eq!(
        call("PUT", "k2", etag, "two").await.json(),
        second,
        "the condition held when it was first asked"
    );
    assert_eq!(
        call("PUT", "k3", etag, "two").await.status,
        409,
        "a new request must meet it now"
    );
    for _ in 0..2 {
        assert_eq!(call("DELETE", "k4", "", "").await.status, 204);
    }
    assert_eq!(call("DELETE", "k5", "", "").await.status, 404);
    assert_eq!(
        host.get("/v1/host/remembrancer/events").await.json()["events"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

/// Every user can read the index of archives, so its text must be the host's own words.
#[tokio::test]
async fn callers_cannot_write_the_archive_index() {
    let host = TestServer::new().await;
    let refused = [
        ("PUT", "MEMORY-INDEX.json"),
        ("PUT", "MEMORY-INDEX.md"),
        ("DELETE", "MEMORY-INDEX.json"),
    ];
    for (method, file) in refused {
        let path = format!("/v1/host/workspace/files/{file}");
        let body = r#"{"content": "{}"}"#;
        let answer = host.call("key-of-a", method, &path, &[], body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (422, "validation_error"),
            "{method} {file}: {}",
            answer.json()
        );
        assert_eq!(answer.json()["details"], json!({"field": "path"}));
    }
    let files = host.get("/v1/host/workspace/files").await.json();
    assert_eq!(files, json!({"files": []}));
}
