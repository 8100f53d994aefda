//! The end of a run: reads everything back, and checks the stores of all nodes.

use crate::contents::{Contents, merged};
use crate::final_listings::{ListedCopy, check_listings, rotten_copies};
use crate::history::{Entry, FoundValue, KeyNumber, Reader};
use crate::machine::{Machine, RequestOutcome};
use crate::names::RecordName;
use crate::policy::Policy;
use crate::requests::{self, Quorums};
use crate::run_context::RunContext;
use crate::value::{Events, found_in_object};
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_core::ReplicatedStore;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Time within which a request has to succeed when there are no faults.
const RECOVERY: Duration = Duration::from_secs(30);
/// Time that read repairs get to end.
const REPAIR_PAUSE: Duration = Duration::from_secs(2);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Reads every key at every node, compares listings and index queries with the reads, and compares the
/// contents of all nodes.
///
/// # Errors
///
/// When a request still fails after 30 s, a listing or query differs from the reads, or replicas differ.
pub async fn read_back(run_context: &RunContext) -> Result<(), Violation> {
    for machine in &run_context.in_service() {
        let found = read_all(run_context, machine).await?;
        check_listings(run_context, machine, &found).await?;
        check_entries(run_context, machine, &found).await?;
    }
    tokio::time::sleep(REPAIR_PAUSE).await;
    let contents = look_inside(run_context)?;
    for key in keys(run_context) {
        let object = merged(&contents, key, run_context.policy(key));
        run_context.note_read(key, Reader::Union, run_context.time.now_us(), object.as_ref());
    }
    if run_context.history.lock().hardships.is_disk_damaged {
        return Ok(());
    }
    keys(run_context).try_for_each(|key| check_replicas(run_context, key, &contents))
}

pub(crate) fn keys(run_context: &RunContext) -> impl Iterator<Item = KeyNumber> + use<> {
    run_context.history.lock().key_numbers()
}

/// Returns the policies of the run's keys.
pub(crate) fn policies(run_context: &RunContext) -> BTreeSet<Policy> {
    run_context.history.lock().keys.iter().copied().collect()
}

/// Reads every key at a node, from all primaries.
async fn read_all(
    run_context: &RunContext,
    machine: &Machine,
) -> Result<BTreeMap<KeyNumber, Vec<FoundValue>>, Violation> {
    let mut all = BTreeMap::new();
    for key in keys(run_context) {
        let mut attempt_count = 0;
        let read = || {
            attempt_count += 1;
            // A damaged copy answers with an error until a client writes the key again.
            let is_damaged = run_context.history.lock().hardships.is_disk_damaged;
            let majority = Quorums::strict(2_000);
            let quorums = match attempt_count {
                6..=10 if is_damaged => majority,
                // With two replicas, a majority is both of them.
                11.. if is_damaged => Quorums { copies: Quorum::One, ..majority },
                _ => Quorums::all(2_000),
            };
            run_context.read(machine, key, Reader::Final, quorums)
        };
        let what = format!("read k{} at {}", key.0, machine.name);
        let (number, _) = retry_until_success(run_context, &what, read).await?;
        all.insert(key, run_context.history.lock().reads[number.0 as usize].found.clone());
    }
    Ok(all)
}

/// Compares the index queries of a node with its reads and with the contents of all nodes.
async fn check_entries(
    run_context: &RunContext,
    machine: &Machine,
    found: &BTreeMap<KeyNumber, Vec<FoundValue>>,
) -> Result<(), Violation> {
    let contents = contents_of_all(run_context)?;
    let makes_entry = |write| run_context.history.lock().makes_entry(write);
    for policy in policies(run_context) {
        let list = || async {
            let list = move |store| requests::list_entries(store, policy, true);
            answer(machine.ask(list).await)
        };
        let listed = retry_until_success(run_context, &format!("query {policy:?}"), list).await?;
        let of_policy = found.iter().filter(|(key, _)| run_context.policy(**key) == policy);
        let is_complete = of_policy.clone().all(|(key, found)| {
            found.iter().all(|each| match each {
                FoundValue::Value(write) if makes_entry(*write) => listed.contains(&(*write, *key)),
                _ => true,
            })
        });
        let is_held = |entry: &Entry| {
            let key = entry.1;
            let objects = contents.iter().filter_map(|contents| contents.objects.get(&key));
            let mut entries = objects.flat_map(|object| requests::entries_of(key, object));
            // The value of a damaged record is not known, but its index entries are still found.
            let is_unreadable =
                || rotten_copies(run_context, machine, key).contains(&ListedCopy::Damaged);
            entries.any(|held| held == *entry) || is_unreadable()
        };
        let is_true = listed.iter().all(is_held);
        if !(is_complete && is_true && listed.is_sorted()) {
            let there: Vec<_> = of_policy.collect();
            let text = format!(
                "{} finds {listed:?} of {policy:?}, and reads found {there:?}",
                machine.name
            );
            return Err(Violation::new(ViolationKind::WrongListing, text));
        }
    }
    Ok(())
}

