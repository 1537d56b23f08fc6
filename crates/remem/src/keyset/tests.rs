//! The times at which keys are fetched again, and the behaviour while that fails. Time is paused: a
//! test advances it.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const EMPTY: &str = r#"{"keys": []}"#;
const ONE: &str = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// A key source whose answers a test sets.
struct ScriptedSource {
    response: Mutex<Result<&'static str, KeysetError>>,
    fetches: AtomicUsize,
    slow: Duration,
}

#[async_trait]
impl KeySource for Arc<ScriptedSource> {
    async fn fetch(&self) -> Result<FetchedKeys, KeysetError> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.slow).await;
        self.response
            .lock()
            .unwrap()
            .map(|text| FetchedKeys::Document(text.as_bytes().to_vec()))
    }
}

fn scripted(
    answer: Result<&'static str, KeysetError>,
    slow: Duration,
) -> (Arc<ScriptedSource>, CachedKeyset<Arc<ScriptedSource>>) {
    let place = Arc::new(ScriptedSource {
        response: Mutex::new(answer),
        fetches: AtomicUsize::new(0),
        slow,
    });
    (place.clone(), CachedKeyset::new(place, URL_INTERVALS))
}

async fn count(keys: &impl Keyset, look_again: bool) -> Result<usize, KeysetError> {
    keys.keys(look_again).await.map(|keys| keys.len())
}

