//! Calls of the language model: one bounded request to rewrite a text, and a ledger record of it
//! for every outcome. The model decides nothing: an answer is redacted and checked, and dropped if
//! anything is wrong with it. The ledger stores digests and positions, never a text.

use crate::caller::Caller;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use crate::ports::{LanguageModel, ModelError};
use crate::webhook::send::hex;
use remem_core::admission::check_name;
use remem_core::record::or_default;
use remem_core::redact::SecretValue;
use remem_core::rewrite::{self, Message, Rewrite, RewriteJob};
use remem_core::sabotage;
use remem_core::{
    EntryId, MemoryRef, Permission, Record, RecordBody, RecordKind, Rejection, StoredRecord,
    TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// The language model with its settings.
#[derive(Clone)]
pub struct ModelPort {
    /// The client of the model.
    pub model: Arc<dyn LanguageModel>,
    /// Name of the tenant's vault secret that holds the model's API key; none is needed if absent.
    pub key_secret: Option<String>,
    /// Time limit of a call, including the retry.
    pub deadline: Duration,
}

/// A text to be rewritten, and what the ledger records about it.
#[derive(Clone, Debug)]
pub struct RewriteRequest {
    /// The text and the evidence that supports it.
    pub job: RewriteJob,
    /// The memory that the text belongs to.
    pub memory_ref: MemoryRef,
    /// The entry that will hold the rewrite, or the deterministic text if there is none.
    pub output: Option<EntryId>,
    /// The information that undoing the rewrite needs.
    pub undo: Undo,
}

/// How to undo a rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undo {
    /// The SHA-256 of the deterministic archive, as its record names it.
    pub archive: String,
    /// The entries that the output replaces.
    pub replaces: Vec<EntryId>,
}

/// A call that was made. `body` must be stored by the batch that acts on it, as
/// `RecordKind::ModelCall` under `key`, with `Precondition::Absent`: then a change by the model is
/// never stored without its ledger record.
#[derive(Debug)]
pub struct ModelCall {
    /// The key of the ledger record.
    pub key: String,
    /// The body of the ledger record.
    pub body: RecordBody,
    /// The rewrite, if it passed the checks; otherwise the deterministic text is used.
    pub rewrite: Option<Rewrite>,
    /// The outcome: `accepted`, or why there is no rewrite.
    pub outcome: &'static str,
}

/// A ledger record as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCallInfo {
    /// The id of the record; later ones sort after earlier ones.
    pub id: String,
    /// When it was stored.
    pub at: Timestamp,
    /// The facts about the call, without texts.
    pub body: Map<String, Value>,
}

/// The body of a ledger record, with its name: digests and ids, no texts. Fields that a call has
/// not are absent, not `null`.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StoredModelCall {
    #[serde(skip)]
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub accepted: bool,
    /// The outcome: `accepted`, or why there is no rewrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The status of the endpoint's answer, if it was an error.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub status: Option<u16>,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// The entry that holds the rewritten text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub evidence: Option<Vec<StoredEvidence>>,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub undo: Option<StoredUndo>,
    /// When the rewrite was undone, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_at: Option<String>,
}

/// The sentence of a source that a line of the rewrite rests on.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredEvidence {
    line: u64,
    source: String,
    start: u64,
    end: u64,
}

/// What undoing a rewrite needs, as the ledger stores it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredUndo {
    archive: String,
    replaces: Vec<String>,
}

impl StoredRecord for StoredModelCall {
    const KIND: RecordKind = RecordKind::ModelCall;

    fn key(&self) -> String {
        self.key.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.key.clone_from(&record.key);
    }
}

/// The outcome for an answer that contained a secret.
const SECRET_IN_ANSWER: &str = "secret_in_answer";
/// The outcome for evidence that contains a secret, which is not sent.
const SECRET_IN_EVIDENCE: &str = "secret_in_evidence";
const PROMPT_TOO_LARGE: &str = "prompt_too_large";
const ACCEPTED: &str = "accepted";
/// Prefix of the keys of ledger records.
const KEY_PREFIX: &str = "call_";
/// Ledger records read with one query.
const PAGE_SIZE: u32 = 500;
/// Delay before the retry.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The outcome of a request.
#[derive(Default)]
struct RewriteOutcome {
    response: Option<[u8; 32]>,
    status: Option<u16>,
    rewrite: Option<Rewrite>,
    outcome: &'static str,
}

impl RewriteOutcome {
    /// An outcome without a rewrite.
    fn rejected(outcome: &'static str) -> RewriteOutcome {
        RewriteOutcome {
            outcome,
            ..RewriteOutcome::default()
        }
    }
}

