//! The client against a real server on this machine: for any behaviour of the server there is one
//! vector for each text or an error that says why, and the logs contain neither a key nor a text.

use super::*;
use serde_json::Value;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const KEY: &str = "key-of-the-vectors-93b1";
const DIMENSIONS: usize = 8;

/// The behaviour of the test server for every request.
enum ServerBehaviour {
    Answer(Vec<u8>),
    /// Returns one vector per text, computed from the text, the last one first.
    Vectors,
    /// Accepts the request and never answers.
    Silence,
    /// Sends bytes until the client closes the connection.
    Endless,
}

fn http(status: &str, headers: &str, body: &str) -> ServerBehaviour {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
        body.len()
    );
    ServerBehaviour::Answer(format!("{head}{body}").into_bytes())
}

/// A response with these vectors, each with its index.
fn vectors(of: &[(usize, Value)]) -> ServerBehaviour {
    let data: Vec<Value> = of
        .iter()
        .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
        .collect();
    http(
        "200 OK",
        "Content-Type: application/json\r\n",
        &json!({"object": "list", "data": data, "usage": {}}).to_string(),
    )
}

/// The vector of a text that ends with a number.
fn vector(number: usize) -> Vec<f32> {
    (0..DIMENSIONS)
        .map(|n| if number >> n & 1 == 1 { 1.0 } else { -0.5 })
        .collect()
}

fn number(text: &str) -> usize {
    text.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn request_of(socket: &mut TcpStream) -> (String, Value) {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_owned(), body);
        }
        assert_ne!(
            socket.read_buf(&mut read).await.unwrap(),
            0,
            "the client went away"
        );
    }
}

type ReceivedRequests = Mutex<Vec<(String, Value)>>;

async fn serve(listener: TcpListener, behaviour: ServerBehaviour, received: &ReceivedRequests) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (head, body) = request_of(&mut socket).await;
        let texts: Vec<usize> = body["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| number(text.as_str().unwrap()))
            .collect();
        received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((head, body));
        let made: Vec<_> = texts
            .iter()
            .enumerate()
            .rev()
            .map(|(index, number)| (index, json!(vector(*number))))
            .collect();
        let bytes = match (&behaviour, vectors(&made)) {
            (ServerBehaviour::Answer(bytes), _) => bytes.clone(),
            (ServerBehaviour::Vectors, ServerBehaviour::Answer(bytes)) => bytes,
            (ServerBehaviour::Endless, _) => {
                let _ = socket
                    .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    .await;
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
                while socket.write_all(chunk.as_bytes()).await.is_ok() {}
                continue;
            }
            _ => std::future::pending().await,
        };
        let _ = socket.write_all(&bytes).await;
        let _ = socket.shutdown().await;
    }
}

/// Everything that is logged on this thread, at the most verbose level.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn settings(port: u16, timeout_ms: u64) -> config::EmbedderConfig {
    config::EmbedderConfig {
        base_url: Some(format!("http://127.0.0.1:{port}/v1/")),
        name: Some("small-vectors".to_owned()),
        dimensions: Some(DIMENSIONS),
        timeout_ms,
        ..config::EmbedderConfig::default()
    }
}

/// Embeds that many texts in one call; returns the result and the requests that the server
/// received.
async fn call(
    behaviour: Option<ServerBehaviour>,
    texts: usize,
    timeout_ms: u64,
) -> (Result<Vec<Embedding>, EmbedderError>, Vec<(String, Value)>) {
    let logs = Logs::default();
    let writer = logs.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    let config = config::EmbedderConfig {
        key_file: Some(file),
        ..settings(listener.local_addr().unwrap().port(), timeout_ms)
    };
    let model = RemoteModel::new("embedder", &config, config.base_url.as_ref().unwrap()).unwrap();
    let texts: Vec<String> = (0..texts).map(|n| format!("Ben likes fish {n}")).collect();
    let received = ReceivedRequests::default();
    let done = match behaviour {
        None => {
            drop(listener);
            model.embed(&texts).await
        }
        Some(behaviour) => tokio::select! {
            done = model.embed(&texts) => done,
            () = serve(listener, behaviour, &received) => unreachable!("the server goes on"),
        },
    };
    let logged = String::from_utf8_lossy(&logs.0.lock().unwrap_or_else(PoisonError::into_inner))
        .into_owned();
    assert!(
        !logged.contains(KEY) && !logged.contains("fish"),
        "{logged}"
    );
    (
        done,
        received
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    )
}

