//! A client that relies on a change of a bucket's properties as soon as a node has confirmed it.
//!
//! It writes a value to a bucket that shows one value, has a node change the bucket such that siblings
//! stay, and writes another value through the same node, without a context. Both values have to be there:
//! whichever node coordinates the second write first learns what the asked node knows.
//!
//! A node that coordinates a write waits for that for a second, and not at all while it is cut off. So the
//! promise counts only if each node shows the change within a second and is not cut off until then.

use crate::finish::answer;
use crate::history::FaultRecord;
use crate::machine::{Machine, RequestOutcome};
use crate::names::{partition_of, primaries_of};
use crate::random::Random;
use crate::requests::Quorums;
use crate::run_context::{RunContext, answer_within_patience};
use crate::violation::{Violation, ViolationKind};
use bytes::Bytes;
use quoit_core::{PutRequest, ReplicatedStore};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::props::PropUpdates;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Bucket type of the buckets that change.
const BUCKET_TYPE: &[u8] = b"changing";
/// Maximum pause between two changes, in microseconds.
const PAUSE_US_MAX: u64 = 800_000;
/// Time within which all nodes have to show a change.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);
/// Interval at which the client checks whether a node knows a change.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Timeout of a request, in milliseconds.
const TIMEOUT_MS: u32 = 2_000;
/// Number of keys among which the client looks for one that the asked node does not hold.
const KEY_COUNT: u64 = 20;
/// Values before and after the change.
const VALUES: [&[u8]; 2] = [b"before", b"after"];

/// Name of a record whose bucket changes.
#[derive(Clone)]
struct ChangingName {
    bucket: String,
    key: String,
}

impl ChangingName {
    fn key_ref(&self) -> KeyRef<'_> {
        BucketRef { bucket_type: BUCKET_TYPE, bucket: self.bucket.as_bytes() }
            .key(self.key.as_bytes())
    }

    /// True if a node knows that siblings stay in the bucket.
    fn keeps_siblings(&self, store: &ReplicatedStore) -> bool {
        let state = store.control().read();
        let props = state.bucket_props(self.key_ref().bucket);
        props.is_ok_and(|props| props.allow_mult)
    }

    /// True if a node is a primary of the record by the layout that it reads by.
    fn is_held_by(&self, store: &ReplicatedStore) -> bool {
        let state = store.control().read();
        let partition = partition_of(self.key_ref(), state.ring_size());
        let layout = state.layouts().for_reads(partition);
        primaries_of(partition, layout, 1).contains(&state.node_id())
    }
}

/// The client.
pub(crate) struct PropertyClient {
    run_context: RunContext,
    random: Random,
}

impl PropertyClient {
    /// Creates the client of a seed's run.
    pub(crate) fn new(seed: u64, run_context: RunContext) -> Self {
        Self { run_context, random: Random::new(seed, "property client", 0) }
    }

    /// Changes one bucket after the other for as long as `is_working` returns true.
    pub(crate) async fn run(mut self, is_working: impl Fn() -> bool) {
        while is_working() && !self.create_type().await {
            self.pause().await;
        }
        for number in 0.. {
            self.pause().await;
            if !is_working() {
                return;
            }
            let machines = self.run_context.in_service();
            let machine = Arc::clone(self.random.pick(&machines));
            let found = self.change(&machine, number).await;
            self.note(&machine, &format!("change {number} -> {found:?}"));
            if is_broken(found.as_deref()) {
                self.report(&machine, number);
            }
        }
    }

    async fn pause(&mut self) {
        let pause_us = self.random.below(PAUSE_US_MAX);
        sleep(Duration::from_micros(pause_us)).await;
    }

    /// Creates the bucket type. Its n_val is 1, so that most nodes have to forward a write.
    async fn create_type(&mut self) -> bool {
        let machines = self.run_context.in_service();
        let create = |store: Arc<ReplicatedStore>| async move {
            let props = json!({ "allow_mult": false, "n_val": 1 });
            let props: PropUpdates = props.as_object().cloned().unwrap_or_default().into();
            store.control().create_type(BUCKET_TYPE, &props).await?;
            store.control().activate_type(BUCKET_TYPE).await
        };
        answer(self.random.pick(&machines).ask(create).await).is_ok()
    }

    /// Writes both values, and changes the bucket in between. Returns the values that are found then;
    /// `None` if the promise does not count or a request fails.
    async fn change(&self, machine: &Arc<Machine>, number: u64) -> Option<Vec<Bytes>> {
        let name = foreign_name(machine, number).await?;
        self.put(machine, &name, VALUES[0]).await?;
        let changed = name.clone();
        let set = |store: Arc<ReplicatedStore>| async move {
            let props = json!({ "allow_mult": true });
            let props: PropUpdates = props.as_object().cloned().unwrap_or_default().into();
            store.control().set_bucket_props(changed.key_ref().bucket, &props).await
        };
        answer(machine.ask(set).await).ok()?;
        let watches: Vec<_> = self
            .run_context
            .in_service()
            .into_iter()
            .map(|each| watch(each, name.clone()))
            .collect();
        self.put(machine, &name, VALUES[1]).await?;
        for watch in watches {
            if !watch.await.unwrap_or(false) {
                return None;
            }
        }
        let read = name.clone();
        let quorums = Quorums::strict(TIMEOUT_MS);
        let get = move |store: Arc<ReplicatedStore>| async move {
            store.get(read.key_ref(), &quorums.read()).await
        };
        let found = answer_within_patience(quorums, machine.ask(get)).await.ok()?;
        if !are_disks_whole(&self.run_context.history.lock().hardships) {
            return None;
        }
        let siblings = found.into_iter().flat_map(|object| object.siblings);
        Some(siblings.map(|sibling| sibling.value).collect())
    }

