//! The decisions of workshop memory, one test each (`docs/workshop.md` maps them to code), through
//! the engine, on whichever store the run is for.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared has failed"
)]

mod common;

use common::{Ground, NOON};
use remem_core::profile::DAY_MS;
use remem_core::{
    Actor, Batch, Draft, Entry, Evidence, Facets, InteractionId, MemoryRef, Permission,
    PrincipalId, Profile, Profiles, Rejection, Scope, SessionId, TenantId, Tier, Timestamp, Trust,
    Typology, WorldId,
};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::FixedClock;
use remem_engine::recall::ListRequest;
use remem_engine::registry::{Mode, PASSES};
use remem_engine::search::SearchRequest;
use remem_engine::sessions::{Session, State};
use remem_engine::worlds::NewRule;
use remem_engine::{Caller, Engine, EngineError, HostKey, Parts};
use remem_store::{Filter, Page, ReadAt, RetentionState, Store, StoreError};
use serde_json::json;
use std::sync::Arc;

const RULE: &str = "Every change to a published rule needs a second reviewer who did not write it, and is announced a week before it takes effect.";

struct Shop {
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
    clock: Arc<FixedClock>,
    ada: Caller,
    bob: Caller,
}

impl Shop {
    async fn open() -> Shop {
        Shop::with(Profiles::default()).await
    }

    async fn with(profiles: Profiles) -> Shop {
        let ground = Ground::fresh().await;
        let parts = Parts::new(
            ground.store.clone(),
            ground.directory.clone(),
            ground.clock.clone(),
            ground.ids.clone(),
            HostKey::new([3; 32]),
        );
        let engine = Arc::new(Engine::new(Parts { profiles, ..parts }));
        let ada = caller(&engine, "t", "ada").await;
        let bob = caller(&engine, "t", "bob").await;
        Shop {
            engine,
            store: ground.store,
            clock: ground.clock,
            ada,
            bob,
        }
    }

    fn at(&self, ms: i64) {
        self.clock.set(NOON.plus_ms(ms));
    }

    async fn put(&self, memory: &str, draft: Draft) -> Result<Entry, EngineError> {
        Ok(self
            .engine
            .put(&self.ada, memory, vec![draft], None)
            .await?
            .entries
            .remove(0))
    }

    async fn tell(&self, text: &str) -> Entry {
        self.put("~/ops", said(text)).await.unwrap()
    }

    async fn list(&self, memory: &str) -> Vec<Entry> {
        self.engine
            .list(&self.ada, memory, ListRequest::default())
            .await
            .unwrap()
            .entries
    }

    async fn texts(&self, memory: &str) -> Vec<String> {
        self.list(memory)
            .await
            .into_iter()
            .map(|entry| entry.content)
            .collect()
    }

    async fn as_of(&self, memory: &str, ms: i64) -> Vec<String> {
        let request = ListRequest {
            as_of: Some(NOON.plus_ms(ms)),
            ..ListRequest::default()
        };
        self.engine
            .list(&self.ada, memory, request)
            .await
            .unwrap()
            .entries
            .into_iter()
            .map(|entry| entry.content)
            .collect()
    }

    async fn pass(&self, name: &str) -> u64 {
        let pass = PASSES.iter().find(|pass| pass.name == name).unwrap();
        self.engine
            .run_pass(pass, self.ada.tenant(), Mode::Apply)
            .await
            .unwrap()
            .changed
    }

    async fn retained(&self, state: RetentionState) -> u64 {
        let counts = self
            .store
            .retention(self.ada.tenant(), &Actor::Host, None)
            .await
            .unwrap();
        counts
            .iter()
            .filter(|count| count.state == state)
            .map(|count| count.entries)
            .sum()
    }

    async fn rule(&self, world: &str) {
        let rule = NewRule {
            id: "r1".into(),
            body: RULE.into(),
        };
        self.engine
            .put_rules(&self.ada, world, vec![rule])
            .await
            .unwrap();
    }
}

async fn caller(engine: &Engine, tenant: &str, user: &str) -> Caller {
    let tenant = TenantId::parse(tenant).unwrap();
    let key = format!("{tenant}-{user}");
    let principal = PrincipalId::parse(user);
    let request = KeyRequest {
        tenant,
        label: String::new(),
        permissions: Permission::ALL.to_vec(),
        expires_at: None,
        principal,
    };
    engine.add_key(&key, request).await.unwrap();
    engine.authenticate(&key).await.unwrap()
}

/// As a caller says it who says nothing else.
fn said(text: &str) -> Draft {
    Draft {
        content: text.into(),
        untyped: true,
        untiered: true,
        ..Draft::default()
    }
}

