//! The dependencies of the engine that tests replace: the clock, ids, the keys of a token issuer,
//! the HTTP client of webhooks, a language model, and an embedding model.

use crate::bearer::PublicKeys;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_core::redact::SecretValue;
use remem_core::rewrite::Message;
use remem_core::{Embedding, EntryId, Event, ModelId, PrincipalId, RunId, TenantId, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time of this clock. It may jump; the engine never lets time run backwards.
    fn now(&self) -> Timestamp;
}

/// A source of unique ids.
pub trait Ids: Send + Sync {
    /// A new entry id; later ids sort after earlier ones.
    fn entry(&self) -> EntryId;
    /// A new id of an API key.
    fn key(&self) -> PrincipalId;
    /// A new run id; later ids sort after earlier ones.
    fn run(&self) -> RunId;
    /// A new unique name, for holders of leases and as part of other ids.
    fn unique_name(&self) -> String;
    /// The text of a new API key, unguessable.
    fn api_key(&self) -> Zeroizing<String>;
}

/// A source of the keys that a token issuer signs with.
#[async_trait]
pub trait Keyset: Send + Sync {
    /// Returns the issuer's keys, possibly cached. `refresh` says that a token names a key that was
    /// not among them. Since anyone can send such a token, an implementation limits how often it
    /// fetches the keys again.
    async fn keys(&self, refresh: bool) -> Result<Arc<PublicKeys>, KeysetError>;
}

/// Why the issuer's keys are not available. It names a class of error, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysetError {
    /// The file cannot be read.
    Unreadable,
    /// The request timed out.
    Timeout,
    /// The connection failed or broke.
    Unreachable,
    /// The answer has a status other than 200.
    Status(u16),
    /// The document has too many keys or bytes.
    TooLarge,
    /// The answer is not a JWKS document.
    Malformed,
}

impl KeysetError {
    /// The stable name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            KeysetError::Unreadable => "unreadable",
            KeysetError::Timeout => "timeout",
            KeysetError::Unreachable => "unreachable",
            KeysetError::Status(_) => "status",
            KeysetError::TooLarge => "too_large",
            KeysetError::Malformed => "malformed",
        }
    }
}

/// Sends requests to webhooks, whose URLs are chosen by callers.
#[async_trait]
pub trait WebhookSender: Send + Sync {
    /// Posts once, follows no redirect, and returns the status. An implementation connects only to
    /// addresses that it has checked against the rules.
    async fn post(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<u16, WebhookError>;
}

/// Why a webhook did not answer. It names a class of error, never an address or a text of the
/// receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookError {
    /// The URL, or an address that it resolves to, must not be connected to.
    Refused,
    /// The request timed out.
    Timeout,
    /// The connection failed or broke.
    Unreachable,
}

impl WebhookError {
    /// The stable name in records and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookError::Refused => "address_refused",
            WebhookError::Timeout => "timeout",
            WebhookError::Unreachable => "unreachable",
        }
    }
}

/// A language model, which rewrites texts and decides nothing: its answers are checked before use.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// The name of the model, stored with every call.
    fn name(&self) -> &str;
    /// Sends one request, follows no redirect, and returns the model's text, at most `bytes_max`
    /// long. `key` is the API key of the model.
    async fn complete(
        &self,
        messages: &[Message],
        key: Option<&SecretValue>,
        bytes_max: usize,
    ) -> Result<String, ModelError>;
}

/// Why a model gave no answer. It names a class of error, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// The request timed out.
    Timeout,
    /// The connection failed or broke.
    Unreachable,
    /// The answer has a status other than 200.
    Status(u16),
    /// The answer is not in the expected format.
    Malformed,
    /// The answer is too long.
    TooLarge,
    /// The required API key is not in the tenant's vault.
    NoKey,
}

impl ModelError {
    /// The stable name in records and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ModelError::Timeout => "timeout",
            ModelError::Unreachable => "unreachable",
            ModelError::Status(_) => "status",
            ModelError::Malformed => "malformed",
            ModelError::TooLarge => "too_large",
            ModelError::NoKey => "no_key",
        }
    }

    /// Whether an immediate retry may succeed.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            ModelError::Unreachable | ModelError::Status(500..=599)
        )
    }
}

/// An embedding model, which gets redacted text only.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The name of the model with its version, stored with every vector.
    fn name(&self) -> &str;
    /// The dimension of its vectors.
    fn dimensions(&self) -> usize;
    /// Computes one vector for each text, in order. A text that is too long for the model is cut.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError>;
    /// Identifies the model's vectors in the store.
    fn id(&self) -> ModelId {
        ModelId::of(self.name(), self.dimensions())
    }
}

/// Why there are no vectors. It names a class of error, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedderError {
    /// The request timed out.
    Timeout,
    /// The connection failed or broke.
    Unreachable,
    /// The answer has a status other than 200.
    Status(u16),
    /// The answer is not in the expected format, or has not one vector for each text.
    Malformed,
    /// The vectors have another dimension than was configured.
    Dimensions,
    /// The model's files are missing or cannot be used.
    Unusable,
}

impl EmbedderError {
    /// The stable name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EmbedderError::Timeout => "timeout",
            EmbedderError::Unreachable => "unreachable",
            EmbedderError::Status(_) => "status",
            EmbedderError::Malformed => "malformed",
            EmbedderError::Dimensions => "dimensions",
            EmbedderError::Unusable => "unusable",
        }
    }
}

/// Renders an event as the body of a webhook delivery; `None` for events that are never sent.
pub type WebhookRenderer = fn(&TenantId, &Event) -> Option<Vec<u8>>;

/// The machine's wall clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the wall clock"
    )]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Ids from the time and the machine's randomness.
pub struct RandomIds;

