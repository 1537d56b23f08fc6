//! Dependencies: a crate uses only the crates that the map in ARCHITECTURE.md allows, and only
//! external crates that docs/dependencies.md explains.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Each crate with the crates of this workspace it may depend on (tests may use more).
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 10] = [
    ("remem-core", &[]),
    ("remem-store", &["remem-core"]),
    ("remem-store-sql", &["remem-core", "remem-store"]),
    ("remem-tokens", &[]),
    (
        "remem-engine",
        &["remem-core", "remem-store", "remem-tokens"],
    ),
    ("remem-wire", &["remem-core"]),
    (
        "remem-server",
        &["remem-core", "remem-engine", "remem-store", "remem-wire"],
    ),
    (
        "remem",
        &[
            "remem-core",
            "remem-engine",
            "remem-server",
            "remem-store",
            "remem-store-sql",
            "remem-wire",
        ],
    ),
    (
        "remem-eval",
        &["remem", "remem-core", "remem-engine", "remem-wire"],
    ),
    (
        TESTKIT,
        &[
            "remem-core",
            "remem-engine",
            "remem-server",
            "remem-store",
            "remem-store-sql",
            "remem-wire",
        ],
    ),
];
/// Programs with the only crates that may depend on them, tests and tools included.
const PROGRAM_USERS: [(&str, &[&str]); 2] = [("remem", &["remem-eval"]), ("remem-eval", &[])];
/// The crate of shared test code. Other crates may use it as a development dependency only.
const TESTKIT: &str = "remem-testkit";
/// External crates that a crate must not use, because they would let it do what its `lib.rs`
/// forbids.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    (
        "remem-core",
        &["tokio", "rusqlite", "axum", "reqwest", "getrandom", "uuid"],
    ),
    ("remem-store", &["rusqlite", "axum", "reqwest"]),
    ("remem-engine", &["rusqlite", "axum", "reqwest"]),
    ("remem-server", &["rusqlite", "reqwest"]),
];

pub fn check(root: &Path) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root)
        .output();
    let Some(metadata) = output
        .ok()
        .and_then(|o| serde_json::from_slice::<Value>(&o.stdout).ok())
    else {
        return vec!["cargo metadata cannot be read".to_owned()];
    };
    let documented = std::fs::read_to_string(root.join("docs/dependencies.md")).unwrap_or_default();
    let rows: Vec<&str> = documented
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |"))
        .map(|(names, _)| names)
        .collect();
    let is_documented = |crate_name: &str| {
        rows.iter()
            .any(|names| names.split([' ', ',']).any(|name| name == crate_name))
    };
    let mut breaches = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            if dependency["path"].is_null() && !is_documented(target) {
                breaches.push(format!(
                    "{name} uses {target}: say what for in docs/dependencies.md"
                ));
            }
            if PROGRAM_USERS
                .iter()
                .any(|(program, users)| *program == target && !users.contains(&name))
            {
                breaches.push(format!(
                    "{name} may not depend on the program {target}: see the map in ARCHITECTURE.md"
                ));
            }
            if !dependency["kind"].is_null() {
                continue;
            }
            if target == TESTKIT {
                breaches.push(format!(
                    "{name} may use {TESTKIT} in its tests alone: make it a dev-dependency"
                ));
                continue;
            }
            let allowed = ALLOWED_DEPENDENCIES
                .iter()
                .find(|(from, _)| *from == name)
                .map(|(_, to)| *to);
            if target.starts_with("remem") && allowed.is_some_and(|to| !to.contains(&target)) {
                breaches.push(format!(
                    "{name} may not depend on {target}: see the map in ARCHITECTURE.md"
                ));
            }
            let forbidden = FORBIDDEN
                .iter()
                .find(|(from, _)| *from == name)
                .map_or(&[][..], |(_, not)| *not);
            if forbidden.contains(&target) {
                breaches.push(format!("{name} may not use {target}: see its lib.rs"));
            }
        }
    }
    breaches
}
