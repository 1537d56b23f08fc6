//! Repeated requests to start a run: the digest by which they are recognised, and the run that the
//! first one started. Nothing is started here.

use super::{NewRun, Started, named};
use crate::caller::Caller;
use crate::engine::{Digest, Engine};
use crate::error::EngineError;
use remem_core::{PrincipalId, RunState};
use serde_json::Value;

impl Engine {
    /// The run that an earlier request with the same key and body started, if there was one. The
    /// workflow may be gone, so that it is unknown whether the run was private to a user: both
    /// digests are tried.
    pub(super) async fn started_before(
        &self,
        caller: &Caller,
        body: &Digest,
        key: Option<&str>,
    ) -> Result<Option<Started>, EngineError> {
        for body in [body.clone(), body.clone().of_user_s(caller.principal())] {
            let idempotency = self.idempotency("create-run", key, &body)?;
            let committed = self
                .first_answer(caller.tenant(), idempotency.as_ref())
                .await?;
            if let Some(id) = committed.as_ref().and_then(named) {
                let policy = self.policy_of(caller);
                return Ok(Some(Started {
                    run: self.run_now(&policy, caller.tenant(), &id).await?,
                    replayed: true,
                }));
            }
        }
        Ok(None)
    }
}

impl Digest {
    /// The digest of a request for a run: if the run is visible to one user only, it belongs to
    /// that user.
    pub(super) fn of_run(self, state: &RunState) -> Digest {
        match state.only_for.as_deref().and_then(PrincipalId::parse) {
            Some(user) => self.of_user_s(&user),
            None => self,
        }
    }

    /// The digest of a request that belongs to one user.
    fn of_user_s(self, user: &PrincipalId) -> Digest {
        let mut own = Digest::of_user(user);
        own.part(self.bytes());
        own
    }
}

/// Digest of a request to start a run, for its idempotency key.
pub(super) fn digest(new: &NewRun) -> Digest {
    let mut digest = Digest::default();
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
