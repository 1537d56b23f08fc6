//! The major version that a client asks for: one that this host does not speak is refused on the
//! protocol's paths, and ignored everywhere else.

use remem_testkit::{TestResponse, TestServer};
use serde_json::json;

async fn asked(host: &TestServer, path: &str, version: &str) -> TestResponse {
    let headers = [("openwop-version", version)];
    host.call("key-of-a", "GET", path, &headers, "").await
}

#[tokio::test]
async fn another_major_version_is_refused_under_v1() {
    let host = TestServer::with_seams().await;
    let paths = [
        "/v1/agents",
        "/v1/runs/none",
        "/v1/openapi.json",
        "/v1/host/workspace/files",
        "/v1/host/sample/identity/owned-run",
        "/v1/no/such/path",
    ];
    for path in paths {
        for version in ["2", "2.0", "0.9", "11", "canary-c4n4ry", "", "1.x", "-1"] {
            let refused = asked(&host, path, version).await;
            assert_eq!(
                (refused.status.as_u16(), refused.code().as_str()),
                (400, "protocol_version_mismatch"),
                "{path} with {version:?}"
            );
            assert_eq!(
                refused.json()["details"],
                json!({"protocolVersions": ["1.0"]})
            );
            let text = String::from_utf8(refused.bytes).unwrap();
            assert!(!text.contains("canary"), "{text}");
        }
        for version in ["1", "1.0", "1.11"] {
            let served = asked(&host, path, version).await;
            let plain = host.get(path).await;
            assert_eq!(served.status, plain.status, "{path} with {version:?}");
        }
    }
    let twice = [("openwop-version", "1"), ("openwop-version", "2")];
    let twice = host.call("key-of-a", "GET", paths[0], &twice, "").await;
    assert_eq!(twice.code(), "protocol_version_mismatch");
    // Also to those who cannot prove who they are: nothing is looked up for a wrong version.
    let headers = [("openwop-version", "2")];
    let nobody = host.call("", "POST", "/v1/runs", &headers, "{}").await;
    assert_eq!(nobody.code(), "protocol_version_mismatch");
}

#[tokio::test]
async fn discovery_lists_the_protocol_versions_it_serves() {
    let host = TestServer::new().await;
    let document = host.get("/.well-known/openwop").await;
    assert_eq!(
        document.json()["protocolVersions"],
        json!(["1.0"]),
        "which majors"
    );
    assert_eq!(document.json()["preferredVersion"], json!("1.0"));
    for version in ["1", "1.0", "1.7"] {
        let served = asked(&host, "/.well-known/openwop", version).await;
        assert_eq!(
            (served.status.as_u16(), &served.bytes),
            (200, &document.bytes)
        );
    }
    for (path, version) in [
        ("/.well-known/openwop", "2"),
        ("/.well-known/openwop", "3.1"),
        ("/.well-known/openwop", "canary-c4n4ry"),
        ("/runs", "2.0"),
    ] {
        let refused = asked(&host, path, version).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (406, "protocol_version_unsupported"),
            "{path} with {version}"
        );
        assert_eq!(
            refused.json()["details"],
            json!({"protocolVersions": ["1.0"]})
        );
        assert_eq!(refused.header("openwop-version"), "1.0");
    }
}

#[tokio::test]
async fn protocol_responses_name_their_version_and_own_paths_do_not() {
    let host = TestServer::new().await;
    let etag = host
        .get("/.well-known/openwop")
        .await
        .header("etag")
        .to_owned();
    let known = [("if-none-match", etag.as_str())];
    let unchanged = host
        .call("", "GET", "/.well-known/openwop", &known, "")
        .await;
    assert_eq!(unchanged.status.as_u16(), 304);
    for answer in [
        unchanged,
        host.get("/v1/agents").await,
        host.get("/v1/runs/none").await,
    ] {
        assert_eq!(answer.header("openwop-version"), "1.0", "{}", answer.status);
    }
    for path in [
        "/v1/host/remembrancer/memories",
        "/v1/host/remembrancer/none",
        "/health",
        "/ready",
        "/metrics",
        "/mcp",
    ] {
        let plain = host.get(path).await;
        for version in ["2", "canary-c4n4ry"] {
            let answer = asked(&host, path, version).await;
            assert_eq!(answer.status, plain.status, "{path} with {version}");
            assert!(!answer.headers.contains_key("openwop-version"), "{path}");
        }
    }
}
