//! From traces to drafts: what was done again and again becomes a proposal to have it done.
//! Deterministic, and the order in which traces are given does not matter. Nothing here applies a
//! draft.
//!
//! * `clock`: the same thing at the same time of day becomes an automation.
//! * `chain`: workflows that follow one another become one workflow.
//! * `wording`: a text that differs in a few words becomes a prompt template.
//! * `tools`: tools that are used in the same order become an agent with these tools and no others.
//! * `label`: the names of drafts.
//!
//! A title and a rationale hold counts and the names of workflows and agents, never a word that a
//! caller wrote: they are shown in lists and logs. The artifact may hold such words, since it is
//! what a person reviews.

mod chain;
mod clock;
mod label;
mod tools;
mod wording;

use super::Kind;
use super::artifact::{Artifact, canonical, check};
use super::automation::Target;
use crate::agent::is_agent_id;
use crate::ids::Timestamp;
use crate::policy::Policy;
use crate::workflow::is_workflow_id;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What made a draft: another engine may find other ones in the same traces.
pub const ENGINE: &str = "remem-propose-1";
/// How often something has to happen before it is a routine.
pub const SUPPORT_MIN: u32 = 5;
/// Drafts at the most; those with the most support are kept.
pub const DRAFTS_MAX: usize = 20;
/// Traces that are looked at; the newest ones are.
pub const TRACES_MAX: usize = 10_000;
/// Runs that a draft names as its source; the newest ones are.
pub const SOURCES_MAX: usize = 50;

/// A run that ended well. Runs that another run started are not to be among them: who started them
/// did it all at once.
#[derive(Clone, PartialEq)]
pub struct RunTrace {
    /// Its name.
    pub run: String,
    /// What was executed.
    pub workflow_id: String,
    /// The agent, if it was one that was called upon; the workflow is then the host's own.
    pub agent_id: Option<String>,
    /// Who started it.
    pub principal: String,
    /// When.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// What it was given.
    pub inputs: Map<String, Value>,
}

/// The tools that an agent used for one task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolTrace {
    /// Its name.
    pub id: String,
    /// The agent.
    pub agent_id: String,
    /// The run, if it was one.
    pub run: Option<String>,
    /// When.
    pub at: Timestamp,
    /// In the order they were called.
    pub tools: Vec<String>,
    /// What the agent was asked. No draft is made of it.
    pub task: Option<String>,
}

/// Everything that drafts are made of.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// Runs.
    pub runs: Vec<RunTrace>,
    /// Uses of tools.
    pub tools: Vec<ToolTrace>,
}

/// A draft.
#[derive(Clone, PartialEq)]
pub struct Synthesised {
    /// What it would install.
    pub kind: Kind,
    /// A line for people.
    pub title: String,
    /// Why it was made: counts, and names of workflows and agents.
    pub rationale: String,
    /// What it would install; it passes the rules of its kind.
    pub artifact: Map<String, Value>,
    /// The runs that it was made of, sorted.
    pub source_runs: Vec<String>,
    /// How often it was seen.
    pub support: u32,
}

// Inputs, tasks and artifacts are what callers wrote.
impl std::fmt::Debug for RunTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunTrace")
            .field("run", &self.run)
            .field("started_at", &self.started_at)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ToolTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolTrace")
            .field("id", &self.id)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Synthesised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Synthesised")
            .field("kind", &self.kind)
            .field("title", &self.title)
            .field("support", &self.support)
            .finish_non_exhaustive()
    }
}

