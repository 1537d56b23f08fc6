//! The lifecycle of a proposal: every state with every action, and long sequences compared with a
//! second model.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::proposal::{Kind, State, Step};

#[test]
fn every_step_from_every_state() {
    use State::{Applied, Archived, Draft, Rejected, Revised};
    // In the order of `Step::ALL`: revise, apply, reject, archive.
    let table: [(State, [Option<State>; 4]); 5] = [
        (
            Draft,
            [Some(Revised), Some(Applied), Some(Rejected), Some(Archived)],
        ),
        (
            Revised,
            [Some(Revised), Some(Applied), Some(Rejected), Some(Archived)],
        ),
        (Applied, [None, None, None, None]),
        (Rejected, [None, None, None, Some(Archived)]),
        (Archived, [None, None, None, None]),
    ];
    assert_eq!(table.map(|(state, _)| state), State::ALL);
    for (state, after) in table {
        assert_eq!(Step::ALL.map(|step| state.after(step)), after, "{state:?}");
        assert_eq!(state.is_open(), matches!(state, Draft | Revised));
    }
}

#[test]
fn names_are_read_back() {
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
    }
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.as_str()), Some(kind));
    }
    for bad in ["", "Draft", "draft ", "agent_pack", "AGENT-PACK", "open"] {
        assert_eq!((State::parse(bad), Kind::parse(bad)), (None, None), "{bad}");
    }
    assert_eq!(
        Kind::ALL.map(Kind::as_str),
        [
            "agent-pack",
            "workflow-chain-pack",
            "prompt-template",
            "automation"
        ]
    );
}

/// A second model of the states: the actions that have happened so far.
#[derive(Default)]
struct LifecycleModel {
    revised: bool,
    applied: bool,
    rejected: bool,
    archived: bool,
}

impl LifecycleModel {
    fn take(&mut self, step: Step) -> bool {
        let decided = self.applied || self.rejected || self.archived;
        let allowed = if step == Step::Archive {
            !self.applied && !self.archived
        } else {
            !decided
        };
        if allowed {
            match step {
                Step::Revise => self.revised = true,
                Step::Apply => self.applied = true,
                Step::Reject => self.rejected = true,
                Step::Archive => self.archived = true,
            }
        }
        allowed
    }

    fn state(&self) -> State {
        match self {
            LifecycleModel { archived: true, .. } => State::Archived,
            LifecycleModel { applied: true, .. } => State::Applied,
            LifecycleModel { rejected: true, .. } => State::Rejected,
            LifecycleModel { revised: true, .. } => State::Revised,
            _ => State::Draft,
        }
    }
}

proptest! {
    #![proptest_config(config(100, 400))]

    #[test]
    fn every_way_is_the_way_of_the_model(steps in prop::collection::vec(prop::sample::select(Step::ALL.to_vec()), 0..30)) {
        let mut state = State::Draft;
        let mut model = LifecycleModel::default();
        let mut applied = 0;
        for step in steps {
            let after = state.after(step);
            prop_assert_eq!(after.is_some(), model.take(step));
            applied += usize::from(after == Some(State::Applied));
            state = after.unwrap_or(state);
            prop_assert_eq!(state, model.state());
        }
        prop_assert!(applied <= 1);
    }
}
