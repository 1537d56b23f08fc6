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
use remem_server::{InstalledAgent, MemoryApi, WriteAnswer};
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

/// The characters that are percent-encoded: all except unreserved ones, because a memoryRef is one
/// path segment.
const PATH_SEGMENT_ENCODING: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// Maximum number of times that a repeatable request is sent.
const ATTEMPTS_MAX: u32 = 5;
/// The path of this host's own endpoints, relative to the server's URL.
const BASE_PATH: &str = "v1/host/remembrancer";

/// The memory API of a server behind a URL.
pub struct HttpApi {
    client: reqwest::Client,
    url: String,
    key: String,
}

/// A request to the server.
struct HttpCall<'a, B> {
    method: Method,
    /// The path after [`BASE`], or an absolute one that begins with a slash.
    path: String,
    query: Option<String>,
    body: Option<&'a B>,
    idempotency_key: Option<String>,
    /// Whether sending the request twice has the same effect and answer as sending it once.
    repeatable: bool,
}

impl HttpApi {
    /// Returns a client of the server at `url` that authenticates with `key`.
    pub fn new(url: &str, key: String) -> anyhow::Result<HttpApi> {
        // Fails only if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(120))
            .build()?;
        Ok(HttpApi {
            client,
            url: url.trim_end_matches('/').to_owned(),
            key,
        })
    }

    /// Sends a request once.
    async fn send_once<B: Serialize>(&self, call: &HttpCall<'_, B>) -> Result<Response, Failure> {
        // OpenWOP's own paths begin with a slash; this host's are relative to its extension.
        let mut url = match call.path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.url),
            None => format!("{}/{BASE_PATH}/{}", self.url, call.path),
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
        let response = request
            .send()
            .await
            .map_err(|_| unreachable_failure(&self.url))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(response_failure(response).await)
        }
    }

    /// Sends a request, and retries it while the server cannot be reached or is busy, if it is
    /// repeatable.
    async fn send_with_retries<B: Serialize>(
        &self,
        call: HttpCall<'_, B>,
    ) -> Result<Response, Failure> {
        let mut attempts = 1;
        loop {
            match self.send_once(&call).await {
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
    async fn get_json<T: DeserializeOwned>(
        &self,
        path: String,
        query: &impl Serialize,
    ) -> Result<T, Failure> {
        let query = Some(query_string(query));
        let call = HttpCall::<()> {
            method: Method::GET,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: true,
        };
        parse_body(self.send_with_retries(call).await?).await
    }

    /// Posts a body without an idempotency key.
    async fn post_json<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
        repeatable: bool,
    ) -> Result<T, Failure> {
        let call = HttpCall {
            method: Method::POST,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable,
        };
        parse_body(self.send_with_retries(call).await?).await
    }

    /// Posts a write under the caller's idempotency key, or under a fresh one.
    async fn post_write<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
        key: Option<&str>,
    ) -> Result<WriteAnswer<T>, Failure> {
        self.post_write_with_query(path, None, body, key).await
    }

    /// Posts entries, and asks for them to be returned with metadata and facets.
    async fn post_entries<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
        key: Option<&str>,
    ) -> Result<WriteAnswer<T>, Failure> {
        self.post_write_with_query(path, Some("include=metadata,facets".to_owned()), body, key)
            .await
    }

    /// Posts a write with a query string. It is repeatable, because it has an idempotency key.
    async fn post_write_with_query<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        query: Option<String>,
        body: &B,
        key: Option<&str>,
    ) -> Result<WriteAnswer<T>, Failure> {
        let idempotency_key = Some(key.map_or_else(fresh_key, str::to_owned));
        let call = HttpCall {
            method: Method::POST,
            path,
            query,
            body: Some(body),
            idempotency_key,
            repeatable: true,
        };
        let response = self.send_with_retries(call).await?;
        let (revision, replayed) = write_headers(&response);
        Ok(WriteAnswer {
            value: parse_body(response).await?,
            revision,
            replayed,
        })
    }
}

/// Encodes a text as one segment of a path.
fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, PATH_SEGMENT_ENCODING).to_string()
}

