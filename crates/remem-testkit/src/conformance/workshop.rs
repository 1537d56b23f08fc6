//! Validity windows and successors, sessions, actions, rules, owners of memories: the behaviour of
//! every store for every actor.

use super::{NOON, admit, delete, draft, id, in_session, put, scope};
use remem_core::{
    ActionText, Actor, Admission, Batch, ClosingReason, Draft, Evidence, Facets, Policy,
    Precondition, PrincipalId, RecordKind, Redactor, Rejection, RuleId, RuleText, RunId, Scope,
    SessionId, Tier, Timestamp, Trust, Typology, WorldId,
};
use remem_store::{
    ChangeOutcome, CommitResult, EndedStatement, EntryState, Filter, Page, ReadAt, RetentionCount,
    RetentionState, Store, StoreError,
};

pub(super) async fn exercise(store: &dyn Store) {
    a_private_memory_is_invisible_to_other_users(store).await;
    writes_into_another_users_memory_are_rejected(store).await;
    a_superseded_answer_stays_in_history(store).await;
    concurrent_answers_conflict(store).await;
    a_future_fact_is_not_current_yet(store).await;
    a_snapshot_ignores_later_closings(store).await;
    a_slot_has_one_procedure(store).await;
    what_stands_is_read_by_trust_and_age(store).await;
    superseded_answers_are_erased_with_their_successor(store).await;
    linked_entries_keep_their_text(store).await;
    closing_a_session_ends_its_entries(store).await;
    ended_statements_are_stripped(store).await;
    evidence_of_an_entry_grows(store).await;
    entries_that_restate_a_rule_are_rejected(store).await;
    a_record_can_be_expected_without_being_written(store).await;
    retention_counts_active_and_orphaned_entries(store).await;
}

fn user(name: &str) -> Actor {
    Actor::User(PrincipalId::parse(name).expect("a test's user"))
}

pub(super) fn batch(s: &Scope, ms: i64) -> Batch {
    let batch = Batch::new(s.tenant.clone(), NOON.plus_ms(ms));
    if let Actor::User(user) = &s.actor {
        batch.with_principal(user.clone())
    } else {
        batch
    }
}

pub(super) async fn commit(store: &dyn Store, batch: Batch) -> CommitResult {
    store.commit(batch).await.expect("a commit")
}

async fn names(store: &dyn Store, s: &Scope, at: &ReadAt) -> Vec<String> {
    let page = Page {
        limit: 99,
        after: None,
    };
    let found = store
        .list(s, &Filter::default(), &page, at)
        .await
        .expect("read");
    let mut names: Vec<String> = found
        .into_iter()
        .map(|entry| entry.id.as_str().to_owned())
        .collect();
    names.sort_unstable();
    names
}

fn fact(text: &str, slot: &str, from: i64, to: Option<i64>) -> Draft {
    let facets = Facets {
        slot: Some(slot.to_owned()),
        valid_at: Some(NOON.plus_ms(from)),
        invalid_at: to.map(|ms| NOON.plus_ms(ms)),
        ..Facets::default()
    };
    Draft {
        facets,
        ..draft(text)
    }
}

fn habit(text: &str, slot: &str) -> Draft {
    Draft {
        typology: Typology::Procedural,
        facets: Facets {
            slot: Some(slot.to_owned()),
            ..Facets::default()
        },
        ..draft(text)
    }
}

fn episode(text: &str, session: &str) -> Draft {
    Draft {
        tier: Tier::Session,
        typology: Typology::Episodic,
        facets: in_session(session),
        ..draft(text)
    }
}

async fn a_private_memory_is_invisible_to_other_users(store: &dyn Store) {
    let own = scope("own", "~ada/ops").with_actor(user("ada"));
    let shared = scope("own", "ops").with_actor(user("ada"));
    for s in [&own, &shared] {
        commit(
            store,
            batch(s, 0).put(id("e"), admit(s, draft("the needle is here"), NOON)),
        )
        .await;
    }
    let now = ReadAt::Now(NOON.plus_ms(5));
    for (actor, sees) in [
        (user("ada"), true),
        (Actor::Host, true),
        (user("bob"), false),
        (Actor::NoUser, false),
    ] {
        let s = own.clone().with_actor(actor.clone());
        assert_eq!(
            store.get(&s, &id("e"), &now).await.expect("read").is_some(),
            sees,
            "{actor:?}"
        );
        assert_eq!(
            names(store, &s, &now).await.len(),
            usize::from(sees),
            "{actor:?}"
        );
        let probe = remem_store::Probe::words(vec!["needle".into()]);
        let hits = store
            .search(&s, &probe, &Filter::default(), 9, &now)
            .await
            .expect("read")
            .candidates;
        assert_eq!(hits.len(), usize::from(sees), "{actor:?}");
        assert_eq!(
            store.stats(&s, &now).await.expect("read").entries,
            u64::from(sees),
            "{actor:?}"
        );
        assert_eq!(
            store.lineage(&s, &id("e")).await.expect("read").is_some(),
            sees,
            "{actor:?}"
        );
        let listed = store
            .memories(&s.tenant, &actor, None, 9, &now)
            .await
            .expect("read");
        let listed: Vec<&str> = listed.iter().map(|s| s.memory_ref.as_str()).collect();
        let expected: &[&str] = if sees { &["ops", "~ada/ops"] } else { &["ops"] };
        assert_eq!(listed, expected, "{actor:?}");
        assert_eq!(
            names(store, &shared.clone().with_actor(actor.clone()), &now).await,
            ["e"],
            "{actor:?} sees what is shared"
        );
    }
}