#[tokio::test]
async fn vectors_match_their_texts_in_any_response_order() {
    for (texts, sizes) in [
        (0, vec![]),
        (1, vec![1]),
        (3, vec![3]),
        (64, vec![64]),
        (150, vec![64, 64, 22]),
    ] {
        let (done, received) = call(Some(ServerBehaviour::Vectors), texts, 10_000).await;
        let expected: Vec<_> = (0..texts)
            .map(|n| Embedding::from_components(&vector(n)).unwrap())
            .collect();
        assert_eq!(done.unwrap(), expected, "{texts}");
        let found: Vec<usize> = received
            .iter()
            .map(|(_, body)| body["input"].as_array().unwrap().len())
            .collect();
        assert_eq!(found, sizes);
        for (head, body) in &received {
            assert!(
                head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"),
                "{head}"
            );
            assert!(
                head.to_lowercase()
                    .contains(&format!("authorization: bearer {KEY}")),
                "{head}"
            );
            assert_eq!(
                (&body["model"], &body["encoding_format"]),
                (&json!("small-vectors"), &json!("float"))
            );
        }
    }
}

#[tokio::test]
async fn any_failed_or_invalid_response_is_an_embedder_error() {
    let good = || json!(vector(1));
    let mut null = good();
    let mut huge_number = good();
    null[3] = Value::Null;
    huge_number[3] = json!(1e300);
    let two = |one: Value, other: Value| Some(vectors(&[(0, one), (1, other)]));
    let nan = r#"{"data": [{"index": 0, "embedding": [NaN, 1, 1, 1, 1, 1, 1, 1]}]}"#;
    let long = format!(
        "{{\"data\": [], \"padding\": \"{}\"}}",
        "x".repeat(BODY_BYTES_MAX)
    );
    let rows = [
        ("nobody there", None, EmbedderError::Unreachable, 0),
        (
            "500",
            Some(http("500 Internal Server Error", "", "fish")),
            EmbedderError::Status(500),
            1,
        ),
        (
            "401",
            Some(http("401 Unauthorized", "", KEY)),
            EmbedderError::Status(401),
            1,
        ),
        (
            "redirect",
            Some(http(
                "307 Temporary Redirect",
                "Location: /v1/embeddings\r\n",
                "",
            )),
            EmbedderError::Status(307),
            1,
        ),
        (
            "HTML",
            Some(http("200 OK", "", "<html>")),
            EmbedderError::Malformed,
            1,
        ),
        (
            "other JSON",
            Some(http("200 OK", "", "{\"ok\": true}")),
            EmbedderError::Malformed,
            1,
        ),
        (
            "too few",
            Some(vectors(&[(0, good())])),
            EmbedderError::Malformed,
            1,
        ),
        ("none", Some(vectors(&[])), EmbedderError::Malformed, 1),
        (
            "too many",
            Some(vectors(&[(0, good()), (1, good()), (2, good())])),
            EmbedderError::Malformed,
            1,
        ),
        (
            "one twice",
            Some(vectors(&[(0, good()), (0, good())])),
            EmbedderError::Malformed,
            1,
        ),
        (
            "narrow",
            two(good(), json!(vec![1.0; DIMENSIONS - 1])),
            EmbedderError::Dimensions,
            1,
        ),
        (
            "wide",
            two(json!(vec![1.0; DIMENSIONS + 1]), good()),
            EmbedderError::Dimensions,
            1,
        ),
        (
            "empty",
            two(json!([]), good()),
            EmbedderError::Dimensions,
            1,
        ),
        ("null", two(good(), null), EmbedderError::Malformed, 1),
        (
            "NaN",
            Some(http("200 OK", "", nan)),
            EmbedderError::Malformed,
            1,
        ),
        (
            "infinite",
            two(good(), huge_number),
            EmbedderError::Malformed,
            1,
        ),
        (
            "zeros",
            two(good(), json!(vec![0.0; DIMENSIONS])),
            EmbedderError::Malformed,
            1,
        ),
        (
            "base64",
            two(good(), json!("AAAA")),
            EmbedderError::Malformed,
            1,
        ),
        (
            "huge",
            Some(http("200 OK", "", &long)),
            EmbedderError::Malformed,
            1,
        ),
        (
            "endless",
            Some(ServerBehaviour::Endless),
            EmbedderError::Malformed,
            1,
        ),
        (
            "cut off",
            Some(ServerBehaviour::Answer(
                b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"data\": [".to_vec(),
            )),
            EmbedderError::Unreachable,
            1,
        ),
    ];
    for (case, behaviour, why, connections) in rows {
        let (done, received) = call(behaviour, 2, 20_000).await;
        assert_eq!(
            (done.unwrap_err(), received.len()),
            (why, connections),
            "{case}"
        );
    }
    let (done, received) = call(Some(ServerBehaviour::Silence), 2, 300).await;
    assert_eq!(
        (done.unwrap_err(), received.len()),
        (EmbedderError::Timeout, 1),
        "slow"
    );
}

