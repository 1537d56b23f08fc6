//! The decisions about workshop memory, one test each (`docs/workshop.md` maps them to code),
//! through the engine, on whichever store the tests use.

mod classification;
mod closing;
mod compounding;
mod conflicts;
mod privacy;
mod rules;
mod scopes;
mod session_crash;
mod sessions;
mod sweep;
mod writes;

use remem_core::profile::DAY_MS;
use remem_core::{
    Actor, Draft, Entry, Facets, InteractionId, Permission, Policy, PrincipalId, Profiles,
    Rejection, TenantId, Tier, Trust, Typology, WorldId,
};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::FixedClock;
use remem_engine::read::ListRequest;
use remem_engine::registry::{PASSES, PassMode};
use remem_engine::worlds::NewRule;
use remem_engine::{Caller, Engine, EngineError, EngineParts, HostKey};
use remem_store::{RetentionState, Store, StoreError};
use remem_testkit::{NOON, TestEnv};
use serde_json::json;
use std::sync::Arc;

const RULE: &str = "Every change to a published rule needs a second reviewer who did not write it, and is announced a week before it takes effect.";

struct WorkshopTest {
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
    clock: Arc<FixedClock>,
    ada: Caller,
    bob: Caller,
}

impl WorkshopTest {
    async fn open() -> WorkshopTest {
        WorkshopTest::with(Profiles::default()).await
    }

    async fn with(profiles: Profiles) -> WorkshopTest {
        WorkshopTest::with_policy(profiles, Policy::default()).await
    }

    async fn with_policy(profiles: Profiles, policy: Policy) -> WorkshopTest {
        let env = TestEnv::new().await;
        let parts = EngineParts::new(
            env.store.clone(),
            env.directory.clone(),
            env.clock.clone(),
            env.ids.clone(),
            HostKey::new([3; 32]),
        );
        let engine = Arc::new(Engine::new(EngineParts {
            profiles,
            policy,
            ..parts
        }));
        let ada = caller(&engine, "t", "ada").await;
        let bob = caller(&engine, "t", "bob").await;
        WorkshopTest {
            engine,
            store: env.store,
            clock: env.clock,
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
            .run_pass(pass, self.ada.tenant(), PassMode::Apply)
            .await
            .unwrap()
            .changed
    }

    async fn retained(&self, state: RetentionState) -> u64 {
        let counts = self
            .store
            .retention_counts(self.ada.tenant(), &Actor::Host, None)
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
        trust: None,
    };
    engine.add_key(&key, request).await.unwrap();
    engine.authenticate(&key).await.unwrap()
}

/// A draft of a caller who sets only the text.
fn said(text: &str) -> Draft {
    Draft {
        content: text.into(),
        typology_is_default: true,
        tier_is_default: true,
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

/// A week of episodes: three threads in which the same tools follow each other, and a preference
/// that is stated once.
async fn a_week(shop: &WorkshopTest) {
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
