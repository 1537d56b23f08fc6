//! Slots, windows, sessions, actions, rules and owners for tests with random operations, and all of
//! a store's reads of them.

#![allow(dead_code, reason = "every test file uses its own part of this")]

use remem_core::{
    Actor, Admission, Batch, ClosingReason, Draft, Entry, EntryId, Evidence, Facets, InteractionId,
    Policy, PrincipalId, Redactor, RuleId, RuleText, Scope, SessionId, TenantId, Tier, Timestamp,
    Trust, Typology, WorldId,
};
use remem_store::{Filter, Page, ReadAt, Store};

pub const SLOTS: [&str; 8] = [
    "colour",
    "owner",
    "büro",
    "deploy how",
    "q4",
    "q5",
    "q6",
    "q7",
];
pub const SESSIONS: [&str; 2] = ["s1", "s2"];
pub const WORLDS: [&str; 2] = ["w1", "w2"];
/// Users with memories of their own.
pub const USERS: [&str; 2] = ["ada", "bob"];
pub const RULES: [&str; 3] = [
    "Every change to a published rule needs a second reviewer who did not write it, and is announced a week before it takes effect.",
    "A release is cut on Tuesdays only, from the main branch, after the full suite has been green twice on two different machines.",
    "規則の変更には二人目の確認者が必要であり、確認者は変更を書いた本人であってはならず、変更は効力を生じる一週間前に全員に知らせなければならない。規則は公開された場所に置かれ、誰でも読むことができ、古い版も消されずに残される。例外は認められない。",
];

/// Returns a random number below the one that it is given.
pub type RandomBelow<'a> = dyn FnMut(u64) -> u64 + Send + 'a;

fn pick<'a>(of: &[&'a str], below: &mut RandomBelow<'_>) -> &'a str {
    of[below(of.len() as u64) as usize]
}

pub fn user(name: &str) -> Actor {
    Actor::User(PrincipalId::parse(name).unwrap())
}

pub fn world(name: &str) -> WorldId {
    WorldId::parse(name).unwrap()
}

pub fn rule_id(name: &str) -> RuleId {
    RuleId::parse(name).unwrap()
}

pub fn rule_text(text: &str) -> RuleText {
    let policy = Policy::default();
    let redactor = Redactor::empty();
    Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: Timestamp(0),
    }
    .admit_rule(text)
    .unwrap()
}

/// A statement in a world.
pub fn claim(text: &str, world_of: &str) -> Draft {
    Draft {
        content: text.to_owned(),
        facets: Facets {
            world: world(world_of),
            ..Facets::default()
        },
        ..Draft::default()
    }
}

/// A rule's text slightly changed: mostly similar enough to restate it.
pub fn restated(below: &mut RandomBelow<'_>) -> String {
    let text = pick(&RULES, below);
    match below(5) {
        0 => text.to_uppercase(),
        1 => text.replace(", ", ";\0 "),
        2 => text
            .replace("second", "third")
            .replace("two", "three")
            .replace("二人目", "三人目"),
        3 => text.chars().take(99).collect(),
        _ => text.to_owned(),
    }
}

/// The draft with a random tier and kind, and possibly a slot, a window, a world and sources.
pub fn drawn(draft: Draft, now: i64, below: &mut RandomBelow<'_>) -> Draft {
    let trust = [
        Trust::Untrusted,
        Trust::Model,
        Trust::Tool,
        Trust::Action,
        Trust::Operator,
    ][below(5) as usize];
    let evidence = (0..below(3)).fold(Evidence::default(), |all, _| {
        all.union(&Evidence::of(trust, &format!("t{}", below(4)), "o"))
    });
    let session = SessionId::parse(pick(&SESSIONS, below));
    let plain = Facets {
        trust,
        evidence,
        ..Facets::default()
    };
    match below(10) {
        0..=1 => {
            let facets = Facets {
                session,
                interaction: InteractionId::parse(&format!("i{}", below(3))),
                ..plain
            };
            Draft {
                tier: Tier::Interaction,
                typology: Typology::Episodic,
                facets,
                ..draft
            }
        }
        2 => Draft {
            tier: Tier::Session,
            typology: Typology::Episodic,
            facets: Facets { session, ..plain },
            ..draft
        },
        3 => {
            let slot = (below(2) == 0).then(|| pick(&SLOTS, below).to_owned());
            Draft {
                typology: Typology::Procedural,
                facets: Facets { slot, ..plain },
                ..draft
            }
        }
        4 => Draft {
            content: restated(below),
            facets: Facets {
                world: world(pick(&WORLDS, below)),
                ..plain
            },
            ..draft
        },
        _ => {
            let slot = (below(3) > 0).then(|| pick(&SLOTS, below).to_owned());
            // Mostly short, so that windows of one slot do not always overlap.
            let from = now - 200 + below(400) as i64;
            let valid_at = (below(12) > 0).then_some(Timestamp(from));
            let invalid_at = valid_at
                .filter(|_| below(10) > 0)
                .map(|from| Timestamp(from.0 + below(25) as i64));
            let tier = if below(8) == 0 {
                Tier::Session
            } else {
                Tier::Persistent
            };
            let session = session.filter(|_| tier == Tier::Session);
            let facets = Facets {
                slot,
                valid_at,
                invalid_at,
                session,
                world: world(pick(&["-", "w1"], below)),
                ..plain
            };
            Draft {
                tier,
                facets,
                ..draft
            }
        }
    }
}

