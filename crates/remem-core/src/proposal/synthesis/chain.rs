//! Routines of order: one principal starts the same workflows one after the other. Becomes one
//! workflow that starts them all.

use super::{RunTrace, SUPPORT_MIN, Seen, Synthesised, count, label, sources};
use crate::proposal::Kind;
use crate::proposal::automation::Target;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The longest that passes between the end of one run and the start of the next, in milliseconds.
const PAUSE_MS_MAX: i64 = 10 * 60_000;
/// Workflows of a chain, the longest first: a part of a chain is not worth a draft of its own.
const LENGTHS: [usize; 3] = [4, 3, 2];

/// Workflow packs.
pub(super) fn drafts(runs: &[Seen<'_>]) -> Vec<Synthesised> {
    let mut principals: BTreeMap<&str, Vec<&Seen<'_>>> = BTreeMap::new();
    // A workflow can start workflows, but no agents.
    for run in runs
        .iter()
        .filter(|run| matches!(run.target, Target::Workflow(_)))
    {
        principals
            .entry(&run.trace.principal)
            .or_default()
            .push(run);
    }
    principals
        .into_values()
        .flat_map(|runs| chains(&runs))
        .collect()
}

/// The chains of one principal. Every run is part of one chain at the most.
fn chains(runs: &[&Seen<'_>]) -> Vec<Synthesised> {
    let follows: Vec<bool> = runs
        .windows(2)
        .map(|pair| follows(pair[0].trace, pair[1].trace))
        .collect();
    let mut taken = vec![false; runs.len()];
    let mut drafts = Vec::new();
    for length in LENGTHS {
        let mut found: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
        for at in 0..(runs.len() + 1).saturating_sub(length) {
            let ids: Vec<&str> = runs[at..at + length]
                .iter()
                .map(|run| run.trace.workflow_id.as_str())
                .collect();
            let different = ids.iter().collect::<BTreeSet<_>>().len() == length;
            if different && follows[at..at + length - 1].iter().all(|follows| *follows) {
                found.entry(ids).or_default().push(at);
            }
        }
        let mut found: Vec<(Vec<&str>, Vec<usize>)> = found.into_iter().collect();
        // The commonest first; of those that are equally common, the one that began first: a chain
        // that goes round and round begins where the day began.
        found.sort_by_key(|(_, places)| {
            (usize::MAX - free(places, length, &taken).len(), places[0])
        });
        for (ids, places) in found {
            let places = free(&places, length, &taken);
            if count(places.len()) < SUPPORT_MIN {
                continue;
            }
            places
                .iter()
                .for_each(|at| taken[*at..at + length].fill(true));
            drafts.push(draft(&ids, &places, runs));
        }
    }
    drafts
}

fn follows(before: &RunTrace, after: &RunTrace) -> bool {
    let pause = after.started_at.0.checked_sub(before.completed_at.0);
    pause.is_some_and(|pause| (0..=PAUSE_MS_MAX).contains(&pause))
}

/// Places that do not overlap what is taken. They do not overlap one another either: no workflow is
/// in a chain twice.
fn free(places: &[usize], length: usize, taken: &[bool]) -> Vec<usize> {
    places
        .iter()
        .copied()
        .filter(|at| !taken[*at..at + length].contains(&true))
        .collect()
}

fn draft(ids: &[&str], places: &[usize], runs: &[&Seen<'_>]) -> Synthesised {
    let nodes: Vec<Value> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| node(n, id, places, runs))
        .collect();
    let edge = |n: usize| json!({"id": format!("e{n}"), "sourceNodeId": format!("step{n}"), "targetNodeId": format!("step{}", n + 1)});
    let edges: Vec<Value> = (1..ids.len()).map(edge).collect();
    let name = label::named(
        &format!("chain {}", ids.join(" ")),
        &json!([ids, nodes]).to_string(),
    );
    let title = format!("Run {} as one workflow", ids.join(", then "));
    let workflow = json!({
        "id": name, "name": title, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    let artifact = json!({"name": name, "version": "0.1.0", "workflows": [workflow]});
    Synthesised {
        kind: Kind::WorkflowChainPack,
        title,
        rationale: format!(
            "The same principal started {} one after the other {} times, each within {} minutes after the one before had ended.",
            ids.join(", "),
            places.len(),
            PAUSE_MS_MAX / 60_000
        ),
        artifact: artifact.as_object().cloned().unwrap_or_default(),
        source_runs: sources(
            places
                .iter()
                .flat_map(|at| &runs[*at..at + ids.len()])
                .map(|run| run.trace.run.as_str()),
        ),
        support: count(places.len()),
    }
}

/// One step. It is given what it was always given; if that varied, a person has to say.
fn node(n: usize, id: &str, places: &[usize], runs: &[&Seen<'_>]) -> Value {
    let mut config = Map::from_iter([("workflowId".to_owned(), json!(id))]);
    let first = runs[places[0] + n];
    if !first.trace.inputs.is_empty() && places.iter().all(|at| runs[at + n].inputs == first.inputs)
    {
        config.insert(
            "inputs".to_owned(),
            Value::Object(first.trace.inputs.clone()),
        );
    }
    let step = n + 1;
    json!({
        "id": format!("step{step}"), "typeId": "core.subWorkflow", "name": format!("Step {step}"), "position": {"x": 200 * n, "y": 0},
        "config": config, "inputs": {},
    })
}
