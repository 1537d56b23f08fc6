//! The client of a server behind a URL: the same operations as on an engine in this process, over
//! the public HTTP API and nothing else.
//!
//! Reads, and writes that have an idempotency key, are retried when the server cannot be reached or
//! is busy.

mod commitments;
mod forget;
mod passes;
mod proposals;
mod recall;
mod workshop;

use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use remem_server::{Door, InstalledAgent, Written};
use remem_wire::admin::{
    KeyChange, KeyCreate, KeyCreated, KeyInfo, KeyList, TenantInfo, TenantList, TenantPut,
    TenantQuery, Whoami,
};
use remem_wire::agent::{AgentInstall, AgentInventory, AgentInventoryEntry};
use remem_wire::entry::{Deleted, EntryAnswer, EntryBeside};
use remem_wire::event::EventsQuery;
use remem_wire::memory::{
    EntryList, EntryMetadata, GetQuery, ImportAnswer, ImportRequest, ListQuery, MemoriesQuery,
    MemoryList, MemoryStats, PutMany, PutManyAnswer, ReadQuery,
};
use remem_wire::secrets::{SecretInfo, SecretList, SecretPut, SecretScopeQuery, SecretsQuery};
use remem_wire::{ErrorBody, EventPage, Failure, PutEntry};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The characters that are percent-encoded: all but unreserved ones, because a memoryRef is one
/// path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// Maximum number of times that a repeatable request is sent.
const ATTEMPTS_MAX: u32 = 5;
/// The path of this host's own endpoints, relative to the server's URL.
const BASE: &str = "v1/host/remembrancer";

/// The memory API of a server behind a URL.
pub struct HttpDoor {
    client: reqwest::Client,
    url: String,
    key: String,
}

/// A request to the server.
struct Call<'a, B> {
    method: Method,
    /// The path after [`BASE`], or an absolute one that begins with a slash.
    path: String,
    query: Option<String>,
    body: Option<&'a B>,
    idempotency_key: Option<String>,
    /// Whether sending the request twice has the same effect and answer as sending it once.
    repeatable: bool,
}

impl HttpDoor {
    /// Returns a client of the server at `url` that authenticates with `key`.
    pub fn new(url: &str, key: String) -> anyhow::Result<HttpDoor> {
        // Fails only if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(120))
            .build()?;
        Ok(HttpDoor {
            client,
            url: url.trim_end_matches('/').to_owned(),
            key,
        })
    }

    /// Sends a request once.
    async fn send<B: Serialize>(&self, call: &Call<'_, B>) -> Result<Response, Failure> {
        // OpenWOP's own paths begin with a slash; this host's are relative to its extension.
        let mut url = match call.path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.url),
            None => format!("{}/{BASE}/{}", self.url, call.path),
        };
        if let Some(query) = call.query.as_deref().filter(|q| !q.is_empty()) {
            url = format!("{url}?{query}");
        }
        let mut request = self
            .client
            .request(call.method.clone(), url)
            .bearer_auth(&self.key);
        if let Some(key) = &call.idempotency_key {
            request = request.header(remem_wire::IDEMPOTENCY_HEADER, key);
        }
        if let Some(body) = call.body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|_| unreachable(&self.url))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(failure(response).await)
        }
    }

    /// Sends a request, and retries it while the server cannot be reached or is busy, if it is
    /// repeatable.
    async fn call<B: Serialize>(&self, call: Call<'_, B>) -> Result<Response, Failure> {
        let mut attempts = 1;
        loop {
            match self.send(&call).await {
                Err(failure)
                    if failure.status == 503 && call.repeatable && attempts < ATTEMPTS_MAX =>
                {
                    tokio::time::sleep(Duration::from_millis(100 << attempts)).await;
                    attempts += 1;
                }
                other => return other,
            }
        }
    }

    /// Gets a resource; always repeatable.
    async fn read<T: DeserializeOwned>(
        &self,
        path: String,
        query: &impl Serialize,
    ) -> Result<T, Failure> {
        let query = Some(urlencoded(query));
        let call = Call::<()> {
            method: Method::GET,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: true,
        };
        parse(self.call(call).await?).await
    }

    /// Posts a body without an idempotency key.
    async fn post<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
        repeatable: bool,
    ) -> Result<T, Failure> {
        let call = Call {
            method: Method::POST,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable,
        };
        parse(self.call(call).await?).await
    }

    /// Posts a write under the caller's idempotency key, or under a fresh one.
    async fn write<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
        key: Option<&str>,
    ) -> Result<Written<T>, Failure> {
        self.write_with(path, None, body, key).await
    }

    /// Posts entries, and asks for them to be returned with metadata and facets.
    async fn store<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
        key: Option<&str>,
    ) -> Result<Written<T>, Failure> {
        self.write_with(path, Some("include=metadata,facets".to_owned()), body, key)
            .await
    }

    /// Posts a write with a query string. It is repeatable, because it has an idempotency key.
    async fn write_with<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        query: Option<String>,
        body: &B,
        key: Option<&str>,
    ) -> Result<Written<T>, Failure> {
        let idempotency_key = Some(key.map_or_else(fresh_key, str::to_owned));
        let call = Call {
            method: Method::POST,
            path,
            query,
            body: Some(body),
            idempotency_key,
            repeatable: true,
        };
        let response = self.call(call).await?;
        let (revision, replayed) = written(&response);
        Ok(Written {
            value: parse(response).await?,
            revision,
            replayed,
        })
    }
}

