//! Proves that a stranger's OpenWOP client and conformance check find what they look for. What is
//! checked is in `openwop/`: `client.py` drives the OpenWOP client for Python, `conformance.py`
//! plays scenarios; both hold every answer against the host's own OpenAPI document and, where
//! `REMEM_TEST_OPENWOP_SCHEMAS` names a folder, against the protocol's public schemas.
//!
//! Needs a Python that has the PyPI packages `openwop-client` and `jsonschema`; its path is in
//! `REMEM_TEST_PYTHON`.

use crate::common::{KEY, ServerProcess, place, run};
use std::path::Path;
use std::process::Command;

/// The secret that the fixtures resolve; neither the host nor a script may ever show it.
const CANARY: (&str, &str) = ("OPENWOP_CANARY_SECRET_VALUE", "canary-of-the-vault-52ce1b");
const PACKAGES: [&str; 2] = ["openwop_client", "jsonschema"];

/// A Python that can run the scripts.
fn python() -> Command {
    let install = "run `scripts/test`, which installs openwop-client==1.8.0 and jsonschema==4.26.0 for the tests and sets it";
    let Some(python) = std::env::var_os("REMEM_TEST_PYTHON") else {
        panic!("REMEM_TEST_PYTHON is not set: {install}")
    };
    let missing = |package: &&str| {
        run(Command::new(&python).args(["-c", &format!("import {package}")])).code != 0
    };
    let missing: Vec<&str> = PACKAGES.into_iter().filter(missing).collect();
    assert!(
        missing.is_empty(),
        "the Python in REMEM_TEST_PYTHON lacks {}: {install}",
        missing.join(" and ")
    );
    let mut command = Command::new(python);
    command.arg("-B").env(CANARY.0, CANARY.1);
    command
}

/// Runs a script to its end; answers the last line.
fn play(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("openwop")
        .join(script);
    let ran = run(python().arg(script).args(arguments)).exits(0);
    assert!(!ran.stdout.contains(CANARY.1), "{}", ran.stdout);
    println!("{}", ran.stdout);
    ran.stdout
        .trim()
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned()
}

/// Returns the number of scenarios that the last line of output reports.
fn scenarios(line: &str) -> u32 {
    assert!(line.contains(" scenarios hold on "), "{line}");
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn all_checks_of_the_openwop_client_pass() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(folder.path(), &["--enable-test-seams"], &[CANARY]);
    for _ in 0..2 {
        let last = play("client.py", &[&server.url, KEY]);
        assert!(last.ends_with("checks held"), "{last}");
    }
}

/// Twice on the same store, and once more after a restart: nothing that a check leaves behind gets
/// in its own way.
#[test]
fn conformance_scenarios_pass_repeatedly_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for rounds in [2, 1] {
        let mut server =
            ServerProcess::start_with(folder.path(), &["--enable-test-seams"], &[CANARY]);
        for _ in 0..rounds {
            assert!(scenarios(&play("conformance.py", &["durable", &server.url, KEY])) >= 45);
        }
        server.terminate();
        assert!(!server.output().contains(CANARY.1));
    }
    let stored = place::stored(folder.path());
    assert!(
        stored.iter().all(|(_, text)| !text.contains(CANARY.1)),
        "the secret is nowhere on the disk"
    );
}

/// A host that cannot keep its word says so.
#[test]
fn an_in_memory_host_passes_conformance_and_reports_degraded_memory() {
    if place::is_postgres() {
        return; // memory in the process has no database
    }
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(
        folder.path(),
        &["--enable-test-seams", "--store", "memory"],
        &[CANARY],
    );
    assert!(scenarios(&play("conformance.py", &["memory", &server.url, KEY])) >= 45);
}

#[test]
fn conformance_passes_and_test_seams_are_absent_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(folder.path(), &[], &[CANARY]);
    assert!(scenarios(&play("conformance.py", &["plain", &server.url, KEY])) >= 12);
}
