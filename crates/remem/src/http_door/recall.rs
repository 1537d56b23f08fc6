//! Search, recall and the state of embeddings over HTTP.

use super::{HttpDoor, segment};
use async_trait::async_trait;
use remem_server::RecallDoor;
use remem_wire::Failure;
use remem_wire::memory::{SearchAnswer, SearchRequest};
use remem_wire::recall::{EmbeddingStatus, RecallAnswer, RecallRequest};

#[async_trait]
impl RecallDoor for HttpDoor {
    async fn search(
        &self,
        memory_ref: &str,
        request: SearchRequest,
    ) -> Result<SearchAnswer, Failure> {
        self.post(
            format!("memory/{}/search", segment(memory_ref)),
            &request,
            true,
        )
        .await
    }
    async fn recall(
        &self,
        memory_ref: &str,
        request: RecallRequest,
    ) -> Result<RecallAnswer, Failure> {
        self.post(
            format!("memory/{}/recall", segment(memory_ref)),
            &request,
            true,
        )
        .await
    }
    async fn embeddings(&self) -> Result<EmbeddingStatus, Failure> {
        self.read("embeddings".to_owned(), &()).await
    }
}