/// Encodes a text as one segment of a path.
fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Encodes the fields of a query struct as a query string.
fn urlencoded(query: &impl Serialize) -> String {
    let Ok(serde_json::Value::Object(map)) = serde_json::to_value(query) else {
        return String::new();
    };
    let pair = |(name, value): (&String, &serde_json::Value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}={}", segment(&text))
    };
    map.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Returns a random idempotency key, which never equals another caller's.
fn fresh_key() -> String {
    let mut bytes = [0u8; 16];
    // Without randomness the key is all zeros: repetition is then no longer safe, but the server
    // refuses the reuse of a key for another request.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the revision token of a write, and whether its answer repeats an earlier one.
fn written(response: &Response) -> (String, bool) {
    let text = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned)
    };
    (
        text(remem_wire::REVISION_HEADER).unwrap_or_default(),
        text(remem_wire::REPLAY_HEADER).is_some(),
    )
}

fn unreachable(url: &str) -> Failure {
    let message = format!(
        "cannot reach a server at {url}; start one with `remem serve`, or pass --local to open the embedded store without one"
    );
    let body = ErrorBody {
        error: "unreachable".to_owned(),
        message,
        details: None,
    };
    Failure {
        status: 503,
        retry_after: None,
        body,
    }
}

/// Reads the error envelope of a response that is not a success.
async fn failure(response: Response) -> Failure {
    let status = response.status().as_u16();
    let unexpected = || ErrorBody {
        error: "unexpected_answer".to_owned(),
        message: format!(
            "the server answered {status} in a form this client does not know; is it a Remembrancer host?"
        ),
        details: None,
    };
    let body = response.json().await.unwrap_or_else(|_| unexpected());
    Failure {
        status,
        retry_after: None,
        body,
    }
}

/// Reads the JSON body of a successful response.
async fn parse<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
    let status = response.status().as_u16();
    let message =
        "the server's answer cannot be read; are client and server of the same version?".to_owned();
    response.json().await.map_err(|_| Failure {
        status: if status < 400 { 502 } else { status },
        retry_after: None,
        body: ErrorBody {
            error: "unexpected_answer".to_owned(),
            message,
            details: None,
        },
    })
}

