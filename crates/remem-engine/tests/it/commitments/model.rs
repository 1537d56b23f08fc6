//! Random sequences of operations by two engines, compared with a simple model of what may fire:
//! texts are written and deleted; commitments recognised, confirmed, snoozed and cancelled; facts
//! observed; and the clock jumps. After every step, exactly what the model expects has fired.

use remem_core::commitment::CommitmentState;
use remem_core::{Draft, EventBody, RecordKind, Seq, Timestamp};
use remem_engine::commitments::{CommitmentChange, CommitmentQuery, NewCommitment};
use remem_engine::ports::Clock;
use remem_engine::registry::{self, PassMode};
use remem_testkit::{SeededRandom, TestEnv, TestHost, cases, storage::is_postgres};
use std::collections::BTreeMap;

const STEPS: u64 = 70;
const MEMORY: &str = "m";
const MINUTE: i64 = 60_000;
/// How late a commitment may still be armed.
const LATE: i64 = 60 * MINUTE;

#[derive(Clone, Copy, Debug, PartialEq)]
enum ConditionKind {
    /// At this instant, in milliseconds.
    Once(i64),
    /// Recurring with this interval, counted from this instant.
    Every(i64, i64),
    /// When the item with this number is delivered.
    Predicate(u64),
}

/// A commitment as the model expects it.
#[derive(Clone, Debug)]
struct ModelledCommitment {
    source: String,
    kind: ConditionKind,
    trusted: bool,
    written_at: i64,
    /// The expected state; `None` before it was recognised, and once its text is deleted.
    state: Option<CommitmentState>,
    read: bool,
    deleted: bool,
    next_at: Option<i64>,
    holds: Option<bool>,
    fired: Vec<String>,
    id: Option<String>,
}

impl ModelledCommitment {
    fn is_open(&self) -> bool {
        matches!(
            self.state,
            Some(CommitmentState::Armed | CommitmentState::Pending)
        )
    }

    fn is_timed(&self) -> bool {
        !matches!(self.kind, ConditionKind::Predicate(_))
    }

    fn read(&mut self, now: i64) {
        if self.read {
            return;
        }
        self.read = true;
        let promises = !self.deleted
            && !matches!(self.kind, ConditionKind::Once(at) if at <= self.written_at.max(now - LATE));
        self.state = promises.then_some(if self.trusted {
            CommitmentState::Armed
        } else {
            CommitmentState::Pending
        });
    }

    fn fire(&mut self, now: i64) {
        let Some(due) = self
            .next_at
            .filter(|at| *at <= now && self.state == Some(CommitmentState::Armed))
        else {
            return;
        };
        let mut instant = due;
        let mut next = None;
        if let ConditionKind::Every(every, from) = self.kind {
            let mut tick = from + every;
            while tick <= now {
                instant = instant.max(tick);
                tick += every;
            }
            next = Some(tick);
        }
        self.fired.push(format!("t{instant}"));
        self.next_at = next;
        if next.is_none() {
            self.state = Some(CommitmentState::Done);
        }
    }

    fn see(&mut self, holds: bool) {
        if self.state != Some(CommitmentState::Armed) || self.holds == Some(holds) {
            return;
        }
        self.holds = Some(holds);
        if holds {
            self.fired.push("p1".to_owned());
            self.state = Some(CommitmentState::Done);
        }
    }

    /// Whether the operation succeeds.
    fn change(&mut self, change: CommitmentChange, now: i64) -> bool {
        let may = match change {
            CommitmentChange::Cancel => self.is_open(),
            CommitmentChange::Confirm => {
                self.state == Some(CommitmentState::Pending)
                    && self.next_at.is_none_or(|at| at > now)
            }
            CommitmentChange::Snooze(_) => self.is_open() && self.is_timed(),
        };
        if may {
            self.state = Some(if change == CommitmentChange::Cancel {
                CommitmentState::Cancelled
            } else {
                CommitmentState::Armed
            });
            self.next_at = match change {
                CommitmentChange::Cancel => None,
                CommitmentChange::Confirm => self.next_at,
                CommitmentChange::Snooze(until) => Some(until.0),
            };
        }
        may
    }
}

struct SimulatedDay {
    random: SeededRandom,
    hosts: [TestHost; 2],
    ones: Vec<ModelledCommitment>,
}

