//! Which models make the vectors of texts: what the configuration says, or else what is installed.
//! It makes the ports and asks nobody anything; a model that is configured and not there stops the
//! start.

pub mod catalogue;
pub mod install;
mod local;
mod remote;
mod words;

use crate::config;
use anyhow::{Context, bail, ensure};
use catalogue::{OFFERS, Offer};
use local::LocalModel;
use remem_core::sabotage;
use remem_engine::ports::Embedder;
use remote::RemoteModel;
use std::path::Path;
use std::sync::Arc;

const SECTION: &str = "embedder";
const PREVIOUS: &str = "embedder.previous";

/// The models of a host.
#[derive(Default)]
pub struct Embedders {
    /// Makes the vectors of what is written and of what is asked.
    pub current: Option<Arc<dyn Embedder>>,
    /// Made the vectors that are still served, where it was another.
    pub previous: Option<Arc<dyn Embedder>>,
}

/// A section of the configuration, understood.
enum Choice<'a> {
    Local(&'static Offer),
    Remote(&'a str),
}

/// The models that the configuration names; without a word about them the installed one, if there
/// is one.
pub fn embedders(config: &config::Embedder, data_dir: &Path) -> anyhow::Result<Embedders> {
    if config.off {
        return Ok(Embedders::default());
    }
    let current = choice(SECTION, config, Some(data_dir))?
        .map(|choice| open(SECTION, config, choice, data_dir))
        .transpose()?;
    let Some(before) = &config.previous else {
        return Ok(Embedders {
            current,
            previous: None,
        });
    };
    ensure!(
        current.is_some(),
        "{PREVIOUS} needs a model that comes after it: set embedder.model or embedder.base_url"
    );
    ensure!(
        !before.off && before.previous.is_none(),
        "{PREVIOUS} has neither `off` nor a `previous` of its own"
    );
    let chosen = choice(PREVIOUS, before, None)?
        .with_context(|| format!("{PREVIOUS} must have a model or a base_url"))?;
    let previous = open(PREVIOUS, before, chosen, data_dir)?;
    ensure!(
        current
            .as_ref()
            .is_none_or(|current| current.id() != previous.id()),
        "{PREVIOUS} is the same model as {SECTION}"
    );
    Ok(Embedders {
        current,
        previous: Some(previous),
    })
}

/// What a local model is used for, if anything: `current` or `previous`. For showing.
pub fn usage(config: &config::Embedder, data_dir: &Path, offer: &Offer) -> Option<&'static str> {
    let is = |choice: anyhow::Result<Option<Choice>>| matches!(choice, Ok(Some(Choice::Local(found))) if found == offer);
    if config.off {
        return None;
    }
    if is(choice(SECTION, config, Some(data_dir))) {
        return Some("current");
    }
    config
        .previous
        .as_deref()
        .filter(|before| is(choice(PREVIOUS, before, None)))
        .map(|_| "previous")
}

/// What a section names. With a folder to look into, a section that names nothing means the one
/// model that is installed there.
fn choice<'a>(
    section: &str,
    config: &'a config::Embedder,
    installed_in: Option<&Path>,
) -> anyhow::Result<Option<Choice<'a>>> {
    match (&config.model, &config.base_url) {
        (Some(_), Some(_)) => {
            bail!("{section}.model and {section}.base_url are both set; keep one of them")
        }
        (None, Some(base)) => return Ok(Some(Choice::Remote(base))),
        _ => {}
    }
    let alone = config.name.is_none() && config.dimensions.is_none() && config.key_file.is_none();
    ensure!(
        alone,
        "{section}.name, {section}.dimensions and {section}.key_file need {section}.base_url"
    );
    if let Some(name) = &config.model {
        return Ok(Some(Choice::Local(
            find(name).with_context(|| format!("{section}.model"))?,
        )));
    }
    let installed = installed_in.map(|data_dir| {
        OFFERS
            .iter()
            .filter(|offer| install::is_installed(data_dir, offer))
            .collect::<Vec<_>>()
    });
    Ok(match installed.as_deref() {
        Some([offer]) => Some(Choice::Local(offer)),
        _ => None,
    })
}

fn open(
    section: &str,
    config: &config::Embedder,
    choice: Choice<'_>,
    data_dir: &Path,
) -> anyhow::Result<Arc<dyn Embedder>> {
    match choice {
        Choice::Remote(base) => Ok(Arc::new(RemoteModel::new(section, config, base)?)),
        Choice::Local(offer) => {
            let there = sabotage!(
                "a-missing-model-is-overlooked",
                install::is_installed(data_dir, offer),
                true
            );
            ensure!(
                there,
                "{section}.model {} is not installed; install it with `{}`",
                offer.name,
                offer.command()
            );
            Ok(Arc::new(LocalModel::new(offer, data_dir.to_owned())))
        }
    }
}

/// The model of this name that can be installed.
pub fn find(name: &str) -> anyhow::Result<&'static Offer> {
    Offer::find(name).with_context(|| {
        let known: Vec<&str> = OFFERS.iter().map(|offer| offer.name).collect();
        format!("unknown model; known models are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests;
