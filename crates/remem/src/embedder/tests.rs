//! The choice of a host's embedding models by its configuration.

use super::*;
use std::fs;

/// A data directory in which the model seems to be installed: `open` checks lengths, not bytes.
fn seemingly_installed() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let folder = install::model_folder(data.path(), &OFFERS[0]);
    fs::create_dir_all(&folder).unwrap();
    for part in OFFERS[0].files() {
        fs::File::create(folder.join(part.file))
            .unwrap()
            .set_len(part.bytes)
            .unwrap();
    }
    data
}

fn named(name: &str) -> config::EmbedderConfig {
    config::EmbedderConfig {
        model: Some(name.to_owned()),
        ..config::EmbedderConfig::default()
    }
}

fn remote() -> config::EmbedderConfig {
    config::EmbedderConfig {
        base_url: Some("https://vectors.example.org/v1".to_owned()),
        name: Some("small-vectors".to_owned()),
        dimensions: Some(64),
        ..config::EmbedderConfig::default()
    }
}

/// The names of the current and the previous model, or what is wrong.
fn names(config: &config::EmbedderConfig, data_dir: &Path) -> Result<(String, String), String> {
    let name = |model: &Option<Arc<dyn Embedder>>| {
        model
            .as_ref()
            .map_or("-".to_owned(), |model| model.name().to_owned())
    };
    embedders(config, data_dir)
        .map(|e| (name(&e.current), name(&e.previous)))
        .map_err(|error| format!("{error:#}"))
}

fn both(one: &str, other: &str) -> Result<(String, String), String> {
    Ok((one.to_owned(), other.to_owned()))
}

#[test]
fn an_installed_model_is_used_unless_configured_otherwise() {
    let empty = tempfile::tempdir().unwrap();
    let full = seemingly_installed();
    let unset = config::EmbedderConfig::default();
    let local = OFFERS[0].identity();
    assert_eq!(names(&unset, empty.path()), both("-", "-"));
    assert_eq!(names(&unset, full.path()), both(&local, "-"));
    assert_eq!(
        names(&named("all-minilm-l6-v2"), full.path()),
        both(&local, "-")
    );
    assert_eq!(names(&remote(), full.path()), both("small-vectors", "-"));
    assert_eq!(
        names(&config::EmbedderConfig { off: true, ..unset }, full.path()),
        both("-", "-")
    );
    assert_eq!(
        names(
            &config::EmbedderConfig {
                off: true,
                ..named("no-such-model")
            },
            full.path()
        ),
        both("-", "-")
    );
    fs::remove_file(install::model_folder(full.path(), &OFFERS[0]).join(OFFERS[0].tokenizer.file))
        .unwrap();
    assert_eq!(
        names(&config::EmbedderConfig::default(), full.path()),
        both("-", "-"),
        "half a model is none"
    );
}

#[test]
fn a_configured_model_that_is_not_installed_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let error = names(&named("all-minilm-l6-v2"), empty.path()).unwrap_err();
    assert_eq!(
        error,
        "embedder.model all-minilm-l6-v2 is not installed; install it with `remem model install all-minilm-l6-v2`"
    );
    let error = names(&named("no-such-model"), empty.path()).unwrap_err();
    assert_eq!(
        error,
        "embedder.model: unknown model; known models are all-minilm-l6-v2"
    );
}

#[test]
fn the_previous_model_must_differ_and_be_installed() {
    let full = seemingly_installed();
    let after = |previous: config::EmbedderConfig| config::EmbedderConfig {
        previous: Some(Box::new(previous)),
        ..remote()
    };
    assert_eq!(
        names(&after(named("all-minilm-l6-v2")), full.path()),
        both("small-vectors", &OFFERS[0].identity())
    );
    let other = config::EmbedderConfig {
        dimensions: Some(128),
        ..remote()
    };
    assert_eq!(
        names(&after(other), full.path()),
        both("small-vectors", "small-vectors"),
        "told apart by their width"
    );
    for (config, says) in [
        (after(remote()), "the same model"),
        (
            after(config::EmbedderConfig::default()),
            "must have a model or a base_url",
        ),
        (
            after(config::EmbedderConfig {
                off: true,
                ..named("all-minilm-l6-v2")
            }),
            "neither `off` nor",
        ),
        (after(after(named("all-minilm-l6-v2"))), "neither `off` nor"),
        (
            config::EmbedderConfig {
                model: Some("all-minilm-l6-v2".to_owned()),
                ..remote()
            },
            "are both set",
        ),
        (
            config::EmbedderConfig {
                base_url: None,
                ..remote()
            },
            "need embedder.base_url",
        ),
    ] {
        let error = names(&config, full.path()).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    let error = names(
        &after(named("all-minilm-l6-v2")),
        tempfile::tempdir().unwrap().path(),
    )
    .unwrap_err();
    assert!(
        error.starts_with("embedder.previous.model all-minilm-l6-v2 is not installed"),
        "{error}"
    );
    let alone = config::EmbedderConfig {
        previous: Some(Box::new(remote())),
        ..config::EmbedderConfig::default()
    };
    assert!(
        names(&alone, tempfile::tempdir().unwrap().path())
            .unwrap_err()
            .contains("needs a model that comes after it")
    );
}

#[test]
fn model_usage_is_current_previous_or_none() {
    let full = seemingly_installed();
    let usage = |config: &config::EmbedderConfig| usage(config, full.path(), &OFFERS[0]);
    assert_eq!(usage(&config::EmbedderConfig::default()), Some("current"));
    assert_eq!(usage(&remote()), None);
    assert_eq!(
        usage(&config::EmbedderConfig {
            previous: Some(Box::new(named("all-minilm-l6-v2"))),
            ..remote()
        }),
        Some("previous")
    );
    assert_eq!(
        usage(&config::EmbedderConfig {
            off: true,
            ..config::EmbedderConfig::default()
        }),
        None
    );
}
