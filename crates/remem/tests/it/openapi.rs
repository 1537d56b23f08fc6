//! Proves that tools which nobody here wrote can work with the OpenAPI document of a running host.
//! The scripts are in `openapi/`. The gate validates the document; `scripts/test --full=suites`
//! installs a linter, two generators and a fuzzer and runs them.

use crate::common::{KEY, Server, run};
use std::path::Path;
use std::process::Command;

/// What to do where a variable is missing.
const INSTALL: &str = "run `scripts/test`, or `scripts/test --full=suites` for the full tier";

/// A script of `openapi/`, run with the Python that a variable names.
fn script(python: &str, name: &str) -> Command {
    let Some(python) = std::env::var_os(python) else {
        panic!("{python} is not set: {INSTALL}")
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("openapi")
        .join(name);
    let mut command = Command::new(python);
    command.arg("-B").arg(script).env("KEY", KEY);
    command
}

#[test]
fn the_document_of_a_running_host_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ran = run(script("REMEM_TEST_PYTHON", "validate.py").arg(&server.url));
    assert!(ran.code == 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with("0 errors in "), "{}", ran.stdout);
}

#[test]
#[ignore = "needs npm packages, which `scripts/test --full=suites` installs"]
fn a_linter_and_two_generators_accept_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let tools = std::env::var_os("REMEM_TEST_OPENAPI").expect(INSTALL);
    let ran = run(script("REMEM_TEST_OPENAPI_PYTHON", "generate.py")
        .arg(&server.url)
        .arg(tools)
        .arg(work.path()));
    assert!(ran.code == 0, "{}{}", ran.stdout, ran.stderr);
}

/// Takes as long as `REMEM_TEST_FUZZ_SECONDS` says; a minute if it is not set.
#[test]
#[ignore = "needs schemathesis, which `scripts/test --full=suites` installs"]
fn no_answer_to_a_made_up_request_is_undocumented() {
    let folder = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let seconds = std::env::var("REMEM_TEST_FUZZ_SECONDS").unwrap_or_else(|_| "60".to_owned());
    let ran = run(script("REMEM_TEST_OPENAPI_PYTHON", "fuzz.py")
        .arg(&server.url)
        .arg(seconds)
        .arg(work.path()));
    println!("{}", ran.stdout);
    assert!(ran.code == 0, "{}{}", ran.stdout, ran.stderr);
}