async fn advance(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_are_cached_for_five_minutes() {
    let (place, keys) = scripted(Ok(ONE), Duration::ZERO);
    for _ in 0..3 {
        assert_eq!(count(&keys, false).await, Ok(1));
    }
    advance(299).await;
    *place.response.lock().unwrap() = Ok(EMPTY);
    assert_eq!(
        (
            count(&keys, false).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(1), 1)
    );
    advance(1).await;
    assert_eq!(
        (
            count(&keys, false).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(0), 2),
        "a document without keys counts"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_triggers_a_fetch_at_most_every_30_seconds() {
    let (place, keys) = scripted(Ok(EMPTY), Duration::ZERO);
    assert_eq!(count(&keys, false).await, Ok(0));
    *place.response.lock().unwrap() = Ok(ONE);
    assert_eq!(
        count(&keys, false).await,
        Ok(0),
        "without a reason, not yet"
    );
    assert_eq!(count(&keys, true).await, Ok(1));
    *place.response.lock().unwrap() = Ok(EMPTY);
    for _ in 0..50 {
        assert_eq!(
            count(&keys, true).await,
            Ok(1),
            "not because of every stranger"
        );
    }
    advance(29).await;
    assert_eq!(
        (
            count(&keys, true).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(1), 2)
    );
    advance(1).await;
    assert_eq!(
        (
            count(&keys, true).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(0), 3)
    );
}

#[tokio::test(start_paused = true)]
async fn cached_keys_stay_valid_for_a_day_while_fetching_fails() {
    let (place, keys) = scripted(Ok(ONE), Duration::ZERO);
    assert_eq!(count(&keys, false).await, Ok(1));
    for failure in [Err(KeysetError::Timeout), Ok("<html>")] {
        *place.response.lock().unwrap() = failure;
        advance(300).await;
        assert_eq!(count(&keys, false).await, Ok(1));
    }
    let before = place.fetches.load(Ordering::SeqCst);
    advance(29).await;
    assert_eq!(
        (
            count(&keys, false).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(1), before),
        "it is not asked all the time"
    );
    advance(1).await;
    assert_eq!(
        (
            count(&keys, false).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(1), before + 1)
    );
    advance(24 * 3_600 - 630 - 1).await;
    assert_eq!(count(&keys, false).await, Ok(1));
    advance(1).await;
    assert_eq!(
        count(&keys, false).await,
        Err(KeysetError::Malformed),
        "what nobody vouched for in a day is believed no more"
    );
    *place.response.lock().unwrap() = Ok(ONE);
    advance(30).await;
    assert_eq!(count(&keys, false).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_fetch_and_stale_keys_do_not_wait() {
    let slow = Duration::from_secs(4);
    let (place, keys) = scripted(Ok(ONE), slow);
    let begun = Instant::now();
    let answers = tokio::join!(count(&keys, false), count(&keys, true), count(&keys, false));
    assert_eq!(answers, (Ok(1), Ok(1), Ok(1)));
    assert_eq!(
        (begun.elapsed(), place.fetches.load(Ordering::SeqCst)),
        (slow, 1)
    );
    advance(300).await;
    let begun = Instant::now();
    let waits = async { (count(&keys, false).await, begun.elapsed()) };
    let goes_on = async { (count(&keys, false).await, begun.elapsed()) };
    assert_eq!(
        tokio::join!(waits, goes_on),
        ((Ok(1), slow), (Ok(1), Duration::ZERO))
    );
    assert_eq!(place.fetches.load(Ordering::SeqCst), 2);
}

/// A client that hangs up cancels its own fetch. That does not delay the next one, which does not
/// fetch at once either.
#[tokio::test(start_paused = true)]
async fn an_abandoned_fetch_is_retried_after_a_second() {
    let (place, keys) = scripted(Ok(ONE), Duration::from_secs(4));
    assert!(
        tokio::time::timeout(Duration::from_millis(500), count(&keys, false))
            .await
            .is_err()
    );
    assert_eq!(count(&keys, false).await, Err(KeysetError::Unreachable));
    advance(1).await;
    assert_eq!(
        (
            count(&keys, false).await,
            place.fetches.load(Ordering::SeqCst)
        ),
        (Ok(1), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_key_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let keys = from_file(path.clone());
    assert_eq!(count(&keys, false).await, Err(KeysetError::Unreadable));
    std::fs::write(&path, ONE).unwrap();
    assert_eq!(
        count(&keys, true).await,
        Err(KeysetError::Unreadable),
        "a second has not passed"
    );
    advance(1).await;
    assert_eq!(count(&keys, false).await, Ok(1));
    assert!(
        matches!(keys.source.fetch().await, Ok(FetchedKeys::Unchanged)),
        "an unchanged file is not read"
    );
    for half in ["", "{\"keys\": [", &" ".repeat(DOCUMENT_BYTES_MAX + 1)] {
        std::fs::write(&path, half).unwrap();
        advance(1).await;
        assert_eq!(
            count(&keys, false).await,
            Ok(1),
            "a file that is being written takes nothing away"
        );
    }
    std::fs::write(&path, EMPTY).unwrap();
    advance(1).await;
    assert_eq!(count(&keys, false).await, Ok(0));
    // Another file in its place, of the same length.
    let other = folder.path().join("other.json");
    std::fs::write(&other, EMPTY.replace("[]", "{}")).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(
        keys.source.fetch().await.err(),
        Some(KeysetError::Malformed),
        "it was read"
    );
}

/// Accepts one connection and answers its request.
async fn serve(listener: &TcpListener, answer: String) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
    }
    // A client that has read enough closes the connection.
    let _ = socket.write_all(answer.as_bytes()).await;
}

#[tokio::test]
async fn a_key_url_is_fetched_without_redirects_and_within_limits() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/keys", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let remote = KeyUrl {
        url,
        client: OnceLock::new(),
    };
    let answer = |head: &str, body: &str| {
        format!(
            "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let look = async |text: String| tokio::join!(remote.fetch(), serve(&listener, text)).0;
    assert!(
        matches!(look(answer("200 OK", ONE)).await, Ok(FetchedKeys::Document(bytes)) if bytes == ONE.as_bytes())
    );
    assert_eq!(
        look(answer("302 Found\r\nLocation: http://127.0.0.1:1/", ""))
            .await
            .err(),
        Some(KeysetError::Status(302))
    );
    assert_eq!(
        look(answer("404 Not Found", ONE)).await.err(),
        Some(KeysetError::Status(404))
    );
    assert_eq!(
        look(answer("200 OK", &"x".repeat(DOCUMENT_BYTES_MAX + 1)))
            .await
            .err(),
        Some(KeysetError::TooLarge)
    );
    assert_eq!(
        look("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_owned())
            .await
            .err(),
        Some(KeysetError::Unreachable)
    );
    drop(listener);
    assert_eq!(remote.fetch().await.err(), Some(KeysetError::Unreachable));
}
