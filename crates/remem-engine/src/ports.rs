//! What the engine needs from outside and tests replace: the time, fresh names, the keys of an
//! issuer of tokens, somebody who posts to webhooks, a language model, and a maker of vectors.

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

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now, as far as this clock knows. May jump; the engine never lets it run backwards.
    fn now(&self) -> Timestamp;
}

/// Makes names that nothing else has.
pub trait Ids: Send + Sync {
    /// A fresh entry id, later ones sorting after earlier ones.
    fn entry(&self) -> EntryId;
    /// A fresh key id.
    fn key(&self) -> PrincipalId;
    /// A fresh run id, later ones sorting after earlier ones.
    fn run(&self) -> RunId;
    /// A fresh name for whoever holds a lease.
    fn holder(&self) -> String;
    /// A fresh API key, unguessable.
    fn api_key(&self) -> Zeroizing<String>;
}

/// Knows the keys that an issuer of tokens signs with.
#[async_trait]
pub trait Keyset: Send + Sync {
    /// The keys as they are now, or were lately. `look_again` says that a token names one that was
    /// not among them; since anybody can say so, an implementation decides how often it believes
    /// it.
    async fn keys(&self, look_again: bool) -> Result<Arc<PublicKeys>, KeysetError>;
}

/// Why there are no keys. Names a class, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysetError {
    /// The file cannot be read.
    Unreadable,
    /// Nobody answered in time.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// An answer with a status other than 200.
    Status(u16),
    /// More than such a document holds.
    TooLarge,
    /// Not a JWKS document.
    Malformed,
}

impl KeysetError {
    /// The stable name.
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

/// Posts to URLs that strangers chose.
#[async_trait]
pub trait Post: Send + Sync {
    /// Posts once, follows nothing, and answers with the status. An implementation connects only to
    /// addresses that it has held against the rules.
    async fn post(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<u16, PostError>;
}

/// Why there was no answer. Names a class, never an address or a text of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The URL or an address behind its name is not one to connect to.
    Refused,
    /// Nobody answered in time.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
}

impl PostError {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PostError::Refused => "address_refused",
            PostError::Timeout => "timeout",
            PostError::Unreachable => "unreachable",
        }
    }
}

/// A language model. It is asked to rewrite texts and decides nothing; what it answers is checked
/// before anybody uses it.
#[async_trait]
pub trait Model: Send + Sync {
    /// What the model is called; kept with every call.
    fn name(&self) -> &str;
    /// Asks once, follows nothing, and answers with the text of the model, at most `bytes_max`
    /// long. `key` opens its door.
    async fn complete(
        &self,
        messages: &[Message],
        key: Option<&SecretValue>,
        bytes_max: usize,
    ) -> Result<String, ModelError>;
}

/// Why a model gave no answer. Names a class, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// Nobody answered in time.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// An answer with a status other than 200.
    Status(u16),
    /// An answer that is not what such servers send.
    Malformed,
    /// An answer that is too long.
    TooLarge,
    /// The key that is needed is not in the tenant's vault.
    NoKey,
}

impl ModelError {
    /// The stable name.
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

    /// Whether another attempt right away may fare better.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            ModelError::Unreachable | ModelError::Status(500..=599)
        )
    }
}

/// Makes vectors of texts. It is given redacted text only.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// What the model is called, its version included; kept with every vector.
    fn name(&self) -> &str;
    /// Components of every vector it makes.
    fn dimensions(&self) -> usize;
    /// One vector a text, in order. A text that is too long for the model counts with its
    /// beginning.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError>;
    /// Which vectors are its own.
    fn id(&self) -> ModelId {
        ModelId::of(self.name(), self.dimensions())
    }
}

/// Why there are no vectors. Names a class, never an address or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedderError {
    /// Nobody answered in time.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// An answer with a status other than 200.
    Status(u16),
    /// An answer that is not what such servers send, or not one vector a text.
    Malformed,
    /// Vectors with another number of components than the model was said to have.
    Dimensions,
    /// The model's files are missing or cannot be used.
    Unusable,
}