#[async_trait]
impl Door for HttpDoor {
    async fn put(
        &self,
        memory_ref: &str,
        entry: PutEntry,
        key: Option<&str>,
    ) -> Result<Written<EntryBeside>, Failure> {
        let path = format!("memory/{}/entries", segment(memory_ref));
        let stored: Written<EntryAnswer> = self.store(path, &entry, key).await?;
        Ok(Written {
            value: stored.value.into(),
            revision: stored.revision,
            replayed: stored.replayed,
        })
    }
    async fn put_many(
        &self,
        memory_ref: &str,
        request: PutMany,
        key: Option<&str>,
    ) -> Result<Written<PutManyAnswer>, Failure> {
        self.store(
            format!("memory/{}/entries:batch", segment(memory_ref)),
            &request,
            key,
        )
        .await
    }
    async fn import(
        &self,
        memory_ref: &str,
        request: ImportRequest,
    ) -> Result<Written<ImportAnswer>, Failure> {
        let value: ImportAnswer = self
            .post(
                format!("memory/{}/entries:import", segment(memory_ref)),
                &request,
                true,
            )
            .await?;
        Ok(Written {
            revision: value.revision.clone(),
            value,
            replayed: false,
        })
    }
    async fn get(
        &self,
        memory_ref: &str,
        id: &str,
        query: GetQuery,
    ) -> Result<EntryBeside, Failure> {
        let path = format!("memory/{}/entries/{}", segment(memory_ref), segment(id));
        let answer: EntryAnswer = self.read(path, &query).await?;
        Ok(answer.into())
    }
    async fn metadata(
        &self,
        memory_ref: &str,
        id: &str,
        query: ReadQuery,
    ) -> Result<EntryMetadata, Failure> {
        self.read(
            format!(
                "memory/{}/entries/{}/metadata",
                segment(memory_ref),
                segment(id)
            ),
            &query,
        )
        .await
    }
    async fn list(&self, memory_ref: &str, query: ListQuery) -> Result<EntryList, Failure> {
        self.read(format!("memory/{}/entries", segment(memory_ref)), &query)
            .await
    }
    async fn delete(
        &self,
        memory_ref: &str,
        id: &str,
        key: Option<&str>,
    ) -> Result<Written<Deleted>, Failure> {
        let path = format!("memory/{}/entries/{}", segment(memory_ref), segment(id));
        let idempotency_key = Some(key.map_or_else(fresh_key, str::to_owned));
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query: None,
            body: None,
            idempotency_key,
            repeatable: true,
        };
        let response = self.call(call).await?;
        let (revision, replayed) = written(&response);
        let value = if response.status() == StatusCode::OK {
            parse(response).await?
        } else {
            Deleted::default()
        };
        Ok(Written {
            value,
            revision,
            replayed,
        })
    }
    async fn stats(&self, memory_ref: &str, query: ReadQuery) -> Result<MemoryStats, Failure> {
        self.read(format!("memory/{}/stats", segment(memory_ref)), &query)
            .await
    }
    async fn memories(&self, query: MemoriesQuery) -> Result<MemoryList, Failure> {
        self.read("memory".to_owned(), &query).await
    }
    async fn events(&self, query: EventsQuery) -> Result<EventPage, Failure> {
        self.read("events".to_owned(), &query).await
    }
    async fn whoami(&self) -> Result<Whoami, Failure> {
        self.read("whoami".to_owned(), &()).await
    }
    async fn create_key(&self, request: KeyCreate) -> Result<KeyCreated, Failure> {
        self.post("keys".to_owned(), &request, false).await
    }
    async fn keys(&self, query: TenantQuery) -> Result<KeyList, Failure> {
        self.read("keys".to_owned(), &query).await
    }
    async fn change_key(
        &self,
        query: TenantQuery,
        id: &str,
        change: KeyChange,
    ) -> Result<KeyInfo, Failure> {
        let call = Call {
            method: Method::PATCH,
            path: format!("keys/{}", segment(id)),
            query: Some(urlencoded(&query)),
            body: Some(&change),
            idempotency_key: None,
            repeatable: true,
        };
        parse(self.call(call).await?).await
    }
    async fn revoke_key(&self, query: TenantQuery, id: &str) -> Result<(), Failure> {
        let path = format!("keys/{}", segment(id));
        let query = Some(urlencoded(&query));
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.call(call).await.map(|_| ())
    }
    async fn put_tenant(&self, request: TenantPut) -> Result<TenantInfo, Failure> {
        self.post("tenants".to_owned(), &request, true).await
    }
    async fn tenants(&self) -> Result<TenantList, Failure> {
        self.read("tenants".to_owned(), &()).await
    }
    async fn agents(&self) -> Result<AgentInventory, Failure> {
        self.read("/v1/agents".to_owned(), &()).await
    }
    async fn agent(&self, id: &str) -> Result<AgentInventoryEntry, Failure> {
        self.read(format!("/v1/agents/{}", segment(id)), &()).await
    }
    async fn install_agent(&self, request: AgentInstall) -> Result<InstalledAgent, Failure> {
        let path = "agents".to_owned();
        let call = Call {
            method: Method::POST,
            path,
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: true,
        };
        let response = self.call(call).await?;
        let replaced = response.status() != reqwest::StatusCode::CREATED;
        Ok(InstalledAgent {
            entry: parse(response).await?,
            replaced,
        })
    }
    async fn remove_agent(&self, id: &str) -> Result<(), Failure> {
        let path = format!("agents/{}", segment(id));
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.call(call).await.map(|_| ())
    }
    async fn set_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure> {
        let path = format!("secrets/{}", segment(name));
        let call = Call {
            method: Method::PUT,
            path,
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: false,
        };
        parse(self.call(call).await?).await
    }
    async fn rotate_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure> {
        self.post(format!("secrets/{}/rotate", segment(name)), &request, false)
            .await
    }
    async fn secrets(&self, query: SecretsQuery) -> Result<SecretList, Failure> {
        self.read("secrets".to_owned(), &query).await
    }
    async fn delete_secret(&self, name: &str, query: SecretScopeQuery) -> Result<(), Failure> {
        let path = format!("secrets/{}", segment(name));
        let query = Some(urlencoded(&query));
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.call(call).await.map(|_| ())
    }
}
