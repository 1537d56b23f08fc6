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
const FETCH: Duration = Duration::from_secs(5);

/// The shortest times between two fetches, and the longest life of old keys.
#[derive(Clone, Copy)]
pub struct Pace {
    /// The interval after a fetch that succeeded.
    again: Duration,
    /// The interval after a fetch that failed, and between two fetches caused by tokens that name
    /// an unknown key.
    early: Duration,
    /// The interval while there are no keys at all.
    without: Duration,
    /// The time for which keys are trusted while fetches fail.
    old_max: Duration,
}

const OLD_MAX: Duration = Duration::from_secs(24 * 3_600);
const SECOND: Duration = Duration::from_secs(1);
/// The intervals for a file, which costs next to nothing to check.
const OF_FILE: Pace = Pace {
    again: SECOND,
    early: SECOND,
    without: SECOND,
    old_max: OLD_MAX,
};
/// The intervals for a URL: its server belongs to another party, so it is asked less often.
const OF_URL: Pace = Pace {
    again: Duration::from_secs(300),
    early: Duration::from_secs(30),
    without: SECOND,
    old_max: OLD_MAX,
};

/// The result of fetching a key document.
pub enum Found {
    /// The document has not changed since the last fetch.
    Same,
    /// The bytes of a new document.
    Document(Vec<u8>),
}

/// The source of a key document: a file or a URL.
#[async_trait]
pub trait Place: Send + Sync {
    /// Fetches the document once.
    async fn look(&self) -> Result<Found, KeysetError>;
}

/// The keys of a source, cached.
pub struct Remembered<P> {
    place: P,
    pace: Pace,
    held: Mutex<Held>,
    /// Held by the task that fetches the document; the others use the cached keys meanwhile.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    keys: Option<Arc<PublicKeys>>,
    /// The instant when the source last confirmed the keys.
    seen: Option<Instant>,
    /// The instant when the last fetch began.
    looked: Option<Instant>,
    /// The instant of the last fetch that an unknown key caused.
    asked: Option<Instant>,
    /// The number of fetches that have ended.
    looks: u64,
    /// The reason why the last fetch failed. A fetch that was abandoned counts as unreachable.
    failure: Option<KeysetError>,
}

/// Returns the keys in a file.
#[must_use]
pub fn of_file(path: PathBuf) -> Remembered<File> {
    Remembered::new(
        File {
            path,
            state: Mutex::default(),
        },
        OF_FILE,
    )
}

/// Returns the keys behind a URL.
#[must_use]
pub fn of_url(url: Url) -> Remembered<Remote> {
    Remembered::new(
        Remote {
            url,
            client: OnceLock::new(),
        },
        OF_URL,
    )
}

