//! What the engine needs from outside and tests replace: the time and fresh names.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_core::{EntryId, PrincipalId, RunId, Timestamp};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
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

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Names from time and the machine's randomness.
pub struct RandomIds;

impl Ids for RandomIds {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws ids")]
    fn entry(&self) -> EntryId {
        EntryId::parse(&format!("mem_{}", uuid::Uuid::now_v7().simple())).expect("hex digits are a valid id")
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws ids")]
    fn key(&self) -> PrincipalId {
        let hex = uuid::Uuid::now_v7().simple().to_string();
        PrincipalId::parse(&format!("key_{}{}", &hex[..10], &hex[24..])).expect("hex digits are a valid name")
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws ids")]
    fn run(&self) -> RunId {
        RunId::parse(&format!("run_{}", uuid::Uuid::now_v7().simple())).expect("hex digits are a valid name")
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws ids")]
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
