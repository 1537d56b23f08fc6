//! The state that the parts of one node's store share: the gate, the tenants in use, the
//! announcements of commits.

use super::gate::Gate;
use super::group::Commits;
use super::health::HealthReport;
use remem_core::{Revision, TenantId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};

/// The most tenants to remember at once; beyond that, those without waiters are dropped.
const TENANTS_MAX: usize = 4_096;

/// The shared state of a node.
pub(super) struct NodeState {
    pub gate: Gate,
    tenants: Mutex<HashMap<TenantId, Arc<TenantHandle>>>,
    /// Increased to wake the passes when there may be new work for them.
    pub wake: watch::Sender<u64>,
    /// Commits to announce to other nodes, and whether passes may have work because of them.
    outbox: Mutex<HashMap<TenantId, (Revision, bool)>>,
    pub outbox_filled: Notify,
    /// The milliseconds by which the database's clock is ahead of this machine's.
    pub clock_ahead_ms: AtomicI64,
    /// Increased when tenants or keys may have changed, or notifications may have been missed.
    pub directory_version: AtomicU64,
}

/// The queue and the newest known revision of one tenant on this node.
#[derive(Default)]
pub(super) struct TenantHandle {
    pub commits: Commits,
    revision: watch::Sender<Revision>,
}

impl TenantHandle {
    /// Wakes those that wait for this revision, unless a newer one is known.
    pub fn publish(&self, revision: Revision) {
        self.revision
            .send_if_modified(|known| std::mem::replace(known, revision.max(*known)) < revision);
    }

    pub fn watch(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }
}

impl NodeState {
    pub fn new(gate: Gate) -> NodeState {
        NodeState {
            gate,
            tenants: Mutex::default(),
            wake: watch::Sender::default(),
            outbox: Mutex::default(),
            outbox_filled: Notify::new(),
            clock_ahead_ms: AtomicI64::new(0),
            directory_version: AtomicU64::new(0),
        }
    }

    /// The monitor's report about the database.
    pub fn health(&self) -> &HealthReport {
        &self.gate.connections.health
    }

    /// The tenant's handle, created if it is not known.
    pub fn tenant(&self, id: &TenantId) -> Arc<TenantHandle> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants.get(id) {
            return tenant.clone();
        }
        if tenants.len() >= TENANTS_MAX {
            tenants.retain(|_, t| {
                Arc::strong_count(t) > 1 || t.revision.receiver_count() > 0 || !t.commits.is_idle()
            });
        }
        tenants.entry(id.clone()).or_default().clone()
    }

    /// Announces a commit of this node: on this node at once, and to others as soon as the monitor
    /// sends the outbox.
    pub fn announce_commit(&self, id: &TenantId, revision: Revision, due: bool) {
        self.tenant(id).publish(revision);
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        let announced = outbox.entry(id.clone()).or_default();
        *announced = (announced.0.max(revision), announced.1 || due);
        drop(outbox);
        self.outbox_filled.notify_one();
    }

    /// Takes note of a commit of another node.
    pub fn receive_commit(&self, id: &TenantId, revision: Revision, due: bool) {
        let tenant = self
            .tenants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned();
        if let Some(tenant) = tenant {
            tenant.publish(revision);
        }
        if due {
            self.wake.send_modify(|count| *count += 1);
        }
    }

    /// Empties the outbox into payloads that fit a notification: lines of tenant, revision and a
    /// mark.
    pub fn take_outbox(&self) -> Vec<String> {
        let outbox =
            std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        let mut payloads = vec![String::new()];
        for (tenant, (revision, due)) in outbox {
            let line = format!(
                "{tenant} {} {}\n",
                revision.0,
                if due { "due" } else { "-" }
            );
            if payloads
                .last()
                .is_some_and(|p| p.len() + line.len() > PAYLOAD_BYTES_MAX)
            {
                payloads.push(String::new());
            }
            payloads.last_mut().expect("there is one").push_str(&line);
        }
        payloads.retain(|payload| !payload.is_empty());
        payloads
    }

    /// Reads a payload; malformed lines are skipped, since every client that can connect can
    /// notify.
    pub fn read_payload(&self, payload: &str) {
        for line in payload.lines() {
            let mut words = line.split(' ');
            let tenant = words.next().and_then(TenantId::parse);
            let revision = words.next().and_then(|r| r.parse().ok());
            if let (Some(tenant), Some(revision)) = (tenant, revision) {
                self.receive_commit(&tenant, Revision(revision), words.next() == Some("due"));
            }
        }
    }
}

/// PostgreSQL's own limit is 8,000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7_000;
