//! What makes a repeated start of a run the same request: its digest, and the run that it started
//! the first time. It starts nothing.

use super::{NewRun, Started, named};
use crate::caller::Caller;
use crate::engine::{Digest, Engine};
use crate::error::EngineError;
use remem_core::{PrincipalId, RunState};
use serde_json::Value;

impl Engine {
    /// The run that the same request started under the same key, if it did. What it is started
    /// from may be gone, so that nobody can tell any more whether it was one user's alone.
    pub(super) async fn started_before(
        &self,
        caller: &Caller,
        body: &Digest,
        key: Option<&str>,
    ) -> Result<Option<Started>, EngineError> {
        for body in [body.clone(), body.clone().of_user_s(caller.principal())] {
            let idempotency = self.idempotency("create-run", key, &body)?;
            let first = self
                .first_answer(caller.tenant(), idempotency.as_ref())
                .await?;
            if let Some(id) = first.as_ref().and_then(named) {
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
    /// The same request for a run that is one user's alone is that user's.
    pub(super) fn of_run(self, state: &RunState) -> Digest {
        match state.only_for.as_deref().and_then(PrincipalId::parse) {
            Some(user) => self.of_user_s(&user),
            None => self,
        }
    }

    fn of_user_s(self, user: &PrincipalId) -> Digest {
        let mut own = Digest::of_user(user);
        own.part(self.bytes());
        own
    }
}

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