/// Returns the contents of all nodes, and adds their digests to the story.
fn look_inside(run_context: &RunContext) -> Result<Vec<Contents>, Violation> {
    let all = contents_of_all(run_context)?;
    for (machine, contents) in run_context.in_service().iter().zip(&all) {
        let (count, digest) = (contents.objects.len(), contents.digest);
        run_context
            .trace
            .note(&machine.name, &format!("holds {count} records, digest {digest:016x}"));
    }
    Ok(all)
}

/// Returns the contents of all nodes in service.
///
/// # Errors
///
/// When a node is down, or its engine can't be read.
pub(crate) fn contents_of_all(run_context: &RunContext) -> Result<Vec<Contents>, Violation> {
    let look = |machine: &Arc<Machine>| {
        let broken = |text: String| Violation::new(ViolationKind::Broken, text);
        let store = machine.store().ok_or_else(|| broken(format!("{} is down", machine.name)))?;
        Contents::of(&store)
            .map_err(|error| broken(format!("{} can't be read: {error}", machine.name)))
    };
    run_context.in_service().iter().map(look).collect()
}

/// Compares the copies of a key on its primaries.
pub(crate) fn check_replicas(
    run_context: &RunContext,
    key: KeyNumber,
    contents: &[Contents],
) -> Result<(), Violation> {
    let name = RecordName::of(key, run_context.policy(key));
    let machines = run_context.in_service();
    let store = machines.iter().find_map(|machine| machine.store());
    let primaries = store.map(|store| primaries(&store, &name)).unwrap_or_default();
    let held = machines.iter().zip(contents).filter_map(|(machine, contents)| {
        let is_primary = primaries.contains(&Machine::node_id_at(machine.index));
        is_primary.then(|| contents.objects.get(&key))
    });
    let digest = |object: Option<&Object>| {
        // One primary may have reaped a tombstone that another one still has.
        object.filter(|object| !object.is_tombstone()).map(Object::digest)
    };
    let held: Vec<_> = held.collect();
    if held.windows(2).all(|pair| digest(pair[0]) == digest(pair[1])) {
        return Ok(());
    }
    let names = machines.iter().filter(|machine| {
        let id = Machine::node_id_at(machine.index);
        primaries.contains(&id)
    });
    let names: Vec<&str> = names.map(|machine| machine.name.as_str()).collect();
    let text =
        format!("key {} of {names:?}: {}", key.0, describe_copies(run_context, contents, key));
    Err(Violation::new(ViolationKind::Diverged, text))
}

/// Returns the primaries of a key in the newest layout that a node knows.
pub(crate) fn primaries(store: &ReplicatedStore, name: &RecordName) -> BTreeSet<NodeId> {
    let state = store.control().read();
    name.primaries(state.layouts().newest(), state.ring_size(), name.n_val(&state))
}

/// Describes the copies of a key on all nodes in service.
pub(crate) fn describe_copies(
    run_context: &RunContext,
    contents: &[Contents],
    key: KeyNumber,
) -> String {
    let machines = run_context.in_service();
    let words = machines.iter().zip(contents).map(|(machine, contents)| {
        let object = contents.objects.get(&key);
        format!("{} holds {:?}", machine.name, found_in_object(object, Events::CountEach))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Describes the members, layouts and transfers that each node in service knows.
pub(crate) fn describe_cluster_state(run_context: &RunContext) -> String {
    let known = run_context.in_service().into_iter().filter_map(|machine| {
        let store = machine.store()?;
        let state = store.control().read();
        let members = state.members().iter().map(|of| format!("{} {:?}", of.name, of.status));
        let members = members.collect::<Vec<_>>().join(", ");
        let (name, transfers) = (&machine.name, store.transfers().stats());
        let live = state.layouts().live().iter();
        let live = live.map(|layout| layout.version()).collect::<Vec<_>>();
        Some(format!("\n  {name} knows {members}, layouts {live:?}, and has {transfers:?}"))
    });
    known.collect()
}

/// Returns a node's answer.
///
/// # Errors
///
/// The error of the node in words, or that no node answered.
pub fn answer<T, E: fmt::Display>(asked: RequestOutcome<Result<T, E>>) -> Result<T, String> {
    match asked {
        RequestOutcome::Answer(answer) => answer.map_err(|error| error.to_string()),
        RequestOutcome::NoNode | RequestOutcome::Lost => Err("nobody there".to_owned()),
    }
}

/// Repeats an attempt until it succeeds, for as long as a cluster may take to recover.
///
/// # Errors
///
/// When the attempt still fails after 30 s.
pub async fn retry_until_success<T, F>(
    run_context: &RunContext,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Violation>
where
    F: Future<Output = Result<T, String>>,
{
    let give_up_us = run_context.time.now_us() + quoit_number::saturating_u64(RECOVERY.as_micros());
    loop {
        let failure = match attempt().await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        run_context.trace.note("run", &format!("{what} -> {failure}"));
        if run_context.time.now_us() > give_up_us {
            let text = format!("{what} still fails: {failure}");
            return Err(Violation::new(ViolationKind::Unanswered, text));
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}