impl Engine {
    /// Whether this host has a language model.
    #[must_use]
    pub fn has_model(&self) -> bool {
        self.parts.model.is_some()
    }

    /// Requests a rewrite from the model; `None` if there is no model. A failure of the model is
    /// not an error: the call states why there is no rewrite. An error means that the tenant's
    /// redaction rules could not be read.
    ///
    /// The evidence must be redacted for its readers. Nothing is stored here.
    pub async fn rewrite(
        &self,
        tenant: &TenantId,
        request: &RewriteRequest,
    ) -> Result<Option<ModelCall>, EngineError> {
        let Some(port) = &self.parts.model else {
            return Ok(None);
        };
        check_name(
            self.redaction_rules(tenant).await?.redactor(),
            "memoryRef",
            request.memory_ref.as_str(),
        )?;
        let messages = rewrite::prompt(&request.job);
        let started = self.parts.clock.now();
        let outcome = self
            .request_rewrite(port, tenant, request, &messages)
            .await?;
        let duration_ms = self.parts.clock.now().0.saturating_sub(started.0).max(0);
        metrics::counter!("remem_model_calls_total", "outcome" => outcome.outcome).increment(1);
        if outcome.rewrite.is_none() {
            tracing::info!(%tenant, why = outcome.outcome, "the model's rewrite is not used");
        }
        let facts = self.ledger_body(port, request, &messages, &outcome, duration_ms);
        let policy = self.policy_for(tenant).await?;
        let body = self
            .redaction_rules(tenant)
            .await?
            .admission(&policy, self.now_for(tenant).await?)
            .redact_stored(&facts);
        let key = format!("{KEY_PREFIX}{}", self.parts.ids.unique_name());
        Ok(Some(ModelCall {
            key,
            body,
            rewrite: outcome.rewrite,
            outcome: outcome.outcome,
        }))
    }

    /// Sends the request, and redacts and checks the answer.
    async fn request_rewrite(
        &self,
        port: &ModelPort,
        tenant: &TenantId,
        request: &RewriteRequest,
        messages: &[Message],
    ) -> Result<RewriteOutcome, EngineError> {
        let policy = self.policy_for(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        if messages
            .iter()
            .map(|message| message.content.len())
            .sum::<usize>()
            > policy.model_prompt_bytes_max
        {
            return Ok(RewriteOutcome::rejected(PROMPT_TOO_LARGE));
        }
        let is_clean =
            |text: &str| rules.redactor().clean(text, policy.shapes).text.as_str() == text;
        let texts = request
            .job
            .evidence
            .iter()
            .map(|evidence| &evidence.text)
            .chain([&request.job.plain_text]);
        // Texts are redacted when they are stored and read; this is the last check before one
        // leaves the host.
        if !sabotage!(
            "secrets-go-to-the-model",
            texts.into_iter().all(|text| is_clean(text)),
            true
        ) {
            return Ok(RewriteOutcome::rejected(SECRET_IN_EVIDENCE));
        }
        let key = match &port.key_secret {
            None => None,
            Some(name) => match self.tenant_secret(tenant, name).await? {
                None => return Ok(RewriteOutcome::rejected(ModelError::NoKey.as_str())),
                found => found,
            },
        };
        let answer =
            match complete_with_retry(port, messages, key.as_ref(), policy.model_answer_bytes_max)
                .await
            {
                Ok(answer) => answer,
                Err(error) => {
                    let status = if let ModelError::Status(status) = error {
                        Some(status)
                    } else {
                        None
                    };
                    return Ok(RewriteOutcome {
                        status,
                        ..RewriteOutcome::rejected(error.as_str())
                    });
                }
            };
        let response = Some(self.ledger_hash([answer.as_bytes()]));
        // The vault may have changed while the model was answering.
        let rules = self.redaction_rules(tenant).await?;
        let redacted = sabotage!(
            "a-model-s-answer-is-not-redacted",
            rules
                .redactor()
                .clean_derived(&answer, policy.shapes)
                .text
                .into_string(),
            answer.clone()
        );
        Ok(match rewrite::check_answer(&request.job, &redacted) {
            Ok(rewrite) => RewriteOutcome {
                response,
                status: None,
                rewrite: Some(rewrite),
                outcome: ACCEPTED,
            },
            Err(refusal) => {
                let outcome = if redacted == answer {
                    refusal.as_str()
                } else {
                    SECRET_IN_ANSWER
                };
                RewriteOutcome {
                    response,
                    ..RewriteOutcome::rejected(outcome)
                }
            }
        })
    }

    /// A keyed hash for the ledger, so that its readers cannot try out texts.
    fn ledger_hash<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
        let mut digest = RequestDigest::default();
        parts.into_iter().for_each(|part| digest.part(part));
        *blake3::keyed_hash(
            &self.parts.host_key.derive("remembrancer model ledger v1"),
            digest.bytes(),
        )
        .as_bytes()
    }

