//! The lifecycle of a proposal: every state with every action, and long sequences compared with a
//! second model.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::proposal::{ProposalAction, ProposalKind, ProposalState};

#[test]
fn state_transitions_match_the_table() {
    use ProposalState::{Applied, Archived, Draft, Rejected, Revised};
    // In the order of `Step::ALL`: revise, apply, reject, archive.
    let table: [(ProposalState, [Option<ProposalState>; 4]); 5] = [
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
    assert_eq!(table.map(|(state, _)| state), ProposalState::ALL);
    for (state, after) in table {
        assert_eq!(
            ProposalAction::ALL.map(|step| state.next_state(step)),
            after,
            "{state:?}"
        );
        assert_eq!(state.is_open(), matches!(state, Draft | Revised));
    }
}

#[test]
fn state_and_kind_names_round_trip() {
    for state in ProposalState::ALL {
        assert_eq!(ProposalState::parse(state.as_str()), Some(state));
    }
    for kind in ProposalKind::ALL {
        assert_eq!(ProposalKind::parse(kind.as_str()), Some(kind));
    }
    for bad in ["", "Draft", "draft ", "agent_pack", "AGENT-PACK", "open"] {
        assert_eq!(
            (ProposalState::parse(bad), ProposalKind::parse(bad)),
            (None, None),
            "{bad}"
        );
    }
    assert_eq!(
        ProposalKind::ALL.map(ProposalKind::as_str),
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
    fn take(&mut self, step: ProposalAction) -> bool {
        let decided = self.applied || self.rejected || self.archived;
        let allowed = if step == ProposalAction::Archive {
            !self.applied && !self.archived
        } else {
            !decided
        };
        if allowed {
            match step {
                ProposalAction::Revise => self.revised = true,
                ProposalAction::Apply => self.applied = true,
                ProposalAction::Reject => self.rejected = true,
                ProposalAction::Archive => self.archived = true,
            }
        }
        allowed
    }

    fn state(&self) -> ProposalState {
        match self {
            LifecycleModel { archived: true, .. } => ProposalState::Archived,
            LifecycleModel { applied: true, .. } => ProposalState::Applied,
            LifecycleModel { rejected: true, .. } => ProposalState::Rejected,
            LifecycleModel { revised: true, .. } => ProposalState::Revised,
            _ => ProposalState::Draft,
        }
    }
}

proptest! {
    #![proptest_config(config(100, 400))]

    #[test]
    fn action_sequences_match_the_model(steps in prop::collection::vec(prop::sample::select(ProposalAction::ALL.to_vec()), 0..30)) {
        let mut state = ProposalState::Draft;
        let mut model = LifecycleModel::default();
        let mut applied = 0;
        for step in steps {
            let after = state.next_state(step);
            prop_assert_eq!(after.is_some(), model.take(step));
            applied += usize::from(after == Some(ProposalState::Applied));
            state = after.unwrap_or(state);
            prop_assert_eq!(state, model.state());
        }
        prop_assert!(applied <= 1);
    }
}
