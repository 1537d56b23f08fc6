//! Carries a run on, node after node, to its one last event.

use super::live::{Halt, Live, Reads};
use super::{Fresh, nodes};
use crate::engine::Engine;
use remem_core::event::{Fault, NodeEnded, NodeFailed, NodeStarted, RunEnded, RunFailed};
use remem_core::sabotage;
use remem_core::workflow::Node;
use remem_core::{Event, EventBody, Permission, RunId, RunStatus, TenantId};
use std::pin::Pin;

/// Carries a run as far as it goes. A boxed future: a run may start runs.
pub(crate) fn execute<'a>(
    engine: &'a Engine,
    tenant: &'a TenantId,
    id: &'a RunId,
    fresh: Option<Fresh>,
) -> Pin<Box<dyn Future<Output = Result<(), Halt>> + Send + 'a>> {
    Box::pin(async move {
        let live = match fresh {
            Some(fresh) => Some(Live::fresh(engine, tenant, id, fresh).await?),
            None => Live::load(engine, tenant, id).await?,
        };
        let Some(mut live) = live else { return Ok(()) };
        let ended = match run_nodes(&mut live).await {
            Ok(()) => finish(&mut live).await,
            other => other,
        };
        let Err(Halt::Fault(fault)) = ended else {
            return ended;
        };
        fail(engine, tenant, id, fault, std::mem::take(&mut live.reads)).await
    })
}

async fn run_nodes(live: &mut Live<'_>) -> Result<(), Halt> {
    let nodes = live.workflow.nodes.clone();
    if nodes.is_empty() {
        return Err(Halt::fault(
            "workflow_gone",
            "the workflow that the run was started with is not there any more",
        ));
    }
    for (n, node) in nodes.iter().enumerate() {
        if live.run.state.done.iter().any(|done| done.id == node.id) {
            continue;
        }
        live.engine.runs.give_way(&live.tenant, &live.run.id).await;
        live.enter(n);
        live.look_at_rules().await?;
        overtime(live).await?;
        if node.disabled {
            live.leave(node, true);
            continue;
        }
        live.emit(EventBody::NodeStarted(NodeStarted {
            node_id: node.id.clone(),
            type_id: node.type_id.clone(),
        }));
        run_node(live, node).await?;
        live.leave(node, false);
        live.emit(EventBody::NodeCompleted(NodeEnded {
            node_id: node.id.clone(),
        }));
        // The last node commits together with the run's end.
        if n + 1 < nodes.len() {
            live.commit().await?;
        }
    }
    Ok(())
}

async fn run_node(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let missing = |what: &str| {
        Halt::fault(
            "capability_not_provided",
            format!("this host does not provide {what}"),
        )
    };
    // Type names are checked to be plain when a definition is read, so that one can be named here.
    let kind = nodes::find(&node.type_id).filter(|kind| !kind.seam || live.engine.parts.seams);
    let kind = kind.ok_or_else(|| missing(&format!("the node type {}", node.type_id)))?;
    if let Some(scopes) = &live.run.state.scopes {
        let lacks = |scope: &&Permission| !scopes.iter().any(|name| name == scope.as_str());
        let missing = nodes::needs(node).iter().find(lacks);
        if let Some(scope) = sabotage!("a-run-does-what-its-installer-may-not", missing, None) {
            return Err(Halt::fault(
                "forbidden",
                format!("the key that installed the workflow lacks the scope {scope}"),
            ));
        }
    }
    match kind.requires {
        Some(capability) => Err(missing(capability)),
        None => (kind.run)(live, node).await,
    }
}

async fn overtime(live: &Live<'_>) -> Result<(), Halt> {
    let end = live
        .run
        .state
        .started_at
        .saturating_add(live.policy.run_duration_ms_max);
    if live.now().await?.0 > end {
        return Err(Halt::fault(
            "run_timeout",
            "the run took longer than this host allows",
        ));
    }
    Ok(())
}

async fn finish(live: &mut Live<'_>) -> Result<(), Halt> {
    let now = live.now().await?;
    live.run.state.status = RunStatus::Completed;
    live.run.state.completed_at = Some(now.0);
    live.emit(EventBody::RunCompleted(RunEnded {
        duration_ms: duration(live, now.0),
    }));
    live.release();
    live.commit().await?;
    ended(live.run.state.status);
    Ok(())
}

/// How long the run took; a replay repeats the recorded figure, so that both logs are equal.
fn duration(live: &Live<'_>, now: i64) -> u64 {
    let own = now
        .saturating_sub(live.run.state.started_at)
        .max(0)
        .cast_unsigned();
    let recorded = live.recorded_duration_ms.unwrap_or(own);
    sabotage!("a-replay-takes-its-own-time", recorded, own)
}

fn ended(status: RunStatus) {
    metrics::counter!("remem_runs_ended_total", "status" => status.as_str()).increment(1);
}

/// Ends a run with an error. Whatever the node had staged is dropped with it: it is taken up anew
/// from its record.
pub(crate) async fn fail(
    engine: &Engine,
    tenant: &TenantId,
    id: &RunId,
    fault: Fault,
    reads: Reads,
) -> Result<(), Halt> {
    let Some(mut live) = Live::load(engine, tenant, id).await? else {
        return Ok(());
    };
    let now = live.now().await?;
    let node = live
        .workflow
        .nodes
        .iter()
        .find(|node| live.run.state.done.iter().all(|done| done.id != node.id))
        .cloned();
    live.reads = reads;
    live.run.state.status = RunStatus::Failed;
    live.run.state.completed_at = Some(now.0);
    live.run.state.error = Some(fault.clone());
    live.run.state.failed_node = node.as_ref().map(|node| node.id.clone());
    if let Some(Node {
        id: node_id,
        type_id,
        ..
    }) = node.clone()
    {
        // Its beginning was dropped as well, unless something was committed midway.
        let begun = |event: &Event| matches!(&event.body, EventBody::NodeStarted(node) if node.node_id == node_id);
        if !engine.whole_log(tenant, id).await?.iter().any(begun) {
            live.emit(EventBody::NodeStarted(NodeStarted {
                node_id: node_id.clone(),
                type_id,
            }));
        }
        live.emit(EventBody::NodeFailed(NodeFailed {
            node_id,
            error: fault.clone(),
        }));
    }
    let duration_ms = duration(&live, now.0);
    live.emit(EventBody::RunFailed(RunFailed {
        error: fault,
        failed_node_id: node.map(|node| node.id),
        duration_ms,
    }));
    live.release();
    live.commit().await?;
    ended(live.run.state.status);
    Ok(())
}
