//! The client for a language model behind an OpenAI-compatible endpoint. The operator names the address, so that a server on
//! this machine or in a private network is as good as a public one; tenants have no say in it.
//!
//! It follows no redirect and uses no proxy: the key goes to the address that was configured and nowhere else. It never logs
//! a key, a question or an answer.

use crate::config;
use anyhow::{Context, ensure};
use async_trait::async_trait;
use remem_core::redact::SecretValue;
use remem_core::rewrite::Message;
use remem_engine::model::ModelPort;
use remem_engine::ports::{Model, ModelError};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use zeroize::Zeroizing;

/// Bytes of a response at the most, whatever it holds.
const BODY_BYTES_MAX: usize = 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(5);
const NAME_CHARS_MAX: usize = 200;

/// A model behind a URL.
pub struct ChatModel {
    url: Url,
    name: String,
    timeout: Duration,
    /// Made on first use: most commands never ask, and reading the machine's certificates takes a while.
    client: OnceLock<Option<reqwest::Client>>,
}

/// The part of a response that counts. Servers add what they like.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
}

#[derive(Deserialize)]
struct Said {
    content: String,
}

/// The model that the configuration names; none without a base URL. Errors name a key, never its value.
pub fn port(config: &config::Model) -> anyhow::Result<Option<ModelPort>> {
    let Some(base) = &config.base_url else {
        ensure!(config.name.is_none() && config.key_secret.is_none(), "model.name and model.key_secret need model.base_url");
        return Ok(None);
    };
    let name = config.name.clone().context("model.base_url needs model.name")?;
    let chars = name.chars().count();
    ensure!((1..=NAME_CHARS_MAX).contains(&chars) && !name.contains(char::is_control), "model.name must be 1 to 200 visible characters");
    ensure!((100..=600_000).contains(&config.timeout_ms), "model.timeout_ms must be between 100 and 600000");
    let timeout = Duration::from_millis(config.timeout_ms);
    let model = ChatModel { url: endpoint(base)?, name, timeout, client: OnceLock::new() };
    Ok(Some(ModelPort { model: Arc::new(model), key_secret: config.key_secret.clone(), deadline: timeout }))
}

/// Where questions go. A key sent over plain HTTP could be read on the way, so that is for this machine alone.
fn endpoint(base: &str) -> anyhow::Result<Url> {
    let url: Option<Url> = base.parse().ok().filter(|_| !base.contains(|c: char| c.is_control() || c.is_whitespace()));
    let mut url = url.filter(Url::has_host).context("model.base_url must be an absolute URL")?;
    let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    ensure!(bare, "model.base_url must hold neither a user, a password, a query nor a fragment");
    ensure!(
        url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url),
        "model.base_url must begin with https://; http:// is for 127.0.0.1, [::1] and localhost"
    );
    let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Whether the URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

impl ChatModel {
    fn client(&self) -> Result<&reqwest::Client, ModelError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let built = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT.min(self.timeout))
                .timeout(self.timeout)
                .pool_idle_timeout(Duration::from_secs(10))
                .build();
            built.inspect_err(|_| tracing::error!("no model can be asked: no HTTPS client, does this machine have root certificates?")).ok()
        });
        client.as_ref().ok_or(ModelError::Unreachable)
    }

    fn question(&self, messages: &[Message]) -> Value {
        let messages: Vec<_> = messages.iter().map(|m| json!({"role": m.role.as_str(), "content": m.content})).collect();
        json!({"model": self.name, "messages": messages, "temperature": 0, "stream": false, "response_format": {"type": "json_object"}})
    }
}

#[async_trait]
impl Model for ChatModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(&self, messages: &[Message], key: Option<&SecretValue>, bytes_max: usize) -> Result<String, ModelError> {
        let mut request = self.client()?.post(self.url.clone()).json(&self.question(messages));
        if let Some(key) = key {
            request = request.header(AUTHORIZATION, bearer(key)?);
        }
        let response = request.send().await.map_err(|error| class(&error))?;
        if response.status() != StatusCode::OK {
            return Err(ModelError::Status(response.status().as_u16()));
        }
        let body = read(response).await?;
        let completion: Completion = serde_json::from_slice(&body).map_err(|_| ModelError::Malformed)?;
        let said = completion.choices.into_iter().next().ok_or(ModelError::Malformed)?.message.content;
        if said.len() > bytes_max { Err(ModelError::TooLarge) } else { Ok(said) }
    }
}

/// Marked as sensitive: no library on the way prints it.
fn bearer(key: &SecretValue) -> Result<HeaderValue, ModelError> {
    let text = key.expose(|key| Zeroizing::new(format!("Bearer {key}")));
    // A key that cannot be a header is as good as none.
    let mut value = HeaderValue::from_str(&text).map_err(|_| ModelError::NoKey)?;
    value.set_sensitive(true);
    Ok(value)
}

async fn read(mut response: Response) -> Result<Vec<u8>, ModelError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| class(&error))? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(ModelError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn class(error: &reqwest::Error) -> ModelError {
    if error.is_timeout() { ModelError::Timeout } else { ModelError::Unreachable }
}

#[cfg(test)]
mod tests;
