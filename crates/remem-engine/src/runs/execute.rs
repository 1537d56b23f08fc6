//! Executes a run, node after node, up to its final event.

use super::execution::{Halt, RecordedReads, RunExecution};
use super::{LoadedRun, nodes};
use crate::engine::Engine;
use remem_core::event::{Fault, NodeEnded, NodeFailed, NodeStarted, RunEnded, RunFailed};
use remem_core::sabotage;
use remem_core::workflow::Node;
use remem_core::{Event, EventBody, Permission, RunId, RunStatus, TenantId};
use std::pin::Pin;

/// Executes a run until it ends or must stop. Returns a boxed future, because a run may execute
/// other runs.
pub(crate) fn execute<'a>(
    engine: &'a Engine,
    tenant: &'a TenantId,
    id: &'a RunId,
    loaded: Option<LoadedRun>,
) -> Pin<Box<dyn Future<Output = Result<(), Halt>> + Send + 'a>> {
    Box::pin(async move {
        let execution = match loaded {
            Some(loaded) => Some(RunExecution::from_loaded(engine, tenant, id, loaded).await?),
            None => RunExecution::load(engine, tenant, id).await?,
        };
        let Some(mut execution) = execution else {
            return Ok(());
        };
        let result = match run_nodes(&mut execution).await {
            Ok(()) => finish(&mut execution).await,
            other => other,
        };
        let Err(Halt::Fault(fault)) = result else {
            return result;
        };
        fail_run_at_node(
            engine,
            tenant,
            id,
            fault,
            std::mem::take(&mut execution.reads),
        )
        .await
    })
}

/// Executes the nodes that have not ended, each in one commit.
async fn run_nodes(execution: &mut RunExecution<'_>) -> Result<(), Halt> {
    let nodes = execution.workflow.nodes.clone();
    if nodes.is_empty() {
        return Err(Halt::fault(
            "workflow_gone",
            "the workflow that the run was started with is not there any more",
        ));
    }
    for (n, node) in nodes.iter().enumerate() {
        if execution
            .run
            .state
            .done
            .iter()
            .any(|done| done.id == node.id)
        {
            continue;
        }
        execution
            .engine
            .run_queue
            .wait_while_held(&execution.tenant, &execution.run.id)
            .await;
        execution.begin_node(n);
        execution.reload_rules().await?;
        check_duration(execution).await?;
        if node.disabled {
            execution.end_node(node, true);
            continue;
        }
        execution.emit(EventBody::NodeStarted(NodeStarted {
            node_id: node.id.clone(),
            type_id: node.type_id.clone(),
        }));
        run_node(execution, node).await?;
        execution.end_node(node, false);
        execution.emit(EventBody::NodeCompleted(NodeEnded {
            node_id: node.id.clone(),
        }));
        // The last node commits together with the run's end.
        if n + 1 < nodes.len() {
            execution.commit().await?;
        }
    }
    Ok(())
}

/// Executes one node, after checking that this host supports it and that the run may use it.
async fn run_node(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let missing = |what: &str| {
        Halt::fault(
            "capability_not_provided",
            format!("this host does not provide {what}"),
        )
    };
    // The type's name is safe to echo: names are checked when a definition is read.
    let kind = nodes::find_node_type(&node.type_id)
        .filter(|kind| !kind.test_only || execution.engine.parts.test_endpoints);
    let kind = kind.ok_or_else(|| missing(&format!("the node type {}", node.type_id)))?;
    if let Some(scopes) = &execution.run.state.scopes {
        let lacks = |scope: &&Permission| !scopes.iter().any(|name| name == scope.as_str());
        let missing = nodes::required_permissions(node).iter().find(lacks);
        if let Some(scope) = sabotage!("a-run-does-what-its-installer-may-not", missing, None) {
            return Err(Halt::fault(
                "forbidden",
                format!("the key that installed the workflow lacks the scope {scope}"),
            ));
        }
    }
    match kind.missing_capability {
        Some(capability) => Err(missing(capability)),
        None => (kind.run)(execution, node).await,
    }
}

/// Fails if the run has taken too long.
async fn check_duration(execution: &RunExecution<'_>) -> Result<(), Halt> {
    let end = execution
        .run
        .state
        .started_at
        .saturating_add(execution.policy.run_duration_ms_max);
    if execution.now().await?.0 > end {
        return Err(Halt::fault(
            "run_timeout",
            "the run took longer than this host allows",
        ));
    }
    Ok(())
}

/// Commits the end of a run that completed.
async fn finish(execution: &mut RunExecution<'_>) -> Result<(), Halt> {
    let now = execution.now().await?;
    execution.run.state.status = RunStatus::Completed;
    execution.run.state.completed_at = Some(now.0);
    execution.emit(EventBody::RunCompleted(RunEnded {
        duration_ms: duration(execution, now.0),
    }));
    execution.release_snapshot();
    execution.commit().await?;
    count_ended(execution.run.state.status);
    Ok(())
}

/// How long the run took, in milliseconds. A replay repeats the recorded figure, so that both logs
/// are equal.
fn duration(execution: &RunExecution<'_>, now: i64) -> u64 {
    let own = now
        .saturating_sub(execution.run.state.started_at)
        .max(0)
        .cast_unsigned();
    let recorded = execution.recorded_duration_ms.unwrap_or(own);
    sabotage!("a-replay-takes-its-own-time", recorded, own)
}

/// Counts an ended run in the metrics.
fn count_ended(status: RunStatus) {
    metrics::counter!("remem_runs_ended_total", "status" => status.as_str()).increment(1);
}

/// Ends a run with an error. The changes staged by the failed node are dropped: the run is loaded
/// again from its record.
pub(crate) async fn fail_run_at_node(
    engine: &Engine,
    tenant: &TenantId,
    id: &RunId,
    fault: Fault,
    reads: RecordedReads,
) -> Result<(), Halt> {
    let Some(mut execution) = RunExecution::load(engine, tenant, id).await? else {
        return Ok(());
    };
    let now = execution.now().await?;
    let node = execution
        .workflow
        .nodes
        .iter()
        .find(|node| {
            execution
                .run
                .state
                .done
                .iter()
                .all(|done| done.id != node.id)
        })
        .cloned();
    execution.reads = reads;
    execution.run.state.status = RunStatus::Failed;
    execution.run.state.completed_at = Some(now.0);
    execution.run.state.error = Some(fault.clone());
    execution.run.state.failed_node = node.as_ref().map(|node| node.id.clone());
    if let Some(Node {
        id: node_id,
        type_id,
        ..
    }) = node.clone()
    {
        // The event that the node started was dropped as well, unless the node committed something
        // midway.
        let is_node_start = |event: &Event| matches!(&event.body, EventBody::NodeStarted(node) if node.node_id == node_id);
        if !engine
            .full_run_log(tenant, id)
            .await?
            .iter()
            .any(is_node_start)
        {
            execution.emit(EventBody::NodeStarted(NodeStarted {
                node_id: node_id.clone(),
                type_id,
            }));
        }
        execution.emit(EventBody::NodeFailed(NodeFailed {
            node_id,
            error: fault.clone(),
        }));
    }
    let duration_ms = duration(&execution, now.0);
    execution.emit(EventBody::RunFailed(RunFailed {
        error: fault,
        failed_node_id: node.map(|node| node.id),
        duration_ms,
    }));
    execution.release_snapshot();
    execution.commit().await?;
    count_ended(execution.run.state.status);
    Ok(())
}