/// A caller's missing check must not matter: the store checks as well.
async fn writes_into_another_users_memory_are_rejected(store: &dyn Store) {
    let own = scope("own2", "~ada/ops").with_actor(user("ada"));
    commit(
        store,
        batch(&own, 0).put(id("e"), admit(&own, draft("mine"), NOON)),
    )
    .await;
    let bob = own.clone().with_actor(user("bob"));
    let put = store
        .commit(batch(&bob, 1).put(id("f"), admit(&bob, draft("not mine"), NOON)))
        .await;
    assert!(put.is_err(), "{put:?}");
    let gone = commit(
        store,
        batch(&bob, 1).delete(own.memory_ref.clone(), id("e")),
    )
    .await;
    assert_eq!(gone.outcomes, [ChangeOutcome::NoChange]);
    let fresh = scope("own2", "~ada/other").with_actor(user("bob"));
    assert!(
        store
            .commit(batch(&fresh, 1).put(id("g"), admit(&fresh, draft("planted"), NOON)))
            .await
            .is_err()
    );
    assert_eq!(
        names(store, &own, &ReadAt::Now(NOON.plus_ms(2))).await,
        ["e"]
    );
    let host =
        Batch::new(own.tenant.clone(), NOON.plus_ms(3)).delete(own.memory_ref.clone(), id("e"));
    assert_eq!(
        commit(store, host).await.outcomes,
        [ChangeOutcome::Removed],
        "the host looks after everybody's"
    );
}

async fn a_superseded_answer_stays_in_history(store: &dyn Store) {
    let s = scope("truth", "m");
    commit(
        store,
        batch(&s, 0).put(
            id("red"),
            admit(&s, fact("it is red", "colour", 0, None), NOON),
        ),
    )
    .await;
    let next = batch(&s, 50)
        .close(
            s.memory_ref.clone(),
            id("red"),
            ClosingReason::InvalidFrom(NOON.plus_ms(50)),
            Some(id("blue")),
        )
        .put(
            id("blue"),
            admit(&s, fact("it is blue", "colour", 50, None), NOON),
        );
    assert_eq!(
        commit(store, next).await.outcomes[0],
        ChangeOutcome::Removed
    );
    // Older than both, and written last: already over when it is written.
    commit(
        store,
        batch(&s, 60).put(
            id("green"),
            admit(&s, fact("it was green", "colour", -50, Some(0)), NOON),
        ),
    )
    .await;
    let now = ReadAt::Now(NOON.plus_ms(70));
    assert_eq!(names(store, &s, &now).await, ["blue"]);
    for (ms, expected) in [
        (-51, None),
        (-50, Some("green")),
        (-1, Some("green")),
        (0, Some("red")),
        (49, Some("red")),
        (50, Some("blue")),
    ] {
        let then = ReadAt::AsOf {
            then: NOON.plus_ms(ms),
            at: NOON.plus_ms(70),
        };
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(names(store, &s, &then).await, expected, "as of {ms}");
    }
    let history = store.slot_history(&s, "colour", 9).await.expect("read");
    let reported: Vec<_> = history
        .iter()
        .map(|a| {
            (
                a.entry.id.as_str(),
                a.state,
                a.replaced_by.as_ref().map(|id| id.as_str()),
            )
        })
        .collect();
    let expected = [
        ("green", EntryState::Live, None),
        ("red", EntryState::Invalidated, Some("blue")),
        ("blue", EntryState::Live, None),
    ];
    assert_eq!(reported, expected);
    assert_eq!(history[1].ended_at, Some(NOON.plus_ms(50)));
    assert_eq!(history[1].entry.facets.invalid_at, Some(NOON.plus_ms(50)));
    assert_eq!(history[1].entry.content, "it is red", "both are kept");
    // Written even later: the colour was grey from 20 on, until it was blue.
    let between = batch(&s, 65)
        .close(
            s.memory_ref.clone(),
            id("red"),
            ClosingReason::InvalidFrom(NOON.plus_ms(20)),
            Some(id("grey")),
        )
        .put(
            id("grey"),
            admit(&s, fact("it was grey", "colour", 20, Some(50)), NOON),
        );
    assert_eq!(
        commit(store, between).await.outcomes[0],
        ChangeOutcome::Done,
        "history is cut where it is known better"
    );
    for (ms, expected) in [(19, "red"), (20, "grey"), (49, "grey"), (50, "blue")] {
        let then = ReadAt::AsOf {
            then: NOON.plus_ms(ms),
            at: NOON.plus_ms(70),
        };
        assert_eq!(names(store, &s, &then).await, [expected], "as of {ms}");
    }
    let last = store.slot_history(&s, "colour", 1).await.expect("read");
    assert_eq!(last[0].entry.id, id("blue"), "the newest");
    assert!(
        store
            .slot_history(&s, "size", 9)
            .await
            .expect("read")
            .is_empty()
    );
}

