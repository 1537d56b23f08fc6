//! The state changes of a commitment, checked against a plain model.

use super::*;
use proptest::prelude::*;

const DAY: i64 = 86_400_000;
const RETENTION_MS: i64 = 90 * DAY;

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn commitment(when: CommitmentTrigger, next_at: Option<i64>) -> Commitment {
    Commitment {
        memory_ref: "m".to_owned(),
        state: CommitmentState::Armed,
        when,
        next_at,
        give_up_at: 400 * DAY,
        rules: None,
        confidence: 100,
        spans: None,
        delivery: Delivery::default(),
        created_at: 0,
        updated_at: 0,
        holds: None,
        epoch: 0,
        fired: 0,
        last_fired_at: None,
        last_run_id: None,
        ended_by: None,
    }
}

fn hourly() -> Commitment {
    let when = CommitmentTrigger::Recurring {
        every: Some("PT1H".to_owned()),
        cron: None,
        zone: "UTC".to_owned(),
        anchor: 0,
    };
    commitment(when, Some(3_600_000))
}

fn predicate(once: bool) -> Commitment {
    commitment(
        CommitmentTrigger::Predicate {
            key: "invoice clear".to_owned(),
            once,
        },
        None,
    )
}

#[test]
fn a_one_time_commitment_fires_once_then_is_deleted() {
    let one = commitment(CommitmentTrigger::Once, Some(1_000));
    assert_eq!(
        one.due_action(Timestamp(999), RETENTION_MS),
        DueAction::Wait
    );
    let DueAction::Fire { instant, next } = one.due_action(Timestamp(5_000), RETENTION_MS) else {
        panic!("it is due")
    };
    assert_eq!(
        (instant, next.state, next.next_at, next.fired),
        (Timestamp(1_000), CommitmentState::Done, None, 1)
    );
    assert_eq!(
        next.due_action(Timestamp(6_000), RETENTION_MS),
        DueAction::Wait
    );
    assert_eq!(
        next.due_action(Timestamp(5_000 + RETENTION_MS), RETENTION_MS),
        DueAction::Delete
    );
}

#[test]
fn missed_instants_fire_once_and_the_next_is_in_the_future() {
    let DueAction::Fire { instant, next } =
        hourly().due_action(Timestamp(3_600_000 * 6 + 5), RETENTION_MS)
    else {
        panic!("it is due")
    };
    assert_eq!(
        (instant.0, next.next_at, next.state, next.fired),
        (
            3_600_000 * 6,
            Some(3_600_000 * 7),
            CommitmentState::Armed,
            1
        )
    );
    assert_eq!(
        next.due_action(Timestamp(3_600_000 * 7 - 1), RETENTION_MS),
        DueAction::Wait
    );
}

#[test]
fn a_cron_commitment_keeps_its_local_time_across_dst() {
    let when = CommitmentTrigger::Recurring {
        every: None,
        cron: Some("0 9 * * *".to_owned()),
        zone: "Europe/Berlin".to_owned(),
        anchor: 0,
    };
    let start = at("2026-03-28T08:00Z");
    let DueAction::Fire { next, .. } =
        commitment(when, Some(start.0)).due_action(start, RETENTION_MS)
    else {
        panic!("it is due")
    };
    assert_eq!(
        next.next_at.map(Timestamp),
        Some(at("2026-03-29T07:00Z")),
        "nine in summer time"
    );
}

