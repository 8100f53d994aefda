//! An operator who changes the properties of buckets while clients work.
//!
//! It changes n_val and, at the same moment, an unrelated property of the same bucket. Either change has
//! to stay.

use crate::finish::answer;
use crate::history::KeyNumber;
use crate::names::RecordName;
use crate::policy::Policy;
use crate::random::Random;
use crate::replica_counts::ReplicaCounts;
use crate::run_context::RunContext;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::{ChangeError, ClusterId, State};
use quoit_core::ReplicatedStore;
use quoit_model::props::{BucketProps, PropUpdates};
use serde_json::Map;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Maximum pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 4_000_000;
/// Pause between two attempts, and between two checks whether all nodes know a change.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Values of n_val that the operator picks from: one, the usual ones, and more than there are nodes.
const N_VALS: [u32; 7] = [1, 2, 3, 3, 4, 5, 16];

/// The second property that is changed. It has no effect on these runs.
const OTHER_PROPERTY: &str = "big_vclock";

/// Returns the least n_val of a run. Where a disk may rot it is 2, because the only copy of a record
/// could be damaged.
const fn least_n_val(rots: bool) -> u32 {
    if rots { 2 } else { 1 }
}

/// Draws the values of n_val with which a seed's buckets begin.
#[must_use]
pub fn initial_replica_counts(seed: u64, rots: bool) -> ReplicaCounts {
    let mut random = Random::new(seed, "replica counts", 0);
    let mut n_val = || (*random.pick(&N_VALS)).max(least_n_val(rots));
    ReplicaCounts::new(Policy::TYPED.map(|policy| (policy, n_val())).into())
}

/// A change of one property of a bucket.
struct PropChange {
    name: RecordName,
    updates: PropUpdates,
    wanted: u32,
    property: fn(&BucketProps) -> u32,
}

impl PropChange {
    fn new(name: &RecordName, property: &str, wanted: u32, of: fn(&BucketProps) -> u32) -> Self {
        let updates = Map::from_iter([(property.to_owned(), wanted.into())]);
        Self { name: name.clone(), updates: updates.into(), wanted, property: of }
    }

    fn is_shown_by(&self, state: &State) -> bool {
        let props = state.bucket_props(self.name.key_ref().bucket);
        props.is_ok_and(|props| (self.property)(props) == self.wanted)
    }
}

/// State of the control plane at the node that has acknowledged a change.
struct Acknowledged {
    cluster: ClusterId,
    version: u64,
}

/// The operator of the buckets of a run.
pub struct BucketOperator {
    run_context: RunContext,
    random: Random,
    n_val_min: u32,
}

impl BucketOperator {
    /// Creates the operator of a seed's buckets. `rots` says whether a disk may rot.
    #[must_use]
    pub fn new(seed: u64, run_context: RunContext, rots: bool) -> Self {
        let random = Random::new(seed, "bucket operator", 0);
        Self { run_context, random, n_val_min: least_n_val(rots) }
    }

    /// Changes one bucket after the other for as long as `is_working` returns true. Each change begins
    /// when all nodes know the one before.
    pub async fn run(mut self, is_working: impl Fn() -> bool) {
        loop {
            let pause_us = self.random.below(PAUSE_US_MAX);
            sleep(Duration::from_micros(pause_us)).await;
            if !is_working() {
                return;
            }
            let policy = *self.random.pick(&Policy::TYPED);
            let n_val = (*self.random.pick(&N_VALS)).max(self.n_val_min);
            self.change(policy, n_val).await;
        }
    }

    /// Changes n_val and another property of the same bucket at the same time, and waits until all nodes
    /// show both. Each of the two changes has to stay.
    async fn change(&mut self, policy: Policy, n_val: u32) {
        let other = self.random.within_narrow(1_u32..1_000);
        self.note(&format!("{policy:?}: n_val = {n_val}, {OTHER_PROPERTY} = {other}"));
        let now_us = self.run_context.time.now_us();
        self.run_context.history.lock().replica_counts.begin(policy, n_val, now_us);
        let name = RecordName::of(KeyNumber(0), policy);
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
        let now_us = self.run_context.time.now_us();
        self.run_context.history.lock().replica_counts.end(policy, now_us);
    }

    /// Sends a change to one node after the other until one acknowledges it.
    async fn set(&self, change: &PropChange, mut random: Random) -> Acknowledged {
        loop {
            let machines = self.run_context.in_service();
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

    /// True if all nodes in service run and show the change.
    fn do_all_show(&self, change: &PropChange) -> bool {
        self.run_context.in_service().iter().all(|machine| {
            machine.store().is_some_and(|store| change.is_shown_by(&store.control().read()))
        })
    }

    /// Checks that the change is shown by each node whose state is that of the acknowledgement or a later
    /// one. A violation goes into the history.
    fn check_kept(&self, change: &PropChange, acknowledged: &Acknowledged) {
        for machine in self.run_context.in_service() {
            let Some(store) = machine.store() else { continue };
            let state = store.control().read();
            let is_later = state.cluster_id() == acknowledged.cluster
                && state.version() >= acknowledged.version;
            if is_later && !change.is_shown_by(&state) {
                let text = format!("{} does not show {:?} any more", machine.name, change.updates);
                let broken = Violation::new(ViolationKind::Undone, text);
                self.run_context.history.lock().broken_promises.push(broken);
            }
        }
    }

    fn note(&self, text: &str) {
        self.run_context.trace.note("buckets", text);
    }
}
