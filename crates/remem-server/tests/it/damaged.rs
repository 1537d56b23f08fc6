//! A tenant whose file is damaged: its requests get an error that says so, `/ready` counts it, and
//! every other tenant works.

use remem_core::{Permission, Policy};
use remem_store_sql::Location;
use remem_testkit::server::MEMORY;
use remem_testkit::storage::{is_postgres, sqlite};
use remem_testkit::{TestEnv, TestServer, wait_until};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

async fn host_on(folder: &Path) -> TestServer {
    let env = TestEnv::over(sqlite(Location::Folder(folder.to_owned())));
    let host = TestServer::on(env, Policy::default(), vec![], None).await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    host
}

/// Stops a host and waits until it has closed its files, which are complete then.
async fn closed(host: TestServer) {
    let engine = Arc::downgrade(&host.engine);
    host.stop.send(true).unwrap();
    drop(host);
    wait_until("the host lets go of its files", async || {
        engine.strong_count() == 0
    })
    .await;
}

fn overwrite(file: &Path, from: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    assert!(bytes.len() > from, "{}", bytes.len());
    bytes[from..].fill(0xa5);
    std::fs::write(file, bytes).unwrap();
}

/// A database is damaged as a whole on PostgreSQL, and its files are not ours to break.
#[tokio::test]
async fn a_damaged_database_affects_only_its_tenant_and_is_counted() {
    if is_postgres() {
        return;
    }
    // The header; then everything behind the first page, which an opening does not read.
    for from in [0, 4_096] {
        let folder = tempfile::tempdir().unwrap();
        let host = host_on(folder.path()).await;
        let entries = format!("{MEMORY}/m/entries");
        for key in ["key-of-a", "key-of-b"] {
            let body = json!({"content": "kept"}).to_string();
            let stored = host.call(key, "POST", &entries, &[], body).await;
            assert_eq!(stored.status.as_u16(), 201);
        }
        assert_eq!(host.get("/ready").await.json(), json!({"status": "ready"}));
        closed(host).await;
        overwrite(&folder.path().join("tenants/a.db"), from);

        let host = host_on(folder.path()).await;
        for (method, body) in [("GET", ""), ("POST", r#"{"content": "more"}"#)] {
            let refused = host.call("key-of-a", method, &entries, &[], body).await;
            assert_eq!(
                (refused.status.as_u16(), refused.code().as_str()),
                (503, "storage_damaged"),
                "{method} after damage from {from}"
            );
            let other = host.call("key-of-b", method, &entries, &[], body).await;
            assert!(other.status.is_success(), "{}", other.json());
        }
        let ready = host.get("/ready").await;
        assert_eq!(
            (ready.status.as_u16(), ready.json()),
            (
                200,
                json!({"status": "ready", "degraded": true, "failingTenants": 1})
            ),
            "damage from {from}"
        );
    }
}
