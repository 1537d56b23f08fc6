//! `remem model`: installs, lists and checks embedding models. The catalogue of models and their
//! files on disk are in `embedder/`.

use crate::cli::{GlobalArgs, ModelCommand, ModelInstallArgs};
use crate::config::{self, Config};
use crate::embedder::catalogue::{ModelOffer, OFFERS};
use crate::embedder::{self, install};
use crate::output;
use anyhow::ensure;
use indicatif::ProgressBar;
use serde_json::json;
use std::io::IsTerminal;
use std::time::Duration;

/// Runs a subcommand of `remem model`.
pub async fn run(global: &GlobalArgs, model: &ModelCommand) -> anyhow::Result<()> {
    let config = config::load(global, None)?;
    match model {
        ModelCommand::Install(wanted) => install_model(global, &config, wanted).await,
        ModelCommand::List => list(global, &config),
        ModelCommand::Verify { name } => verify(global, &config, name.as_deref()),
    }
}

async fn install_model(
    global: &GlobalArgs,
    config: &Config,
    wanted: &ModelInstallArgs,
) -> anyhow::Result<()> {
    let offer = embedder::find_offer(&wanted.name)?;
    let data_dir = &config.storage.data_dir;
    let fresh = wanted.force || !install::find_flaws(data_dir, offer).is_empty();
    let folder = if fresh {
        let bar = progress_bar(global);
        let done = install::install(data_dir, offer, &wanted.from, &|step| {
            bar.set_message(step.to_owned())
        })
        .await;
        bar.finish_and_clear();
        done?
    } else {
        install::model_folder(data_dir, offer)
    };
    if global.json {
        return output::json(
            &json!({"name": offer.name, "installed": fresh, "folder": folder, "bytes": offer.bytes()}),
        );
    }
    let outcome = if fresh {
        "installed"
    } else {
        "is already installed and intact:"
    };
    println!("{} {outcome} {}", offer.name, folder.display());
    if fresh {
        println!("Restart a running server to use it.");
    }
    Ok(())
}

fn progress_bar(global: &GlobalArgs) -> ProgressBar {
    if global.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn list(global: &GlobalArgs, config: &Config) -> anyhow::Result<()> {
    let data_dir = &config.storage.data_dir;
    let state = |offer| {
        (
            install::is_installed(data_dir, offer),
            embedder::usage(&config.embedder, data_dir, offer),
        )
    };
    if global.json {
        let models = OFFERS.iter().map(|offer| {
            let (installed, usage) = state(offer);
            let packages = offer.files().map(|part| format!("{}=={}", part.package.0, part.package.1));
            json!({
                "name": offer.name, "installed": installed, "dimensions": offer.dimensions, "bytes": offer.bytes(),
                "licence": offer.licence, "usedAs": usage, "packages": packages,
            })
        });
        return output::json(&models.collect::<Vec<_>>());
    }
    let rows = OFFERS.iter().map(|offer| {
        let (installed, usage) = state(offer);
        let megabytes = format!("{} MB", offer.bytes().div_ceil(1_000_000));
        let installed = if installed { "yes" } else { "no" };
        vec![
            offer.name,
            installed,
            &offer.dimensions.to_string(),
            &megabytes,
            offer.licence,
            usage.unwrap_or("-"),
        ]
        .into_iter()
        .map(str::to_owned)
        .collect()
    });
    output::table(
        &[
            "NAME",
            "INSTALLED",
            "DIMENSIONS",
            "SIZE",
            "LICENCE",
            "IN USE",
        ],
        rows.collect(),
        "no models",
    );
    Ok(())
}

fn verify(global: &GlobalArgs, config: &Config, name: Option<&str>) -> anyhow::Result<()> {
    let data_dir = &config.storage.data_dir;
    let exists = |offer: &&ModelOffer| install::model_folder(data_dir, offer).exists();
    let offers: Vec<&'static ModelOffer> = match name {
        Some(name) => vec![embedder::find_offer(name)?],
        None => OFFERS.iter().filter(exists).collect(),
    };
    ensure!(
        !offers.is_empty(),
        "no model is installed; install one with `{}`",
        OFFERS[0].command()
    );
    let mut wrong = 0;
    let mut results = Vec::new();
    for offer in offers {
        ensure!(
            exists(&offer),
            "{} is not installed; install it with `{}`",
            offer.name,
            offer.command()
        );
        let flaws = install::find_flaws(data_dir, offer);
        wrong += flaws.len();
        let files: Vec<_> = flaws
            .iter()
            .map(|(part, flaw)| json!({"file": part.file, "flaw": flaw.as_str()}))
            .collect();
        results.push(json!({"name": offer.name, "ok": files.is_empty(), "wrong": files}));
        if global.json {
            continue;
        }
        if flaws.is_empty() {
            println!("{} is intact", offer.name);
        }
        for (part, flaw) in flaws {
            println!("{}: {} is {}", offer.name, part.file, flaw.as_str());
        }
    }
    if global.json {
        output::json(&results)?;
    }
    ensure!(
        wrong == 0,
        "{}; reinstall with `remem model install`",
        output::count(wrong as u64, "file is damaged", "files are damaged")
    );
    Ok(())
}
