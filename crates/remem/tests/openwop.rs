//! Proves that the OpenWOP client for Python can use the host. What is checked is in `drive_openwop.py`.
//!
//! Needs a Python that has the PyPI package `openwop-client`; its path is in `REMEM_TEST_PYTHON`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking and lives in real time")]

mod common;

use common::{KEY, Server, run};
use std::path::Path;
use std::process::Command;

#[test]
fn the_openwop_client_reads_discovery_and_works_with_files() {
    let Some(python) = std::env::var_os("REMEM_TEST_PYTHON") else {
        panic!("REMEM_TEST_PYTHON is not set: run `scripts/test`, which installs the OpenWOP client for Python and sets it");
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("drive_openwop.py");
    let ran = run(Command::new(python).arg(script).args([&server.url, KEY])).exits(0);
    assert!(ran.stdout.trim().ends_with("checks held"), "{}", ran.stdout);
}
