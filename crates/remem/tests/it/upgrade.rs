//! Today's program opens a data folder of release 0.1.0. It gives the answers that 0.1.0 gave,
//! finishes the work that 0.1.0 was killed in, and runs every pass; then `doctor` finds no damage.
//!
//! `scripts/make-upgrade-fixtures` made the folder, with the recorded answers in `answers.json`.
//! One record of each kind lacks its optional fields, as a record of an earlier release would.

use crate::common::client::{BASE, Client, encode};
use crate::common::{ServerProcess, place, run, run_on};
use remem_testkit::wait_until;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Integers of this range are instants in milliseconds, from the years 2020 to 2033.
const INSTANTS: Range<i64> = 1_600_000_000_000..2_000_000_000_000;
/// How long ago the folder was written, as far as its rows tell after the move.
const AGE_MS: i64 = 120_000;

/// Unpacks the folder and returns the recorded answers.
fn unpack(folder: &Path) -> Value {
    let root = env!("CARGO_MANIFEST_DIR");
    let archive = format!("{root}/../remem-store-sql/tests/data/upgrade-0.1.0/sqlite.tar.gz");
    let to = folder.to_str().unwrap();
    run(Command::new("tar").args(["-xzf", archive.as_str(), "-C", to])).exits(0);
    let answers = std::fs::read(folder.join("answers.json")).unwrap();
    serde_json::from_slice(&answers).unwrap()
}

/// Adds `by` to every instant in a JSON value.
fn move_instants(value: &mut Value, by: i64) {
    if let Some(instant) = value.as_i64().filter(|at| INSTANTS.contains(at)) {
        *value = json!(instant + by);
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| move_instants(item, by)),
        Value::Object(fields) => fields.values_mut().for_each(|item| move_instants(item, by)),
        _ => {}
    }
}

/// Adds `by` to every instant in the records of a table.
fn move_records(db: &Connection, table: &str, by: i64) {
    let mut query = db
        .prepare(&format!("SELECT kind, key, body FROM {table}"))
        .unwrap();
    let records: Vec<(String, String, String)> = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let update = format!(
        "UPDATE {table} SET at = at + ?1, due = due + ?1, body = ?2 WHERE kind = ?3 AND key = ?4"
    );
    for (kind, key, body) in records {
        let mut body: Value = serde_json::from_str(&body).unwrap();
        move_instants(&mut body, by);
        let changed = db
            .execute(&update, params![by, body.to_string(), kind, key])
            .unwrap();
        assert_eq!(changed, 1);
    }
}

/// Moves the records in time so that 0.1.0 seems to have stopped two minutes ago. Otherwise the
/// test would depend on the day: a host deletes runs after 30 days, and commitments become due.
fn move_to_now(folder: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_millis()).unwrap();
    for tenant in ["default.db", "other.db"] {
        let db = Connection::open(folder.join("tenants").join(tenant)).unwrap();
        let last: i64 = db
            .query_row("SELECT at FROM tenant_clock", [], |row| row.get(0))
            .unwrap();
        let by = now - AGE_MS - last;
        for table in ["record", "review"] {
            move_records(&db, table, by);
        }
        for table in ["tenant_clock", "snapshot"] {
            db.execute(&format!("UPDATE {table} SET at = at + ?1"), [by])
                .unwrap();
        }
        // The process that held these leases is gone.
        db.execute("UPDATE lease SET until = 0", []).unwrap();
    }
}

/// Creates a key of the user who made everything in the folder.
fn create_key(folder: &Path, user: &str) -> String {
    let created = run_on(
        folder,
        &[
            "--json",
            "key",
            "create",
            "--local",
            "--role",
            "admin",
            "--principal",
            user,
        ],
    );
    created.exits(0).json()["key"].as_str().unwrap().to_owned()
}

/// Opens the folder with `doctor`, which must find nothing wrong.
fn assert_sound(folder: &Path) {
    let findings = run_on(folder, &["--json", "doctor"]).exits(0).json();
    let findings = findings.as_array().unwrap();
    assert!(
        findings.iter().all(|finding| finding["ok"] == true),
        "{findings:?}"
    );
    for check in ["tenant default", "tenant other"] {
        assert!(
            findings.iter().any(|finding| finding["check"] == check),
            "{findings:?}"
        );
    }
}

