//! The public keys of a token issuer, from a file or a URL that the operator named: when they are
//! read again, and for how long old ones are trusted. The engine decides which tokens a key is
//! valid for.
//!
//! It follows no redirect and uses no proxy, reads a bounded document within a deadline, and logs
//! classes of errors only.

use async_trait::async_trait;
use remem_core::sabotage;
use remem_engine::bearer::PublicKeys;
use remem_engine::ports::{Keyset, KeysetError};
use reqwest::{StatusCode, Url};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of bytes of a key document.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// The longest time that fetching a document may take, from the connection to the last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The shortest times between two fetches, and the longest life of old keys.
#[derive(Clone, Copy)]
pub struct FetchIntervals {
    /// The interval after a fetch that succeeded.
    after_success: Duration,
    /// The interval after a fetch that failed, and between two fetches caused by tokens that name
    /// an unknown key.
    after_failure: Duration,
    /// The interval while there are no keys at all.
    without_keys: Duration,
    /// The time for which keys are trusted while fetches fail.
    stale_max: Duration,
}

const STALE_MAX: Duration = Duration::from_secs(24 * 3_600);
const SECOND: Duration = Duration::from_secs(1);
/// The intervals for a file, which costs next to nothing to check.
const FILE_INTERVALS: FetchIntervals = FetchIntervals {
    after_success: SECOND,
    after_failure: SECOND,
    without_keys: SECOND,
    stale_max: STALE_MAX,
};
/// The intervals for a URL: its server belongs to another party, so it is asked less often.
const URL_INTERVALS: FetchIntervals = FetchIntervals {
    after_success: Duration::from_secs(300),
    after_failure: Duration::from_secs(30),
    without_keys: SECOND,
    stale_max: STALE_MAX,
};

/// The result of fetching a key document.
pub enum FetchedKeys {
    /// The document has not changed since the last fetch.
    Unchanged,
    /// The bytes of a new document.
    Document(Vec<u8>),
}

/// The source of a key document: a file or a URL.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// Fetches the document once.
    async fn fetch(&self) -> Result<FetchedKeys, KeysetError>;
}

