//! A small client: sends a request, keeps the whole answer. Also reads event streams frame by
//! frame.

use reqwest::{Method, Response};
use serde_json::Value;
use std::time::Duration;

/// The path of the memory endpoints.
pub const BASE: &str = "/v1/host/remembrancer";

/// Sends requests with one key to one server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl HttpAnswer {
    /// Fails the test unless the answer has this status.
    #[track_caller]
    pub fn is(self, status: u16) -> HttpAnswer {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// A header as text, empty if absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
    }

    /// Everything that was received, for looking through.
    pub fn everything(&self) -> String {
        let headers = self
            .headers
            .iter()
            .map(|(n, v)| format!("{n}: {}\n", String::from_utf8_lossy(v.as_bytes())));
        format!(
            "{}\n{}\n{}",
            self.status,
            headers.collect::<String>(),
            self.text
        )
    }
}

impl Client {
    /// A client of the server at `url`.
    pub fn new(url: &str, key: &str) -> Client {
        // Fails only if a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Only plain HTTP to this machine: loading the system's certificates would cost more than a
        // whole request. A connection that rested may be closed by the server just as it is used
        // again, and a POST is not repeated: none rests.
        let plain = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .pool_max_idle_per_host(0);
        let http = plain
            .timeout(Duration::from_secs(30))
            .build()
            .expect("a client can be made");
        Client {
            http,
            url: url.to_owned(),
            key: key.to_owned(),
        }
    }

    /// The same server with another key.
    pub fn with_key(&self, key: &str) -> Client {
        Client {
            key: key.to_owned(),
            ..self.clone()
        }
    }

    /// A request with this client's key, ready for headers and a body. `path` is appended to the
    /// address as it is.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.key)
    }

    /// The same without any key.
    pub fn anonymous(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// A memory's path: `entries`, `search`, `stats`, … of the memory `name`.
    pub fn memory(name: &str, rest: &str) -> String {
        format!("{BASE}/memory/{}/{rest}", encode(name))
    }

    pub async fn get(&self, path: &str) -> HttpAnswer {
        finish(self.request(Method::GET, path))
            .await
            .expect("the server answers")
    }

    pub async fn delete(&self, path: &str) -> HttpAnswer {
        finish(self.request(Method::DELETE, path))
            .await
            .expect("the server answers")
    }

    pub async fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        finish(self.request(Method::POST, path).json(body))
            .await
            .expect("the server answers")
    }

    /// Stores one entry and gives it back.
    pub async fn put(&self, memory: &str, body: &Value) -> Value {
        self.post(&Client::memory(memory, "entries"), body)
            .await
            .is(201)
            .json()
    }

    /// All events after a position, and that they follow each other without a gap.
    pub async fn events_after(&self, after: u64) -> Vec<Value> {
        let mut at = after;
        let mut all = Vec::new();
        loop {
            let page = self
                .get(&format!("{BASE}/events?after={at}"))
                .await
                .is(200)
                .json();
            let events = page["events"]
                .as_array()
                .expect("a page has events")
                .clone();
            for event in &events {
                assert_eq!(
                    event["sequence"],
                    at + 1,
                    "events have no gaps and no repeats"
                );
                at += 1;
            }
            assert_eq!(page["nextAfter"], at);
            if events.is_empty() {
                return all;
            }
            all.extend(events);
        }
    }

    /// All entries of a memory, newest first, page by page.
    pub async fn all_entries(&self, memory: &str) -> Vec<Value> {
        let mut cursor = String::new();
        let mut all = Vec::new();
        loop {
            let page = self
                .get(&Client::memory(memory, &format!("entries?limit=0{cursor}")))
                .await
                .is(200)
                .json();
            all.extend(
                page["entries"]
                    .as_array()
                    .expect("a page has entries")
                    .iter()
                    .cloned(),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// Opens the event stream after an event.
    pub async fn stream(&self, last_event_id: u64) -> EventStream {
        let request = self
            .request(Method::GET, &format!("{BASE}/events"))
            .header("accept", "text/event-stream");
        let request = request.timeout(Duration::from_secs(600));
        let response = request
            .header("last-event-id", last_event_id.to_string())
            .send()
            .await
            .expect("the stream opens");
        assert_eq!(response.status(), 200);
        EventStream {
            response,
            buffer: Vec::new(),
            raw: Vec::new(),
        }
    }
}

/// Sends a request and reads the whole answer.
pub async fn finish(request: reqwest::RequestBuilder) -> reqwest::Result<HttpAnswer> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    Ok(HttpAnswer {
        status,
        headers,
        text: response.text().await?,
    })
}

/// One path segment or query value: everything but unreserved characters is encoded.
pub fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes()
        .map(|b| {
            if plain(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

/// An open event stream.
pub struct EventStream {
    response: Response,
    buffer: Vec<u8>,
    /// Every byte that was received.
    pub raw: Vec<u8>,
}

/// One frame of a stream.
#[derive(Debug)]
pub struct StreamFrame {
    pub id: u64,
    pub event: String,
    pub data: Value,
}

impl EventStream {
    /// The next frame; `None` once the stream has ended. Fails if nothing comes within `limit`.
    pub async fn next(&mut self, limit: Duration) -> Option<StreamFrame> {
        tokio::time::timeout(limit, self.pull())
            .await
            .unwrap_or_else(|_| panic!("no frame and no end within {limit:?}"))
    }

    async fn pull(&mut self) -> Option<StreamFrame> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                match parse(&String::from_utf8(frame).expect("a stream is text")) {
                    Some(frame) => return Some(frame),
                    None => continue,
                }
            }
            // A stream that breaks off has ended: its reader reconnects either way.
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.buffer.extend(&chunk);
            self.raw.extend(&chunk);
        }
    }
}

/// A comment that only keeps the connection alive is not a frame.
fn parse(text: &str) -> Option<StreamFrame> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let data = serde_json::from_str(field("data:")?).expect("a frame carries JSON");
    Some(StreamFrame {
        id: field("id:")?.parse().expect("an id is a number"),
        event: field("event:")?.to_owned(),
        data,
    })
}
