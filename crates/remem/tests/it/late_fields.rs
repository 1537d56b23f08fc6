//! Proves that a value which is registered late leaves what was stored before: every text field of
//! every request that `secret_fields.json` plans gets a value of its own; those that were stored
//! are registered, and no answer and no file may have them afterwards. Names are the exception,
//! listed here with the reason.

use crate::common::client::{Client, encode, finish};
use crate::common::{ServerProcess, files, place};
use crate::secret_fields::{FieldPlan, filled, operations, ordinary, plans, texts_of};
use remem_testkit::wait_until_blocking;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const MEMORY: &str = "vault%2Ffields";
const LINKS: &str = "POST /v1/host/remembrancer/memory/{memoryRef}/entries/{id}/links";
const VAULT_KEY: &str = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f";

/// Fields that name something. Other data refers to a name, so it is not rewritten;
/// `docs/redaction.md` says so.
const NAMES: [&str; 5] = [
    "/entries/0/id",
    "/rules/0/id",
    "/principal",
    "tenants /id",
    "keys /tenant",
];

/// A value that no other text holds, of characters that every name may have.
fn value(number: usize) -> String {
    let spread = (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    format!("v{spread:032x}")
}

/// The place of each planted value that the host accepted.
async fn plant(
    client: &Client,
    entry: &str,
    value: impl Fn(usize, &str) -> String,
) -> BTreeMap<String, String> {
    let mut planted = BTreeMap::new();
    let mut sent = 0;
    for plan in plans() {
        let mut texts = Vec::new();
        texts_of(&plan.body, "", &mut texts);
        for text in texts {
            if plan.operation.contains("/secrets/") || text == "/url" || text == "/secret" {
                continue; // sealed, and for the host itself
            }
            let value = value(planted.len(), &text);
            let mut body = plan.body.clone();
            for slot in ["/slot", "/entries/0/slot"] {
                // A question has one answer; the next entry answers another.
                if let Some(slot) = body.pointer_mut(slot) {
                    *slot = json!(format!("question {}", sent));
                }
            }
            sent += 1;
            *body.pointer_mut(&text).unwrap() = json!(value);
            let request = client
                .request(plan.method(), &path(&plan, entry))
                .json(&body);
            if finish(request).await.unwrap().status < 300 {
                planted.insert(value, format!("{} {text}", plan.operation));
            }
        }
    }
    planted
}

fn path(plan: &FieldPlan, entry: &str) -> String {
    if plan.operation == LINKS {
        plan.path().replace("/none/", &format!("/{entry}/"))
    } else {
        plan.path()
    }
}

/// Everything that the host shows without being asked for something in particular.
async fn shown(client: &Client, document: &Value, entry: &str) -> String {
    let mut all = String::new();
    for (operation, _) in operations(document) {
        let Some(path) = operation.strip_prefix("GET ") else {
            continue;
        };
        if path.ends_with("/stream") || path.contains("/events/stream") || path.contains("openapi")
        {
            continue;
        }
        let path = filled(path, |name| match name {
            "id" => encode(entry),
            "path" => "none".to_owned(),
            other => ordinary(other).to_owned(),
        });
        for query in ["", "?tenant=default&after=0&limit=1000&timeoutMs=0"] {
            let request = client.request(Method::GET, &format!("{path}{query}"));
            let answer =
                tokio::time::timeout(std::time::Duration::from_secs(5), finish(request)).await;
            if let Ok(Ok(answer)) = answer {
                all.push_str(&answer.everything());
            }
        }
    }
    all
}

/// The values that lie in a file.
fn stored<'v>(dir: &Path, values: impl Iterator<Item = &'v String>) -> Vec<String> {
    if let Some(url) = place::database_of(dir) {
        // The database keeps old versions of rows until then.
        let url = place::as_superuser(&place::server_url(), &url);
        place::psql(&url, "VACUUM FULL");
    }
    let all = place::stored(dir);
    values
        .filter(|value| !files::find_in(&all, [*value]).is_empty())
        .cloned()
        .collect()
}

