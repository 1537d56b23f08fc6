//! The real model, as `scripts/test` installs it: its vectors are those that another runtime makes
//! of the same files.

use super::*;
use crate::embedder::catalogue::OFFERS;
use std::fs;

/// The data directory that holds the model.
fn installed() -> PathBuf {
    let missing = "REMEM_TEST_MODELS must name a data directory with the model: scripts/test sets it, or \
                   `cargo run -p remem -- --data-dir target/test-models model install` makes one";
    let folder = PathBuf::from(std::env::var("REMEM_TEST_MODELS").expect(missing));
    assert!(install::is_installed(&folder, &OFFERS[0]), "{missing}");
    folder
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn similarities_match_those_of_onnxruntime() {
    // What onnxruntime makes of the same files, in full precision.
    let pairs = [
        (
            "Ann likes tea in the morning.",
            "In the morning Ann drinks tea.",
            0.870,
        ),
        (
            "The gate opens at nine.",
            "Invoices are paid within thirty days.",
            -0.018,
        ),
        (
            "How do I reset my password?",
            "Steps to recover a forgotten login.",
            0.603,
        ),
        ("Ben does not like fish.", "Ben likes fish.", 0.840),
        (
            "Der Zug fährt um acht Uhr nach Köln.",
            "The train to Cologne leaves at eight o'clock.",
            0.284,
        ),
    ];
    let model = LocalModel::new(&OFFERS[0], installed());
    assert_eq!(
        (model.dimensions(), model.name()),
        (384, "all-minilm-l6-v2@8199be6f699a")
    );
    assert!(model.embed(&[]).await.unwrap().is_empty());
    for (one, other, cosine) in pairs {
        let vectors = model.embed(&texts(&[one, other])).await.unwrap();
        let found = vectors[0].cosine(&vectors[1]);
        assert!(
            (found - cosine).abs() < 0.006,
            "{one} / {other}: {found}, not {cosine}"
        );
    }
}

#[tokio::test]
async fn a_vector_does_not_depend_on_its_batch() {
    let model = LocalModel::new(&OFFERS[0], installed());
    // More than a group, in no order of length, so that each is filled up beside others.
    let mixed: Vec<String> = (0..GROUP_TEXTS_MAX + 5)
        .map(|n| {
            format!(
                "Note {n}: {}",
                "the gate opens at nine. ".repeat(n * 7 % 11)
            )
        })
        .collect();
    let together = model.embed(&mixed).await.unwrap();
    for n in [0, 1, 7, GROUP_TEXTS_MAX, GROUP_TEXTS_MAX + 4] {
        let alone = model.embed(&mixed[n..=n]).await.unwrap();
        assert!(
            alone[0].cosine(&together[n]) > 0.9995,
            "{n}: {}",
            alone[0].cosine(&together[n])
        );
    }
}

#[tokio::test]
async fn only_the_beginning_of_a_long_text_is_embedded() {
    let model = LocalModel::new(&OFFERS[0], installed());
    let start = "The gate opens at nine. ".repeat(50);
    let all = texts(&[
        &start,
        &format!("{start} {}", "Ben likes fish. ".repeat(2_000)),
        "",
        "東京",
    ]);
    let vectors = model.embed(&all).await.unwrap();
    assert_eq!(vectors[0], vectors[1]);
    assert!(vectors[2].cosine(&vectors[3]) < 0.9);
}

#[test]
fn tokens_match_the_reference_tokenizer() {
    let json = install::read_installed(&installed(), &OFFERS[0], &OFFERS[0].tokenizer).unwrap();
    let words = Tokenizer::new(&json, 256).unwrap();
    let tokens = words
        .tokens("ﬁancé naïve ÅNGSTRÖM 東京 don't—stop… e\u{301} 🙂")
        .unwrap();
    assert_eq!(
        tokens,
        [
            101, 1984, 6651, 15743, 17076, 15687, 1879, 1755, 2123, 1005, 1056, 1517, 2644, 1529,
            1041, 100, 102
        ]
    );
}

#[tokio::test]
async fn changed_model_files_make_the_model_unusable() {
    let from = installed();
    let to = tempfile::tempdir().unwrap();
    let place = install::model_folder(to.path(), &OFFERS[0]);
    fs::create_dir_all(&place).unwrap();
    for part in OFFERS[0].files() {
        fs::copy(
            install::model_folder(&from, &OFFERS[0]).join(part.file),
            place.join(part.file),
        )
        .unwrap();
    }
    let tokenizer = place.join(OFFERS[0].tokenizer.file);
    let changed = fs::read_to_string(&tokenizer)
        .unwrap()
        .replacen("\"[PAD]\"", "\"[PAT]\"", 1);
    fs::write(&tokenizer, changed).unwrap();
    let model = LocalModel::new(&OFFERS[0], to.path().to_owned());
    assert_eq!(
        model.embed(&texts(&["Ben likes fish."])).await.unwrap_err(),
        EmbedderError::Unusable
    );
}
