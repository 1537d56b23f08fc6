//! Sends requests to a server in the test's own process.

use super::TestServer;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// A complete response of the server.
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl TestResponse {
    /// The body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// The error code in the body.
    #[must_use]
    pub fn code(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    /// A header as text, empty if absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

impl TestServer {
    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request<Body>) -> TestResponse {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        TestResponse {
            status: parts.status,
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes().to_vec(),
        }
    }

    /// Sends a request with a key; headers as pairs.
    pub async fn call(
        &self,
        key: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> TestResponse {
        let mut request = Request::builder().method(method).uri(path);
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Sends a GET request with the first key.
    pub async fn get(&self, path: &str) -> TestResponse {
        self.call("key-of-a", "GET", path, &[], "").await
    }

    /// Posts JSON with the first key.
    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.call("key-of-a", "POST", path, &[], body.to_string())
            .await
    }

    /// Installs a workflow with these nodes.
    pub async fn install(&self, id: &str, nodes: Value) {
        let definition = serde_json::json!({"id": id, "nodes": nodes}).to_string();
        let path = format!("/v1/host/remembrancer/workflows/{id}");
        let put = self.call("key-of-a", "PUT", &path, &[], definition).await;
        assert!(put.status.is_success(), "{}", put.json());
    }

    /// Starts a run; returns its id.
    pub async fn start_run(&self, body: Value) -> String {
        let created = self.post("/v1/runs", body).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.json());
        created.json()["runId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a run; returns its events.
    pub async fn wait_for_end(&self, id: &str) -> Vec<Value> {
        for _ in 0..200 {
            let page = self.get(&format!("/v1/runs/{id}/events/poll")).await.json();
            if page["isComplete"] == true {
                return page["events"].as_array().unwrap().clone();
            }
            let last = page["events"].as_array().unwrap().len() - 1;
            self.get(&format!(
                "/v1/runs/{id}/events/poll?lastSequence={last}&timeout=5"
            ))
            .await;
        }
        panic!("the run {id} does not end");
    }

    /// Runs a workflow to its end; returns the run's id and state.
    pub async fn run_to_end(&self, body: Value) -> (String, Value) {
        let id = self.start_run(body).await;
        self.wait_for_end(&id).await;
        let state = self.get(&format!("/v1/runs/{id}")).await.json();
        (id, state)
    }

    /// Sends a DELETE request with the first key.
    pub async fn delete(&self, path: &str) -> TestResponse {
        self.call("key-of-a", "DELETE", path, &[], "").await
    }
}
