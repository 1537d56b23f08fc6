//! Finds today's names that are stored or sent: in a fresh store, in what the real binary answers,
//! in the lists of kinds, and, for error codes and metrics, in the sources, where they are written
//! next to what raises them.

use super::document;
use crate::common::{ServerProcess, place, remem, run, run_with_input};
use remem_core::event::EventKind;
use remem_core::record::RecordKind;
use rusqlite::Connection;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The names of a release, by their class.
pub type NamesByClass = BTreeMap<String, BTreeSet<String>>;

pub const COLUMNS: &str = "columns";
pub const COMMANDS: &str = "commands and options";
pub const FIELDS: &str = "wire fields";
pub const OPERATIONS: &str = "operations";
pub const PAYLOADS: &str = "event payloads";
pub const TOOLS: &str = "mcp tools";
pub const SETTINGS: &str = "configuration keys";

/// The folder that holds all crates.
const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns whether there is a PostgreSQL server for tests; `scripts/test` always starts one.
pub fn has_postgres() -> bool {
    std::env::var_os("REMEM_TEST_POSTGRES").is_some()
}

/// Returns all names, by class.
pub async fn today() -> NamesByClass {
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(folder.path());
    let client = server.client();
    client.put("m", &json!({"content": "a text"})).await;
    let api = client.get("/v1/openapi.json").await.is(200).json();
    let passes = client.get("/v1/host/remembrancer/passes").await.is(200);
    let passes = passes.json();
    server.terminate();
    let sources = all_sources();
    let kinds = RecordKind::ALL.iter().map(|kind| kind.as_str());
    let events = EventKind::ALL.iter().map(|kind| kind.as_str());
    let scopes = remem_core::Permission::ALL.iter().map(|one| one.as_str());
    let mut commands = BTreeSet::new();
    let mut variables = BTreeSet::new();
    walk(&remem::command(), "", &mut commands, &mut variables);
    variables.extend(
        all_between(&sources, "\"REMEM_", "\"")
            .into_iter()
            .map(|name| format!("REMEM_{name}")),
    );
    let metrics = ["counter!(\"", "gauge!(\"", "histogram!(\""];
    let metrics = metrics
        .iter()
        .flat_map(|before| all_between(&sources, before, "\""));
    let passes = passes["passes"].as_array().unwrap().iter();
    let passes = passes.map(|pass| pass["name"].as_str().unwrap().to_owned());
    let owned = |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect();
    [
        (COLUMNS, columns()),
        ("record kinds", owned(&mut kinds.into_iter())),
        ("event types", owned(&mut events.into_iter())),
        (PAYLOADS, payloads()),
        ("scopes", owned(&mut scopes.into_iter())),
        ("passes", passes.collect()),
        ("error codes", error_codes(&sources)),
        (OPERATIONS, document::operation_names(&api)),
        (FIELDS, document::fields(&api)),
        (TOOLS, mcp_tools()),
        (SETTINGS, settings()),
        ("environment variables", variables),
        ("metrics", metrics.collect()),
        (COMMANDS, commands),
    ]
    .map(|(class, names)| (class.to_owned(), names))
    .into()
}

/// Every column of both stores as `STORE TABLE COLUMN`: of the files of an embedded store, and of
/// a prepared PostgreSQL database.
fn columns() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut put = remem();
    put.arg("--data-dir").arg(folder.path());
    run(put.args(["--local", "put", "m", "a text"])).exits(0);
    let mut found = BTreeSet::new();
    for file in ["host.db", "tenants/default.db"] {
        let db = Connection::open(folder.path().join(file)).unwrap();
        let sql = "SELECT m.name, i.name FROM sqlite_schema m, pragma_table_info(m.name) i
                   WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'";
        let mut statement = db.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            let table: String = row.get(0)?;
            Ok(format!("sqlite {table} {}", row.get::<_, String>(1)?))
        });
        found.extend(rows.unwrap().map(Result::unwrap));
    }
    if has_postgres() {
        let url = place::new_database(&place::server_url());
        let sql = "SELECT 'postgres ' || c.relname || ' ' || a.attname FROM pg_attribute a
                   JOIN pg_class c ON c.oid = a.attrelid
                   JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p', 'v')
                   AND a.attnum > 0 AND NOT a.attisdropped";
        let rows = place::psql(&place::as_superuser(&place::server_url(), &url), sql);
        found.extend(rows.lines().map(str::to_owned));
    }
    found
}

/// The sources of all crates.
fn all_sources() -> Vec<String> {
    let crates = std::fs::read_dir(CRATES).unwrap();
    let folders = crates.map(|entry| entry.unwrap().path().join("src"));
    let is_product = |path: &PathBuf| path.is_dir() && !path.ends_with("remem-testkit/src");
    sources(folders.filter(is_product).collect())
}

/// The text of every source file below these paths, up to its tests, with single spaces.
fn sources(mut pending: Vec<PathBuf>) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let inside = std::fs::read_dir(path).unwrap();
            pending.extend(inside.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
            let words: Vec<&str> = code.split_whitespace().collect();
            texts.push(words.join(" ").replace("( \"", "(\""));
        }
    }
    texts
}

/// The names in the sources between these characters.
fn all_between(sources: &[String], before: &str, end: &str) -> Vec<String> {
    let is_name = |name: &str| {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        !name.is_empty() && name.bytes().all(is_part)
    };
    // The text before the first `before` is not such a place.
    let places = sources.iter().flat_map(|text| text.split(before).skip(1));
    let names = places
        .filter_map(|rest| rest.split_once(end))
        .map(|(name, _)| name);
    names
        .filter(|name| is_name(name))
        .map(str::to_owned)
        .collect()
}

