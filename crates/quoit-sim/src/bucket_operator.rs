//! Changes of buckets' properties while clients work.

use crate::finish::answer;
use crate::ground::Ground;
use crate::history::KeyNumber;
use crate::names::Name;
use crate::policy::Policy;
use crate::random::Random;
use crate::replica_counts::ReplicaCounts;
use crate::violation::{Fault, Violation};
use quoit_cluster::{ChangeError, ClusterId, State};
use quoit_core::ReplicatedStore;
use quoit_model::props::{BucketProps, PropUpdates};
use serde_json::Map;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Longest pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 4_000_000;
/// Pause between two tries, and between two looks whether all nodes know.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Numbers of replicas that operators set: one, the usual ones, and more than there are nodes.
const N_VALS: [u32; 7] = [1, 2, 3, 3, 4, 5, 16];

/// A property that changes nothing.
const OTHER_PROPERTY: &str = "big_vclock";

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

/// A change of one property of a bucket.
struct PropChange {
    name: Name,
    updates: PropUpdates,
    wanted: u32,
    property: fn(&BucketProps) -> u32,
}

impl PropChange {
    fn new(name: &Name, property: &str, wanted: u32, of: fn(&BucketProps) -> u32) -> Self {
        let updates = Map::from_iter([(property.to_owned(), wanted.into())]);
        Self { name: name.clone(), updates: updates.into(), wanted, property: of }
    }

    fn is_shown_by(&self, state: &State) -> bool {
        let props = state.bucket_props(self.name.key_ref().bucket);
        props.is_ok_and(|props| (self.property)(props) == self.wanted)
    }
}

/// The state of a node that has acknowledged a change.
struct Acknowledged {
    cluster: ClusterId,
    version: u64,
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

    /// Changes the number of replicas, and meanwhile another property, which changes nothing else: of two
    /// changes of one bucket at the same time each has to stay.
    async fn change(&mut self, policy: Policy, n_val: u32) {
        let other = self.random.within(1..1_000) as u32;
        self.note(&format!("{policy:?}: n_val = {n_val}, {OTHER_PROPERTY} = {other}"));
        let now_us = self.ground.time.now_us();
        self.ground.history.lock().replica_counts.begin(policy, n_val, now_us);
        let name = Name::of(KeyNumber(0), policy);
        let seeds = [self.random.number(), self.random.number()];
        let changes = [
            PropChange::new(&name, "n_val", n_val, |props| props.n_val),
            PropChange::new(&name, OTHER_PROPERTY, other, |props| props.big_vclock),
        ];
        let [first, second] = &changes;
        let acknowledged: [Acknowledged; 2] = tokio::join!(
            self.set(first, Random::new(seeds[0], "bucket operator", 1)),
            self.set(second, Random::new(seeds[1], "bucket operator", 2)),
        )
        .into();
        while !changes.iter().all(|change| self.do_all_show(change)) {
            for (change, acknowledged) in changes.iter().zip(&acknowledged) {
                self.check_kept(change, acknowledged);
            }
            sleep(RETRY_PAUSE).await;
        }
        self.note(&format!("{policy:?}: all know n_val = {n_val}"));
        let now_us = self.ground.time.now_us();
        self.ground.history.lock().replica_counts.end(policy, now_us);
    }

    /// Asks one node after the other for a change, until one acknowledges it.
    async fn set(&self, change: &PropChange, mut random: Random) -> Acknowledged {
        loop {
            let machines = self.ground.in_service();
            let machine = Arc::clone(random.pick(&machines));
            let (name, updates) = (change.name.clone(), change.updates.clone());
            let set = |store: Arc<ReplicatedStore>| async move {
                let control = store.control();
                control.set_bucket_props(name.key_ref().bucket, &updates).await?;
                let state = control.read();
                let (cluster, version) = (state.cluster_id(), state.version());
                Ok::<_, ChangeError>(Acknowledged { cluster, version })
            };
            match answer(machine.ask(set).await) {
                Ok(acknowledged) => return acknowledged,
                Err(failure) => self.note(&format!("at {} -> {failure}", machine.name)),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Whether all nodes in service run and show a change.
    fn do_all_show(&self, change: &PropChange) -> bool {
        self.ground.in_service().iter().all(|machine| {
            machine.store().is_some_and(|store| change.is_shown_by(&store.control().read()))
        })
    }

    /// Checks that each node shows an acknowledged change whose state is that of the acknowledgement or a
    /// later one.
    fn check_kept(&self, change: &PropChange, acknowledged: &Acknowledged) {
        for machine in self.ground.in_service() {
            let Some(store) = machine.store() else { continue };
            let state = store.control().read();
            let is_later = state.cluster_id() == acknowledged.cluster
                && state.version() >= acknowledged.version;
            if is_later && !change.is_shown_by(&state) {
                let text = format!("{} does not show {:?} any more", machine.name, change.updates);
                let broken = Violation::new(Fault::Undone, text);
                self.ground.history.lock().broken_promises.push(broken);
            }
        }
    }

    fn note(&self, text: &str) {
        self.ground.trace.note("buckets", text);
    }
}