/// The keys of a source, cached.
pub struct CachedKeyset<P> {
    source: P,
    intervals: FetchIntervals,
    state: Mutex<KeysetState>,
    /// Held by the task that fetches the document; the others use the cached keys meanwhile.
    fetch_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KeysetState {
    keys: Option<Arc<PublicKeys>>,
    /// The instant when the source last confirmed the keys.
    confirmed_at: Option<Instant>,
    /// The instant when the last fetch began.
    fetched_at: Option<Instant>,
    /// The instant of the last fetch that an unknown key caused.
    unknown_key_at: Option<Instant>,
    /// The number of fetches that have ended.
    fetches: u64,
    /// The reason why the last fetch failed. A fetch that was abandoned counts as unreachable.
    failure: Option<KeysetError>,
}

/// Returns the keys in a file.
#[must_use]
pub fn from_file(path: PathBuf) -> CachedKeyset<KeyFile> {
    CachedKeyset::new(
        KeyFile {
            path,
            last_version: Mutex::default(),
        },
        FILE_INTERVALS,
    )
}

/// Returns the keys behind a URL.
#[must_use]
pub fn from_url(url: Url) -> CachedKeyset<KeyUrl> {
    CachedKeyset::new(
        KeyUrl {
            url,
            client: OnceLock::new(),
        },
        URL_INTERVALS,
    )
}

impl<P: KeySource> CachedKeyset<P> {
    fn new(source: P, intervals: FetchIntervals) -> CachedKeyset<P> {
        CachedKeyset {
            source,
            intervals,
            state: Mutex::default(),
            fetch_lock: tokio::sync::Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, KeysetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it is time to fetch the keys again, for a token with an unknown key or
    /// without that reason.
    fn is_due(&self, unknown_key: bool) -> bool {
        let state = self.state();
        let Some(last_fetch) = state.fetched_at else {
            return true;
        };
        let interval = match (&state.keys, state.failure) {
            (None, _) => self.intervals.without_keys,
            (Some(_), None) => self.intervals.after_success,
            (Some(_), Some(_)) => self.intervals.after_failure,
        };
        // Tokens cost nothing to make up: without this limit every request of a stranger would
        // cause a fetch.
        let key_may_be_new = unknown_key
            && state.keys.is_some()
            && state.unknown_key_at.is_none_or(|last| {
                sabotage!(
                    "every-stranger-makes-the-host-fetch",
                    last.elapsed() >= self.intervals.after_failure,
                    true
                )
            });
        last_fetch.elapsed() >= interval || key_may_be_new
    }

    /// Returns the cached keys while they may be trusted.
    fn trusted_keys(&self) -> Option<Arc<PublicKeys>> {
        let state = self.state();
        state.keys.clone().filter(|_| {
            state.confirmed_at.is_some_and(|confirmed| {
                confirmed.elapsed()
                    < sabotage!("old-keys-for-ever", self.intervals.stale_max, Duration::MAX)
            })
        })
    }

    /// Fetches the keys once and caches the result.
    async fn refresh(&self, unknown_key: bool) {
        let failure_before = {
            let mut state = self.state();
            let now = Some(Instant::now());
            state.fetched_at = now;
            state.unknown_key_at = if unknown_key {
                now
            } else {
                state.unknown_key_at
            };
            // Stays if this future is dropped before the fetch ends.
            state.failure.replace(KeysetError::Unreachable)
        };
        let fetched = self.source.fetch().await.and_then(|fetched| match fetched {
            FetchedKeys::Unchanged => Ok(None),
            FetchedKeys::Document(bytes) => PublicKeys::parse(&bytes).map(Some),
        });
        let mut state = self.state();
        state.fetches += 1;
        match fetched {
            Ok(new) => {
                if let Some(keys) = new {
                    tracing::info!(
                        keys = keys.len(),
                        left_out = keys.unusable(),
                        "the keys that tokens are signed with were read"
                    );
                    state.keys = Some(Arc::new(keys));
                }
                (state.confirmed_at, state.failure) = (Some(Instant::now()), None);
            }
            Err(error) => {
                if failure_before != Some(error) {
                    tracing::warn!(
                        reason = error.as_str(),
                        "the keys that tokens are signed with cannot be read; old ones serve for a day"
                    );
                }
                state.failure = Some(error);
            }
        }
    }
}

#[async_trait]
impl<P: KeySource> Keyset for CachedKeyset<P> {
    async fn keys(&self, look_again: bool) -> Result<Arc<PublicKeys>, KeysetError> {
        let fetches = self.state().fetches;
        // A caller with usable keys does not wait for another task's fetch; one without keys, or
        // with a token of an unknown key, does.
        let fetch_lock = match self.trusted_keys() {
            Some(_) if look_again => Some(self.fetch_lock.lock().await),
            Some(_) if self.is_due(false) => self.fetch_lock.try_lock().ok(),
            Some(_) => None,
            None => Some(self.fetch_lock.lock().await),
        };
        let fetched_meanwhile = self.state().fetches != fetches;
        if fetch_lock.is_some() && !fetched_meanwhile && self.is_due(look_again) {
            self.refresh(look_again).await;
        }
        let failure = self.state().failure.unwrap_or(KeysetError::Unreachable);
        self.trusted_keys().ok_or(failure)
    }
}

/// The version of a file: inode, length, and the times of modification and change. A file that is
/// rewritten, or replaced by another, differs in one of these.
type FileVersion = (u64, u64, (i64, i64), (i64, i64));

/// A key document in a file.
pub struct KeyFile {
    path: PathBuf,
    /// The version that was last read.
    last_version: Mutex<Option<FileVersion>>,
}

#[async_trait]
impl KeySource for KeyFile {
    async fn fetch(&self) -> Result<FetchedKeys, KeysetError> {
        let metadata = tokio::fs::metadata(&self.path)
            .await
            .map_err(|_| KeysetError::Unreadable)?;
        let version = (
            metadata.ino(),
            metadata.len(),
            (metadata.mtime(), metadata.mtime_nsec()),
            (metadata.ctime(), metadata.ctime_nsec()),
        );
        if *self
            .last_version
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            == Some(version)
        {
            return Ok(FetchedKeys::Unchanged);
        }
        if metadata.len() > DOCUMENT_BYTES_MAX as u64 {
            return Err(KeysetError::TooLarge);
        }
        let bytes = tokio::fs::read(&self.path)
            .await
            .map_err(|_| KeysetError::Unreadable)?;
        // The version is recorded only if the document can be parsed: a file that is half written
        // is read again.
        PublicKeys::parse(&bytes)?;
        *self
            .last_version
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(version);
        Ok(FetchedKeys::Document(bytes))
    }
}

/// A key document behind a URL.
pub struct KeyUrl {
    url: Url,
    /// Built on first use: reading the machine's certificates takes a while. `None` if it cannot be
    /// built.
    client: OnceLock<Option<reqwest::Client>>,
}

impl KeyUrl {
    fn client(&self) -> Result<&reqwest::Client, KeysetError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().referer(false);
            let built = builder.connect_timeout(FETCH_TIMEOUT).timeout(FETCH_TIMEOUT).pool_max_idle_per_host(0).build();
            built
                .inspect_err(|_| tracing::error!("no keys can be fetched: no HTTPS client, does this machine have root certificates?"))
                .ok()
        });
        client.as_ref().ok_or(KeysetError::Unreachable)
    }
}

#[async_trait]
impl KeySource for KeyUrl {
    async fn fetch(&self) -> Result<FetchedKeys, KeysetError> {
        let error_class = |error: reqwest::Error| {
            if error.is_timeout() {
                KeysetError::Timeout
            } else {
                KeysetError::Unreachable
            }
        };
        let mut response = self
            .client()?
            .get(self.url.clone())
            .send()
            .await
            .map_err(error_class)?;
        if response.status() != StatusCode::OK {
            return Err(KeysetError::Status(response.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(error_class)? {
            if bytes.len() + chunk.len() > DOCUMENT_BYTES_MAX {
                return Err(KeysetError::TooLarge);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(FetchedKeys::Document(bytes))
    }
}

#[cfg(test)]
mod tests;
