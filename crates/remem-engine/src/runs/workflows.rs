//! Workflow definitions: those of the host, and those that a tenant installed. For the same id, the
//! tenant's own is used.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::workflow::is_workflow_id;
use remem_core::{
    Batch, Permission, Precondition, RecordKind, Rejection, TenantId, Timestamp, Workflow,
};
use remem_store::ChangeOutcome;
use serde_json::{Map, Value};

/// A workflow definition, and where it comes from.
pub(crate) struct ResolvedWorkflow {
    pub definition: Workflow,
    /// Whether the tenant installed it; otherwise it is the host's.
    pub is_installed: bool,
    /// The scopes of the key that installed it, if they were recorded.
    pub scopes: Option<Vec<String>>,
}

/// The field of a workflow's record that is not part of its definition: the installer's scopes.
const SCOPES: &str = "remembrancer:scopes";

/// The rejection when the host would have to start a workflow without recorded scopes.
const WITHOUT_SCOPES: Rejection = Rejection::Invalid {
    field: "workflowId",
    rule: "was installed before workflows kept their installer's scopes: install it again, so that timers and deliveries can start it",
};

/// Adds the scopes of the installing key to a definition, replacing any that the document itself
/// contains.
pub(crate) fn with_scopes(
    mut document: Map<String, Value>,
    installer: &Caller,
) -> Map<String, Value> {
    document.insert(SCOPES.to_owned(), Value::from(scopes_of(installer)));
    document
}

/// The scopes of a caller's key.
pub(crate) fn scopes_of(caller: &Caller) -> Vec<String> {
    let names = caller.permissions.iter();
    names.map(|scope| scope.as_str().to_owned()).collect()
}

impl ResolvedWorkflow {
    /// The scopes that a run of the workflow acts with: its installer's; for one installed before
    /// they were recorded, the starter's. The host starts no such workflow by itself.
    pub fn effective_scopes(
        &self,
        starter: Option<Vec<String>>,
    ) -> Result<Option<Vec<String>>, Rejection> {
        if !self.is_installed {
            return Ok(None);
        }
        let scopes = self.scopes.clone().or(starter);
        scopes.map(Some).ok_or(WITHOUT_SCOPES)
    }
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowInfo {
    /// The id of the workflow.
    pub id: String,
    /// When the tenant installed it; `None` for a workflow of the host.
    pub installed_at: Option<Timestamp>,
}

impl Engine {
    /// Installs a definition, replacing one with the same id. Returns it as stored, and whether it
    /// is new.
    pub async fn put_workflow(
        &self,
        caller: &Caller,
        id: &str,
        document: Map<String, Value>,
    ) -> Result<(Map<String, Value>, bool), EngineError> {
        caller.require(Permission::ManifestWrite)?;
        caller.require_run_trust()?;
        let workflow = Workflow::parse(document)?;
        if workflow.id != id {
            return Err(Rejection::Invalid {
                field: "id",
                rule: "must equal the name in the path",
            }
            .into());
        }
        let bytes = serde_json::to_string(&workflow.document).map_or(0, |text| text.len());
        let limit = self.parts.policy.workflow_bytes_max;
        if bytes > limit {
            return Err(Rejection::TooLarge {
                field: "workflow",
                unit: "bytes",
                limit: limit as u64,
                actual: bytes as u64,
            }
            .into());
        }
        let known = self
            .parts
            .store
            .records(
                caller.tenant(),
                RecordKind::Workflow,
                "",
                None,
                self.parts.policy.workflows_max,
            )
            .await?;
        if known.len() >= self.parts.policy.workflows_max as usize
            && known.iter().all(|record| record.key != id)
        {
            let limit = u64::from(self.parts.policy.workflows_max);
            return Err(Rejection::TooLarge {
                field: "workflows",
                unit: "items",
                limit,
                actual: limit + 1,
            }
            .into());
        }
        let now = self.now_for(caller.tenant()).await?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, now);
        let document = with_scopes(workflow.document, caller);
        let body = self
            .redact_body(caller.tenant(), &admission, document)
            .await?;
        let mut stored = body.map().clone();
        stored.remove(SCOPES);
        // The definition must still be valid after redaction.
        Workflow::parse(stored.clone())?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let committed = self
            .parts
            .store
            .commit(batch.set_record(
                RecordKind::Workflow,
                id.to_owned(),
                Precondition::None,
                body,
            ))
            .await?;
        Ok((
            stored,
            committed
                .outcomes
                .iter()
                .any(|outcome| matches!(outcome, ChangeOutcome::Recorded { version: 1, .. })),
        ))
    }

    /// Deletes a definition of the tenant. Runs that have started continue.
    pub async fn delete_workflow(&self, caller: &Caller, id: &str) -> Result<(), EngineError> {
        caller.require(Permission::ManifestWrite)?;
        if !is_workflow_id(id) {
            return Err(EngineError::NotFound("workflow"));
        }
        let now = self.now_for(caller.tenant()).await?;
        let batch =
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone());
        let committed = self
            .parts
            .store
            .commit(batch.delete_record(RecordKind::Workflow, id.to_owned(), Precondition::None))
            .await?;
        if committed.outcomes == [ChangeOutcome::Removed] {
            Ok(())
        } else {
            Err(EngineError::NotFound("workflow"))
        }
    }

    /// Returns the definition with this id.
    pub async fn get_workflow(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Map<String, Value>, EngineError> {
        caller.require(Permission::RunsRead)?;
        let found = self
            .find_workflow(caller.tenant(), id)
            .await?
            .ok_or(EngineError::UnknownWorkflow)?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, self.now());
        let document = found.definition.document;
        let redacted = self
            .redact_body(caller.tenant(), &admission, document)
            .await?;
        Ok(redacted.map().clone())
    }

    /// Lists all workflows that the caller can run, by id.
    pub async fn list_workflows(&self, caller: &Caller) -> Result<Vec<WorkflowInfo>, EngineError> {
        caller.require(Permission::RunsRead)?;
        let own = self
            .parts
            .store
            .records(
                caller.tenant(),
                RecordKind::Workflow,
                "",
                None,
                self.parts.policy.workflows_max,
            )
            .await?;
        let mut infos: Vec<WorkflowInfo> = own
            .into_iter()
            .map(|record| WorkflowInfo {
                id: record.key,
                installed_at: Some(record.at),
            })
            .collect();
        for workflow in &self.parts.workflows {
            if infos.iter().all(|info| info.id != workflow.id) {
                infos.push(WorkflowInfo {
                    id: workflow.id.clone(),
                    installed_at: None,
                });
            }
        }
        infos.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(infos)
    }

    /// Finds a workflow of the tenant or the host.
    pub(crate) async fn find_workflow(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<ResolvedWorkflow>, EngineError> {
        if !is_workflow_id(id) {
            return Ok(None);
        }
        if let Some(mut record) = self
            .parts
            .store
            .record(tenant, RecordKind::Workflow, id)
            .await?
        {
            let scopes = record.body.remove(SCOPES);
            return Ok(Some(ResolvedWorkflow {
                definition: Workflow::parse(record.body)?,
                is_installed: true,
                scopes: scopes.and_then(|scopes| serde_json::from_value(scopes).ok()),
            }));
        }
        Ok(self.host_workflow(id).map(|definition| ResolvedWorkflow {
            definition: definition.clone(),
            is_installed: false,
            scopes: None,
        }))
    }

    /// Finds a workflow of the host.
    pub(crate) fn host_workflow(&self, id: &str) -> Option<&Workflow> {
        self.parts
            .workflows
            .iter()
            .find(|workflow| workflow.id == id)
    }
}