fn is_name(field: &str) -> bool {
    NAMES.iter().any(|name| field.ends_with(name))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_registered_late_is_removed_from_every_field() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let mut server = ServerProcess::start_with(&dir, &[], &[("REMEM_VAULT_KEY", VAULT_KEY)]);
    let client = server.client();
    let entries = format!("/v1/host/remembrancer/memory/{MEMORY}/entries");
    let put = client
        .request(Method::POST, &entries)
        .json(&json!({"content": "an entry"}));
    let entry = finish(put).await.unwrap().is(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let document = client.request(Method::GET, "/v1/openapi.json");
    let document = finish(document).await.unwrap().is(200).json();
    let planted = plant(&client, &entry, |number, _| value(number)).await;
    let before = shown(&client, &document, &entry).await;
    let kept = stored(&dir, planted.keys());
    for field in [
        "/content",
        "/tags/0",
        "/body",
        "/rules/0/body",
        "/action",
        "/reference",
        "/label",
        "/world",
    ] {
        let is_kept = |value: &&String| planted[*value].ends_with(field);
        assert!(
            kept.iter().any(|value| is_kept(&value)),
            "{field} is not stored"
        );
    }
    for field in [
        "/rules/0/body",
        "/action",
        "/reference",
        "/label",
        "webhooks /tags/0",
    ] {
        let is_shown =
            |(value, place): (&String, &String)| place.ends_with(field) && before.contains(value);
        assert!(planted.iter().any(is_shown), "{field} is not shown");
    }
    for (number, value) in kept.iter().enumerate() {
        let path = format!("/v1/host/remembrancer/secrets/late{number}");
        let set = client
            .request(Method::PUT, &path)
            .json(&json!({"value": value}));
        finish(set).await.unwrap().is(201);
    }
    let after = shown(&client, &document, &entry).await;
    let places = |values: Vec<String>| -> Vec<String> {
        let places = values.iter().map(|value| planted[value].clone());
        places.filter(|place| !is_name(place)).collect()
    };
    let leaks = kept.iter().filter(|value| after.contains(*value));
    let leaks = places(leaks.cloned().collect());
    assert!(leaks.is_empty(), "shown:\n{}", leaks.join("\n"));
    // The row of a key is rewritten; its earlier image stays in the journal of `host.db`.
    let on_disk = |mut places: Vec<String>| {
        places.retain(|place| !place.ends_with("keys /label"));
        places
    };
    wait_until_blocking("late values leave the files", || {
        let left = on_disk(places(stored(&dir, kept.iter())));
        eprintln!("stored:\n{}", left.join("\n"));
        left.is_empty()
    });
    server.terminate();
    let left = on_disk(places(stored(&dir, kept.iter())));
    assert!(left.is_empty(), "stored:\n{}", left.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_contains_text_written_by_callers() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(&folder.path().join("data"));
    let client = server.client();
    let entries = format!("/v1/host/remembrancer/memory/{MEMORY}/entries");
    let put = client
        .request(Method::POST, &entries)
        .json(&json!({"content": "an entry"}));
    let entry = finish(put).await.unwrap().is(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // Words with spaces between: no name of anything. Tags as well behind a reserved prefix.
    let words = |number: usize, text: &str| {
        let prefix = if text.contains("/tags/") {
            "source:"
        } else {
            ""
        };
        format!("{prefix}words {number} of somebody")
    };
    let planted = plant(&client, &entry, words).await;
    for field in [
        "/content",
        "/tags/0",
        "/body",
        "/action",
        "/reference",
        "/label",
        "/slot",
    ] {
        assert!(
            planted.values().any(|place| place.ends_with(field)),
            "{field} was not taken"
        );
    }
    let mut after = 0;
    let mut events = String::new();
    loop {
        let path = format!("/v1/host/remembrancer/events?after={after}&limit=1000");
        let page = finish(client.request(Method::GET, &path)).await.unwrap();
        let page = page.is(200);
        let body = page.json();
        if body["events"].as_array().is_none_or(Vec::is_empty) {
            break;
        }
        events.push_str(&page.text);
        after = body["nextAfter"].as_u64().unwrap();
    }
    assert!(
        events.contains("memory.linked") && events.contains("rule.changed"),
        "{events}"
    );
    let leaked = planted
        .iter()
        .filter(|(words, place)| events.contains(*words) && !is_name(place));
    let leaked: Vec<&String> = leaked.map(|(_, place)| place).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    server.terminate();
}
