//! Forgetting, lineage and archives over HTTP.

use super::{Call, HttpDoor, segment};
use async_trait::async_trait;
use remem_server::ForgetDoor;
use remem_wire::forget::{
    ArchiveList, EntryLineage, ErasureList, ErasuresQuery, ForgetAnswer, ForgetRequest,
};
use remem_wire::{ErrorBody, Failure};
use reqwest::Method;
use serde_json::{Map, Value};

#[async_trait]
impl ForgetDoor for HttpDoor {
    /// Not retried: a second request would find nothing left and answer without the report of the
    /// first.
    async fn forget(&self, request: ForgetRequest) -> Result<ForgetAnswer, Failure> {
        let repeatable = request.dry_run;
        self.post("forget".to_owned(), &request, repeatable).await
    }
    async fn erasures(&self, query: ErasuresQuery) -> Result<ErasureList, Failure> {
        self.read("erasures".to_owned(), &query).await
    }
    async fn erasure(&self, id: &str) -> Result<Map<String, Value>, Failure> {
        self.read(format!("erasures/{}", segment(id)), &()).await
    }
    async fn lineage(&self, memory_ref: &str, id: &str) -> Result<EntryLineage, Failure> {
        self.read(
            format!(
                "memory/{}/entries/{}/lineage",
                segment(memory_ref),
                segment(id)
            ),
            &(),
        )
        .await
    }
    async fn archives(&self, memory_ref: &str) -> Result<ArchiveList, Failure> {
        self.read(format!("memory/{}/archives", segment(memory_ref)), &())
            .await
    }
    async fn archive(&self, memory_ref: &str, sha256: &str) -> Result<String, Failure> {
        let path = format!(
            "memory/{}/archives/{}",
            segment(memory_ref),
            segment(sha256)
        );
        let call = Call::<()> {
            method: Method::GET,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: true,
        };
        // The bytes are returned as they are: JSON that is parsed and written again would not have
        // the digest that the archive is named by.
        let bytes = self.call(call).await?.bytes().await.ok();
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