async fn concurrent_answers_conflict(store: &dyn Store) {
    let s = scope("race", "m");
    commit(
        store,
        batch(&s, 0).put(id("a"), admit(&s, fact("one", "q", 0, None), NOON)),
    )
    .await;
    let second = store
        .commit(batch(&s, 1).put(id("b"), admit(&s, fact("two", "q", 1, None), NOON)))
        .await;
    assert!(matches!(second, Err(StoreError::Conflict)), "{second:?}");
    // Windows that only touch, and empty ones, do not overlap; another memory or slot is
    // independent.
    let other = scope("race", "n");
    for (s, name, draft) in [
        (&s, "before", fact("zero", "q", -9, Some(0))),
        (&s, "empty", fact("never", "q", 5, Some(5))),
        (&s, "else", fact("else", "r", 0, None)),
        (&other, "there", fact("one", "q", 0, None)),
    ] {
        commit(store, batch(s, 2).put(id(name), admit(s, draft, NOON))).await;
    }
    assert_eq!(
        names(store, &s, &ReadAt::Now(NOON.plus_ms(9))).await,
        ["a", "else"]
    );
    // Of two that come together one is stored, and the others of their group are not affected.
    let x = fact("x", "both", 0, None);
    let y = fact("y", "both", 0, None);
    let (a, b, c) = tokio::join!(
        store.commit(batch(&s, 3).put(id("x"), admit(&s, x, NOON))),
        store.commit(batch(&s, 3).put(id("y"), admit(&s, y, NOON))),
        store.commit(batch(&s, 3).put(id("z"), admit(&s, draft("plain"), NOON))),
    );
    assert!(a.is_ok() != b.is_ok() && c.is_ok(), "{a:?} {b:?} {c:?}");
}

async fn a_future_fact_is_not_current_yet(store: &dyn Store) {
    let s = scope("future", "m");
    commit(
        store,
        batch(&s, 0).put(id("old"), admit(&s, fact("old", "q", 0, None), NOON)),
    )
    .await;
    let next = batch(&s, 1)
        .close(
            s.memory_ref.clone(),
            id("old"),
            ClosingReason::InvalidFrom(NOON.plus_ms(100)),
            Some(id("new")),
        )
        .put(id("new"), admit(&s, fact("new", "q", 100, None), NOON));
    assert_eq!(commit(store, next).await.outcomes[0], ChangeOutcome::Done);
    assert_eq!(
        names(store, &s, &ReadAt::Now(NOON.plus_ms(99))).await,
        ["old"]
    );
    assert_eq!(
        names(store, &s, &ReadAt::Now(NOON.plus_ms(100))).await,
        ["new"]
    );
}

async fn a_snapshot_ignores_later_closings(store: &dyn Store) {
    let s = scope("held-truth", "m");
    commit(
        store,
        batch(&s, 0).put(id("old"), admit(&s, fact("old", "q", 0, None), NOON)),
    )
    .await;
    let run = RunId::parse("run_1").expect("a name");
    let held = commit(store, batch(&s, 10).in_run(run.clone()).hold_snapshot()).await;
    // Closed as untrue since a time before the run began.
    let next = batch(&s, 20)
        .close(
            s.memory_ref.clone(),
            id("old"),
            ClosingReason::InvalidFrom(NOON.plus_ms(5)),
            Some(id("new")),
        )
        .put(id("new"), admit(&s, fact("new", "q", 5, None), NOON));
    commit(store, next).await;
    let snapshot = ReadAt::Snapshot {
        revision: held.revision,
        at: NOON.plus_ms(30),
        since: NOON.plus_ms(10),
        own_runs: vec![run],
    };
    assert_eq!(names(store, &s, &snapshot).await, ["old"]);
    assert_eq!(
        names(store, &s, &ReadAt::Now(NOON.plus_ms(30))).await,
        ["new"]
    );
}