impl SimulatedDay {
    async fn new(seed: u64) -> SimulatedDay {
        let env = TestEnv::new().await;
        SimulatedDay {
            random: SeededRandom::new(seed),
            hosts: [env.host().await, env.host().await],
            ones: Vec::new(),
        }
    }

    fn host(&mut self) -> usize {
        self.random.below(2) as usize
    }

    fn now(&self) -> i64 {
        self.hosts[0].env.clock.now().0
    }

    fn some(&mut self) -> Option<usize> {
        let count = self.ones.len() as u64;
        (count > 0).then(|| self.random.below(count) as usize)
    }

    fn add(
        &mut self,
        source: String,
        kind: ConditionKind,
        trusted: bool,
    ) -> &mut ModelledCommitment {
        let next_at = match kind {
            ConditionKind::Once(at) => Some(at),
            ConditionKind::Every(every, from) => Some(from + every),
            ConditionKind::Predicate(_) => None,
        };
        let written_at = self.now();
        let state = None;
        let read = false;
        let deleted = false;
        let holds = None;
        let fired = Vec::new();
        let id = None;
        self.ones.push(ModelledCommitment {
            source,
            kind,
            trusted,
            written_at,
            state,
            read,
            deleted,
            next_at,
            holds,
            fired,
            id,
        });
        self.ones.last_mut().unwrap()
    }

    async fn write(&mut self) {
        let host = self.host();
        let number = self.ones.len() as u64;
        let trusted = self.random.below(4) > 0;
        let minutes = 1 + self.random.below(100);
        let (content, kind) = if self.random.below(2) == 0 {
            let at = self.now() + minutes as i64 * MINUTE;
            (
                format!("Remind me in {minutes} minutes to look at thing number {number}."),
                ConditionKind::Once(at),
            )
        } else {
            (
                format!("Remind me when parcel p{number} is delivered."),
                ConditionKind::Predicate(number),
            )
        };
        let tags = if trusted {
            Vec::new()
        } else {
            vec!["source:web".to_owned()]
        };
        let draft = Draft {
            content,
            tags,
            ..Draft::default()
        };
        let host = &self.hosts[host];
        let stored = host
            .engine
            .put(&host.caller, MEMORY, vec![draft], None)
            .await
            .unwrap();
        self.add(stored.entries[0].id.as_str().to_owned(), kind, trusted);
    }

    async fn make(&mut self) {
        let host = self.host();
        let number = self.ones.len();
        let minutes = 5 + self.random.below(90) as i64;
        let text = format!("Thing number {number} is looked at now and then.");
        let new = NewCommitment {
            text,
            every: Some(format!("PT{minutes}M")),
            ..NewCommitment::default()
        };
        let host = &self.hosts[host];
        let info = host
            .engine
            .create_commitment(&host.caller, MEMORY, new, None)
            .await
            .unwrap()
            .info;
        let kind = ConditionKind::Every(minutes * MINUTE, self.now());
        let one = self.add(info.source.unwrap().as_str().to_owned(), kind, true);
        (one.read, one.state, one.id) = (true, Some(CommitmentState::Armed), Some(info.id));
    }

