//! Changes of buckets' properties while clients work.

use crate::finish::answer;
use crate::ground::Ground;
use crate::history::KeyNumber;
use crate::names::Name;
use crate::policy::Policy;
use crate::random::Random;
use crate::replica_counts::ReplicaCounts;
use quoit_core::ReplicatedStore;
use quoit_model::props::PropUpdates;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Longest pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 4_000_000;
/// Pause between two tries, and between two looks whether all nodes know.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Numbers of replicas that operators set: one, the usual ones, and more than there are nodes.
const N_VALS: [u32; 7] = [1, 2, 3, 3, 4, 5, 16];

/// The least number of replicas where disks may rot, and where not: of a record that rots nothing else need
/// be left.
const fn least_n_val(rots: bool) -> u32 {
    if rots { 2 } else { 1 }
}

/// The numbers of replicas that a seed's buckets begin with.
#[must_use]
pub fn initial_replica_counts(seed: u64, rots: bool) -> ReplicaCounts {
    let mut random = Random::new(seed, "replica counts", 0);
    let mut n_val = || (*random.pick(&N_VALS)).max(least_n_val(rots));
    ReplicaCounts::new(Policy::ALL.map(|policy| (policy, n_val())).into())
}

/// The operator of a run's buckets.
pub struct BucketOperator {
    ground: Ground,
    random: Random,
    n_val_min: u32,
}

impl BucketOperator {
    /// The operator of a seed's buckets, on disks that may rot or not.
    #[must_use]
    pub fn new(seed: u64, ground: Ground, rots: bool) -> Self {
        let random = Random::new(seed, "bucket operator", 0);
        Self { ground, random, n_val_min: least_n_val(rots) }
    }

    /// Changes one bucket after the other `while_working`, each when every node knows the change before.
    pub async fn run(mut self, is_working: impl Fn() -> bool) {
        loop {
            let pause_us = self.random.below(PAUSE_US_MAX);
            sleep(Duration::from_micros(pause_us)).await;
            if !is_working() {
                return;
            }
            let policy = *self.random.pick(&Policy::ALL);
            let n_val = (*self.random.pick(&N_VALS)).max(self.n_val_min);
            self.change(policy, n_val).await;
        }
    }

    async fn change(&mut self, policy: Policy, n_val: u32) {
        self.note(&format!("{policy:?}: n_val = {n_val}"));
        let now_us = self.ground.time.now_us();
        self.ground.history.lock().replica_counts.begin(policy, n_val, now_us);
        let name = Name::of(KeyNumber(0), policy);
        let updates = json!({ "n_val": n_val });
        let updates = PropUpdates::from(updates.as_object().cloned().unwrap_or_default());
        loop {
            let machines = self.ground.in_service();
            let machine = Arc::clone(self.random.pick(&machines));
            let (name, updates) = (name.clone(), updates.clone());
            let set = |store: Arc<ReplicatedStore>| async move {
                store.control().set_bucket_props(name.key_ref().bucket, &updates).await
            };
            let Err(failure) = answer(machine.ask(set).await) else { break };
            self.note(&format!("at {} -> {failure}", machine.name));
            sleep(RETRY_PAUSE).await;
        }
        while !self.do_all_know(&name, n_val) {
            sleep(RETRY_PAUSE).await;
        }
        self.note(&format!("{policy:?}: all know n_val = {n_val}"));
        let now_us = self.ground.time.now_us();
        self.ground.history.lock().replica_counts.end(policy, now_us);
    }

    /// Whether all nodes in service run and know a number of replicas.
    fn do_all_know(&self, name: &Name, n_val: u32) -> bool {
        self.ground.in_service().iter().all(|machine| {
            let store = machine.store();
            store.is_some_and(|store| name.n_val(&store.control().read()) == n_val)
        })
    }

    fn note(&self, text: &str) {
        self.ground.trace.note("buckets", text);
    }
}