async fn what_stands_is_read_by_trust_and_age(store: &dyn Store) {
    let s = scope("workshop-standing", "m");
    let procedure = |trust, tag: &str| Draft {
        typology: Typology::Procedural,
        facets: Facets {
            trust,
            ..Facets::default()
        },
        tags: vec![tag.to_owned()],
        ..draft("Do it like this.")
    };
    let answer = |slot: Option<&str>, trust| Draft {
        facets: Facets {
            slot: slot.map(str::to_owned),
            trust,
            ..Facets::default()
        },
        ..draft("It is so.")
    };
    let written = [
        ("p-operator", procedure(Trust::Operator, "a")),
        ("p-model-1", procedure(Trust::Model, "a")),
        ("p-model-2", procedure(Trust::Model, "b")),
        ("p-untrusted", procedure(Trust::Untrusted, "a")),
        ("s-operator", answer(Some("one"), Trust::Operator)),
        ("s-tool", answer(Some("two"), Trust::Tool)),
        ("s-model", answer(Some("three"), Trust::Model)),
        ("s-without-slot", answer(None, Trust::Operator)),
        ("gone", procedure(Trust::Operator, "a")),
    ];
    for (n, (name, draft)) in written.into_iter().enumerate() {
        put(store, &s, name, draft, NOON.plus_ms(n as i64)).await;
    }
    let revision = store.head(&s.tenant).await.expect("read").revision;
    delete(store, &s, "gone", NOON.plus_ms(20)).await;
    let at = NOON.plus_ms(30);
    let standing = async |typology, filter: &Filter, limit| {
        let now = ReadAt::Now(at);
        let found = store.standing_entries(&s, typology, filter, limit, &now);
        let found = found.await.expect("read");
        let names = found.iter().map(|entry| entry.id.to_string());
        names.collect::<Vec<_>>()
    };
    let any = Filter::default();
    let trusted = Filter {
        trust_at_least: Some(Trust::Model),
        ..Filter::default()
    };
    let tagged = Filter {
        tags: vec!["a".to_owned()],
        ..trusted.clone()
    };
    let procedures = ["p-operator", "p-model-2", "p-model-1", "p-untrusted"];
    assert_eq!(standing(Typology::Procedural, &any, 9).await, procedures);
    assert_eq!(
        standing(Typology::Procedural, &trusted, 9).await,
        procedures[..3]
    );
    assert_eq!(
        standing(Typology::Procedural, &trusted, 2).await,
        procedures[..2]
    );
    assert_eq!(
        standing(Typology::Procedural, &tagged, 9).await,
        ["p-operator", "p-model-1"]
    );
    assert_eq!(
        standing(Typology::Semantic, &any, 9).await,
        ["s-operator", "s-tool", "s-model"]
    );
    let snapshot = ReadAt::Snapshot {
        revision,
        at,
        since: at,
        own_runs: Vec::new(),
    };
    let then = store
        .standing_entries(&s, Typology::Procedural, &trusted, 9, &snapshot)
        .await
        .expect("read");
    assert!(then.len() <= 4 && then[0].facets.trust == Trust::Operator);
}

async fn a_slot_has_one_procedure(store: &dyn Store) {
    let s = scope("habits", "m");
    commit(
        store,
        batch(&s, 0).put(id("a"), admit(&s, habit("use tabs", "indent"), NOON)),
    )
    .await;
    let second = store
        .commit(batch(&s, 1).put(id("b"), admit(&s, habit("use spaces", "indent"), NOON)))
        .await;
    assert!(matches!(second, Err(StoreError::Conflict)), "{second:?}");
    let next = batch(&s, 2)
        .close(
            s.memory_ref.clone(),
            id("a"),
            ClosingReason::ReplacedNow,
            Some(id("b")),
        )
        .put(id("b"), admit(&s, habit("use spaces", "indent"), NOON));
    commit(store, next).await;
    let history = store.slot_history(&s, "indent", 9).await.expect("read");
    let reported: Vec<_> = history
        .iter()
        .map(|a| (a.entry.id.as_str(), a.state.as_str(), a.ended_at))
        .collect();
    assert_eq!(
        reported,
        [
            ("a", "superseded", Some(NOON.plus_ms(2))),
            ("b", "live", None)
        ]
    );
    assert_eq!(history[0].replaced_by, Some(id("b")));
    assert_eq!(names(store, &s, &ReadAt::Now(NOON.plus_ms(3))).await, ["b"]);
    let as_of = ReadAt::AsOf {
        then: NOON,
        at: NOON.plus_ms(3),
    };
    assert_eq!(
        names(store, &s, &as_of).await,
        ["b"],
        "what is not a statement counts as of now"
    );
}

/// The same within one batch.
async fn superseded_answers_are_erased_with_their_successor(store: &dyn Store) {
    let s = scope("habits-that-go", "m");
    let put = |batch: Batch, name: &str| batch.put(id(name), admit(&s, habit(name, name), NOON));
    commit(store, put(put(batch(&s, 0), "old"), "new")).await;
    let both = batch(&s, 1).close(
        s.memory_ref.clone(),
        id("old"),
        ClosingReason::ReplacedNow,
        Some(id("new")),
    );
    commit(store, both.forget(s.memory_ref.clone(), id("new"))).await;
    let lineage = store
        .lineage(&s, &id("old"))
        .await
        .expect("read")
        .expect("there");
    assert_eq!(
        (lineage.state, lineage.replaced_by),
        (EntryState::Deleted, Some(id("new"))),
        "nobody needs its text any more"
    );
}