    /// The body of the ledger record.
    fn ledger_body(
        &self,
        port: &ModelPort,
        request: &RewriteRequest,
        messages: &[Message],
        outcome: &RewriteOutcome,
        duration_ms: i64,
    ) -> StoredModelCall {
        let prompt = messages
            .iter()
            .flat_map(|message| [message.role.as_str().as_bytes(), message.content.as_bytes()]);
        let mut evidence = Vec::new();
        for (line, diff) in outcome
            .rewrite
            .iter()
            .flat_map(|rewrite| rewrite.diff.iter().enumerate())
        {
            evidence.extend(diff.spans.iter().map(|span| StoredEvidence {
                line: line as u64 + 1,
                source: span.source.clone(),
                start: span.start as u64,
                end: span.end as u64,
            }));
        }
        let replaces = request.undo.replaces.iter();
        StoredModelCall {
            key: String::new(),
            request_hash: Some(hex(&self.ledger_hash(prompt))),
            response_hash: outcome.response.map(|response| hex(&response)),
            model: Some(port.model.name().to_owned()),
            accepted: outcome.rewrite.is_some(),
            why: Some(outcome.outcome.to_owned()),
            status: outcome.status,
            duration_ms: Some(duration_ms),
            memory_ref: Some(request.memory_ref.as_str().to_owned()),
            output_id: request.output.as_ref().map(|id| id.as_str().to_owned()),
            evidence: Some(evidence),
            undo: Some(StoredUndo {
                archive: request.undo.archive.clone(),
                replaces: replaces.map(|id| id.as_str().to_owned()).collect(),
            }),
            undone_at: None,
        }
    }

    /// Lists the ledger of the caller's tenant, oldest first, after the given record; and whether
    /// there are more.
    pub async fn list_model_calls(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<ModelCallInfo>, bool), EngineError> {
        sabotage!(
            "anybody-reads-the-model-s-ledger",
            caller.require(Permission::MemoryAdmin)?
        );
        if after.is_some_and(|after| !after.starts_with(KEY_PREFIX)) {
            return Err(Rejection::Invalid {
                field: "after",
                rule: "must be the nextAfter of an earlier page",
            }
            .into());
        }
        let limit = self.parts.policy.list_limit(limit) as usize;
        let mut found = Vec::new();
        let mut after = after.map(str::to_owned);
        while found.len() <= limit {
            let page = self
                .parts
                .store
                .records(
                    caller.tenant(),
                    RecordKind::ModelCall,
                    KEY_PREFIX,
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            let full = page.len() == PAGE_SIZE as usize;
            after = page.last().map(|last| last.key.clone());
            found.extend(
                page.into_iter()
                    .filter(|record| is_visible_to(caller, record)),
            );
            if !full {
                break;
            }
        }
        let more = found.len() > limit;
        found.truncate(limit);
        // Redact again: a memory's name may have become a secret since the record was stored.
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, self.now_for(caller.tenant()).await?);
        let to_info = |record: Record| ModelCallInfo {
            id: record.key,
            at: record.at,
            body: admission.redact_record(record.body).map().clone(),
        };
        Ok((found.into_iter().map(to_info).collect(), more))
    }
}

/// Whether the caller may know of the memory that a ledger record is about.
fn is_visible_to(caller: &Caller, record: &Record) -> bool {
    let memory_ref = StoredModelCall::read(record).and_then(|call| call.memory_ref);
    let memory_ref = memory_ref.as_deref().and_then(MemoryRef::parse);
    memory_ref.is_none_or(|memory_ref| {
        sabotage!("anybody-sees-the-ledger", caller.may_see(&memory_ref), true)
    })
}

/// Sends a request, and retries once if the failure may be transient; all within the deadline.
async fn complete_with_retry(
    port: &ModelPort,
    messages: &[Message],
    key: Option<&SecretValue>,
    bytes_max: usize,
) -> Result<String, ModelError> {
    let attempts = async {
        match port.model.complete(messages, key, bytes_max).await {
            Err(error) if error.is_transient() => {
                tokio::time::sleep(RETRY_DELAY).await;
                port.model.complete(messages, key, bytes_max).await
            }
            other => other,
        }
    };
    let answer = tokio::time::timeout(port.deadline, attempts)
        .await
        .unwrap_or(Err(ModelError::Timeout))?;
    if answer.len() > bytes_max {
        Err(ModelError::TooLarge)
    } else {
        Ok(answer)
    }
}