/// The stable codes of failed requests, refused passes and failed runs.
fn error_codes(sources: &[String]) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for (before, end) in [
        ("fault(\"", "\""),
        (" code: \"", "\""),
        ("=> (\"", "\", json!"),
    ] {
        codes.extend(all_between(sources, before, end));
    }
    for text in sources {
        // The codes of a type are in its function of that name.
        for body in text.split("fn code(&self) -> &'static str {").skip(1) {
            let body = body.split(" fn ").next().unwrap_or_default();
            codes.extend(all_between(&[body.to_owned()], "=> \"", "\""));
        }
        // A row of the table of problems has a status, then its code.
        for table in text.split("fn error_row(&self) -> ErrorRow {").skip(1) {
            let table = table.split(" fn ").next().unwrap_or_default();
            for status in 400..600 {
                let row = format!("{status}, \"");
                codes.extend(all_between(&[table.to_owned()], &row, "\""));
            }
        }
    }
    codes
}

/// The fields of every event's payload as `EVENT FIELD`. The table of events names the type of each
/// payload, and the fields of that type are stored and sent in camel case.
fn payloads() -> BTreeSet<String> {
    let paths = ["event.rs", "event"].map(|path| format!("{CRATES}/remem-core/src/{path}").into());
    let sources = sources(paths.into());
    let mut found = BTreeSet::new();
    for kind in EventKind::ALL {
        let row = format!(") = \"{}\",", kind.as_str());
        let mut before = sources.iter().filter_map(|text| text.split_once(&row));
        let (before, _) = before.next().unwrap();
        let (_, payload) = before.rsplit_once('(').unwrap();
        let payload = format!("pub struct {payload} {{");
        let mut bodies = sources.iter().filter_map(|text| text.split_once(&payload));
        let (_, body) = bodies
            .next()
            .unwrap_or_else(|| panic!("{payload} is not found"));
        let (body, _) = body.split_once('}').unwrap();
        for field in body.split(" pub ").skip(1) {
            let (field, _) = field.split_once(':').unwrap();
            found.insert(format!("{} {}", kind.as_str(), camel(field)));
        }
    }
    found
}

/// Returns the camel case of a field: `aField` for `a_field`.
fn camel(field: &str) -> String {
    let mut parts = field.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let (head, tail) = part.split_at(1);
        name + &head.to_uppercase() + tail
    })
}

/// The tools that `remem mcp` offers, each with its arguments.
fn mcp_tools() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let input = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}),
    ]
    .map(|message| format!("{message}\n"))
    .concat();
    let ran = run_with_input(place::remem_on(folder.path()).arg("mcp"), &input).exits(0);
    let answer = ran.json_lines().into_iter().find(|line| line["id"] == 2);
    let answer = answer.unwrap_or_else(|| panic!("tools were not listed: {}", ran.stderr));
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    let mut found = BTreeSet::new();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        found.insert(name.to_owned());
        let arguments = tool["inputSchema"]["properties"].as_object();
        found.extend(
            arguments
                .into_iter()
                .flatten()
                .map(|(field, _)| format!("{name} {field}")),
        );
    }
    found
}

/// The settings that the documentation lists and the binary accepts.
fn settings() -> BTreeSet<String> {
    let text = std::fs::read_to_string(format!("{CRATES}/../docs/configuration.md")).unwrap();
    let keys = text.lines().filter_map(|line| {
        let (key, _) = line.strip_prefix("| `")?.split_once('`')?;
        key.contains('.').then(|| key.to_owned())
    });
    keys.filter(|key| accepts_setting(key)).collect()
}

/// Returns whether a configuration file may hold this key: an old spelling counts as well.
pub fn accepts_setting(key: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("remem.toml");
    ["\"x\"", "1", "true", "[\"x\"]", "{}"].iter().any(|value| {
        let mut lines = BTreeMap::from([(key, *value)]);
        if key.starts_with("profiles.NAME.") {
            lines.entry("profiles.NAME.base").or_insert("\"general\"");
            lines.entry("profiles.NAME.memories").or_insert("[\"x\"]");
        }
        let lines = lines
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        run(remem().arg("--config").arg(&file).args(["config", "print"])).code == 0
    })
}

/// Adds a command, its options with the words that they take, and all commands below it. Hidden
/// names and other spellings count, because scripts use them.
fn walk(
    command: &clap::Command,
    above: &str,
    found: &mut BTreeSet<String>,
    variables: &mut BTreeSet<String>,
) {
    let spellings = std::iter::once(command.get_name()).chain(command.get_all_aliases());
    for spelling in spellings {
        let name = format!("{above} {spelling}").trim_start().to_owned();
        found.insert(name.clone());
        for option in command.get_arguments() {
            variables.extend(
                option
                    .get_env()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
            let long = option.get_long().into_iter();
            let long = long.chain(option.get_all_aliases().into_iter().flatten());
            for long in long {
                found.insert(format!("{name} --{long}"));
                if !option.get_action().takes_values() {
                    continue;
                }
                for value in option.get_possible_values() {
                    let words = value.get_name_and_aliases();
                    found.extend(words.map(|word| format!("{name} --{long}={word}")));
                }
            }
            let short = option.get_short().into_iter();
            let short = short.chain(option.get_all_short_aliases().into_iter().flatten());
            found.extend(short.map(|short| format!("{name} -{short}")));
        }
        for below in command.get_subcommands() {
            walk(below, &name, found, variables);
        }
    }
}
