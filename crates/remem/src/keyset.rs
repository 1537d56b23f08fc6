//! The keys of an issuer of tokens, from a file or a URL that the operator named: when they are
//! looked at again, and for how long old ones are believed. What the keys are good for is the
//! engine's business.
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

/// Bytes of a document at the most.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// How long fetching one may take, from the connection to the last byte.
const FETCH: Duration = Duration::from_secs(5);

/// How often to look.
#[derive(Clone, Copy)]
pub struct Pace {
    /// After a look that went well.
    again: Duration,
    /// After one that did not; and how often a token that names an unknown key is a reason.
    early: Duration,
    /// While there are no keys at all.
    without: Duration,
    /// How long keys are believed while looking fails.
    old_max: Duration,
}

const OLD_MAX: Duration = Duration::from_secs(24 * 3_600);
const SECOND: Duration = Duration::from_secs(1);
/// A file costs next to nothing to look at.
const OF_FILE: Pace = Pace {
    again: SECOND,
    early: SECOND,
    without: SECOND,
    old_max: OLD_MAX,
};
/// A URL is somebody else's server.
const OF_URL: Pace = Pace {
    again: Duration::from_secs(300),
    early: Duration::from_secs(30),
    without: SECOND,
    old_max: OLD_MAX,
};

/// What a look found.
pub enum Found {
    /// What was there before.
    Same,
    /// A document.
    Document(Vec<u8>),
}

/// Where the document is.
#[async_trait]
pub trait Place: Send + Sync {
    /// Looks once.
    async fn look(&self) -> Result<Found, KeysetError>;
}

/// Keys from a place, remembered.
pub struct Remembered<P> {
    place: P,
    pace: Pace,
    held: Mutex<Held>,
    /// Whoever has this looks; the others go by what is held.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    keys: Option<Arc<PublicKeys>>,
    /// When the keys were last seen at their place.
    seen: Option<Instant>,
    looked: Option<Instant>,
    /// When an unknown key was last the reason.
    asked: Option<Instant>,
    /// How many looks have ended.
    looks: u64,
    /// Why the last look failed. A look that was abandoned counts as one that reached nobody.
    failure: Option<KeysetError>,
}

/// The keys in a file.
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

/// The keys behind a URL.
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

    fn is_due(&self, unknown_key: bool) -> bool {
        let held = self.held();
        let Some(looked) = held.looked else {
            return true;
        };
        let wait = match (&held.keys, held.failure) {
            (None, _) => self.pace.without,
            (Some(_), None) => self.pace.again,
            (Some(_), Some(_)) => self.pace.early,
        };
        let asked = unknown_key
            && held.keys.is_some()
            && held.asked.is_none_or(|asked| {
                sabotage!(
                    "every-stranger-makes-the-host-fetch",
                    asked.elapsed() >= self.pace.early,
                    true
                )
            });
        looked.elapsed() >= wait || asked
    }

    fn believed(&self) -> Option<Arc<PublicKeys>> {
        let held = self.held();
        held.keys.clone().filter(|_| {
            held.seen.is_some_and(|seen| {
                seen.elapsed() < sabotage!("old-keys-for-ever", self.pace.old_max, Duration::MAX)
            })
        })
    }

    async fn look(&self, unknown_key: bool) {
        let failed_before = {
            let mut held = self.held();
            let now = Some(Instant::now());
            held.looked = now;
            held.asked = if unknown_key { now } else { held.asked };
            held.failure.replace(KeysetError::Unreachable)
        };
        let found = self.place.look().await.and_then(|found| match found {
            Found::Same => Ok(None),
            Found::Document(bytes) => PublicKeys::parse(&bytes).map(Some),
        });
        let mut held = self.held();
        held.looks += 1;
        match found {
            Ok(new) => {
                if let Some(keys) = new {
                    tracing::info!(
                        keys = keys.len(),
                        left_out = keys.left_out(),
                        "the keys that tokens are signed with were read"
                    );
                    held.keys = Some(Arc::new(keys));
                }
                (held.seen, held.failure) = (Some(Instant::now()), None);
            }
            Err(error) => {
                if failed_before != Some(error) {
                    tracing::warn!(
                        reason = error.as_str(),
                        "the keys that tokens are signed with cannot be read; old ones serve for a day"
                    );
                }
                held.failure = Some(error);
            }
        }
    }
}

#[async_trait]
impl<P: Place> Keyset for Remembered<P> {
    async fn keys(&self, look_again: bool) -> Result<Arc<PublicKeys>, KeysetError> {
        let looks = self.held().looks;
        // Whoever has keys need not wait for another one's look; whoever lacks one does.
        let turn = match self.believed() {
            Some(_) if look_again => Some(self.looking.lock().await),
            Some(_) if self.is_due(false) => self.looking.try_lock().ok(),
            Some(_) => None,
            None => Some(self.looking.lock().await),
        };
        let looked_meanwhile = self.held().looks != looks;
        if turn.is_some() && !looked_meanwhile && self.is_due(look_again) {
            self.look(look_again).await;
        }
        let failure = self.held().failure.unwrap_or(KeysetError::Unreachable);
        self.believed().ok_or(failure)
    }
}

/// What tells one state of a file from another: a file that is written anew, or put in another's
/// place, differs in one of these.
type State = (u64, u64, (i64, i64), (i64, i64));

/// A file.
pub struct File {
    path: PathBuf,
    /// As it was last read.
    state: Mutex<Option<State>>,
}

#[async_trait]
impl Place for File {
    async fn look(&self) -> Result<Found, KeysetError> {
        let about = tokio::fs::metadata(&self.path)
            .await
            .map_err(|_| KeysetError::Unreadable)?;
        let state = (
            about.ino(),
            about.len(),
            (about.mtime(), about.mtime_nsec()),
            (about.ctime(), about.ctime_nsec()),
        );
        if *self.state.lock().unwrap_or_else(PoisonError::into_inner) == Some(state) {
            return Ok(Found::Same);
        }
        if about.len() > DOCUMENT_BYTES_MAX as u64 {
            return Err(KeysetError::TooLarge);
        }
        let bytes = tokio::fs::read(&self.path)
            .await
            .map_err(|_| KeysetError::Unreadable)?;
        // Remembered only once it can be read as what it is: a file that is half written is looked
        // at again.
        PublicKeys::parse(&bytes)?;
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        Ok(Found::Document(bytes))
    }
}

/// A document behind a URL.
pub struct Remote {
    url: Url,
    /// Made on first use: reading the machine's certificates takes a while.
    client: OnceLock<Option<reqwest::Client>>,
}

impl Remote {
    fn client(&self) -> Result<&reqwest::Client, KeysetError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which is as good.
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
        let class = |error: reqwest::Error| {
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
            .map_err(class)?;
        if response.status() != StatusCode::OK {
            return Err(KeysetError::Status(response.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(class)? {
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
