//! Properties of all drafts, for any traces: the input order does not matter, every draft could be
//! applied, no word of a caller gets into a title, the number of drafts is bounded, and so is the
//! work.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::proposal::synthesis::{DRAFTS_MAX, SOURCES_MAX, SUPPORT_MIN};
use remem_core::proposal::{
    Artifact, ProposalDraft, RunTrace, ToolTrace, Traces, check, draft_proposals,
};
use remem_core::{Policy, Timestamp};
use serde_json::{Map, Value, json};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

fn run(name: String, workflow: &str, started: i64, inputs: Value) -> RunTrace {
    RunTrace {
        run: name,
        workflow_id: workflow.to_owned(),
        agent_id: None,
        principal: "canary-principal".to_owned(),
        started_at: Timestamp(started),
        completed_at: Timestamp(started + MINUTE),
        inputs: inputs.as_object().cloned().unwrap(),
    }
}

fn drafts(traces: &Traces) -> Vec<ProposalDraft> {
    draft_proposals(traces, "Europe/Berlin", &Policy::default())
}

/// Habits of a few people, with random runs between them.
fn traces() -> impl Strategy<Value = Traces> {
    let any_run = (
        0..4i64,
        0..3usize,
        0..2usize,
        0..40i64,
        -20..60i64,
        prop::bool::weighted(0.2),
        0..3usize,
    )
        .prop_map(|(habit, workflow, principal, day, minute, agent, noise)| {
            let text = format!(
                "canaryword please read ticket T{} and write a short answer of {noise}",
                day % 7
            );
            let inputs = [
                json!({}),
                json!({"canarykey": "canaryword"}),
                json!({"task": text}),
            ][noise]
                .clone();
            let id = ["fetch", "sum", "send"][workflow];
            let mut run = run(
                format!("run-{habit}-{workflow}-{day}-{minute}"),
                id,
                (20_000 + day) * DAY + (habit * 300 + minute) * MINUTE,
                inputs,
            );
            run.principal = ["anna", "bert"][principal].to_owned();
            run.agent_id = agent.then(|| "local.team.helper".to_owned());
            run
        });
    let tool = (0..30u32, 0..2usize, 0..3usize).prop_map(|(n, agent, tools)| ToolTrace {
        id: format!("use-{n}-{agent}"),
        agent_id: ["local.team.helper", "Canary Agent"][agent].to_owned(),
        run: Some(format!("run-{n}")),
        at: Timestamp(20_000 * DAY + i64::from(n)),
        tools: [
            vec!["a", "b"],
            vec!["b", "a", "b"],
            vec!["canary tool", "b"],
        ][tools]
            .iter()
            .map(|tool| (*tool).to_owned())
            .collect(),
        task: Some("canaryword".to_owned()),
    });
    let routine = (0..4i64, 0..3usize, 4..9i64).prop_map(|(habit, workflow, days)| {
        let id = ["fetch", "sum", "send"][workflow];
        let one = |day| {
            run(
                format!("habit-{habit}-{id}-{day}"),
                id,
                (20_000 + day) * DAY + (habit * 300 + day) * MINUTE,
                json!({"task": "canaryword"}),
            )
        };
        (0..days).map(one).collect::<Vec<RunTrace>>()
    });
    let runs = (
        prop::collection::vec(any_run, 0..120),
        prop::collection::vec(routine, 0..4),
    );
    (runs, prop::collection::vec(tool, 0..30)).prop_map(|((runs, routines), tools)| Traces {
        runs: runs
            .into_iter()
            .chain(routines.into_iter().flatten())
            .collect(),
        tools,
    })
}

fn shuffled<T: Clone>(items: &[T], seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut all = items.to_vec();
    (1..all.len())
        .rev()
        .for_each(|at| all.swap(at, next() % (at + 1)));
    all
}

fn hold(drafts: &[ProposalDraft]) {
    assert!(drafts.len() <= DRAFTS_MAX && drafts.is_sorted_by(|a, b| a.support >= b.support));
    for draft in drafts {
        let installable = check(draft.kind, &draft.artifact, &Policy::default()).unwrap();
        assert!(Artifact::new(&draft.artifact).is_ok() && !installable.name().contains("canary"));
        assert!(
            draft.support >= SUPPORT_MIN
                && draft.source_runs.len() <= SOURCES_MAX
                && draft.source_runs.is_sorted_by(|a, b| a < b)
        );
        let shown = format!("{} {} {draft:?}", draft.title, draft.rationale).to_lowercase();
        for word in ["canary", "ticket", "please", "anna", "bert"] {
            assert!(!shown.contains(word), "{shown}");
        }
    }
}

proptest! {
    #![proptest_config(config(64, 150))]

    #[test]
    fn drafts_do_not_depend_on_trace_order(traces in traces(), seed in any::<u64>()) {
        let turned = Traces { runs: shuffled(&traces.runs, seed), tools: shuffled(&traces.tools, seed) };
        let a = drafts(&traces);
        let b = drafts(&turned);
        prop_assert_eq!(&a, &b);
        hold(&a);
    }
}