impl EmbedderError {
    /// The stable name.
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

/// Writes what a webhook is sent for an event; `None` for events that belong to no run.
pub type Envelope = fn(&TenantId, &Event) -> Option<Vec<u8>>;

/// The machine's clock.
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

/// Names from time and the machine's randomness.
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
    fn holder(&self) -> String {
        uuid::Uuid::now_v7().simple().to_string()
    }

    fn api_key(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0u8; 32]);
        getrandom::fill(bytes.as_mut()).expect("the machine has randomness");
        Zeroizing::new(format!("remem_{}", URL_SAFE_NO_PAD.encode(bytes.as_ref())))
    }
}

/// A clock that somebody else keeps, such as a database that all nodes share.
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
    /// A clock that stands at `at`.
    #[must_use]
    pub fn at(at: Timestamp) -> FixedClock {
        FixedClock(AtomicI64::new(at.0))
    }
    /// Moves it, in either direction.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Names that count up, for tests.
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
    fn holder(&self) -> String {
        format!("holder_{:06}", self.next())
    }
    fn api_key(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("remem_test-key-number-{:06}", self.next()))
    }
}

/// Keys that tests set: what the issuer has, and what this host saw of it when it last looked.
#[derive(Default)]
pub struct SetKeyset {
    seen: Mutex<Option<Arc<PublicKeys>>>,
    issuer: Mutex<Option<Arc<PublicKeys>>>,
    looked: AtomicU64,
}

impl SetKeyset {
    /// The issuer has these from now on; they are seen at the next look.
    pub fn set(&self, keys: PublicKeys) {
        *self.issuer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
    }

    /// Looks.
    pub fn look(&self) {
        let keys = self
            .issuer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// How often it was asked to look again.
    pub fn looked(&self) -> u64 {
        self.looked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Keyset for SetKeyset {
    async fn keys(&self, look_again: bool) -> Result<Arc<PublicKeys>, KeysetError> {
        if look_again {
            self.looked.fetch_add(1, Ordering::SeqCst);
            self.look();
        }
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or(KeysetError::Unreachable)
    }
}

/// What a test's receiver was sent.
#[derive(Clone, Debug)]
pub struct Posted {
    /// Where.
    pub url: String,
    /// The headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Posted {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(n, _)| *n == name)
            .map_or("", |(_, value)| value.as_str())
    }
}

/// What a receiver answers next; `None` is nothing, ever.
type Answers = VecDeque<Option<Result<u16, PostError>>>;

/// Receivers for tests: they keep what they get, and answer 200 unless told otherwise.
#[derive(Default)]
pub struct RecordedPost {
    posted: Mutex<Vec<Posted>>,
    answers: Mutex<HashMap<String, Answers>>,
}

impl RecordedPost {
    /// The next answers of a receiver, in order; `None` is none, ever.
    pub fn answer(
        &self,
        url: &str,
        answers: impl IntoIterator<Item = Option<Result<u16, PostError>>>,
    ) {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(url.to_owned())
            .or_default()
            .extend(answers);
    }

    /// What arrived since this was last asked.
    pub fn take(&self) -> Vec<Posted> {
        std::mem::take(&mut self.posted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Post for RecordedPost {
    async fn post(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<u16, PostError> {
        self.posted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Posted {
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

/// A model for tests: it says what it was told to, in order, and then nothing ever.
#[derive(Default)]
pub struct ScriptedModel {
    answers: Mutex<VecDeque<Result<String, ModelError>>>,
    asked: Mutex<Vec<Asked>>,
}

/// What a scripted model was asked, and with which key.
pub type Asked = (Vec<Message>, Option<String>);

impl ScriptedModel {
    /// A model with these answers.
    pub fn new(answers: impl IntoIterator<Item = Result<String, ModelError>>) -> ScriptedModel {
        ScriptedModel {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    /// What it was asked since this was last called.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Model for ScriptedModel {
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
        self.asked
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