#[test]
fn unconfirmed_and_unmet_commitments_are_given_up() {
    let pending = Commitment {
        state: CommitmentState::Pending,
        give_up_at: 14 * DAY,
        ..commitment(CommitmentTrigger::Once, Some(DAY))
    };
    assert_eq!(
        pending.due_action(Timestamp(2 * DAY), RETENTION_MS),
        DueAction::Wait,
        "what is not confirmed does not fire"
    );
    let DueAction::GiveUp(ended) = pending.due_action(Timestamp(14 * DAY), RETENTION_MS) else {
        panic!("too late")
    };
    assert_eq!(
        (ended.state, ended.ended_by),
        (CommitmentState::Cancelled, Some(EndedBy::Unconfirmed))
    );
    let DueAction::GiveUp(ended) = predicate(true).due_action(Timestamp(400 * DAY), RETENTION_MS)
    else {
        panic!("too late")
    };
    assert_eq!(
        (ended.state, ended.ended_by),
        (CommitmentState::Expired, Some(EndedBy::Time))
    );
    assert!(
        matches!(
            pending.confirm(Timestamp(2 * DAY), DAY),
            Err(CommitmentError::Rejected(_))
        ),
        "its time has passed"
    );
    assert_eq!(
        pending.confirm(Timestamp(1), DAY).unwrap().state,
        CommitmentState::Armed
    );
    let snoozed = pending
        .snooze(Timestamp(3 * DAY), Timestamp(2 * DAY), 365 * DAY)
        .unwrap();
    assert_eq!(
        (snoozed.state, snoozed.next_at),
        (CommitmentState::Armed, Some(3 * DAY))
    );
}

#[test]
fn an_ended_commitment_rejects_every_transition() {
    for state in [
        CommitmentState::Done,
        CommitmentState::Cancelled,
        CommitmentState::Expired,
    ] {
        let ended = Commitment {
            state,
            next_at: None,
            ..hourly()
        };
        assert_eq!(
            ended.confirm(Timestamp(1), 1),
            Err(CommitmentError::WrongState(state))
        );
        assert_eq!(
            ended.cancel(Timestamp(1)),
            Err(CommitmentError::WrongState(state))
        );
        assert_eq!(
            ended.snooze(Timestamp(2), Timestamp(1), DAY),
            Err(CommitmentError::WrongState(state))
        );
        assert_eq!(
            Commitment {
                state,
                ..predicate(false)
            }
            .after_observation(true, Timestamp(1)),
            None
        );
    }
    let far = hourly()
        .snooze(Timestamp(DAY * 3), Timestamp(1), DAY)
        .unwrap_err();
    let limit_days = 1;
    assert!(matches!(
        far,
        CommitmentError::Rejected(rejection) if rejection == Rejection::TooFar { field: "until", limit_days }
    ));
}

#[test]
fn a_commitment_round_trips_through_its_map() {
    for one in [
        hourly(),
        predicate(true),
        commitment(CommitmentTrigger::Once, Some(1)),
    ] {
        assert_eq!(Commitment::from_map(one.to_map()), Some(one));
    }
    assert_ne!(predicate_topic("a"), predicate_topic("b"));
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn a_predicate_fires_exactly_when_it_turns_true(seen in prop::collection::vec(any::<bool>(), 0..60), once: bool) {
        let mut one = predicate(once);
        let mut fires = 0;
        let mut before = false;
        for (n, holds) in seen.iter().enumerate() {
            let turned = *holds && !before && (!once || fires == 0);
            match one.after_observation(*holds, Timestamp(n as i64)) {
                Some((next, fired)) => {
                    prop_assert_eq!(fired, turned);
                    fires += u64::from(fired);
                    one = next;
                }
                None => prop_assert!(!turned),
            }
            before = *holds;
        }
        prop_assert_eq!((one.fired, one.epoch), (fires, fires));
    }

    #[test]
    fn each_instant_fires_at_most_once_and_never_early(waits in prop::collection::vec(0i64..5 * 3_600_000, 1..60)) {
        let mut one = hourly();
        let mut now = Timestamp(0);
        let mut fired = Vec::new();
        for wait in waits {
            now = now.plus_ms(wait);
            match one.due_action(now, RETENTION_MS) {
                DueAction::Fire { instant, next } => {
                    prop_assert!(instant <= now && now.0 - instant.0 < 3_600_000, "the latest");
                    prop_assert_eq!(instant.0 % 3_600_000, 0);
                    fired.push(instant);
                    one = *next;
                }
                other => prop_assert_eq!(other, DueAction::Wait),
            }
        }
        prop_assert!(fired.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert_eq!(fired.len() as u64, one.fired);
    }
}