async fn get(client: &Client, path: &str) -> Value {
    client.get(path).await.is(200).json()
}

/// The names of an object's fields.
fn names(value: &Value) -> Vec<&str> {
    let fields = value.as_object().unwrap();
    assert!(!fields.is_empty());
    fields.keys().map(String::as_str).collect()
}

/// Compares a list of the host with the recorded one. `fields` names the field with the list, the
/// field that names an item, and for a recorded object the field of the item to compare.
async fn assert_list(client: &Client, recorded: &Value, path: &str, fields: [&str; 3]) {
    let [list, name, detail] = fields;
    let answer = get(client, path).await;
    let items = answer[list].as_array().unwrap();
    assert!(!items.is_empty(), "{path}");
    if let Some(recorded) = recorded.as_object() {
        let found: BTreeMap<&str, &Value> = items
            .iter()
            .map(|item| (item[name].as_str().unwrap(), &item[detail]))
            .collect();
        let recorded: BTreeMap<&str, &Value> = recorded
            .iter()
            .map(|(name, detail)| (name.as_str(), detail))
            .collect();
        assert_eq!(found, recorded, "{path}");
        return;
    }
    let found: BTreeSet<String> = items.iter().map(|item| item[name].to_string()).collect();
    let recorded = recorded.as_array().unwrap().iter();
    let recorded: BTreeSet<String> = recorded.map(ToString::to_string).collect();
    assert_eq!(found, recorded, "{path}");
}

/// Compares everything that the host lists, records without optional fields included.
async fn assert_lists(client: &Client, answers: &Value) {
    let of_the_host = [
        ("agents", "/v1/agents", ["agents", "agentId", ""]),
        ("workflows", "workflows", ["workflows", "id", ""]),
        ("heartbeats", "heartbeats", ["heartbeats", "id", ""]),
        (
            "automations",
            "automations",
            ["automations", "automationId", ""],
        ),
        ("erasures", "erasures", ["erasures", "id", ""]),
        ("memories", "memory", ["memories", "memoryRef", ""]),
        ("commitments", "commitments", ["commitments", "id", "state"]),
        ("proposals", "proposals", ["proposals", "id", "state"]),
        ("installed", "installed", ["installed", "ref", "artifact"]),
        (
            "webhooks",
            "webhooks",
            ["webhooks", "webhookId", "eventTypes"],
        ),
        ("secrets", "secrets", ["secrets", "name", "versions"]),
        ("modelCalls", "model-calls", ["modelCalls", "id", "why"]),
    ];
    for (recorded, path, fields) in of_the_host {
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{BASE}/{path}")
        };
        assert_list(client, &answers[recorded], &path, fields).await;
    }
    for memory in names(&answers["archives"]) {
        let fields = ["archives", "sha256", "erased"];
        let recorded = &answers["archives"][memory];
        assert_list(
            client,
            recorded,
            &Client::memory(memory, "archives"),
            fields,
        )
        .await;
    }
    for memory in names(&answers["sessions"]) {
        let fields = ["sessions", "sessionId", "state"];
        let recorded = &answers["sessions"][memory];
        assert_list(
            client,
            recorded,
            &Client::memory(memory, "sessions"),
            fields,
        )
        .await;
    }
    for webhook in names(&answers["deadLetters"]) {
        let path = format!("{BASE}/webhooks/{webhook}/dead-letters");
        let recorded = &answers["deadLetters"][webhook];
        assert_list(client, recorded, &path, ["deadLetters", "sequence", ""]).await;
    }
    let schedules = get(client, &format!("{BASE}/schedules")).await;
    let schedules = schedules["schedules"].as_array().unwrap().len();
    assert_eq!(schedules, answers["schedules"].as_array().unwrap().len());
}