fn by(trust: Trust, draft: Draft) -> Draft {
    let facets = Facets {
        trust,
        ..draft.facets.clone()
    };
    Draft { facets, ..draft }
}

fn turn(thread: &str, speaker: &str, tool: Option<&str>, text: &str) -> Draft {
    let mut draft = Draft {
        content: text.into(),
        tier: Tier::Interaction,
        typology: Typology::Episodic,
        ..Draft::default()
    };
    draft.facets = Facets {
        interaction: InteractionId::parse(thread),
        trust: Trust::Operator,
        ..Facets::default()
    };
    draft.metadata = json!({ "speaker": speaker, "tool": tool })
        .as_object()
        .cloned();
    draft
}

fn in_world(typology: Typology, tier: Tier, world: &str, text: &str) -> Draft {
    let facets = Facets {
        world: WorldId::parse(world).unwrap(),
        ..Facets::default()
    };
    Draft {
        content: text.into(),
        tier,
        typology,
        facets,
        ..Draft::default()
    }
}

fn rejected(error: EngineError) -> Rejection {
    match error {
        EngineError::Rejected(rejection) | EngineError::Store(StoreError::Rejected(rejection)) => {
            rejection
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn d01_one_place_keeps_every_agents_memory() {
    let shop = Shop::open().await;
    shop.tell("Nadia's role is release manager.").await;
    shop.put("shared", said("The office is closed on Monday."))
        .await
        .unwrap();
    let (memories, _) = shop
        .engine
        .memories(&shop.ada, None, None, None)
        .await
        .unwrap();
    let names: Vec<&str> = memories
        .iter()
        .map(|memory| memory.memory_ref.as_str())
        .collect();
    assert_eq!(
        names,
        ["shared", "~ada/ops"],
        "an operator's memory is a memory like any other, in the same tables"
    );
    assert_eq!(shop.retained(RetentionState::Active).await, 2);
}

#[tokio::test]
async fn d02_every_tier_has_its_anchor() {
    let shop = Shop::open().await;
    let heard = shop
        .put("~/ops", turn("t1", "operator", None, "hello"))
        .await
        .unwrap();
    let session = heard.facets.session.clone().unwrap();
    assert_eq!(
        heard.facets.interaction.as_ref().map(|id| id.as_str()),
        Some("t1")
    );
    let task = Draft {
        content: "Draft three of the card".into(),
        tier: Tier::Session,
        typology: Typology::Procedural,
        ..Draft::default()
    };
    let task = shop.put("~/ops", task).await.unwrap();
    assert_eq!(
        (task.facets.session, task.facets.interaction),
        (Some(session), None),
        "the same session"
    );
    let fact = shop.tell("Nadia's role is release manager.").await;
    assert_eq!(
        (fact.tier, fact.facets.session, fact.facets.interaction),
        (Tier::Persistent, None, None)
    );
    let mut odd = turn("t1", "operator", None, "x");
    odd.tier = Tier::Persistent;
    odd.typology = Typology::Semantic;
    assert!(matches!(
        rejected(shop.put("~/ops", odd).await.unwrap_err()),
        Rejection::Invalid {
            field: "interaction",
            ..
        }
    ));
}

#[tokio::test]
async fn d03_only_the_six_cells_are_produced() {
    let shop = Shop::open().await;
    for tier in Tier::ALL {
        for typology in Typology::ALL {
            let mut draft = Draft {
                content: format!("{tier:?} {typology:?} words"),
                tier,
                typology,
                ..Draft::default()
            };
            draft.facets.interaction = (tier == Tier::Interaction)
                .then(|| InteractionId::parse("t1"))
                .flatten();
            let put = shop.put("~/ops", draft).await;
            assert_eq!(
                put.is_ok(),
                tier.produces(typology),
                "{tier:?} {typology:?}"
            );
        }
    }
    // What a caller does not classify is classified, and a transcript is kept with its session.
    let talk = shop
        .tell("User: could you start the distillation?\nAgent: it is running.")
        .await;
    assert_eq!(
        (talk.tier, talk.typology),
        (Tier::Session, Typology::Episodic)
    );
    let talk = Draft {
        untiered: false,
        ..said("User: could you start it again?\nAgent: it is running again.")
    };
    assert_eq!(
        shop.put("~/ops", talk).await.unwrap().typology,
        Typology::Semantic,
        "for good only as a statement"
    );
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    let counts = shop
        .store
        .retention(shop.ada.tenant(), &Actor::Host, None)
        .await
        .unwrap();
    assert!(
        counts
            .iter()
            .all(|count| (count.tier, count.typology) != (Tier::Persistent, Typology::Episodic)),
        "inv_31"
    );
}

#[tokio::test]
async fn d04_no_statement_restates_a_rule_of_its_world() {
    let shop = Shop::open().await;
    shop.rule("w1").await;
    for tier in [Tier::Session, Tier::Persistent] {
        let copy = in_world(Typology::Semantic, tier, "w1", &RULE.to_uppercase());
        let refused = rejected(shop.put("~/ops", copy).await.unwrap_err());
        assert!(
            matches!(&refused, Rejection::ShadowsRule { rule } if rule.as_str() == "r1"),
            "{tier:?}: {refused:?}"
        );
        assert!(!refused.to_string().contains("reviewer"), "names only");
        shop.put("~/ops", in_world(Typology::Procedural, tier, "w1", RULE))
            .await
            .unwrap();
        shop.put("~/ops", in_world(Typology::Semantic, tier, "w2", RULE))
            .await
            .unwrap();
    }
    let told = Draft {
        typology: Typology::Episodic,
        ..in_world(Typology::Episodic, Tier::Session, "w1", RULE)
    };
    shop.put("~/ops", told).await.unwrap();
    let short: String = RULE.chars().take(99).collect();
    shop.put(
        "~/ops",
        in_world(Typology::Semantic, Tier::Persistent, "w1", &short),
    )
    .await
    .unwrap();
    let hit = shop.engine.check_rule(&shop.ada, "w1", RULE).await.unwrap();
    assert_eq!(
        hit.map(|rule| rule.as_str().to_owned()).as_deref(),
        Some("r1"),
        "and one can ask before"
    );
    assert_eq!(
        shop.engine
            .delete_rule(&shop.ada, "w1", "r1")
            .await
            .map(|_| ())
            .map_err(|_| ()),
        Ok(())
    );
    shop.put(
        "~/ops",
        in_world(Typology::Semantic, Tier::Persistent, "w1", RULE),
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn d05_nobody_reads_across_contexts() {
    let shop = Shop::open().await;
    shop.tell("Nadia's role is release manager.").await;
    shop.rule("w1").await;
    let elsewhere = caller(&shop.engine, "other", "ada").await;
    assert!(
        shop.engine
            .list(&elsewhere, "~/ops", ListRequest::default())
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert!(
        shop.engine
            .memories(&elsewhere, None, None, None)
            .await
            .unwrap()
            .0
            .is_empty()
    );
    assert!(
        shop.engine
            .list_rules(&elsewhere, "w1", None, None)
            .await
            .unwrap()
            .0
            .is_empty()
    );
    assert_eq!(
        shop.engine
            .check_rule(&elsewhere, "w1", RULE)
            .await
            .unwrap(),
        None
    );
    assert!(
        shop.engine
            .retention(&elsewhere, None)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn d06_an_operator_sees_their_own_and_what_is_shared() {
    let shop = Shop::open().await;
    let own = shop.tell("Nadia's role is release manager.").await;
    shop.put("shared", said("The office is closed on Monday."))
        .await
        .unwrap();
    shop.put("~/ops", turn("t1", "operator", None, "hello"))
        .await
        .unwrap();
    for name in ["~ada/ops", "~/ops"] {
        let bob = &shop.bob;
        let engine = &shop.engine;
        assert!(
            engine
                .list(bob, name, ListRequest::default())
                .await
                .unwrap()
                .entries
                .is_empty(),
            "{name}"
        );
        assert!(
            engine
                .get(bob, name, own.id.as_str(), None)
                .await
                .unwrap()
                .is_none()
        );
        assert!(
            engine
                .history(bob, name, "nadia|role")
                .await
                .unwrap()
                .is_empty()
        );
        assert!(engine.sessions(bob, name).await.unwrap().is_empty());
        assert!(matches!(
            engine.audit(bob, name, own.id.as_str()).await,
            Err(EngineError::NotFound)
        ));
        assert!(matches!(
            engine.delete(bob, name, own.id.as_str(), None).await,
            Err(EngineError::NotFound)
        ));
        assert!(
            engine
                .link_action(bob, (name, own.id.as_str()), "a", "b")
                .await
                .is_err()
        );
        assert!(engine.close_session(bob, name).await.is_err());
        let search = SearchRequest {
            query: "Nadia".into(),
            ..SearchRequest::default()
        };
        assert!(
            engine
                .search(bob, name, search)
                .await
                .unwrap()
                .hits
                .is_empty()
        );
    }
    assert!(
        shop.engine
            .put(&shop.bob, "~ada/ops", vec![said("planted")], None)
            .await
            .is_err()
    );
    assert_eq!(
        shop.engine
            .list(&shop.bob, "shared", ListRequest::default())
            .await
            .unwrap()
            .entries
            .len(),
        1
    );
    assert_eq!(
        shop.list("~ada/ops").await.len(),
        2,
        "the full name and the short one are the same memory"
    );
}

/// A week: three threads in which the same tools follow each other, and a preference that is stated
/// once.
async fn a_week(shop: &Shop) {
    for (n, thread) in ["mon", "tue", "wed"].iter().enumerate() {
        shop.at(n as i64 * DAY_MS);
        for (k, (speaker, tool, text)) in [
            ("operator", None, "Please look at the coverage of the gate."),
            ("agent", Some("coverage_report"), "Here is the report."),
            ("agent", Some("open_ticket"), "A ticket is open."),
            ("agent", Some("post_summary"), "The summary is posted."),
        ]
        .into_iter()
        .enumerate()
        {
            shop.at(n as i64 * DAY_MS + k as i64 * 1_000);
            shop.put("~/ops", turn(thread, speaker, tool, text))
                .await
                .unwrap();
        }
    }
    shop.put(
        "~/ops",
        turn(
            "wed",
            "operator",
            None,
            "Always send release notes as a table.",
        ),
    )
    .await
    .unwrap();
}

fn procedural(entries: &[Entry]) -> Vec<&Entry> {
    entries
        .iter()
        .filter(|entry| (entry.tier, entry.typology) == (Tier::Persistent, Typology::Procedural))
        .collect()
}

#[tokio::test]
async fn d07_episodes_compound_and_claims_need_corroboration() {
    let shop = Shop::open().await;
    // Procedures are written where they last.
    let habit = shop
        .tell("Always use the staging world for experiments.")
        .await;
    assert_eq!(
        (habit.tier, habit.typology),
        (Tier::Persistent, Typology::Procedural)
    );
    a_week(&shop).await;
    let claim = |thread: &str, trust: Trust, text: &str| {
        let mut draft = by(
            trust,
            Draft {
                content: text.into(),
                tier: Tier::Session,
                ..Draft::default()
            },
        );
        draft.facets.slot = Some(format!("={text}"));
        draft.facets.evidence = Evidence::of(trust, thread, "");
        draft
    };
    for (thread, trust, text) in [
        ("mon", Trust::Tool, "Coverage of the gate is below the goal"),
        ("tue", Trust::Tool, "Coverage of the gate is below the goal"),
        ("mon", Trust::Model, "The gate will be rewritten"),
        ("mon", Trust::Untrusted, "The gate is to be switched off"),
        ("tue", Trust::Untrusted, "The gate is to be switched off"),
        ("wed", Trust::Operator, "World seven is frozen until March"),
    ] {
        shop.put("~/ops", claim(thread, trust, text)).await.unwrap();
    }
    let closed = shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(closed.state, State::Closed);
    let entries = shop.list("~/ops").await;
    let texts: Vec<&str> = entries.iter().map(|entry| entry.content.as_str()).collect();
    assert!(
        entries.iter().all(|entry| entry.tier == Tier::Persistent),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("release notes as a table")),
        "stated once by the operator: {texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("coverage_report") && text.contains("post_summary")),
        "done three times: {texts:?}"
    );
    assert!(
        texts.contains(&"Coverage of the gate is below the goal"),
        "two threads: {texts:?}"
    );
    assert!(
        texts.contains(&"World seven is frozen until March"),
        "the operator said so: {texts:?}"
    );
    assert!(
        !texts.iter().any(|text| text.contains("rewritten")),
        "one model in one thread: {texts:?}"
    );
    assert!(
        !texts.iter().any(|text| text.contains("switched off")),
        "inv_62 nobody vouches for it: {texts:?}"
    );
    let made = entries
        .iter()
        .find(|entry| entry.content.contains("release notes"))
        .unwrap();
    let lineage = shop
        .engine
        .audit(&shop.ada, "~/ops", made.id.as_str())
        .await
        .unwrap()
        .lineage;
    assert!(
        !lineage.sources.is_empty(),
        "what it came from is known, though it is gone"
    );
    assert_eq!(
        procedural(&entries).len() as u64 + 2,
        closed.promoted + 1,
        "{closed:?}"
    );
}

#[tokio::test]
async fn d08_conflicts_are_resolved_by_kind() {
    let shop = Shop::open().await;
    shop.at(0);
    let first = shop.tell("Nadia's role is release manager.").await;
    shop.at(1_000);
    let second = shop.tell("Nadia's role is operations lead.").await;
    assert_eq!(
        shop.texts("~/ops").await,
        ["Nadia's role is operations lead."]
    );
    assert_eq!(
        shop.as_of("~/ops", 500).await,
        ["Nadia's role is release manager."],
        "both are kept"
    );
    let mut late = said("Nadia's role is tester.");
    late.facets.valid_at = Some(NOON.plus_ms(-5_000));
    shop.put("~/ops", late).await.unwrap();
    assert_eq!(
        shop.as_of("~/ops", -3_000).await,
        ["Nadia's role is tester."],
        "a late arrival is born closed"
    );
    assert_eq!(
        shop.texts("~/ops").await,
        ["Nadia's role is operations lead."]
    );
    let slot = second.facets.slot.clone().unwrap();
    let history = shop
        .engine
        .history(&shop.ada, "~/ops", &slot)
        .await
        .unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|a| (a.entry.content.as_str(), a.state.as_str()))
        .collect();
    assert_eq!(
        told[1..],
        [
            ("Nadia's role is release manager.", "invalidated"),
            ("Nadia's role is operations lead.", "live")
        ]
    );
    assert_eq!(history[1].replaced_by, Some(second.id.clone()));
    // Said again: nothing new, and more evidence.
    shop.at(2_000);
    let again = shop.tell("Nadia's role is operations lead.").await;
    assert_eq!(again.id, second.id);
    assert_ne!(again.id, first.id);
    // Procedures: one at a time.
    let tabs = shop.tell("Always format release notes as a table.").await;
    let list = shop.tell("Always format release notes as a list.").await;
    assert_eq!(tabs.facets.slot, list.facets.slot, "the same question");
    let history = shop
        .engine
        .history(&shop.ada, "~/ops", list.facets.slot.as_deref().unwrap())
        .await
        .unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|a| (a.state.as_str(), a.ended_at, a.replaced_by.clone()))
        .collect();
    assert_eq!(
        told,
        [
            (
                "superseded",
                Some(NOON.plus_ms(2_000)),
                Some(list.id.clone())
            ),
            ("live", None, None)
        ]
    );
    // Episodes accumulate.
    for _ in 0..2 {
        shop.put("~/ops", turn("t1", "operator", None, "the same words"))
            .await
            .unwrap();
    }
    assert_eq!(
        shop.texts("~/ops")
            .await
            .iter()
            .filter(|text| *text == "the same words")
            .count(),
        2
    );
    // What nobody vouches for takes nobody's place.
    shop.put(
        "~/ops",
        by(Trust::Untrusted, said("Nadia's role is intruder.")),
    )
    .await
    .unwrap();
    assert!(
        shop.texts("~/ops")
            .await
            .iter()
            .any(|text| text.contains("operations lead"))
    );
    shop.engine
        .retract(&shop.ada, "~/ops", &slot)
        .await
        .unwrap();
    assert!(
        !shop
            .texts("~/ops")
            .await
            .iter()
            .any(|text| text.contains("operations lead")),
        "taken back, with nothing in its place"
    );
}

async fn open_session(shop: &Shop) -> Session {
    shop.engine
        .sessions(&shop.ada, "~/ops")
        .await
        .unwrap()
        .into_iter()
        .find(|session| session.state == State::Open)
        .unwrap()
}

#[tokio::test]
async fn d09_transient_memory_ends_with_its_session() {
    let shop = Shop::open().await;
    a_week(&shop).await;
    let first = open_session(&shop).await;
    let linked = shop
        .put(
            "~/ops",
            turn("wed", "agent", None, "Card seven goes out as it is."),
        )
        .await
        .unwrap();
    shop.engine
        .link_action(
            &shop.ada,
            ("~/ops", linked.id.as_str()),
            "published-decision",
            "card-7",
        )
        .await
        .unwrap();
    // 30 days less a second later nothing has happened to it; the pass looks and finds it alive.
    shop.at(2 * DAY_MS + 30 * DAY_MS - 1_000);
    assert_eq!(shop.pass("sessions").await, 0);
    assert_eq!(open_session(&shop).await.session_id, first.session_id);
    // The first thing after 30 idle days opens another one, and the old one is closed by exactly
    // one pass.
    shop.at(2 * DAY_MS + 31 * DAY_MS);
    shop.put("~/ops", turn("later", "operator", None, "Good morning."))
        .await
        .unwrap();
    let second = open_session(&shop).await;
    assert_ne!(second.session_id, first.session_id, "inv_51");
    assert_eq!(shop.pass("sessions").await, 1);
    assert_eq!(shop.pass("sessions").await, 0);
    let sessions = shop.engine.sessions(&shop.ada, "~/ops").await.unwrap();
    let closed = sessions
        .iter()
        .find(|session| session.session_id == first.session_id)
        .unwrap();
    assert_eq!(
        (closed.state, closed.ended, closed.kept),
        (State::Closed, 13, 1)
    );
    let entries = shop.list("~/ops").await;
    let transient: Vec<&str> = entries
        .iter()
        .filter(|e| e.tier != Tier::Persistent)
        .map(|e| e.content.as_str())
        .collect();
    assert_eq!(
        transient,
        ["Good morning.", "Card seven goes out as it is."],
        "inv_52 promoted, linked, or gone"
    );
    assert!(!procedural(&entries).is_empty());
    assert_eq!(shop.retained(RetentionState::Orphaned).await, 0, "inv_55");
    // Nobody comes back: the nightly look ends it.
    shop.at(2 * DAY_MS + 31 * DAY_MS + 30 * DAY_MS);
    assert_eq!(shop.pass("sessions").await, 1);
    assert!(
        shop.engine
            .sessions(&shop.ada, "~/ops")
            .await
            .unwrap()
            .iter()
            .all(|session| session.state == State::Closed),
        "inv_50"
    );
}

#[tokio::test]
async fn d10_a_workshop_mirrors_nothing() {
    let shop = Shop::open().await;
    let trace = r#"{"traceId":"4bf92f3577b34da6","spanId":"00f067aa0ba902b7","name":"scan","startTimeUnixNano":"1"}"#;
    assert!(matches!(
        rejected(shop.put("~/ops", said(trace)).await.unwrap_err()),
        Rejection::Mirrors { .. }
    ));
    let note = shop
        .tell("The customer wrote from ada.lovelace@example.com about the invoice.")
        .await;
    assert!(
        !note.content.contains("lovelace") && note.content.contains("[PII:email:"),
        "{}",
        note.content
    );
    let again = shop
        .tell("Call ada.lovelace@example.com back on Friday morning.")
        .await;
    let pseudonym = |text: &str| {
        text.split("[PII:")
            .nth(1)
            .and_then(|rest| rest.split(']').next())
            .map(str::to_owned)
    };
    assert_eq!(
        pseudonym(&note.content),
        pseudonym(&again.content),
        "the same person, the same pseudonym"
    );
    shop.put(
        "general",
        said("The customer wrote from ada.lovelace@example.com about it."),
    )
    .await
    .unwrap();
    assert!(
        shop.texts("general").await[0].contains("lovelace"),
        "a general memory leaves it"
    );
    let done = shop
        .engine
        .forget(&shop.ada, "Ada.Lovelace@example.com", false)
        .await
        .unwrap();
    assert!(done.changed);
    assert!(
        shop.texts("~/ops").await.is_empty(),
        "and whoever it was can be forgotten"
    );
}

#[tokio::test]
async fn d11_the_schema_refuses_by_itself() {
    let shop = Shop::open().await;
    shop.rule("w1").await;
    let scope = Scope::new(
        shop.ada.tenant().clone(),
        MemoryRef::parse("~ada/ops").unwrap(),
    )
    .as_host();
    let admit = |draft: Draft| remem_store::conformance::admit(&scope, draft, NOON);
    let id = remem_store::conformance::id;
    let fact = |text: &str| {
        let facets = Facets {
            slot: Some("q".into()),
            valid_at: Some(NOON),
            ..Facets::default()
        };
        Draft {
            content: text.into(),
            facets,
            ..Draft::default()
        }
    };
    let put = |name: &str, draft: Draft| {
        shop.store
            .commit(Batch::new(scope.tenant.clone(), NOON).put(id(name), admit(draft)))
    };
    put("a", fact("one")).await.unwrap();
    assert!(
        matches!(put("b", fact("two")).await, Err(StoreError::Conflict)),
        "inv_40 without anybody who resolves"
    );
    let copy = in_world(Typology::Semantic, Tier::Persistent, "w1", RULE);
    assert!(
        matches!(
            put("c", copy).await,
            Err(StoreError::Rejected(Rejection::ShadowsRule { .. }))
        ),
        "inv_33 without anybody who asks first"
    );
    let bob = Batch::new(scope.tenant.clone(), NOON)
        .by(PrincipalId::parse("bob").unwrap())
        .put(id("d"), admit(fact("three")));
    assert!(
        shop.store.commit(bob).await.is_err(),
        "inv_13 without anybody who looks"
    );
}

#[tokio::test]
async fn d12_the_primitives_are_declared_per_kind_of_agent() {
    let notes = Profile {
        name: "notes".into(),
        session_idle_ms: DAY_MS,
        non_mirror: false,
        ..Profile::workshop()
    };
    let world = WorldId::parse("w1").unwrap();
    let cards = Profile {
        name: "cards".into(),
        world,
        ..Profile::workshop()
    };
    let shop = Shop::with(
        Profiles::declare(vec![("~/notes".into(), notes), ("cards-*".into(), cards)]).unwrap(),
    )
    .await;
    shop.rule("w1").await;
    // Transient tiers inherit the lifecycle of what encloses them, which is a value of the profile.
    shop.put(
        "~/notes",
        turn("t1", "operator", None, "Always write notes in English."),
    )
    .await
    .unwrap();
    shop.at(DAY_MS);
    assert_eq!(shop.pass("sessions").await, 1);
    assert_eq!(shop.texts("~/notes").await.len(), 1, "what outlasts it");
    shop.put("~/notes", said("Write to ada@example.com."))
        .await
        .unwrap();
    assert!(
        shop.texts("~/notes")
            .await
            .iter()
            .any(|text| text.contains("ada@example.com")),
        "this kind masks nothing"
    );
    // The guard's threshold is no value of any profile; the world is.
    let copy = Draft {
        typology: Typology::Semantic,
        content: RULE.into(),
        ..Draft::default()
    };
    assert!(matches!(
        rejected(shop.put("cards-7", copy.clone()).await.unwrap_err()),
        Rejection::ShadowsRule { .. }
    ));
    shop.put("other", copy).await.unwrap();
    // No hard delete of what is persistent, or what an action rests on.
    let fact = shop
        .put("~/ops", said("Nadia's role is release manager."))
        .await
        .unwrap();
    let link = shop
        .engine
        .link_action(
            &shop.ada,
            ("~/ops", fact.id.as_str()),
            "rule-promotion",
            "r-9",
        )
        .await
        .unwrap();
    assert_eq!(link.0, 1);
    shop.engine
        .delete(&shop.ada, "~/ops", fact.id.as_str(), None)
        .await
        .unwrap();
    let audit = shop
        .engine
        .audit(&shop.ada, "~/ops", fact.id.as_str())
        .await
        .unwrap();
    assert_eq!(
        (audit.lineage.state.as_str(), audit.links.len()),
        ("held", 1),
        "inv_53"
    );
    assert_eq!(shop.retained(RetentionState::Referenced).await, 1);
}

#[tokio::test]
async fn inv_57_a_closed_session_accepts_no_writes_and_two_closers_close_it_once() {
    let shop = Shop::open().await;
    a_week(&shop).await;
    let session = open_session(&shop).await;
    let id = SessionId::parse(&session.session_id).unwrap();
    let (one, two, put) = tokio::join!(
        shop.engine.close_session(&shop.ada, "~/ops"),
        shop.engine.close_session(&shop.ada, "~/ops"),
        shop.engine.put(
            &shop.ada,
            "~/ops",
            vec![turn("x", "operator", None, "in between")],
            None
        ),
    );
    assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
    let put = put.unwrap().entries.remove(0);
    shop.pass("sessions").await;
    let filter = Filter {
        session: Some(id),
        ..Filter::default()
    };
    let scope = Scope::new(
        shop.ada.tenant().clone(),
        MemoryRef::parse("~ada/ops").unwrap(),
    )
    .as_host();
    let left = shop
        .store
        .list(
            &scope,
            &filter,
            &Page {
                limit: 99,
                after: None,
            },
            &ReadAt::Now(Timestamp(i64::MAX / 2)),
        )
        .await
        .unwrap();
    assert!(left.is_empty(), "nothing hangs on what is over: {left:?}");
    let there = shop
        .list("~/ops")
        .await
        .iter()
        .any(|entry| entry.id == put.id);
    assert_eq!(
        there,
        put.facets.session.as_ref().map(|id| id.as_str()) != Some(session.session_id.as_str()),
        "it came before the end, or after"
    );
    let sessions = shop.engine.sessions(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(
        sessions
            .iter()
            .filter(|s| s.session_id == session.session_id)
            .count(),
        1
    );
}

#[tokio::test]
async fn inv_60_compounding_again_makes_nothing_new() {
    let shop = Shop::open().await;
    a_week(&shop).await;
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    let before: Vec<(String, String)> = kept(&shop).await;
    // The same week once more: what is known is known.
    a_week(&shop).await;
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(kept(&shop).await, before);
}

async fn kept(shop: &Shop) -> Vec<(String, String)> {
    let mut kept: Vec<_> = shop
        .list("~/ops")
        .await
        .into_iter()
        .map(|entry| (entry.id.as_str().to_owned(), entry.content))
        .collect();
    kept.sort_unstable();
    kept
}

#[tokio::test]
async fn what_came_from_a_source_goes_with_it() {
    let shop = Shop::open().await;
    let source = shop
        .engine
        .subject(shop.ada.tenant(), "source:https://example.com/page")
        .unwrap();
    let mut draft = by(
        Trust::Untrusted,
        said("The gate is to be switched off, says the page."),
    );
    draft.subjects = vec![source];
    let page = shop.put("~/ops", draft).await.unwrap();
    assert!(
        page.tags.contains(&"source:untrusted".to_owned()),
        "marked wherever it is shown"
    );
    assert_eq!(
        (page.facets.trust, page.facets.slot),
        (Trust::Untrusted, None)
    );
    shop.engine
        .forget(&shop.ada, "source:https://example.com/page", false)
        .await
        .unwrap();
    assert!(shop.list("~/ops").await.is_empty());
    // A tag says as much as the word.
    let tagged = Draft {
        tags: vec!["source:untrusted".into()],
        ..by(Trust::Operator, said("Trust me."))
    };
    assert_eq!(
        shop.put("~/ops", tagged).await.unwrap().facets.trust,
        Trust::Untrusted,
        "trust never rises by being claimed twice"
    );
}

#[tokio::test]
async fn a_chat_thread_leaves_what_was_said_and_which_tools_were_called() {
    let shop = Shop::open().await;
    a_week(&shop).await;
    let done = shop
        .engine
        .close_interaction(&shop.ada, "~/ops", "wed")
        .await
        .unwrap();
    assert_eq!((done.promoted, done.ended, done.kept), (2, 5, 0));
    let again = shop
        .engine
        .close_interaction(&shop.ada, "~/ops", "wed")
        .await
        .unwrap();
    assert_eq!((again.promoted, again.ended), (0, 0));
    for thread in ["mon", "tue"] {
        shop.engine
            .close_interaction(&shop.ada, "~/ops", thread)
            .await
            .unwrap();
    }
    let entries = shop.list("~/ops").await;
    assert!(
        entries.iter().all(|entry| entry.tier == Tier::Session),
        "{:?}",
        shop.texts("~/ops").await
    );
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    let texts = shop.texts("~/ops").await;
    assert!(
        texts
            .iter()
            .any(|text| text.contains("coverage_report") && text.contains("post_summary")),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("release notes as a table")),
        "{texts:?}"
    );
}

#[tokio::test]
async fn what_was_true_two_years_ago_loses_its_text() {
    let shop = Shop::open().await;
    shop.tell("Nadia's role is release manager.").await;
    shop.at(1_000);
    let now = shop.tell("Nadia's role is operations lead.").await;
    shop.at(730 * DAY_MS);
    assert_eq!(shop.pass("sweep").await, 0);
    shop.at(730 * DAY_MS + 2_000);
    assert_eq!(shop.pass("sweep").await, 1);
    assert_eq!(shop.pass("sweep").await, 0);
    let history = shop
        .engine
        .history(&shop.ada, "~/ops", now.facets.slot.as_deref().unwrap())
        .await
        .unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(
        shop.retained(RetentionState::Skeleton).await,
        1,
        "the row stays"
    );
}

#[tokio::test]
async fn a_repeated_put_answers_like_the_first_time() {
    let shop = Shop::open().await;
    let put = |key: &'static str| {
        shop.engine.put(
            &shop.ada,
            "~/ops",
            vec![said("Nadia's role is tester."), said("It rains.")],
            Some(key),
        )
    };
    let first = put("k").await.unwrap();
    let second = put("k").await.unwrap();
    assert!(second.replayed);
    let ids = |stored: &remem_engine::write::Stored| {
        stored
            .entries
            .iter()
            .map(|entry| entry.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&second));
    assert_eq!(
        ids(&put("l").await.unwrap()),
        ids(&first),
        "who says the same again gets what is there"
    );
    assert_eq!(shop.list("~/ops").await.len(), 2);
}

#[tokio::test]
async fn what_is_said_in_passing_takes_nobodys_place() {
    let shop = Shop::open().await;
    let fact = shop.tell("Nadia's role is release manager.").await;
    let passing = Draft {
        tier: Tier::Session,
        typology: Typology::Semantic,
        content: "Nadia's role is tester.".into(),
        ..Draft::default()
    };
    shop.put("~/ops", passing).await.unwrap();
    let history = shop
        .engine
        .history(&shop.ada, "~/ops", fact.facets.slot.as_deref().unwrap())
        .await
        .unwrap();
    assert_eq!(
        history
            .iter()
            .map(|answer| answer.state.as_str())
            .collect::<Vec<_>>(),
        ["live"]
    );
}

/// A rule that came after the claim: the claim is not promoted, and the session closes all the
/// same.
#[tokio::test]
async fn a_promoted_rule_is_no_claim() {
    let shop = Shop::open().await;
    let claim = by(
        Trust::Operator,
        in_world(Typology::Semantic, Tier::Session, "w1", RULE),
    );
    shop.put("~/ops", claim).await.unwrap();
    shop.rule("w1").await;
    let closed = shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(
        (closed.state, closed.promoted, closed.ended),
        (State::Closed, 0, 1)
    );
    assert!(shop.list("~/ops").await.is_empty());
}