#[test]
fn incomplete_or_invalid_endpoint_settings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let whole = settings(1, 1_000);
    let base = whole.base_url.clone().unwrap();
    let wrong = |config: &config::EmbedderConfig| {
        RemoteModel::new("embedder", config, &base)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let model = RemoteModel::new("embedder", &whole, &base).unwrap();
    assert_eq!(
        (model.name(), model.dimensions(), model.key.is_none()),
        ("small-vectors", DIMENSIONS, true)
    );
    for (broken, says) in [
        (
            config::EmbedderConfig {
                name: None,
                ..whole.clone()
            },
            "embedder.base_url needs embedder.name",
        ),
        (
            config::EmbedderConfig {
                name: Some("a\nb".to_owned()),
                ..whole.clone()
            },
            "embedder.name",
        ),
        (
            config::EmbedderConfig {
                dimensions: None,
                ..whole.clone()
            },
            "embedder.base_url needs embedder.dimensions",
        ),
        (
            config::EmbedderConfig {
                dimensions: Some(4),
                ..whole.clone()
            },
            "embedder.dimensions must be from 8 to 4096",
        ),
        (
            config::EmbedderConfig {
                timeout_ms: 1,
                ..whole.clone()
            },
            "embedder.timeout_ms",
        ),
        (
            config::EmbedderConfig {
                key_file: Some(file.clone()),
                ..whole.clone()
            },
            "cannot read embedder.key_file",
        ),
    ] {
        assert!(wrong(&broken).contains(says), "{says}: {}", wrong(&broken));
    }
    for bad in ["", " \n", "hidden\nkey", "hidden\u{1}key"] {
        std::fs::write(&file, bad).unwrap();
        let error = wrong(&config::EmbedderConfig {
            key_file: Some(file.clone()),
            ..whole.clone()
        });
        assert!(
            error.contains("must hold one line") && !error.contains("hidden"),
            "{error}"
        );
    }
    for bad in [
        "http://vectors.example.org/v1",
        "https://u:p@vectors.example.org/v1",
    ] {
        assert!(RemoteModel::new("embedder", &whole, bad).is_err(), "{bad}");
    }
}