/// Compares single records, one request each.
async fn assert_records(client: &Client, answers: &Value) {
    for commitment in names(&answers["commitments"]) {
        let path = format!("{BASE}/commitments/{commitment}");
        get(client, &format!("{path}/explain")).await;
        let fires = get(client, &format!("{path}/fires")).await;
        let count = fires["fires"].as_array().unwrap().len();
        assert_eq!(json!(count), answers["fires"][commitment], "{commitment}");
    }
    for proposal in names(&answers["proposals"]) {
        let path = format!("{BASE}/proposals/{proposal}");
        get(client, &format!("{path}/revisions")).await;
        if let Some(state) = answers["gates"].get(proposal) {
            let gate = get(client, &format!("{path}/gate")).await;
            assert_eq!(&gate["state"], state, "{proposal}");
        }
    }
    for memory in names(&answers["archives"]) {
        for sha256 in names(&answers["archives"][memory]) {
            let is_erased = answers["archives"][memory][sha256] == true;
            let path = Client::memory(memory, &format!("archives/{sha256}"));
            let archive = client.get(&path).await;
            let archive = archive.is(if is_erased { 410 } else { 200 });
            assert_eq!(archive.header("etag").contains(sha256), !is_erased);
        }
    }
    let recorded = &answers["lineage"];
    let id = recorded["id"].as_str().unwrap();
    let memory = recorded["memoryRef"].as_str().unwrap();
    let lineage = get(
        client,
        &Client::memory(memory, &format!("entries/{id}/lineage")),
    )
    .await;
    let sources = lineage["sources"].as_array().unwrap().iter();
    let sources: BTreeSet<&str> = sources.map(|one| one["id"].as_str().unwrap()).collect();
    let recorded_sources = recorded["sources"].as_array().unwrap().iter();
    let recorded_sources: BTreeSet<&str> =
        recorded_sources.map(|id| id.as_str().unwrap()).collect();
    assert_eq!(lineage["state"], recorded["state"]);
    assert_eq!(sources, recorded_sources);
    for path in [
        "heartbeats/older",
        "automations/older",
        "memory/older/commitment-rules",
        "passes/compact/schedule",
        "jobs",
        "retention",
    ] {
        get(client, &format!("{BASE}/{path}")).await;
    }
}

/// Compares the files and each version of one. The host itself writes the index of archives again.
async fn assert_files(client: &Client, answers: &Value) {
    let path = "/v1/host/workspace/files";
    let files = get(client, path).await;
    let files = files["files"].as_array().unwrap();
    for name in names(&answers["files"]) {
        let file = files.iter().find(|file| file["path"] == name).unwrap();
        let version = file["version"].as_u64().unwrap();
        let recorded = answers["files"][name].as_u64().unwrap();
        assert!(version >= recorded, "{name}: {version}");
    }
    for (version, content) in [(1, "# one"), (2, "# two"), (3, "# three")] {
        let file = get(client, &format!("{path}/notes/a.md?version={version}")).await;
        assert_eq!(file["content"], content);
    }
}

/// Waits for the end of a run and returns it.
async fn wait_for_run(client: &Client, id: &str) -> Value {
    let path = format!("/v1/runs/{id}");
    wait_until("the run ends", || async {
        get(client, &path).await["status"] != "running"
    })
    .await;
    get(client, &path).await
}

/// Starts a run, waits for its end and requires that it completes.
async fn assert_completes(client: &Client, path: &str, body: &Value) -> Value {
    let started = client.post(path, body).await.is(201).json();
    let run = wait_for_run(client, started["runId"].as_str().unwrap()).await;
    assert_eq!(run["status"], "completed", "{run}");
    run
}

/// Compares the runs. The run that 0.1.0 was killed in completes now; a completed one is replayed
/// with the reads of then; a workflow and a prompt of then serve new runs.
async fn assert_runs(client: &Client, answers: &Value) {
    for id in names(&answers["runs"]) {
        let run = wait_for_run(client, id).await;
        let recorded = answers["runs"][id].as_str().unwrap();
        let expected = if recorded == "running" {
            "completed"
        } else {
            recorded
        };
        assert_eq!(run["status"], expected, "{run}");
    }
    let recorded = &answers["learned"];
    let id = recorded["run"].as_str().unwrap();
    let run = get(client, &format!("/v1/runs/{id}")).await;
    assert_eq!(run["variables"], recorded["variables"]);
    let fork = format!("/v1/runs/{id}:fork");
    let replay = assert_completes(client, &fork, &json!({"mode": "replay"})).await;
    assert_eq!(replay["variables"], recorded["variables"]);
    assert_completes(client, "/v1/runs", &json!({"workflowId": "learn"})).await;
    let call = json!({"agentId": "vendor.example.templated", "inputs": {"task": "Greet."}});
    assert_completes(client, "/v1/runs", &call).await;
}