/// The drafts that traces give rise to, those with the most support first. `zone` says by whose
/// clocks a time of day is read.
#[must_use]
pub fn synthesise(traces: &Traces, zone: &str, policy: &Policy) -> Vec<Synthesised> {
    let (runs, tools) = newest(traces);
    let runs: Vec<Seen<'_>> = runs.into_iter().filter_map(Seen::of).collect();
    let mut drafts = clock::drafts(&runs, zone);
    drafts.extend(chain::drafts(&runs));
    drafts.extend(wording::drafts(&runs));
    drafts.extend(tools::drafts(&tools));
    // What fails (inputs that are too large for an artifact, say) is no draft.
    let written = |draft: Synthesised| {
        let text = Artifact::new(&draft.artifact)
            .ok()
            .filter(|_| check(draft.kind, &draft.artifact, policy).is_ok())?
            .text()
            .to_owned();
        Some((draft, text))
    };
    let mut drafts: Vec<(Synthesised, String)> = drafts.into_iter().filter_map(written).collect();
    drafts.sort_by(|(a, a_text), (b, b_text)| {
        let by_support = b
            .support
            .cmp(&a.support)
            .then(a.kind.cmp(&b.kind))
            .then_with(|| a_text.cmp(b_text));
        by_support.then_with(|| a.source_runs.cmp(&b.source_runs))
    });
    // Two people with the same habit give rise to the same artifact: once is enough.
    let mut known = BTreeSet::new();
    drafts.retain(|(draft, text)| known.insert((draft.kind, text.clone())));
    drafts.truncate(DRAFTS_MAX);
    drafts.into_iter().map(|(draft, _)| draft).collect()
}

/// The newest traces, oldest first, each name once. Everything about a trace takes part in the
/// order, so that it does not depend on how they were given.
fn newest(traces: &Traces) -> (Vec<&RunTrace>, Vec<&ToolTrace>) {
    let mut runs: Vec<&RunTrace> = traces.runs.iter().collect();
    let mut tools: Vec<&ToolTrace> = traces.tools.iter().collect();
    runs.sort_by(|a, b| a.run.cmp(&b.run).then_with(|| by_time(b, a)));
    runs.dedup_by(|a, b| a.run == b.run);
    tools.sort_by(|a, b| a.id.cmp(&b.id).then_with(|| (b.at, b).cmp(&(a.at, a))));
    tools.dedup_by(|a, b| a.id == b.id);
    let mut times: Vec<Timestamp> = runs
        .iter()
        .map(|run| run.started_at)
        .chain(tools.iter().map(|tool| tool.at))
        .collect();
    times.sort_unstable();
    runs.sort_by(|a, b| by_time(a, b));
    tools.sort_by(|a, b| (a.at, a).cmp(&(b.at, b)));
    if let Some(over) = times.len().checked_sub(TRACES_MAX).filter(|over| *over > 0) {
        // Among those of one instant, all go: which of them stays must not be a matter of chance.
        let first = times[over];
        let cut = if times[over - 1] == first {
            first.plus_ms(1)
        } else {
            first
        };
        runs.retain(|run| run.started_at >= cut);
        tools.retain(|tool| tool.at >= cut);
    }
    (runs, tools)
}

fn by_time(a: &RunTrace, b: &RunTrace) -> Ordering {
    let times = (a.started_at, a.completed_at).cmp(&(b.started_at, b.completed_at));
    let names = (&a.run, &a.workflow_id, &a.agent_id, &a.principal).cmp(&(
        &b.run,
        &b.workflow_id,
        &b.agent_id,
        &b.principal,
    ));
    times
        .then(names)
        .then_with(|| canonical(&a.inputs).cmp(&canonical(&b.inputs)))
}

/// A run of something that has a proper name.
struct Seen<'a> {
    trace: &'a RunTrace,
    target: Target,
    /// What it was given, canonical.
    inputs: String,
}

impl<'a> Seen<'a> {
    fn of(trace: &'a RunTrace) -> Option<Seen<'a>> {
        let target = match &trace.agent_id {
            Some(agent) => Target::Agent(agent.clone()),
            None => Target::Workflow(trace.workflow_id.clone()),
        };
        let proper = match &target {
            Target::Agent(id) => is_agent_id(id),
            Target::Workflow(id) => is_workflow_id(id),
        };
        proper.then(|| Seen {
            trace,
            target,
            inputs: canonical(&trace.inputs),
        })
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// The newest runs, by name. They come oldest first.
fn sources<'a>(runs: impl DoubleEndedIterator<Item = &'a str>) -> Vec<String> {
    let newest: BTreeSet<&str> = runs.rev().take(SOURCES_MAX).collect();
    newest.into_iter().map(str::to_owned).collect()
}
