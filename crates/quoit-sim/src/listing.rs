//! Listings during a run, while members come and go.
//!
//! A listing need not show every record of the cluster: one replica lists each partition, and it may have
//! missed a write that a majority has. So the stores of all nodes that may be asked are read before and
//! after the listing. The listing has to show each record that all these nodes hold at both times.

use crate::contents::Contents;
use crate::history::{Entry, KeyNumber, Listing, ListingResult};
use crate::machine::{Machine, RequestOutcome};
use crate::names::RecordName;
use crate::policy::Policy;
use crate::requests;
use crate::run_context::RunContext;
use quoit_core::{ReplicatedStore, RequestError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time for which a client waits for a listing.
const PATIENCE: Duration = Duration::from_secs(8);

/// Records that a listing which begins or ends now has to show.
struct ListedRecords {
    /// Machines whose nodes may be asked for a key, with the number of their last start.
    asked: BTreeMap<KeyNumber, BTreeSet<(usize, u64)>>,
    /// Keys of which all these nodes, if they run, hold a value.
    held: BTreeSet<KeyNumber>,
    /// Index entries that all these nodes, if they run, hold.
    entries: BTreeSet<Entry>,
}

impl RunContext {
    /// Lists a policy's keys and buckets at a machine's node, queries its index, and records the results.
    /// Returns a description for the trace.
    pub async fn list(&self, machine: &Machine, policy: Policy) -> String {
        let keys = move |store| async move {
            requests::list_keys(store, policy).await.map(ListingResult::Keys)
        };
        let buckets = move |store| async move {
            requests::list_buckets(store, policy).await.map(ListingResult::Buckets)
        };
        let of_keys = self.list_once(machine, policy, keys).await;
        let entries = move |sorted| {
            move |store| async move {
                requests::list_entries(store, policy, sorted).await.map(ListingResult::Entries)
            }
        };
        let of_buckets = self.list_once(machine, policy, buckets).await;
        let of_entries = self.list_once(machine, policy, entries(false)).await;
        let in_order = self.list_once(machine, policy, entries(true)).await;
        format!("{of_keys}, {of_buckets}, {of_entries}, {in_order}")
    }

    async fn list_once<A, F>(&self, machine: &Machine, policy: Policy, ask: A) -> String
    where
        A: FnOnce(Arc<ReplicatedStore>) -> F + Send + 'static,
        F: Future<Output = Result<ListingResult, RequestError>> + Send + 'static,
    {
        let (before, start_us) = (self.listed_records(machine, policy), self.time.now_us());
        let listed = match timeout(PATIENCE, machine.ask(ask)).await {
            Ok(RequestOutcome::Answer(Ok(listed))) => listed,
            Ok(RequestOutcome::Answer(Err(fault))) => return fault.to_string(),
            Ok(RequestOutcome::NoNode | RequestOutcome::Lost) => return "nobody there".to_owned(),
            Err(_) => return "no answer".to_owned(),
        };
        let text = match &listed {
            ListingResult::Keys(keys) => format!("{} keys", keys.len()),
            ListingResult::Buckets(buckets) => format!("{} buckets", buckets.len()),
            ListingResult::Entries(entries) => format!("{} entries", entries.len()),
        };
        let (keys_throughout, entries_throughout) =
            match (before, self.listed_records(machine, policy)) {
                (Some(before), Some(after)) => there_throughout(&before, &after),
                _ => Default::default(),
            };
        let (end_us, node) = (self.time.now_us(), machine.name.clone());
        let listing =
            Listing { policy, node, start_us, end_us, listed, keys_throughout, entries_throughout };
        self.history.lock().listings.push(listing);
        text
    }

    /// Returns what a listing at a node has to show now; `None` if the node does not run.
    fn listed_records(&self, machine: &Machine, policy: Policy) -> Option<ListedRecords> {
        let store = machine.store()?;
        let keys = self.keys_of(policy);
        let asked: BTreeMap<_, _> =
            keys.into_iter().map(|key| (key, self.asked_for(&store, key, policy))).collect();
        let contents: BTreeMap<usize, Contents> = self
            .machines
            .iter()
            .filter_map(|machine| {
                let contents = Contents::of(&*machine.running_store()?);
                // A store that can't be read counts as empty.
                Some((machine.index, contents.unwrap_or_default()))
            })
            .collect();
        let is_held = |key: &KeyNumber| {
            let running = asked[key].iter().filter_map(|(place, _)| contents.get(place));
            let mut objects = running.map(|contents| contents.objects.get(key));
            objects.all(|object| object.is_some_and(|object| !object.is_tombstone()))
        };
        let held = asked.keys().copied().filter(is_held).collect();
        let entries_of = |key: &KeyNumber| {
            let running = asked[key].iter().filter_map(|(place, _)| contents.get(place));
            let entries = running.map(|contents| -> BTreeSet<Entry> {
                let object = contents.objects.get(key).into_iter();
                object.flat_map(|object| requests::entries_of(*key, object)).collect()
            });
            entries.reduce(|one, other| &one & &other).unwrap_or_default()
        };
        let entries = asked.keys().flat_map(entries_of).collect();
        Some(ListedRecords { asked, held, entries })
    }

    fn keys_of(&self, policy: Policy) -> Vec<KeyNumber> {
        let history = self.history.lock();
        let numbered = (0_u32..).map(KeyNumber).zip(&history.keys);
        numbered.filter(|(_, of)| **of == policy).map(|(key, _)| key).collect()
    }

    /// Returns the machines that a node may ask for a key, by the layouts that the node knows.
    fn asked_for(
        &self,
        store: &ReplicatedStore,
        key: KeyNumber,
        policy: Policy,
    ) -> BTreeSet<(usize, u64)> {
        let name = RecordName::of(key, policy);
        let state = store.control().read();
        let ring_size = state.ring_size();
        let layout = state.layouts().for_reads(name.partition(ring_size));
        // While n_val changes, nodes use either value.
        let n_vals = self.history.lock().replica_counts.in_force(policy, self.time.now_us());
        let n_val = n_vals.into_iter().chain([name.n_val(&state)]).max().unwrap_or_default();
        let ids = name.primaries(layout, ring_size, n_val);
        let machines = self.machines.iter();
        machines
            .filter(|machine| ids.contains(&Machine::node_id_at(machine.index)))
            .map(|machine| (machine.index, machine.boot_count()))
            .collect()
    }
}

/// Returns the keys and entries that were held from the first observation to the second. If a node that may
/// be asked for a key has started in between, the key is left out: the node may have been asked before it
/// got the record.
fn there_throughout(
    before: &ListedRecords,
    after: &ListedRecords,
) -> (BTreeSet<KeyNumber>, BTreeSet<Entry>) {
    let ran_throughout = |key: &KeyNumber| {
        let boots: BTreeMap<usize, u64> = before.asked[key].iter().copied().collect();
        after.asked[key]
            .iter()
            .all(|(place, boot)| boots.get(place).is_none_or(|boot_before| boot_before == boot))
    };
    let keys = before.held.intersection(&after.held).copied();
    let entries = before.entries.intersection(&after.entries).copied();
    (
        keys.filter(ran_throughout).collect(),
        entries.filter(|(_, key)| ran_throughout(key)).collect(),
    )
}
