//! The HTTP endpoint of a language model or an embedding model that the operator configured. Since
//! the operator names the address, a server on this machine or in a private network is allowed;
//! tenants cannot change it.
//!
//! It follows no redirect and uses no proxy: the key goes to the configured address and nowhere
//! else. It never logs a key, a request or a response, and it never retries.

use anyhow::{Context, ensure};
use remem_core::sabotage;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;
use zeroize::Zeroizing;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const NAME_CHARS_MAX: usize = 200;

/// The endpoint's address and the limits of its responses.
pub struct Endpoint {
    url: Url,
    timeout: Duration,
    /// Maximum number of bytes of a response of any kind.
    bytes_max: usize,
    /// Built on first use: most commands never send a request, and reading the machine's
    /// certificates takes a while. `None` if it cannot be built.
    client: OnceLock<Option<reqwest::Client>>,
}

/// The reason why there is no response: a class, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointError {
    /// No response arrived within the timeout.
    Timeout,
    /// The connection could not be opened, or broke.
    Unreachable,
    /// The response has a status other than 200.
    Status(u16),
    /// The response is longer than the endpoint's limit.
    TooLarge,
}

impl Endpoint {
    /// Returns the endpoint `path` behind the `base_url` of a section of the configuration. Errors
    /// name a setting, never its value.
    pub fn new(
        section: &str,
        base: &str,
        path: &str,
        timeout_ms: u64,
        bytes_max: usize,
    ) -> anyhow::Result<Endpoint> {
        ensure!(
            (100..=600_000).contains(&timeout_ms),
            "{section}.timeout_ms must be between 100 and 600000"
        );
        let url = endpoint_url(section, base, path)?;
        let timeout = Duration::from_millis(timeout_ms);
        Ok(Endpoint {
            url,
            timeout,
            bytes_max,
            client: OnceLock::new(),
        })
    }

    /// Returns the time within which a response must arrive.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends one request and returns the body of the response.
    pub async fn post_json(
        &self,
        question: &Value,
        key: Option<HeaderValue>,
    ) -> Result<Vec<u8>, EndpointError> {
        let mut request = self.client()?.post(self.url.clone()).json(question);
        if let Some(key) = key {
            request = request.header(AUTHORIZATION, key);
        }
        let response = request.send().await.map_err(|error| error_class(&error))?;
        if response.status() != StatusCode::OK {
            return Err(EndpointError::Status(response.status().as_u16()));
        }
        self.read(response).await
    }

    fn client(&self) -> Result<&reqwest::Client, EndpointError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let built = sabotage!("the-model-s-key-follows-redirects", reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none()), reqwest::Client::builder())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT_TIMEOUT.min(self.timeout))
                .timeout(self.timeout)
                .pool_idle_timeout(Duration::from_secs(10))
                .build();
            built.inspect_err(|_| tracing::error!("no model can be asked: no HTTPS client, does this machine have root certificates?")).ok()
        });
        client.as_ref().ok_or(EndpointError::Unreachable)
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, EndpointError> {
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| error_class(&error))?
        {
            if sabotage!(
                "a-server-answers-for-ever",
                body.len() + chunk.len() > self.bytes_max,
                false
            ) {
                return Err(EndpointError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Returns the URL of the endpoint. A key sent over plain HTTP could be read on its way, so plain
/// HTTP is allowed only to this machine.
fn endpoint_url(section: &str, base: &str, path: &str) -> anyhow::Result<Url> {
    let url: Option<Url> = base
        .parse()
        .ok()
        .filter(|_| !base.contains(|c: char| c.is_control() || c.is_whitespace()));
    let mut url = url
        .filter(Url::has_host)
        .with_context(|| format!("{section}.base_url must be an absolute URL"))?;
    let bare = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    ensure!(
        bare,
        "{section}.base_url must hold neither a user, a password, a query nor a fragment"
    );
    sabotage!(
        "the-model-s-key-in-clear",
        ensure!(
            url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url),
            "{section}.base_url must begin with https://; http:// is for 127.0.0.1, [::1] and localhost"
        ),
        ensure!(
            url.scheme() == "https" || url.scheme() == "http",
            "{section}.base_url must begin with https://; http:// is for 127.0.0.1, [::1] and localhost"
        )
    );
    let path = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Returns whether the URL leads to this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address: Option<IpAddr> = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// Returns the configured name of a model behind an endpoint, if it is valid.
pub fn model_name(section: &str, name: Option<&String>) -> anyhow::Result<String> {
    let name = name.with_context(|| format!("{section}.base_url needs {section}.name"))?;
    let chars = name.chars().count();
    ensure!(
        (1..=NAME_CHARS_MAX).contains(&chars) && !name.contains(char::is_control),
        "{section}.name must be 1 to 200 visible characters"
    );
    Ok(name.clone())
}

/// Returns the header value for a key; `None` for a key that cannot be in a header. The value is
/// marked as sensitive, so that no HTTP library prints it.
pub fn bearer_header(key: &str) -> Option<HeaderValue> {
    let text = Zeroizing::new(format!("Bearer {key}"));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn error_class(error: &reqwest::Error) -> EndpointError {
    if error.is_timeout() {
        EndpointError::Timeout
    } else {
        EndpointError::Unreachable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_accepted_only_for_loopback_hosts() {
        for (base, url) in [
            (
                "https://llm.example.org/v1",
                "https://llm.example.org/v1/chat/completions",
            ),
            (
                "https://llm.example.org",
                "https://llm.example.org/chat/completions",
            ),
            (
                "https://10.0.0.7:8443/openai/v1/",
                "https://10.0.0.7:8443/openai/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:11434/v1",
                "http://127.0.0.1:11434/v1/chat/completions",
            ),
            ("http://[::1]:1/v1", "http://[::1]:1/v1/chat/completions"),
            (
                "http://localhost/v1",
                "http://localhost/v1/chat/completions",
            ),
        ] {
            assert_eq!(
                endpoint_url("model", base, "chat/completions")
                    .unwrap()
                    .as_str(),
                url
            );
        }
        for bad in [
            "",
            "llm.example.org",
            "http://llm.example.org/v1",
            "http://10.0.0.7/v1",
            "http://127.0.0.1.example.org/v1",
            "http://localhost.example.org/v1",
            "ftp://127.0.0.1/",
            "file:///v1",
            "https://user@llm.example.org/v1",
            "https://u:hidden-password@llm.example.org/v1",
            "https://llm.example.org/v1?key=hidden-password",
            "https://llm.example.org/v1#x",
            "https://llm.example.org/ v1",
        ] {
            let error = format!(
                "{:#}",
                endpoint_url("model", bad, "chat/completions").unwrap_err()
            );
            assert!(
                error.contains("model.base_url") && !error.contains("hidden-password"),
                "{bad}: {error}"
            );
        }
    }
}