    async fn pass(&mut self, name: &str) {
        let host = self.host();
        let now = self.now();
        let host = &self.hosts[host];
        host.engine
            .run_pass(
                registry::find(name).unwrap(),
                host.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap();
        self.ones.iter_mut().for_each(|one| {
            if name == "fire" {
                one.fire(now)
            } else {
                one.read(now)
            }
        });
        if name == "infer" {
            self.learn_names().await;
        }
    }

    async fn learn_names(&mut self) {
        let host = &self.hosts[0];
        let query = CommitmentQuery {
            limit: Some(0),
            ..CommitmentQuery::default()
        };
        for info in host
            .engine
            .list_commitments(&host.caller, &query)
            .await
            .unwrap()
            .commitments
        {
            let one = self.ones.iter_mut().find(|one| {
                Some(one.source.as_str()) == info.source.as_ref().map(|id| id.as_str())
            });
            one.unwrap().id = Some(info.id);
        }
    }

    async fn see(&mut self) {
        let host = self.host();
        let holds = self.random.below(2) == 0;
        let Some(at) = self.some() else { return };
        let ConditionKind::Predicate(number) = self.ones[at].kind else {
            return;
        };
        let host = &self.hosts[host];
        host.engine
            .observe(
                &host.caller,
                MEMORY,
                &format!("parcel p{number} delivered"),
                holds,
            )
            .await
            .unwrap();
        self.ones[at].see(holds);
    }

    async fn change(&mut self, story: &str) {
        let host = self.host();
        let now = self.now();
        let Some(at) = self.some() else { return };
        let change = match self.random.below(4) {
            0 => CommitmentChange::Cancel,
            1 => CommitmentChange::Confirm,
            _ => CommitmentChange::Snooze(Timestamp(
                now + 1 + self.random.below(180 * MINUTE as u64) as i64,
            )),
        };
        let Some(id) = self.ones[at].id.clone() else {
            return;
        };
        let host = &self.hosts[host];
        let done = host
            .engine
            .change_commitment(&host.caller, &id, change)
            .await;
        assert_eq!(
            self.ones[at].change(change, now),
            done.is_ok(),
            "{story}: {change:?} {done:?} {:?}",
            self.ones[at]
        );
    }

    async fn delete(&mut self) {
        let host = self.host();
        let Some(at) = self.some().filter(|at| !self.ones[*at].deleted) else {
            return;
        };
        let host = &self.hosts[host];
        host.engine
            .delete(&host.caller, MEMORY, &self.ones[at].source, None)
            .await
            .unwrap();
        (self.ones[at].deleted, self.ones[at].state) = (true, None);
    }

    async fn step(&mut self, story: &str) {
        match self.random.below(20) {
            0..=4 => self.write().await,
            5 => self.make().await,
            6..=8 => self.pass("infer").await,
            9..=11 => self.pass("fire").await,
            12..=13 => self.see().await,
            14..=16 => self.change(story).await,
            17 => self.delete().await,
            _ => {
                let clock = &self.hosts[0].env.clock;
                clock.set(
                    clock
                        .now()
                        .plus_ms(1 + self.random.below(110 * MINUTE as u64) as i64),
                );
            }
        }
    }

    /// Compares the log, the firing records and the states with the model.
    async fn check(&self, story: &str) {
        let host = &self.hosts[0];
        let store = &self.hosts[0].env.faults.inner();
        let (mut fired, mut recorded): (BTreeMap<String, usize>, BTreeMap<String, Vec<String>>) =
            Default::default();
        for event in store.events(host.tenant(), Seq(0), 100_000).await.unwrap() {
            if let EventBody::CommitmentFired(firing) = event.body {
                *fired.entry(firing.memory_id.unwrap()).or_default() += 1;
            }
        }
        for note in store
            .records(host.tenant(), RecordKind::Firing, "", None, 100_000)
            .await
            .unwrap()
        {
            let (id, instant) = note.key.split_once('/').unwrap();
            recorded
                .entry(id.to_owned())
                .or_default()
                .push(instant.to_owned());
        }
        for one in &self.ones {
            assert_eq!(
                fired.remove(&one.source).unwrap_or(0),
                one.fired.len(),
                "{story}: {one:?}"
            );
            let Some(id) = &one.id else { continue };
            let mut expected = one.fired.clone();
            expected.sort();
            assert_eq!(
                recorded.remove(id).unwrap_or_default(),
                expected,
                "{story}: {one:?}"
            );
            let found = host
                .engine
                .get_commitment(&host.caller, id)
                .await
                .ok()
                .map(|info| (info.commitment.state, info.commitment.next_at));
            let next_at = one.next_at.filter(|_| one.is_open());
            assert_eq!(
                found,
                one.state.map(|state| (state, next_at)),
                "{story}: {one:?}"
            );
        }
        assert!(
            fired.is_empty() && recorded.is_empty(),
            "{story}: nothing else fired"
        );
    }
}

#[tokio::test]
async fn simulated_days_fire_exactly_the_expected_commitments() {
    // Fewer cases, because each opens a database.
    let days = if is_postgres() {
        cases(3, 6)
    } else {
        cases(15, 60)
    };
    let days = u64::from(days);
    let mut fires = 0;
    let mut silent = 0;
    for seed in 0..days {
        let mut day = SimulatedDay::new(seed).await;
        for step in 0..STEPS {
            let story = format!("seed {seed}, step {step}");
            day.step(&story).await;
            if step % 5 == 4 {
                day.check(&story).await;
            }
        }
        fires += day.ones.iter().map(|one| one.fired.len()).sum::<usize>();
        silent += day.ones.iter().filter(|one| one.fired.is_empty()).count();
    }
    println!("{days} days: {fires} fires, {silent} promises that never fired");
    assert!(fires as u64 > days && silent as u64 > days);
}
