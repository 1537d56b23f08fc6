//! Chooses the embedding models: those that the configuration names, or else the installed one. It
//! builds the ports and sends no request; a configured model that is not installed stops the start.

pub mod catalogue;
pub mod install;
mod local;
mod remote;
mod tokenizer;

use crate::config;
use anyhow::{Context, bail, ensure};
use catalogue::{ModelOffer, OFFERS};
use local::LocalModel;
use remem_core::sabotage;
use remem_engine::ports::Embedder;
use remote::RemoteModel;
use std::path::Path;
use std::sync::Arc;

const CURRENT_SECTION: &str = "embedder";
const PREVIOUS_SECTION: &str = "embedder.previous";

/// The embedding models of a host.
#[derive(Default)]
pub struct Embedders {
    /// The model for new vectors, of entries and of queries.
    pub current: Option<Arc<dyn Embedder>>,
    /// The model before it, if the vectors that searches use are still its.
    pub previous: Option<Arc<dyn Embedder>>,
}

/// The model that a section of the configuration names: an installed one, or a base URL.
enum ModelChoice<'a> {
    Local(&'static ModelOffer),
    Remote(&'a str),
}

/// Returns the models that the configuration names; if it names none, the installed model, if there
/// is exactly one.
pub fn embedders(config: &config::EmbedderConfig, data_dir: &Path) -> anyhow::Result<Embedders> {
    if config.off {
        return Ok(Embedders::default());
    }
    let current = configured_model(CURRENT_SECTION, config, Some(data_dir))?
        .map(|choice| open_model(CURRENT_SECTION, config, choice, data_dir))
        .transpose()?;
    let Some(before) = &config.previous else {
        return Ok(Embedders {
            current,
            previous: None,
        });
    };
    ensure!(
        current.is_some(),
        "{PREVIOUS_SECTION} needs a model that comes after it: set embedder.model or embedder.base_url"
    );
    ensure!(
        !before.off && before.previous.is_none(),
        "{PREVIOUS_SECTION} has neither `off` nor a `previous` of its own"
    );
    let chosen = configured_model(PREVIOUS_SECTION, before, None)?
        .with_context(|| format!("{PREVIOUS_SECTION} must have a model or a base_url"))?;
    let previous = open_model(PREVIOUS_SECTION, before, chosen, data_dir)?;
    ensure!(
        current
            .as_ref()
            .is_none_or(|current| current.id() != previous.id()),
        "{PREVIOUS_SECTION} is the same model as {CURRENT_SECTION}"
    );
    Ok(Embedders {
        current,
        previous: Some(previous),
    })
}

/// Returns how a local model is used, for display: `current`, `previous` or not at all.
pub fn usage(
    config: &config::EmbedderConfig,
    data_dir: &Path,
    offer: &ModelOffer,
) -> Option<&'static str> {
    let is = |choice: anyhow::Result<Option<ModelChoice>>| matches!(choice, Ok(Some(ModelChoice::Local(found))) if found == offer);
    if config.off {
        return None;
    }
    if is(configured_model(CURRENT_SECTION, config, Some(data_dir))) {
        return Some("current");
    }
    config
        .previous
        .as_deref()
        .filter(|before| is(configured_model(PREVIOUS_SECTION, before, None)))
        .map(|_| "previous")
}

/// Returns the model that a section names. With a data directory, a section that names nothing
/// means the model that is installed there, if there is exactly one.
fn configured_model<'a>(
    section: &str,
    config: &'a config::EmbedderConfig,
    installed_in: Option<&Path>,
) -> anyhow::Result<Option<ModelChoice<'a>>> {
    match (&config.model, &config.base_url) {
        (Some(_), Some(_)) => {
            bail!("{section}.model and {section}.base_url are both set; keep one of them")
        }
        (None, Some(base)) => return Ok(Some(ModelChoice::Remote(base))),
        _ => {}
    }
    let alone = config.name.is_none() && config.dimensions.is_none() && config.key_file.is_none();
    ensure!(
        alone,
        "{section}.name, {section}.dimensions and {section}.key_file need {section}.base_url"
    );
    if let Some(name) = &config.model {
        return Ok(Some(ModelChoice::Local(
            find_offer(name).with_context(|| format!("{section}.model"))?,
        )));
    }
    let installed = installed_in.map(|data_dir| {
        OFFERS
            .iter()
            .filter(|offer| install::is_installed(data_dir, offer))
            .collect::<Vec<_>>()
    });
    Ok(match installed.as_deref() {
        Some([offer]) => Some(ModelChoice::Local(offer)),
        _ => None,
    })
}

fn open_model(
    section: &str,
    config: &config::EmbedderConfig,
    choice: ModelChoice<'_>,
    data_dir: &Path,
) -> anyhow::Result<Arc<dyn Embedder>> {
    match choice {
        ModelChoice::Remote(base) => Ok(Arc::new(RemoteModel::new(section, config, base)?)),
        ModelChoice::Local(offer) => {
            let installed = sabotage!(
                "a-missing-model-is-overlooked",
                install::is_installed(data_dir, offer),
                true
            );
            ensure!(
                installed,
                "{section}.model {} is not installed; install it with `{}`",
                offer.name,
                offer.command()
            );
            Ok(Arc::new(LocalModel::new(offer, data_dir.to_owned())))
        }
    }
}

/// Returns the model of this name from the catalogue.
pub fn find_offer(name: &str) -> anyhow::Result<&'static ModelOffer> {
    ModelOffer::find(name).with_context(|| {
        let known: Vec<&str> = OFFERS.iter().map(|offer| offer.name).collect();
        format!("unknown model; known models are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests;
