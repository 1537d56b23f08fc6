//! Repeated requests to start or fork a run: the digest by which they are recognised, and the run
//! that the first one started. Nothing is started here.

use super::{NewRun, StartedRun, stored_run_id};
use crate::caller::Caller;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use remem_core::{PrincipalId, RunState};
use serde_json::Value;

impl Engine {
    /// The run that an earlier request with the same key and body started, if there was one. The
    /// workflow may be gone, so that it is unknown whether the run was private to a user: both
    /// digests are tried.
    pub(super) async fn find_replayed_run(
        &self,
        caller: &Caller,
        operation: &'static str,
        body: &RequestDigest,
        key: Option<&str>,
    ) -> Result<Option<StartedRun>, EngineError> {
        for body in [body.clone(), body.clone().for_user(caller.principal())] {
            let idempotency = self.idempotency(operation, key, &body)?;
            let committed = self
                .replayed_commit(caller.tenant(), idempotency.as_ref())
                .await?;
            if let Some(id) = committed.as_ref().and_then(stored_run_id) {
                let policy = self.policy_of(caller);
                return Ok(Some(StartedRun {
                    run: self.redacted_run(&policy, caller.tenant(), &id).await?,
                    replayed: true,
                }));
            }
        }
        Ok(None)
    }
}

impl RequestDigest {
    /// The digest of a request for a run: if the run is visible to one user only, it belongs to
    /// that user.
    pub(super) fn for_run(self, state: &RunState) -> RequestDigest {
        match state.only_for.as_deref().and_then(PrincipalId::parse) {
            Some(user) => self.for_user(&user),
            None => self,
        }
    }

    /// The digest of a request that belongs to one user.
    fn for_user(self, user: &PrincipalId) -> RequestDigest {
        let mut own = RequestDigest::of_user(user);
        own.part(self.bytes());
        own
    }
}

/// Digest of a request to start a run, for its idempotency key.
pub(super) fn run_digest(new: &NewRun) -> RequestDigest {
    let mut digest = RequestDigest::default();
    digest.part(new.workflow_id.as_bytes());
    digest.part(new.agent_id.as_deref().unwrap_or_default().as_bytes());
    for map in [&new.inputs, &new.configurable, &new.metadata] {
        digest.part(Value::Object((*map).clone()).to_string().as_bytes());
    }
    digest.part(Value::from(new.tags.clone()).to_string().as_bytes());
    for secret in &new.secrets {
        digest.part(secret.id().as_bytes());
        secret.expose(|value| digest.part(value.as_bytes()));
    }
    digest
}