/// Names of actions and texts of rules can be replaced, if they are stored as they were read.
async fn texts_beside_entries_are_redacted(store: &dyn Store, s: &Scope) {
    let text = |action: &str, reference: &str| ActionText {
        action: action.into(),
        reference: reference.into(),
    };
    let memory_ref = || s.memory_ref.clone();
    let was = text("rule-promotion", "r-17");
    let relink = |at, was: &ActionText, now: ActionText| {
        batch(s, at).rewrite_action(memory_ref(), id("deleted"), was.clone(), now)
    };
    let kept = text("[kept]", "r-17");
    let first = commit(store, relink(40, &was, kept.clone())).await;
    let again = commit(store, relink(41, &was, text("[other]", "r-17"))).await;
    assert_eq!(
        (first.outcomes, again.outcomes),
        (vec![ChangeOutcome::Done], vec![ChangeOutcome::NoChange])
    );
    let linked = store
        .entries_with_actions(&s.tenant, None, 9)
        .await
        .expect("read");
    let found: Vec<_> = linked
        .iter()
        .map(|one| (one.id.as_str(), one.is_erased, one.actions[0].clone()))
        .collect();
    assert_eq!(
        found,
        [
            ("deleted", false, kept),
            ("expired", false, was),
            ("forgotten", true, text("", "1"))
        ]
    );
    let page = store
        .entries_with_actions(&s.tenant, None, 2)
        .await
        .expect("read");
    let rest = store
        .entries_with_actions(&s.tenant, Some(page[1].row), 2)
        .await;
    assert_eq!(rest.expect("read"), linked[2..]);
    let world = WorldId::parse("w").expect("a name");
    let rule = RuleId::parse("r").expect("a name");
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 0,
        now: NOON,
    };
    let body = |text: &str| admission.readmit_rule(text);
    let put = batch(s, 50).set_rule(world.clone(), rule.clone(), Some(body("as it was")));
    commit(store, put).await;
    let reword = |at, was: &str, now: &str| {
        batch(s, at).rewrite_rule(world.clone(), rule.clone(), was.into(), body(now))
    };
    commit(store, reword(51, "as it never was", "gone")).await;
    let all = store.all_rules(&s.tenant, None, 9).await.expect("read");
    assert_eq!(
        (all[0].0.as_str(), all[0].1.body.as_str()),
        ("w", "as it was")
    );
    commit(store, reword(52, "as it was", "as it is")).await;
    let all = store.all_rules(&s.tenant, None, 9).await.expect("read");
    assert_eq!(all[0].1.body, "as it is");
    let after = (world.clone(), rule.clone());
    let all = store.all_rules(&s.tenant, Some(&after), 9).await;
    assert!(all.expect("read").is_empty());
}

async fn linked_entries_keep_their_text(store: &dyn Store) {
    let s = scope("audit", "m");
    for name in ["deleted", "expired", "forgotten", "plain"] {
        let ends = (name == "expired").then(|| NOON.plus_ms(10));
        let draft = Draft {
            expires_at: ends,
            ..draft("the reason why")
        };
        commit(store, batch(&s, 0).put(id(name), admit(&s, draft, NOON))).await;
    }
    let memory_ref = || s.memory_ref.clone();
    for name in ["deleted", "expired", "forgotten"] {
        let link = |b: Batch| {
            b.link_action(
                memory_ref(),
                id(name),
                "rule-promotion".into(),
                "r-17".into(),
            )
        };
        assert_eq!(
            commit(store, link(batch(&s, 1))).await.outcomes,
            [ChangeOutcome::Done]
        );
        assert_eq!(
            commit(store, link(batch(&s, 2))).await.outcomes,
            [ChangeOutcome::NoChange],
            "added once"
        );
    }
    let away = batch(&s, 20)
        .delete(memory_ref(), id("deleted"))
        .expire(memory_ref(), id("expired"))
        .forget(memory_ref(), id("forgotten"))
        .delete(memory_ref(), id("plain"));
    assert_eq!(
        commit(store, away).await.outcomes,
        [
            ChangeOutcome::TextHeld,
            ChangeOutcome::TextHeld,
            ChangeOutcome::Removed,
            ChangeOutcome::Removed
        ],
        "the answer says whose text is held"
    );
    assert!(
        names(store, &s, &ReadAt::Now(NOON.plus_ms(21)))
            .await
            .is_empty(),
        "none of them is part of the memory"
    );
    assert!(
        store
            .erasable_entries(&s.tenant, 9)
            .await
            .expect("read")
            .is_empty(),
        "and none is left for the purge pass"
    );
    let states: Vec<_> = counts(store, &s).await;
    assert_eq!(
        states,
        [
            (RetentionState::Referenced, 2),
            (RetentionState::Skeleton, 2)
        ],
        "two texts stay; forgetting outranks an action"
    );
    let links = store
        .actions_of_entry(&s, &id("forgotten"))
        .await
        .expect("read");
    assert_eq!(
        links.len(),
        1,
        "that the action rested on something is known even so"
    );
    assert_eq!(
        (
            links[0].action.as_str(),
            links[0].reference.as_str(),
            links[0].at
        ),
        ("", "", NOON.plus_ms(1)),
        "but not what was done: the words go with the text that they were about"
    );
    let links = store
        .actions_of_entry(&s, &id("deleted"))
        .await
        .expect("read");
    assert_eq!(
        (links[0].action.as_str(), links[0].reference.as_str()),
        ("rule-promotion", "r-17"),
        "what an action rests on still keeps its words"
    );
    texts_beside_entries_are_redacted(store, &s).await;
    let late = batch(&s, 30).link_action(memory_ref(), id("plain"), "a".into(), "b".into());
    assert_eq!(
        commit(store, late).await.outcomes,
        [ChangeOutcome::NoChange],
        "nothing rests on what is gone"
    );
    let state = store
        .lineage(&s, &id("deleted"))
        .await
        .expect("read")
        .map(|l| l.state);
    assert_eq!(state, Some(EntryState::TextHeld));
}