impl<P: Place> Remembered<P> {
    fn new(place: P, pace: Pace) -> Remembered<P> {
        Remembered {
            place,
            pace,
            held: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it is time to fetch the keys again, for a token with an unknown key or
    /// without that reason.
    fn is_due(&self, unknown_key: bool) -> bool {
        let state = self.held();
        let Some(last_fetch) = state.looked else {
            return true;
        };
        let interval = match (&state.keys, state.failure) {
            (None, _) => self.pace.without,
            (Some(_), None) => self.pace.again,
            (Some(_), Some(_)) => self.pace.early,
        };
        // Tokens cost nothing to make up: without this limit every request of a stranger would
        // cause a fetch.
        let key_may_be_new = unknown_key
            && state.keys.is_some()
            && state.asked.is_none_or(|last| {
                sabotage!(
                    "every-stranger-makes-the-host-fetch",
                    last.elapsed() >= self.pace.early,
                    true
                )
            });
        last_fetch.elapsed() >= interval || key_may_be_new
    }

    /// Returns the cached keys while they may be trusted.
    fn believed(&self) -> Option<Arc<PublicKeys>> {
        let state = self.held();
        state.keys.clone().filter(|_| {
            state.seen.is_some_and(|confirmed| {
                confirmed.elapsed()
                    < sabotage!("old-keys-for-ever", self.pace.old_max, Duration::MAX)
            })
        })
    }

    /// Fetches the keys once and caches the result.
    async fn look(&self, unknown_key: bool) {
        let failure_before = {
            let mut state = self.held();
            let now = Some(Instant::now());
            state.looked = now;
            state.asked = if unknown_key { now } else { state.asked };
            // Stays if this future is dropped before the fetch ends.
            state.failure.replace(KeysetError::Unreachable)
        };
        let fetched = self.place.look().await.and_then(|fetched| match fetched {
            Found::Same => Ok(None),
            Found::Document(bytes) => PublicKeys::parse(&bytes).map(Some),
        });
        let mut state = self.held();
        state.looks += 1;
        match fetched {
            Ok(new) => {
                if let Some(keys) = new {
                    tracing::info!(
                        keys = keys.len(),
                        left_out = keys.left_out(),
                        "the keys that tokens are signed with were read"
                    );
                    state.keys = Some(Arc::new(keys));
                }
                (state.seen, state.failure) = (Some(Instant::now()), None);
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
impl<P: Place> Keyset for Remembered<P> {
    async fn keys(&self, look_again: bool) -> Result<Arc<PublicKeys>, KeysetError> {
        let fetches = self.held().looks;
        // A caller with usable keys does not wait for another task's fetch; one without keys, or
        // with a token of an unknown key, does.
        let fetch_lock = match self.believed() {
            Some(_) if look_again => Some(self.looking.lock().await),
            Some(_) if self.is_due(false) => self.looking.try_lock().ok(),
            Some(_) => None,
            None => Some(self.looking.lock().await),
        };
        let fetched_meanwhile = self.held().looks != fetches;
        if fetch_lock.is_some() && !fetched_meanwhile && self.is_due(look_again) {
            self.look(look_again).await;
        }
        let failure = self.held().failure.unwrap_or(KeysetError::Unreachable);
        self.believed().ok_or(failure)
    }
}

/// The version of a file: inode, length, and the times of modification and change. A file that is
/// rewritten, or replaced by another, differs in one of these.
type State = (u64, u64, (i64, i64), (i64, i64));

/// A key document in a file.
pub struct File {
    path: PathBuf,
    /// The version that was last read.
    state: Mutex<Option<State>>,
}

#[async_trait]
impl Place for File {
    async fn look(&self) -> Result<Found, KeysetError> {
        let metadata = tokio::fs::metadata(&self.path)
            .await
            .map_err(|_| KeysetError::Unreadable)?;
        let version = (
            metadata.ino(),
            metadata.len(),
            (metadata.mtime(), metadata.mtime_nsec()),
            (metadata.ctime(), metadata.ctime_nsec()),
        );
        if *self.state.lock().unwrap_or_else(PoisonError::into_inner) == Some(version) {
            return Ok(Found::Same);
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
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
        Ok(Found::Document(bytes))
    }
}

/// A key document behind a URL.
pub struct Remote {
    url: Url,
    /// Built on first use: reading the machine's certificates takes a while. `None` if it cannot be
    /// built.
    client: OnceLock<Option<reqwest::Client>>,
}

impl Remote {
    fn client(&self) -> Result<&reqwest::Client, KeysetError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().referer(false);
            let built = builder.connect_timeout(FETCH).timeout(FETCH).pool_max_idle_per_host(0).build();
            built
                .inspect_err(|_| tracing::error!("no keys can be fetched: no HTTPS client, does this machine have root certificates?"))
                .ok()
        });
        client.as_ref().ok_or(KeysetError::Unreachable)
    }
}

#[async_trait]
impl Place for Remote {
    async fn look(&self) -> Result<Found, KeysetError> {
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
        Ok(Found::Document(bytes))
    }
}

#[cfg(test)]
mod tests;
