//! The client for a language model behind an OpenAI-compatible endpoint: the body of a request, and
//! the part of a response that is used. The HTTP call is in `endpoint.rs`. It never logs a key, a
//! request or a response.

use crate::config;
use crate::endpoint::{self, Endpoint, EndpointError, bearer_header};
use anyhow::ensure;
use async_trait::async_trait;
use remem_core::redact::SecretValue;
use remem_core::rewrite::Message;
use remem_engine::model::ModelPort;
use remem_engine::ports::{LanguageModel, ModelError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of bytes of a response of any kind.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// A language model behind a URL.
pub struct ChatModel {
    endpoint: Endpoint,
    name: String,
}

/// The part of a response that is used. Servers may add other fields.
#[derive(Deserialize)]
struct Completion {
    choices: Vec<CompletionChoice>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    message: CompletionMessage,
}

#[derive(Deserialize)]
struct CompletionMessage {
    content: String,
}

/// Returns the model that the configuration names; `None` without a base URL. Errors name a
/// setting, never its value.
pub fn model_port(config: &config::ModelConfig) -> anyhow::Result<Option<ModelPort>> {
    let Some(base) = &config.base_url else {
        ensure!(
            config.name.is_none() && config.key_secret.is_none(),
            "model.name and model.key_secret need model.base_url"
        );
        return Ok(None);
    };
    let name = endpoint::model_name("model", config.name.as_ref())?;
    let endpoint = Endpoint::new(
        "model",
        base,
        "chat/completions",
        config.timeout_ms,
        BODY_BYTES_MAX,
    )?;
    let deadline = endpoint.timeout();
    Ok(Some(ModelPort {
        model: Arc::new(ChatModel { endpoint, name }),
        key_secret: config.key_secret.clone(),
        deadline,
    }))
}

impl ChatModel {
    fn request_body(&self, messages: &[Message]) -> Value {
        let messages: Vec<_> = messages
            .iter()
            .map(|m| json!({"role": m.role.as_str(), "content": m.content}))
            .collect();
        json!({"model": self.name, "messages": messages, "temperature": 0, "stream": false, "response_format": {"type": "json_object"}})
    }
}

#[async_trait]
impl LanguageModel for ChatModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(
        &self,
        messages: &[Message],
        key: Option<&SecretValue>,
        bytes_max: usize,
    ) -> Result<String, ModelError> {
        // A key that cannot be in a header is treated as if there were none.
        let key = key
            .map(|key| key.expose(bearer_header).ok_or(ModelError::NoKey))
            .transpose()?;
        let body = self
            .endpoint
            .post_json(&self.request_body(messages), key)
            .await?;
        let completion: Completion =
            serde_json::from_slice(&body).map_err(|_| ModelError::Malformed)?;
        let text = completion
            .choices
            .into_iter()
            .next()
            .ok_or(ModelError::Malformed)?
            .message
            .content;
        if text.len() > bytes_max {
            Err(ModelError::TooLarge)
        } else {
            Ok(text)
        }
    }
}

impl From<EndpointError> for ModelError {
    fn from(error: EndpointError) -> ModelError {
        match error {
            EndpointError::Timeout => ModelError::Timeout,
            EndpointError::Unreachable => ModelError::Unreachable,
            EndpointError::Status(status) => ModelError::Status(status),
            EndpointError::TooLarge => ModelError::TooLarge,
        }
    }
}

#[cfg(test)]
mod tests;