/// Encodes the fields of a query struct as a query string.
fn query_string(query: &impl Serialize) -> String {
    let Ok(serde_json::Value::Object(map)) = serde_json::to_value(query) else {
        return String::new();
    };
    let pair = |(name, value): (&String, &serde_json::Value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}={}", path_segment(&text))
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
fn write_headers(response: &Response) -> (String, bool) {
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

fn unreachable_failure(url: &str) -> Failure {
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
async fn response_failure(response: Response) -> Failure {
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
async fn parse_body<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
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
impl MemoryApi for HttpApi {
    async fn put(
        &self,
        memory_ref: &str,
        entry: PutEntry,
        key: Option<&str>,
    ) -> Result<WriteAnswer<EntryBeside>, Failure> {
        let path = format!("memory/{}/entries", path_segment(memory_ref));
        let stored: WriteAnswer<EntryAnswer> = self.post_entries(path, &entry, key).await?;
        Ok(WriteAnswer {
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
    ) -> Result<WriteAnswer<PutManyAnswer>, Failure> {
        self.post_entries(
            format!("memory/{}/entries:batch", path_segment(memory_ref)),
            &request,
            key,
        )
        .await
    }
    async fn import(
        &self,
        memory_ref: &str,
        request: ImportRequest,
    ) -> Result<WriteAnswer<ImportAnswer>, Failure> {
        let value: ImportAnswer = self
            .post_json(
                format!("memory/{}/entries:import", path_segment(memory_ref)),
                &request,
                true,
            )
            .await?;
        Ok(WriteAnswer {
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
        let path = format!(
            "memory/{}/entries/{}",
            path_segment(memory_ref),
            path_segment(id)
        );
        let answer: EntryAnswer = self.get_json(path, &query).await?;
        Ok(answer.into())
    }
    async fn metadata(
        &self,
        memory_ref: &str,
        id: &str,
        query: ReadQuery,
    ) -> Result<EntryMetadata, Failure> {
        self.get_json(
            format!(
                "memory/{}/entries/{}/metadata",
                path_segment(memory_ref),
                path_segment(id)
            ),
            &query,
        )
        .await
    }
    async fn list(&self, memory_ref: &str, query: ListQuery) -> Result<EntryList, Failure> {
        self.get_json(
            format!("memory/{}/entries", path_segment(memory_ref)),
            &query,
        )
        .await
    }
    async fn delete(
        &self,
        memory_ref: &str,
        id: &str,
        key: Option<&str>,
    ) -> Result<WriteAnswer<Deleted>, Failure> {
        let path = format!(
            "memory/{}/entries/{}",
            path_segment(memory_ref),
            path_segment(id)
        );
        let idempotency_key = Some(key.map_or_else(fresh_key, str::to_owned));
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query: None,
            body: None,
            idempotency_key,
            repeatable: true,
        };
        let response = self.send_with_retries(call).await?;
        let (revision, replayed) = write_headers(&response);
        let value = if response.status() == StatusCode::OK {
            parse_body(response).await?
        } else {
            Deleted::default()
        };
        Ok(WriteAnswer {
            value,
            revision,
            replayed,
        })
    }
    async fn stats(&self, memory_ref: &str, query: ReadQuery) -> Result<MemoryStats, Failure> {
        self.get_json(format!("memory/{}/stats", path_segment(memory_ref)), &query)
            .await
    }
    async fn memories(&self, query: MemoriesQuery) -> Result<MemoryList, Failure> {
        self.get_json("memory".to_owned(), &query).await
    }
    async fn events(&self, query: EventsQuery) -> Result<EventPage, Failure> {
        self.get_json("events".to_owned(), &query).await
    }
    async fn whoami(&self) -> Result<Whoami, Failure> {
        self.get_json("whoami".to_owned(), &()).await
    }
    async fn create_key(&self, request: KeyCreate) -> Result<KeyCreated, Failure> {
        self.post_json("keys".to_owned(), &request, false).await
    }
    async fn keys(&self, query: TenantQuery) -> Result<KeyList, Failure> {
        self.get_json("keys".to_owned(), &query).await
    }
    async fn change_key(
        &self,
        query: TenantQuery,
        id: &str,
        change: KeyChange,
    ) -> Result<KeyInfo, Failure> {
        let call = HttpCall {
            method: Method::PATCH,
            path: format!("keys/{}", path_segment(id)),
            query: Some(query_string(&query)),
            body: Some(&change),
            idempotency_key: None,
            repeatable: true,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
    async fn revoke_key(&self, query: TenantQuery, id: &str) -> Result<(), Failure> {
        let path = format!("keys/{}", path_segment(id));
        let query = Some(query_string(&query));
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.send_with_retries(call).await.map(|_| ())
    }
    async fn put_tenant(&self, request: TenantPut) -> Result<TenantInfo, Failure> {
        self.post_json("tenants".to_owned(), &request, true).await
    }
    async fn tenants(&self) -> Result<TenantList, Failure> {
        self.get_json("tenants".to_owned(), &()).await
    }
    async fn agents(&self) -> Result<AgentInventory, Failure> {
        self.get_json("/v1/agents".to_owned(), &()).await
    }
    async fn agent(&self, id: &str) -> Result<AgentInventoryEntry, Failure> {
        self.get_json(format!("/v1/agents/{}", path_segment(id)), &())
            .await
    }
    async fn install_agent(&self, request: AgentInstall) -> Result<InstalledAgent, Failure> {
        let path = "agents".to_owned();
        let call = HttpCall {
            method: Method::POST,
            path,
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: true,
        };
        let response = self.send_with_retries(call).await?;
        let replaced = response.status() != reqwest::StatusCode::CREATED;
        Ok(InstalledAgent {
            entry: parse_body(response).await?,
            replaced,
        })
    }
    async fn remove_agent(&self, id: &str) -> Result<(), Failure> {
        let path = format!("agents/{}", path_segment(id));
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.send_with_retries(call).await.map(|_| ())
    }
    async fn set_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure> {
        let path = format!("secrets/{}", path_segment(name));
        let call = HttpCall {
            method: Method::PUT,
            path,
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: false,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
    async fn rotate_secret(&self, name: &str, request: SecretPut) -> Result<SecretInfo, Failure> {
        self.post_json(
            format!("secrets/{}/rotate", path_segment(name)),
            &request,
            false,
        )
        .await
    }
    async fn secrets(&self, query: SecretsQuery) -> Result<SecretList, Failure> {
        self.get_json("secrets".to_owned(), &query).await
    }
    async fn delete_secret(&self, name: &str, query: SecretScopeQuery) -> Result<(), Failure> {
        let path = format!("secrets/{}", path_segment(name));
        let query = Some(query_string(&query));
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.send_with_retries(call).await.map(|_| ())
    }
}