async fn counts(store: &dyn Store, s: &Scope) -> Vec<(RetentionState, u64)> {
    let found: Vec<RetentionCount> = store
        .retention_counts(&s.tenant, &s.actor, Some(&s.memory_ref))
        .await
        .expect("read");
    let mut sums: Vec<(RetentionState, u64)> = Vec::new();
    for state in RetentionState::ALL {
        let sum = found
            .iter()
            .filter(|count| count.state == state)
            .map(|count| count.entries)
            .sum();
        if sum > 0 {
            sums.push((state, sum));
        }
    }
    sums
}

async fn closing_a_session_ends_its_entries(store: &dyn Store) {
    let s = scope("sessions", "m");
    for (name, session) in [("a", "s1"), ("b", "s1"), ("c", "s2")] {
        commit(
            store,
            batch(&s, 0).put(id(name), admit(&s, episode("what happened", session), NOON)),
        )
        .await;
    }
    commit(
        store,
        batch(&s, 0).put(id("stays"), admit(&s, draft("a fact"), NOON)),
    )
    .await;
    let filter = Filter {
        session: SessionId::parse("s1"),
        ..Filter::default()
    };
    let page = Page {
        limit: 9,
        after: None,
    };
    let found = store
        .list(&s, &filter, &page, &ReadAt::Now(NOON.plus_ms(1)))
        .await
        .expect("read");
    assert_eq!(
        found.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(),
        ["b", "a"],
        "by session"
    );
    let filter = Filter {
        tier: Some(Tier::Session),
        typology: Some(Typology::Episodic),
        ..Filter::default()
    };
    assert_eq!(
        store
            .list(&s, &filter, &page, &ReadAt::Now(NOON.plus_ms(1)))
            .await
            .expect("read")
            .len(),
        3,
        "by cell"
    );
    let mut vouched = draft("what the operator said");
    vouched.facets.trust = Trust::Operator;
    let vouched = batch(&s, 1).put(id("vouched"), admit(&s, vouched, NOON));
    commit(store, vouched).await;
    for (least, count) in [
        (Trust::Untrusted, 5),
        (Trust::Tool, 1),
        (Trust::Operator, 1),
    ] {
        let filter = Filter {
            trust_at_least: Some(least),
            ..Filter::default()
        };
        let at = ReadAt::Now(NOON.plus_ms(1));
        let found = store.list(&s, &filter, &page, &at).await.expect("read");
        assert_eq!(found.len(), count, "by trust");
    }
    let gone = batch(&s, 1).delete(s.memory_ref.clone(), id("vouched"));
    commit(store, gone).await;
    commit(
        store,
        batch(&s, 1).link_action(s.memory_ref.clone(), id("b"), "act".into(), "1".into()),
    )
    .await;
    let end = ["a", "b", "stays"].iter().fold(batch(&s, 2), |b, name| {
        b.end_with_session(s.memory_ref.clone(), id(name))
    });
    let done = commit(store, end).await;
    assert_eq!(
        done.outcomes,
        [
            ChangeOutcome::Removed,
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange
        ],
        "neither a linked nor a persistent one"
    );
    assert_eq!(
        names(store, &s, &ReadAt::Now(NOON.plus_ms(3))).await,
        ["b", "c", "stays"]
    );
}

