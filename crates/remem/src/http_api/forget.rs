//! Forgetting, lineage and archives over HTTP.

use super::{HttpApi, HttpCall, parse_body, path_segment};
use async_trait::async_trait;
use remem_server::ForgetApi;
use remem_wire::forget::{
    ArchiveList, EntryLineage, ErasureList, ErasuresQuery, ForgetAnswered, ForgetRequest,
};
use remem_wire::{ErrorBody, Failure};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};

#[async_trait]
impl ForgetApi for HttpApi {
    /// Not retried: a second request may find nothing left and answer without the report of the
    /// first.
    async fn forget(&self, request: ForgetRequest) -> Result<ForgetAnswered, Failure> {
        let call = HttpCall {
            method: Method::POST,
            path: "forget".to_owned(),
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: request.dry_run,
        };
        let response = self.send_with_retries(call).await?;
        if response.status() == StatusCode::ACCEPTED {
            return Ok(ForgetAnswered::Started(parse_body(response).await?));
        }
        Ok(ForgetAnswered::Done(parse_body(response).await?))
    }
    async fn erasures(&self, query: ErasuresQuery) -> Result<ErasureList, Failure> {
        self.get_json("erasures".to_owned(), &query).await
    }
    async fn erasure(&self, id: &str) -> Result<Map<String, Value>, Failure> {
        self.get_json(format!("erasures/{}", path_segment(id)), &())
            .await
    }
    async fn erasure_page(&self, id: &str, number: usize) -> Result<Map<String, Value>, Failure> {
        let path = format!("erasures/{}/pages/{number}", path_segment(id));
        self.get_json(path, &()).await
    }
    async fn lineage(&self, memory_ref: &str, id: &str) -> Result<EntryLineage, Failure> {
        self.get_json(
            format!(
                "memory/{}/entries/{}/lineage",
                path_segment(memory_ref),
                path_segment(id)
            ),
            &(),
        )
        .await
    }
    async fn archives(&self, memory_ref: &str) -> Result<ArchiveList, Failure> {
        self.get_json(format!("memory/{}/archives", path_segment(memory_ref)), &())
            .await
    }
    async fn archive(&self, memory_ref: &str, sha256: &str) -> Result<String, Failure> {
        let path = format!(
            "memory/{}/archives/{}",
            path_segment(memory_ref),
            path_segment(sha256)
        );
        let call = HttpCall::<()> {
            method: Method::GET,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: true,
        };
        // The bytes are returned as they are: JSON that is parsed and written again would not have
        // the digest that the archive is named by.
        let bytes = self.send_with_retries(call).await?.bytes().await.ok();
        bytes
            .and_then(|bytes| String::from_utf8(bytes.into()).ok())
            .ok_or_else(|| {
                let message = "the server's answer broke off or is not text; try again".to_owned();
                Failure {
                    status: 502,
                    retry_after: None,
                    body: ErrorBody {
                        error: "unexpected_answer".to_owned(),
                        message,
                        details: None,
                    },
                }
            })
    }
}