impl Ids for RandomIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that draws ids"
    )]
    fn entry(&self) -> EntryId {
        EntryId::parse(&format!("mem_{}", uuid::Uuid::now_v7().simple()))
            .expect("hex digits are a valid id")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that draws ids"
    )]
    fn key(&self) -> PrincipalId {
        let hex = uuid::Uuid::now_v7().simple().to_string();
        PrincipalId::parse(&format!("key_{}{}", &hex[..10], &hex[24..]))
            .expect("hex digits are a valid name")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that draws ids"
    )]
    fn run(&self) -> RunId {
        RunId::parse(&format!("run_{}", uuid::Uuid::now_v7().simple()))
            .expect("hex digits are a valid name")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that draws ids"
    )]
    fn unique_name(&self) -> String {
        uuid::Uuid::now_v7().simple().to_string()
    }

    fn api_key(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        getrandom::fill(bytes.as_mut()).expect("the machine has randomness");
        Zeroizing::new(format!("remem_{}", URL_SAFE_NO_PAD.encode(bytes.as_ref())))
    }
}

/// A clock outside of this process, such as a database that all nodes share.
pub struct SharedClock(pub Box<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// A clock that tests set.
#[derive(Default)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that shows `at` until it is set.
    #[must_use]
    pub fn at(at: Timestamp) -> FixedClock {
        FixedClock(AtomicI64::new(at.0))
    }
    /// Sets the time, in either direction.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Ids that count up, for tests.
#[derive(Default)]
pub struct CountedIds(AtomicU64);

impl CountedIds {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Ids for CountedIds {
    fn entry(&self) -> EntryId {
        EntryId::parse(&format!("mem_{:06}", self.next())).expect("digits are a valid id")
    }
    fn key(&self) -> PrincipalId {
        PrincipalId::parse(&format!("key_{:06}", self.next())).expect("digits are a valid name")
    }
    fn run(&self) -> RunId {
        RunId::parse(&format!("run_{:06}", self.next())).expect("digits are a valid name")
    }
    fn unique_name(&self) -> String {
        format!("holder_{:06}", self.next())
    }
    fn api_key(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("remem_test-key-number-{:06}", self.next()))
    }
}

/// Keys that tests set: those of the issuer, and those that were cached at the last refresh.
#[derive(Default)]
pub struct TestKeyset {
    cached: Mutex<Option<Arc<PublicKeys>>>,
    issuer: Mutex<Option<Arc<PublicKeys>>>,
    refreshes: AtomicU64,
}

impl TestKeyset {
    /// Sets the issuer's keys; the cache gets them at the next refresh.
    pub fn set(&self, keys: PublicKeys) {
        *self.issuer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
    }

    /// Copies the issuer's keys to the cache.
    pub fn refresh(&self) {
        let keys = self
            .issuer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// How often a refresh was requested.
    pub fn refresh_count(&self) -> u64 {
        self.refreshes.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Keyset for TestKeyset {
    async fn keys(&self, refresh: bool) -> Result<Arc<PublicKeys>, KeysetError> {
        if refresh {
            self.refreshes.fetch_add(1, Ordering::SeqCst);
            self.refresh();
        }
        self.cached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or(KeysetError::Unreachable)
    }
}

/// A request that a test's receiver got.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The URL of the request.
    pub url: String,
    /// The headers of the request.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the request.
    pub body: Vec<u8>,
}

impl RecordedRequest {
    /// The value of a header; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(n, _)| *n == name)
            .map_or("", |(_, value)| value.as_str())
    }
}

/// The next answers of a receiver; `None` means that it never answers.
type Answers = VecDeque<Option<Result<u16, WebhookError>>>;

/// Receivers for tests: they record requests, and answer 200 unless another answer was set.
#[derive(Default)]
pub struct RecordingWebhookSender {
    requests: Mutex<Vec<RecordedRequest>>,
    answers: Mutex<HashMap<String, Answers>>,
}

impl RecordingWebhookSender {
    /// Sets the next answers of a receiver, in order; `None` means that it never answers.
    pub fn set_answers(
        &self,
        url: &str,
        answers: impl IntoIterator<Item = Option<Result<u16, WebhookError>>>,
    ) {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(url.to_owned())
            .or_default()
            .extend(answers);
    }

    /// Takes the requests that arrived since the last call.
    pub fn take_requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl WebhookSender for RecordingWebhookSender {
    async fn post(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<u16, WebhookError> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(RecordedRequest {
                url: url.to_owned(),
                headers,
                body,
            });
        let next = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(url)
            .and_then(VecDeque::pop_front);
        match next {
            None => Ok(200),
            Some(Some(answer)) => answer,
            Some(None) => std::future::pending().await,
        }
    }
}

/// A model for tests: it gives the prepared answers in order, and after that never answers.
#[derive(Default)]
pub struct ScriptedModel {
    answers: Mutex<VecDeque<Result<String, ModelError>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

/// A request to a scripted model, with its API key.
pub type ModelRequest = (Vec<Message>, Option<String>);

impl ScriptedModel {
    /// A model with these answers.
    pub fn new(answers: impl IntoIterator<Item = Result<String, ModelError>>) -> ScriptedModel {
        ScriptedModel {
            answers: Mutex::new(answers.into_iter().collect()),
            requests: Mutex::default(),
        }
    }

    /// Takes the requests that were sent since the last call.
    pub fn take_requests(&self) -> Vec<ModelRequest> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl LanguageModel for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn complete(
        &self,
        messages: &[Message],
        key: Option<&SecretValue>,
        _: usize,
    ) -> Result<String, ModelError> {
        let key = key.map(|key| key.expose(str::to_owned));
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((messages.to_vec(), key));
        let next = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        match next {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