/// Runs every pass: those over the tenant at once, those over a memory as jobs.
async fn run_passes(client: &Client) {
    let passes = get(client, &format!("{BASE}/passes")).await;
    let mut over_memories = 0;
    for pass in passes["passes"].as_array().unwrap() {
        let name = pass["name"].as_str().unwrap();
        let path = format!("{BASE}/passes/{name}/run");
        if pass["over"] == "subject" {
            continue; // only a forget starts it
        }
        if pass["over"] == "host" {
            client.post(&path, &json!({})).await.is(200);
            continue;
        }
        over_memories += 1;
        let job = client.post(&path, &json!({"memoryRef": "older"})).await;
        let job = job.is(202).json();
        let path = format!("{BASE}/jobs/{}", job["id"].as_str().unwrap());
        wait_until("the job ends", || async {
            let job = get(client, &path).await;
            job["state"] != "queued" && job["state"] != "running"
        })
        .await;
        let job = get(client, &path).await;
        assert_eq!(job["state"], "done", "{job}");
    }
    let count = passes["passes"].as_array().unwrap().len();
    assert!(0 < over_memories && over_memories < count);
}

/// Waits until the job that 0.1.0 was killed in has ended. Afterwards it may be deleted, as its age
/// shows in its name.
async fn wait_for_left_job(client: &Client, answers: &Value) {
    let id = answers["leftJob"].as_str().unwrap();
    let path = format!("{BASE}/jobs/{}", encode(id));
    wait_until("the job of 0.1.0 ends", || async {
        let answer = client.get(&path).await;
        answer.status == 404 || answer.is(200).json()["state"] == "done"
    })
    .await;
}

/// Undoes what the model wrote for 0.1.0, which needs the ledger, the archive and the lineage.
async fn undo_the_model(client: &Client, answers: &Value) {
    let calls = get(client, &format!("{BASE}/model-calls")).await;
    let calls = calls["modelCalls"].as_array().unwrap();
    let output = &answers["lineage"]["id"];
    let call = calls.iter().find(|call| &call["outputId"] == output);
    let id = call.unwrap()["id"].as_str().unwrap();
    let path = format!("{BASE}/model-calls/{id}/undo");
    let undone = client.post(&path, &json!({})).await.is(200).json();
    let memory = answers["lineage"]["memoryRef"].as_str().unwrap();
    let entry = undone["entryId"].as_str().unwrap();
    get(client, &Client::memory(memory, &format!("entries/{entry}"))).await;
}

#[tokio::test]
async fn a_folder_of_0_1_0_is_served_as_before() {
    if place::is_postgres() {
        return; // the store's own tests upgrade the database
    }
    let folder = tempfile::tempdir().unwrap();
    let recorded = unpack(folder.path());
    move_to_now(folder.path());
    assert_sound(folder.path());
    let answers = &recorded["host"];
    let key = create_key(folder.path(), answers["user"].as_str().unwrap());
    let mut server = ServerProcess::start(folder.path());
    let client = server.client().with_key(&key);

    let notes = client.all_entries("notes").await;
    let notes: BTreeMap<&str, &Value> = notes
        .iter()
        .map(|entry| (entry["id"].as_str().unwrap(), &entry["content"]))
        .collect();
    let recorded_notes = recorded["entries"]["default"].as_object().unwrap();
    let recorded_notes: BTreeMap<&str, &Value> = recorded_notes
        .iter()
        .map(|(id, text)| (id.as_str(), text))
        .collect();
    assert_eq!(notes, recorded_notes);
    assert_lists(&client, answers).await;
    assert_records(&client, answers).await;
    assert_files(&client, answers).await;
    assert_runs(&client, answers).await;
    wait_for_left_job(&client, answers).await;
    run_passes(&client).await;
    undo_the_model(&client, answers).await;
    server.terminate();
    assert_sound(folder.path());
}