    /// Puts a value without a context. Returns `None` if the put was not acknowledged.
    async fn put(
        &self,
        machine: &Machine,
        name: &ChangingName,
        value: &'static [u8],
    ) -> Option<()> {
        let (name, quorums) = (name.clone(), Quorums::strict(TIMEOUT_MS));
        let put = move |store: Arc<ReplicatedStore>| async move {
            let put = PutRequest::of(name.key_ref(), Bytes::from_static(value));
            store.put(PutRequest { options: quorums.write(), ..put }).await
        };
        answer_within_patience(quorums, machine.ask(put)).await.ok().map(|_| ())
    }

    fn report(&self, machine: &Machine, number: u64) {
        let text = format!(
            "{} had confirmed that siblings stay in bucket {number}, and a write through it replaced a \
             value that its client had not seen",
            machine.name
        );
        let broken = Violation::new(ViolationKind::Lost, text);
        self.run_context.history.lock().broken_promises.push(broken);
    }

    fn note(&self, machine: &Machine, text: &str) {
        self.run_context.trace.note("properties", &format!("{}: {text}", machine.name));
    }
}

/// True if the values that are found after a change break the promise: one of the two is missing. `found` is
/// `None` if the promise does not count, as after a write that was not acknowledged.
fn is_broken(found: Option<&[Bytes]>) -> bool {
    let lacks = |found: &[Bytes], value: &[u8]| found.iter().all(|each| *each != *value);
    found.is_some_and(|found| VALUES.iter().any(|value| lacks(found, value)))
}

/// True if no disk has lost data. Otherwise the lost disk may have had the only copy.
fn are_disks_whole(hardships: &FaultRecord) -> bool {
    !hardships.is_disk_damaged
        && hardships.losses_us.is_empty()
        && hardships.files_lost_us.is_empty()
}

/// Returns a name in a new bucket of which a machine's node is not a primary; `None` if there is none, or if
/// the node does not answer.
async fn foreign_name(machine: &Machine, number: u64) -> Option<ChangingName> {
    let look = move |store: Arc<ReplicatedStore>| async move {
        let name = |key| ChangingName { bucket: format!("b{number}"), key: format!("c{key}") };
        (0..KEY_COUNT).map(name).find(|name| !name.is_held_by(&store))
    };
    match machine.ask(look).await {
        RequestOutcome::Answer(name) => name,
        RequestOutcome::Lost | RequestOutcome::NoNode => None,
    }
}

/// Watches a node from now on. The outcome is true if the node shows the change in time and is not cut off
/// until then.
fn watch(machine: Arc<Machine>, name: ChangingName) -> JoinHandle<bool> {
    tokio::spawn(async move {
        let look = move |store: Arc<ReplicatedStore>| async move {
            let until = Instant::now() + KNOWN_WITHIN;
            while !name.keeps_siblings(&store) {
                if Instant::now() >= until || store.control().is_cut_off() {
                    return false;
                }
                sleep(LOOK_PAUSE).await;
            }
            true
        };
        matches!(timeout(KNOWN_WITHIN, machine.ask(look)).await, Ok(RequestOutcome::Answer(true)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_breaks_the_promise_and_further_ones_do_not() {
        let values = |all: &[&'static [u8]]| -> Vec<Bytes> {
            all.iter().copied().map(Bytes::from_static).collect()
        };
        let [before, after] = VALUES;
        for lacking in [values(&[]), values(&[before]), values(&[after])] {
            assert!(is_broken(Some(&lacking)), "{lacking:?}");
        }
        assert!(!is_broken(Some(&values(&[after, before]))));
        assert!(!is_broken(Some(&values(&[before, b"another", after]))));
    }

    #[test]
    fn values_of_writes_without_acknowledgement_may_be_missing() {
        assert!(!is_broken(None));
    }

    #[test]
    fn a_value_may_be_missing_after_each_kind_of_loss_of_a_disk() {
        assert!(are_disks_whole(&FaultRecord::default()));
        let losses = [
            FaultRecord { is_disk_damaged: true, ..FaultRecord::default() },
            FaultRecord { losses_us: vec![1], ..FaultRecord::default() },
            FaultRecord { files_lost_us: vec![1], ..FaultRecord::default() },
        ];
        assert!(losses.iter().all(|hardships| !are_disks_whole(hardships)));
        let off = FaultRecord { power_losses_us: vec![1], ..FaultRecord::default() };
        assert!(are_disks_whole(&off), "acknowledged values were synced");
    }
}