async fn ended_statements_are_stripped(store: &dyn Store) {
    let s = scope("faded", "m");
    commit(
        store,
        batch(&s, 0).put(id("born"), admit(&s, fact("a", "q", -9, Some(-1)), NOON)),
    )
    .await;
    commit(
        store,
        batch(&s, 0).put(id("old"), admit(&s, fact("b", "q", 0, None), NOON)),
    )
    .await;
    commit(
        store,
        batch(&s, 0).put(id("linked"), admit(&s, fact("c", "r", 0, None), NOON)),
    )
    .await;
    commit(
        store,
        batch(&s, 1).link_action(s.memory_ref.clone(), id("linked"), "act".into(), "1".into()),
    )
    .await;
    let close = |b: Batch, name: &str| {
        b.close(
            s.memory_ref.clone(),
            id(name),
            ClosingReason::InvalidFrom(NOON.plus_ms(5)),
            None,
        )
    };
    commit(store, close(close(batch(&s, 5), "old"), "linked")).await;
    let faded = async |ms: i64, after: Option<&EndedStatement>, limit| {
        let after = after.map(|last| (last.ended_at, last.row));
        let read = store
            .ended_statements(&s.tenant, NOON.plus_ms(ms), after, limit)
            .await;
        read.expect("read")
    };
    let names = |faded: &[EndedStatement]| -> Vec<String> {
        let name = |one: &EndedStatement| format!("{} {}", one.memory_ref, one.id);
        faded.iter().map(name).collect()
    };
    assert_eq!(faded(-1, None, 9).await, []);
    let first = faded(0, None, 9).await;
    assert_eq!(names(&first), [format!("{} born", s.memory_ref)]);
    let all = faded(6, None, 9).await;
    assert_eq!(
        names(&all),
        ["born", "old"].map(|name| format!("{} {name}", s.memory_ref)),
        "not what an action rests on"
    );
    assert_eq!(all[1].ended_at, NOON.plus_ms(5));
    assert_eq!(faded(6, None, 1).await, all[..1]);
    assert_eq!(faded(6, all.first(), 1).await, all[1..], "page by page");
    assert_eq!(faded(6, all.last(), 9).await, []);
    let strip = ["born", "old", "linked"]
        .iter()
        .fold(batch(&s, 9), |b, name| {
            b.erase_history(s.memory_ref.clone(), id(name), NOON.plus_ms(6))
        });
    assert_eq!(
        commit(store, strip).await.outcomes,
        [
            ChangeOutcome::Removed,
            ChangeOutcome::Removed,
            ChangeOutcome::NoChange
        ]
    );
    assert_eq!(faded(6, None, 9).await, []);
    assert_eq!(store.slot_history(&s, "q", 9).await.expect("read").len(), 0);
    assert_eq!(store.slot_history(&s, "r", 9).await.expect("read").len(), 1);
}

async fn evidence_of_an_entry_grows(store: &dyn Store) {
    let s = scope("evidence", "m");
    let first = Evidence::of(Trust::Model, "thread-1", "");
    let facets = Facets {
        evidence: first.clone(),
        trust: Trust::Model,
        ..Facets::default()
    };
    commit(
        store,
        batch(&s, 0).put(
            id("e"),
            admit(
                &s,
                Draft {
                    facets,
                    ..draft("a claim")
                },
                NOON,
            ),
        ),
    )
    .await;
    let both = first.union(&Evidence::of(Trust::Tool, "thread-2", ""));
    let strengthen = |ms| batch(&s, ms).set_evidence(s.memory_ref.clone(), id("e"), both.clone());
    assert_eq!(
        commit(store, strengthen(1)).await.outcomes,
        [ChangeOutcome::Done]
    );
    assert_eq!(
        commit(store, strengthen(2)).await.outcomes,
        [ChangeOutcome::NoChange]
    );
    let entry = store
        .get(&s, &id("e"), &ReadAt::Now(NOON.plus_ms(3)))
        .await
        .expect("read")
        .expect("there");
    assert_eq!(
        (entry.facets.evidence, entry.facets.trust),
        (both, Trust::Model),
        "more evidence, and no more trust"
    );
}

fn rule_text(text: &str) -> RuleText {
    let policy = Policy::default();
    Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: 1,
        now: NOON,
    }
    .admit_rule(text)
    .expect("a test's rule")
}