#[test]
fn titles_and_rationales_omit_caller_text() {
    let inputs = |day: i64| json!({"canarykey": ["canary"], "task": format!("Canary please read ticket canary{day} and write a short answer")});
    let fixed = json!({"canarykey": "canary"});
    let mut runs: Vec<RunTrace> = (0..8)
        .map(|day| {
            run(
                format!("w-{day}"),
                "answer",
                (20_000 + day) * DAY + (day * 211 % 1_440) * MINUTE,
                inputs(day),
            )
        })
        .collect();
    for (n, id) in ["fetch", "sum", "send"].iter().enumerate() {
        let start =
            |day: i64| (20_000 + day) * DAY + (540 + i64::try_from(n).unwrap() * 3) * MINUTE;
        runs.extend((0..8).map(|day| run(format!("{id}-{day}"), id, start(day), fixed.clone())));
    }
    let tools = (0..8).map(|n| ToolTrace {
        id: format!("t{n}"),
        agent_id: "local.team.helper".to_owned(),
        run: None,
        at: Timestamp(n),
        tools: vec!["a".to_owned(), "b".to_owned()],
        task: Some("canary".to_owned()),
    });
    let all = drafts(&Traces {
        runs,
        tools: tools.collect(),
    });
    let kinds: std::collections::BTreeSet<&str> =
        all.iter().map(|draft| draft.kind.as_str()).collect();
    assert_eq!(kinds.len(), 4, "a draft of every kind: {all:?}");
    hold(&all);
}

#[test]
fn drafts_and_sources_are_bounded() {
    let habit = |id: usize| {
        (0..60i64).map(move |day| {
            run(
                format!("{id}-{day}"),
                &format!("w{id}"),
                (20_000 + day) * DAY + id as i64 * 40 * MINUTE,
                json!({}),
            )
        })
    };
    let all = drafts(&Traces {
        runs: (0..30).flat_map(habit).collect(),
        tools: Vec::new(),
    });
    assert_eq!(all.len(), DRAFTS_MAX);
    assert!(
        all.iter()
            .all(|draft| draft.support == 60 && draft.source_runs.len() == SOURCES_MAX)
    );
    hold(&all);
}

#[test]
fn oversized_and_too_old_traces_are_ignored() {
    let daily = |name: &str, from: i64, inputs: &Value| {
        (0..6)
            .map(|day| {
                run(
                    format!("{name}-{day}"),
                    "report",
                    (from + day) * DAY,
                    inputs.clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert!(
        drafts(&Traces {
            runs: daily("large", 20_000, &json!({"a": "x".repeat(70_000)})),
            tools: Vec::new()
        })
        .is_empty()
    );
    let noise = |n: i64| {
        run(
            format!("noise-{n}"),
            &format!("w{n}"),
            21_000 * DAY + n * 20 * MINUTE,
            json!({}),
        )
    };
    let with = |count: i64| {
        let runs = daily("old", 20_000, &json!({}))
            .into_iter()
            .chain((0..count).map(noise))
            .collect();
        drafts(&Traces {
            runs,
            tools: Vec::new(),
        })
        .len()
    };
    assert_eq!(
        (with(9_994), with(10_000)),
        (1, 0),
        "the newest ten thousand are looked at"
    );
}

/// Ten thousand traces of the kind that takes longest: a slow algorithm would not end in any
/// reasonable time.
#[test]
fn hostile_traces_are_processed_in_bounded_time() {
    let words = |n: usize| {
        let mut words = vec!["word".to_owned(); 198];
        [(n % 7) * 20, 60 + n % 50, 120 + n % 60, 190]
            .iter()
            .for_each(|at| words[*at] = format!("x{n}"));
        words.join(" ")
    };
    let texts = (0..2_500).map(|n| {
        run(
            format!("t{n}"),
            "answer",
            20_000 * DAY + n as i64,
            json!({"task": words(n)}),
        )
    });
    let pairs = (0..4_000).map(|n: usize| {
        run(
            format!("c{n}"),
            &format!("w{}", n * n % 7),
            20_000 * DAY + n as i64 * 2 * MINUTE,
            json!({}),
        )
    });
    let same = (0..2_500).map(|n| run(format!("s{n}"), "same", 20_000 * DAY, json!({})));
    let tools = (0..1_000).map(|n| ToolTrace {
        id: format!("{n}"),
        agent_id: "local.team.helper".to_owned(),
        run: None,
        at: Timestamp(20_000 * DAY),
        tools: (0..1 + n % 40).map(|tool| format!("tool{tool}")).collect(),
        task: None,
    });
    let traces = Traces {
        runs: texts.chain(pairs).chain(same).collect(),
        tools: tools.collect(),
    };
    hold(&drafts(&traces));
    // All share three quarters, and no two are similar.
    let ends = |n: usize| format!("{}{n}a {n}b {n}c {n}d", "word ".repeat(190));
    let alike = (0..5_000).map(|n| {
        run(
            format!("t{n}"),
            "answer",
            20_000 * DAY + n as i64,
            json!({"task": ends(n)}),
        )
    });
    assert!(
        drafts(&Traces {
            runs: alike.collect(),
            tools: Vec::new()
        })
        .is_empty()
    );
    let deep = (0..100).fold(json!("canary"), |value, _| Value::Array(vec![value]));
    let inputs = Map::from_iter([("a".to_owned(), deep)]);
    let deep = (0..9).map(|day| RunTrace {
        inputs: inputs.clone(),
        ..run(format!("d{day}"), "deep", (20_000 + day) * DAY, json!({}))
    });
    hold(&drafts(&Traces {
        runs: deep.collect(),
        tools: Vec::new(),
    }));
    let far = [i64::MIN, -1, 0, i64::MAX - 2 * MINUTE]
        .iter()
        .flat_map(|at| {
            (0..6).map(move |n| run(format!("f{at}-{n}"), "far", at.saturating_add(n), json!({})))
        });
    hold(&drafts(&Traces {
        runs: far.collect(),
        tools: Vec::new(),
    }));
}
