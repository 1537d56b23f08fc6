//! Search, recall and the state of embeddings over HTTP.

use super::{HttpApi, path_segment};
use async_trait::async_trait;
use remem_server::RecallApi;
use remem_wire::Failure;
use remem_wire::memory::{SearchAnswer, SearchRequest};
use remem_wire::recall::{EmbeddingStatus, RecallAnswer, RecallRequest};

#[async_trait]
impl RecallApi for HttpApi {
    async fn search(
        &self,
        memory_ref: &str,
        request: SearchRequest,
    ) -> Result<SearchAnswer, Failure> {
        self.post_json(
            format!("memory/{}/search", path_segment(memory_ref)),
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
        self.post_json(
            format!("memory/{}/recall", path_segment(memory_ref)),
            &request,
            true,
        )
        .await
    }
    async fn embeddings(&self) -> Result<EmbeddingStatus, Failure> {
        self.get_json("embeddings".to_owned(), &()).await
    }
}
