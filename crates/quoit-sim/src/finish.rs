//! Answers of nodes that have to succeed, and the contents of all stores, for checks at the end of a run.

use crate::contents::Contents;
use crate::history::KeyNumber;
use crate::machine::{Machine, RequestOutcome};
use crate::names::RecordName;
use crate::policy::Policy;
use crate::run_context::RunContext;
use crate::value::{Events, found_in_object};
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_core::ReplicatedStore;
use quoit_model::object::Object;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Time within which a request has to succeed when there are no faults.
const RECOVERY: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn keys(run_context: &RunContext) -> impl Iterator<Item = KeyNumber> + use<> {
    run_context.history.lock().key_numbers()
}

/// Returns the policies of the run's keys.
pub(crate) fn policies(run_context: &RunContext) -> BTreeSet<Policy> {
    run_context.history.lock().keys.iter().copied().collect()
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