async fn entries_that_restate_a_rule_are_rejected(store: &dyn Store) {
    let s = scope("rules", "m");
    let world = WorldId::parse("w1").expect("a name");
    let text = "Every change to a published rule needs a second reviewer who did not write it, and is announced a week before it takes effect.";
    let rule = |name: &str| RuleId::parse(name).expect("a name");
    let write =
        |ms: i64, body: Option<RuleText>| batch(&s, ms).set_rule(world.clone(), rule("r1"), body);
    assert_eq!(
        commit(store, write(0, None)).await.outcomes,
        [ChangeOutcome::NoChange]
    );
    assert_eq!(
        commit(store, write(0, Some(rule_text(text))))
            .await
            .outcomes,
        [ChangeOutcome::Done]
    );
    let found = store.rules(&s.tenant, &world, None, 9).await.expect("read");
    assert_eq!(
        (found.len(), found[0].body.as_str(), found[0].at),
        (1, text, NOON)
    );
    let claim = |text: &str, world: &WorldId, typology: Typology| {
        let facets = Facets {
            world: world.clone(),
            ..Facets::default()
        };
        Draft {
            typology,
            facets,
            ..draft(text)
        }
    };
    let copy = text.to_uppercase().replace(',', ";\0");
    let refused = store
        .commit(batch(&s, 1).put(
            id("copy"),
            admit(&s, claim(&copy, &world, Typology::Semantic), NOON),
        ))
        .await;
    assert!(
        matches!(&refused, Err(StoreError::Rejected(Rejection::ShadowsRule { rule: hit })) if *hit == rule("r1")),
        "{refused:?}"
    );
    assert_eq!(
        store
            .restated_rule(&s.tenant, &world, &copy)
            .await
            .expect("read"),
        Some(rule("r1"))
    );
    let elsewhere = WorldId::parse("w2").expect("a name");
    let short: String = text.chars().take(99).collect();
    let about = "Ada is reviewing the rule about second reviewers; she thinks that a week is too long and wants to talk to Bob about it on Monday.";
    for (name, draft) in [
        ("habit", claim(text, &world, Typology::Procedural)),
        ("elsewhere", claim(text, &elsewhere, Typology::Semantic)),
        ("short", claim(&short, &world, Typology::Semantic)),
        ("about", claim(about, &world, Typology::Semantic)),
        ("nowhere", claim(text, &WorldId::none(), Typology::Semantic)),
    ] {
        commit(store, batch(&s, 2).put(id(name), admit(&s, draft, NOON))).await;
    }
    // The other batches of its group are not affected.
    let (bad, good) = tokio::join!(
        store.commit(batch(&s, 3).put(
            id("bad"),
            admit(&s, claim(text, &world, Typology::Semantic), NOON)
        )),
        store.commit(batch(&s, 3).put(id("good"), admit(&s, draft("plain"), NOON))),
    );
    assert!(bad.is_err() && good.is_ok(), "{bad:?} {good:?}");
    let other = scope("rules2", "m");
    commit(
        store,
        batch(&other, 0).put(
            id("e"),
            admit(&other, claim(text, &world, Typology::Semantic), NOON),
        ),
    )
    .await;
    assert_eq!(
        commit(store, write(4, None)).await.outcomes,
        [ChangeOutcome::Removed]
    );
    commit(
        store,
        batch(&s, 5).put(
            id("free"),
            admit(&s, claim(text, &world, Typology::Semantic), NOON),
        ),
    )
    .await;
}

async fn a_record_can_be_expected_without_being_written(store: &dyn Store) {
    let s = scope("expect-record", "m");
    let body = || {
        let policy = Policy::default();
        Admission {
            policy: &policy,
            redactor: &Redactor::empty(),
            redaction_fingerprint: 1,
            now: NOON,
        }
        .redact_record(serde_json::Map::new())
    };
    let expecting = |wanted: Precondition, name: &str| {
        batch(&s, 1)
            .expect_record(RecordKind::Session, "open/x".into(), wanted)
            .put(id(name), admit(&s, draft("text"), NOON))
    };
    commit(store, expecting(Precondition::Absent, "a")).await;
    assert!(matches!(
        store.commit(expecting(Precondition::Version(1), "b")).await,
        Err(StoreError::Conflict)
    ));
    commit(
        store,
        batch(&s, 1).set_record(
            RecordKind::Session,
            "open/x".into(),
            Precondition::Absent,
            body(),
        ),
    )
    .await;
    commit(store, expecting(Precondition::Version(1), "c")).await;
    assert!(matches!(
        store.commit(expecting(Precondition::Absent, "d")).await,
        Err(StoreError::Conflict)
    ));
    let record = store
        .record(&s.tenant, RecordKind::Session, "open/x")
        .await
        .expect("read")
        .expect("there");
    assert_eq!(record.version, 1, "nobody wrote it");
}

async fn retention_counts_active_and_orphaned_entries(store: &dyn Store) {
    let s = scope("retention", "m");
    commit(
        store,
        batch(&s, 0).put(id("orphan"), admit(&s, episode("a", "s1"), NOON)),
    )
    .await;
    commit(
        store,
        batch(&s, 0).put(id("fact"), admit(&s, fact("b", "q", 0, None), NOON)),
    )
    .await;
    assert_eq!(
        counts(store, &s).await,
        [(RetentionState::Active, 1), (RetentionState::Orphaned, 1)]
    );
    let policy = Policy::default();
    let body = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: 1,
        now: NOON,
    }
    .redact_record(serde_json::Map::new());
    let ties = remem_core::RecordLinks {
        topic: Some("s1".into()),
        ..remem_core::RecordLinks::default()
    };
    commit(
        store,
        batch(&s, 1).set_record_with_ties(
            RecordKind::Session,
            "open/m".into(),
            Precondition::None,
            body,
            ties,
        ),
    )
    .await;
    assert_eq!(counts(store, &s).await, [(RetentionState::Active, 2)]);
    commit(
        store,
        batch(&s, 2).close(
            s.memory_ref.clone(),
            id("fact"),
            ClosingReason::InvalidFrom(Timestamp(NOON.0 + 1)),
            None,
        ),
    )
    .await;
    assert_eq!(
        counts(store, &s).await,
        [(RetentionState::Active, 1), (RetentionState::Tombstoned, 1)]
    );
    assert!(
        store
            .retention_counts(
                &s.tenant,
                &Actor::NoUser,
                Some(&scope("x", "other").memory_ref)
            )
            .await
            .expect("read")
            .is_empty()
    );
}
