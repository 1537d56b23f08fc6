//! The isolation oracle: every read of a tenant answers the same bytes whether or not another
//! tenant's data is there, and what exists only elsewhere is answered exactly like what does not
//! exist at all.

use remem_core::Permission;
use remem_testkit::server::MEMORY;
use remem_testkit::{TestResponse, TestServer};
use serde_json::json;

async fn fill(host: &TestServer, key: &str, content: &str, times: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..times {
        let body = json!({"content": format!("{content} {n}"), "tags": ["t"], "metadata": {"n": n}, "subjects": [content]}).to_string();
        let put = host
            .call(
                key,
                "POST",
                &format!("{MEMORY}/shared/entries"),
                &[("idempotency-key", &format!("k{n}"))],
                body,
            )
            .await;
        ids.push(put.json()["id"].as_str().unwrap().to_owned());
    }
    ids
}

/// Everything a caller can observe: status, headers, body.
fn bytes(answer: &TestResponse) -> String {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .map(|(n, v)| format!("{n}: {v:?}"))
        .collect();
    headers.sort();
    format!(
        "{} {headers:?} {}",
        answer.status,
        String::from_utf8_lossy(&answer.bytes)
    )
}

async fn view(host: &TestServer, own: &str, foreign: &str) -> Vec<String> {
    let reads = [
        format!("{MEMORY}/shared/entries"),
        format!("{MEMORY}/shared/entries?limit=1&tag=t&include=metadata"),
        format!("{MEMORY}/shared/entries/{own}"),
        format!("{MEMORY}/shared/entries/{own}/metadata"),
        format!("{MEMORY}/shared/entries/{foreign}"),
        format!("{MEMORY}/shared/entries/{foreign}/metadata"),
        format!("{MEMORY}/shared/entries/{own}/lineage"),
        format!("{MEMORY}/shared/entries/{foreign}/lineage"),
        format!("{MEMORY}/shared/archives"),
        "/v1/host/remembrancer/erasures".to_owned(),
        format!("{MEMORY}/only-elsewhere/entries"),
        format!("{MEMORY}/only-elsewhere/stats"),
        format!("{MEMORY}/shared/stats"),
        MEMORY.to_owned(),
        "/v1/host/remembrancer/events".to_owned(),
        "/v1/host/remembrancer/events?after=1&limit=1".to_owned(),
        "/v1/host/remembrancer/keys".to_owned(),
        "/v1/host/remembrancer/passes".to_owned(),
        "/v1/host/remembrancer/jobs".to_owned(),
        "/v1/host/remembrancer/schedules".to_owned(),
        "/.well-known/openwop".to_owned(),
    ];
    let mut view = Vec::new();
    for path in reads {
        view.push(format!("GET {path}: {}", bytes(&host.get(&path).await)));
    }
    for query in ["falcon", "heron", "falcon heron 1", "elsewhere"] {
        let answer = host
            .post(
                &format!("{MEMORY}/shared/search"),
                json!({"query": query, "limit": 0}),
            )
            .await;
        view.push(format!("search {query}: {}", bytes(&answer)));
    }
    for subject in ["falcon", "heron falcon elsewhere"] {
        let answer = host
            .post(
                "/v1/host/remembrancer/forget",
                json!({"subject": subject, "dryRun": true}),
            )
            .await
            .json();
        view.push(format!(
            "forget {subject}: {} {}",
            answer["changed"], answer["erased"]
        ));
    }
    view.push(format!(
        "delete: {}",
        bytes(
            &host
                .delete(&format!("{MEMORY}/shared/entries/{foreign}"))
                .await
        )
    ));
    view.push(format!(
        "same idempotency key: {}",
        fill(host, "key-of-a", "falcon", 1).await[0]
    ));
    view
}

#[tokio::test]
async fn data_of_another_tenant_does_not_change_responses() {
    let alone = TestServer::new().await;
    let crowded = TestServer::new().await;
    let own = fill(&alone, "key-of-a", "falcon", 3).await;
    assert_eq!(own, fill(&crowded, "key-of-a", "falcon", 3).await);
    crowded.key("b", "key-of-b", &Permission::ALL).await;
    let foreign = fill(&crowded, "key-of-b", "heron falcon elsewhere", 50).await;
    let body = json!({"content": "elsewhere"}).to_string();
    crowded
        .call(
            "key-of-b",
            "POST",
            &format!("{MEMORY}/only-elsewhere/entries"),
            &[],
            body,
        )
        .await;
    let a = view(&alone, &own[0], &foreign[7]).await;
    let b = view(&crowded, &own[0], &foreign[7]).await;
    for (alone, crowded) in a.iter().zip(&b) {
        assert_eq!(alone, crowded);
    }
    let there = crowded
        .call(
            "key-of-b",
            "GET",
            &format!("{MEMORY}/shared/entries/{}", foreign[7]),
            &[],
            "",
        )
        .await;
    assert_eq!(
        there.status, 200,
        "positive control: the other tenant sees its own"
    );
}

#[tokio::test]
async fn entries_of_another_tenant_look_like_missing_ones() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let foreign = fill(&host, "key-of-b", "x", 1).await;
    let at = |id: &str| format!("{MEMORY}/shared/entries/{id}");
    let elsewhere = host.get(&at(&foreign[0])).await;
    let nowhere = host.get(&at("mem_999999")).await;
    assert_eq!(bytes(&elsewhere), bytes(&nowhere));
    let elsewhere = host.delete(&at(&foreign[0])).await;
    let nowhere = host.delete(&at("mem_999999")).await;
    assert_eq!(bytes(&elsewhere), bytes(&nowhere));
}

#[tokio::test]
async fn keys_reach_only_their_own_tenant() {
    let host = TestServer::new().await;
    host.key(
        "b",
        "admin-of-b",
        &[Permission::KeysManage, Permission::MemoryRead],
    )
    .await;
    let call = async |method: &str, path: &str, body: &str| {
        host.call("admin-of-b", method, path, &[], body.to_owned())
            .await
    };
    let keys = "/v1/host/remembrancer/keys";
    assert_eq!(call("GET", keys, "").await.status, 200);
    let theirs = call("GET", &format!("{keys}?tenant=a"), "").await;
    let nobodys = call("GET", &format!("{keys}?tenant=zzz"), "").await;
    assert_eq!(
        (theirs.status.as_u16(), bytes(&theirs)),
        (403, bytes(&nobodys))
    );
    assert_eq!(
        call("POST", keys, r#"{"scopes": ["memory:read"]}"#)
            .await
            .status,
        201
    );
    assert_eq!(
        call("POST", keys, r#"{"scopes": ["memory:write"]}"#)
            .await
            .status,
        403,
        "no key gives more than it has"
    );
    assert_eq!(
        call(
            "POST",
            keys,
            r#"{"scopes": ["memory:read"], "tenant": "a"}"#
        )
        .await
        .status,
        403
    );
    assert_eq!(
        call("GET", "/v1/host/remembrancer/tenants", "")
            .await
            .status,
        403
    );
}