/// Adds one of the changes other than a put.
pub fn changed(
    batch: Batch,
    scope: &Scope,
    (name, other): (EntryId, EntryId),
    now: i64,
    below: &mut RandomBelow<'_>,
) -> Batch {
    let memory = scope.memory_ref.clone();
    match below(12) {
        0..=1 => batch.close(
            memory,
            name,
            ClosingReason::ReplacedNow,
            (below(2) == 0).then_some(other),
        ),
        // A procedure has no window: the tables refuse to close one as untrue, in both stores.
        2..=3 => batch.close(
            memory,
            name,
            ClosingReason::InvalidFrom(Timestamp(now - 20 + below(40) as i64)),
            (below(2) == 0).then_some(other),
        ),
        4 => batch
            .end_with_session(memory.clone(), name)
            .end_with_session(memory, other),
        5 => batch.erase_history(memory, name, Timestamp(now + 50)),
        6 => batch.set_evidence(
            memory,
            name,
            Evidence::of(Trust::Tool, &format!("t{}", below(9)), "o"),
        ),
        7..=8 => batch.link_action(
            memory,
            name,
            pick(&["promote", "Änderung"], below).to_owned(),
            format!("r{}", below(4)),
        ),
        _ => {
            // The stores write rules before the entries of a batch, so the batch has them in this
            // order.
            if batch.changes().iter().any(|change| {
                matches!(
                    change,
                    remem_core::Change::Put { .. } | remem_core::Change::Rewrite { .. }
                )
            }) {
                return batch;
            }
            let body = (below(3) > 0).then(|| rule_text(pick(&RULES, below)));
            batch.set_rule(
                world(pick(&WORLDS, below)),
                rule_id(&format!("r{}", below(4))),
                body,
            )
        }
    }
}

/// A new answer that replaces the current one of a slot, as conflict resolution writes it.
pub async fn succeeded(
    store: &dyn Store,
    batch: Batch,
    scope: &Scope,
    new: (EntryId, Draft),
    below: &mut RandomBelow<'_>,
) -> Batch {
    let slot = pick(&SLOTS, below);
    let at = batch.at();
    let answers = store
        .slot_history(&scope.clone().as_host(), slot, 100)
        .await
        .unwrap();
    let open = answers
        .iter()
        .find(|a| a.entry.visible.to.is_none() && a.entry.facets.invalid_at.is_none());
    let mut batch = batch;
    let mut typology = Typology::Semantic;
    if let Some(open) = open {
        typology = open.entry.typology;
        let closing = if typology == Typology::Procedural {
            ClosingReason::ReplacedNow
        } else {
            ClosingReason::InvalidFrom(at)
        };
        batch = batch.close(
            scope.memory_ref.clone(),
            open.entry.id.clone(),
            closing,
            Some(new.0.clone()),
        );
    }
    let valid_at = (typology == Typology::Semantic).then_some(at);
    let facets = Facets {
        slot: Some(slot.to_owned()),
        valid_at,
        ..Facets::default()
    };
    let draft = Draft {
        tier: Tier::Persistent,
        typology,
        facets,
        ..new.1
    };
    batch.put(new.0, remem_testkit::conformance::admit(scope, draft, at))
}

/// Formats an entry, since its `Debug` shows hardly any field.
pub fn shown(e: &Entry) -> String {
    let kind = (e.tier, e.typology, e.created_at, e.expires_at);
    format!(
        "{e:?} {:?} {:?} {:?} {:?} {} {:?} {:?}",
        e.content,
        e.tags,
        e.metadata,
        kind,
        e.redaction_fingerprint,
        e.facets,
        e.facets.evidence.to_text()
    )
}

