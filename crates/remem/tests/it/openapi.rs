//! Proves that tools of other projects can work with the OpenAPI document of a running host.
//! The scripts are in `openapi/`. The gate validates the document; `scripts/test --full=suites`
//! installs a linter, two generators and a fuzzer, and runs the other scripts with them.

use crate::common::{ServerProcess, run};
use std::path::Path;
use std::process::Command;

#[test]
fn the_openapi_document_of_a_running_host_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let Some(python) = std::env::var_os("REMEM_TEST_PYTHON") else {
        panic!("REMEM_TEST_PYTHON is not set: run `scripts/test`, which installs the validator")
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join("openapi")
        .join("validate.py");
    let ran = run(Command::new(python).arg("-B").arg(script).arg(&server.url));
    assert!(ran.code == 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with("0 errors in "), "{}", ran.stdout);
}