/// All reads of slots, tiers and kinds, actions, rules and retention, by each of these actors.
pub async fn view(
    store: &dyn Store,
    tenant: &TenantId,
    memories: &[Scope],
    names: &[(Scope, EntryId)],
    now: Timestamp,
) -> Vec<String> {
    let mut seen = Vec::new();
    for name in WORLDS {
        let rules = store.rules(tenant, &world(name), None, 100).await.unwrap();
        seen.extend(
            rules
                .iter()
                .map(|rule| format!("{name} {rule:?} {} {:?}", rule.body, rule.at)),
        );
        seen.push(format!(
            "{:?}",
            store
                .rules(tenant, &world(name), Some(&rule_id("r1")), 1)
                .await
                .unwrap()
        ));
        for text in RULES {
            // Of several matching rules the store chooses which one it reports.
            seen.push(format!(
                "{name} {}",
                store
                    .restated_rule(tenant, &world(name), &text.to_uppercase())
                    .await
                    .unwrap()
                    .is_some()
            ));
        }
    }
    for ms in [-150, 0, 500] {
        let faded = store
            .ended_statements(tenant, now.plus_ms(ms), None, 1_000)
            .await
            .unwrap();
        let names = faded.into_iter().map(|one| (one.memory_ref, one.id));
        seen.push(format!(
            "{:?}",
            names.collect::<std::collections::BTreeSet<_>>()
        ));
    }
    for actor in [Actor::Host, Actor::NoUser, user(USERS[0]), user(USERS[1])] {
        seen.push(format!(
            "{actor:?} {:?}",
            store.retention_counts(tenant, &actor, None).await.unwrap()
        ));
        // The host sees every entry; the reads of each actor show whether entries of others are
        // hidden.
        for scope in memories
            .iter()
            .filter(|scope| actor == Actor::Host || scope.memory_ref.owner().is_some())
        {
            let scope = scope.clone().with_actor(actor.clone());
            seen.push(format!(
                "{:?}",
                store
                    .retention_counts(tenant, &actor, Some(&scope.memory_ref))
                    .await
                    .unwrap()
            ));
            seen.extend(
                view_memory(store, &scope, now, if actor == Actor::Host { 0 } else { 5 }).await,
            );
        }
    }
    for (n, (scope, name)) in names.iter().enumerate() {
        let actor = if n % 3 == 0 {
            user(USERS[0])
        } else {
            Actor::Host
        };
        seen.push(format!(
            "{name} {actor:?} {:?}",
            store
                .actions_of_entry(&scope.clone().with_actor(actor.clone()), name)
                .await
                .unwrap()
        ));
    }
    seen
}

/// `skip` leaves out the first few slots and tiers.
async fn view_memory(store: &dyn Store, scope: &Scope, now: Timestamp, skip: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for slot in &SLOTS[skip..] {
        for answer in store.slot_history(scope, slot, 50).await.unwrap() {
            seen.push(format!(
                "{slot} {} {:?} {:?} {:?}",
                shown(&answer.entry),
                answer.state,
                answer.ended_at,
                answer.replaced_by
            ));
        }
    }
    seen.push(format!(
        "{:?}",
        store
            .slot_history(scope, SLOTS[7], 2)
            .await
            .unwrap()
            .iter()
            .map(|a| a.entry.id.clone())
            .collect::<Vec<_>>()
    ));
    let page = Page {
        limit: 1_000,
        after: None,
    };
    let tier = Some(Tier::Session);
    let typology = Some(Typology::Episodic);
    let cells = [
        Filter {
            tier,
            ..Filter::default()
        },
        Filter {
            typology,
            ..Filter::default()
        },
        Filter {
            tier: Some(Tier::Persistent),
            typology: Some(Typology::Procedural),
            ..Filter::default()
        },
        Filter {
            session: SessionId::parse(SESSIONS[0]),
            ..Filter::default()
        },
        Filter {
            session: SessionId::parse(SESSIONS[1]),
            tier,
            ..Filter::default()
        },
        Filter {
            interaction: InteractionId::parse("i1"),
            tags: vec!["x".into()],
            ..Filter::default()
        },
    ];
    for filter in &cells[skip..] {
        let found = store
            .list(scope, filter, &page, &ReadAt::Now(now))
            .await
            .unwrap();
        seen.extend(found.iter().map(shown));
        seen.push(format!("of {filter:?}"));
    }
    for ms in &[-190, -60, 0, 30, -5, -100][skip..] {
        let at = ReadAt::AsOf {
            then: now.plus_ms(*ms),
            at: now,
        };
        seen.push(format!("as of {ms}"));
        seen.extend(
            store
                .list(scope, &Filter::default(), &page, &at)
                .await
                .unwrap()
                .iter()
                .map(shown),
        );
    }
    seen
}
