//! Checks that the cluster comes to rest by itself after all faults were repaired, before any read.
//!
//! At rest no node has strays, no request is under way, no transfer or hint waits, and tombstones are
//! reaped. Replicas are equal without a read that repairs them.

use crate::contents::Contents;
use crate::finish::{
    check_replicas, contents_of_all, describe_cluster_state, describe_copies, keys, primaries,
};
use crate::growth::{is_quiet, open_calls};
use crate::machine::Machine;
use crate::names::RecordName;
use crate::run_context::RunContext;
use crate::violation::{Violation, ViolationKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum time until the cluster is at rest.
const PATIENCE: Duration = Duration::from_secs(60);
/// Additional time until replicas are equal, if clocks were wrong. Where the last write wins, a primary
/// rejects writes that are older by time than its reap record. A new value from a clock that is behind is
/// such a write, and other primaries accept it. The reap record retires after two rounds of reports,
/// which are two minutes apart. The first of them begins up to two minutes after the record was made.
const PATIENCE_AFTER_WRONG_CLOCKS: Duration = Duration::from_secs(400);
/// Pause between two checks.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Facts about a run on which the wait for rest depends.
#[derive(Clone, Copy, Debug)]
pub struct RestConditions {
    /// True if anti-entropy runs.
    pub has_exchanges: bool,
    /// True if tombstones may stay.
    pub keeps_tombstones: bool,
}

/// Waits until the cluster is at rest and its replicas are equal. If a disk is damaged, only waits until
/// the effects of wrong clocks are gone.
///
/// Some differences are allowed to last. Only anti-entropy fills the replicas that a raised n_val has added.
/// Without anti-entropy, replicas may also stay different if a process has ended with hints that it had only
/// in memory, and in buckets where the last write wins if nodes did not agree on the last write. Tombstones
/// from a clock that was ahead stay until their time has come.
///
/// # Errors
///
/// Names the work that is left after a minute, or after a longer time if clocks were wrong, machines lost
/// their power, or the layout has changed.
pub async fn come_to_rest(
    run_context: &RunContext,
    conditions: RestConditions,
) -> Result<(), Violation> {
    let RestConditions { has_exchanges, keeps_tombstones } = conditions;
    let hardships = run_context.history.lock().hardships.clone();
    let mending = if has_exchanges { PATIENCE } else { Duration::ZERO };
    if hardships.is_disk_damaged {
        if hardships.are_clocks_wrong {
            let give_up_at = Instant::now() + PATIENCE + PATIENCE_AFTER_WRONG_CLOCKS;
            until_equal(run_context, mending, give_up_at).await;
        }
        return Ok(());
    }
    let is_told = !hardships.has_process_ended && !hardships.are_clocks_wrong;
    // A node that has lost files does not tell others what it lacks. If it was the node that would reap a
    // tombstone, the others reap it ten minutes later.
    let is_forgotten = !hardships.files_lost_us.is_empty();
    let is_count_changed = run_context.history.lock().replica_counts.is_changed();
    let equal_replicas = has_exchanges || is_told && !is_forgotten && !is_count_changed;
    let may_stay = keeps_tombstones || hardships.are_clocks_wrong || is_forgotten;
    let wanted = RestRequirements { equal_replicas, no_tombstones: equal_replicas && !may_stay };
    let mut patience = PATIENCE;
    if hardships.are_clocks_wrong {
        patience += PATIENCE_AFTER_WRONG_CLOCKS;
    }
    let equal_until = Instant::now() + patience;
    if !hardships.power_losses_us.is_empty() || hardships.has_layout_changed {
        patience += PATIENCE_FOR_LEFT_BEHIND;
    }
    let give_up_at = Instant::now() + patience;
    loop {
        match check_rest(run_context, wanted) {
            Ok(()) => break,
            Err(Violation { fault, text }) if Instant::now() > give_up_at => {
                return Err(Violation::new(fault, text + &describe_cluster_state(run_context)));
            }
            Err(_) => sleep(LOOK_PAUSE).await,
        }
    }
    if hardships.are_clocks_wrong {
        until_equal(run_context, mending, equal_until).await;
    }
    run_context.trace.note("run", "AT REST");
    Ok(())
}

/// Additional time if tombstones may have been left behind: machines have lost their power, so that the first
/// primary of a record may have lost its tombstone; or the layout has changed, so that a node that held the
/// tombstone as a stray may have become a primary after the others had reaped it. Another primary than the
/// first reaps such a tombstone ten to twenty minutes after it was due, which is up to twenty seconds after
/// it was written.
const PATIENCE_FOR_LEFT_BEHIND: Duration = Duration::from_secs(1_220);

/// Conditions that the cluster has to meet at rest.
#[derive(Debug, Clone, Copy)]
struct RestRequirements {
    equal_replicas: bool,
    no_tombstones: bool,
}

fn check_rest(run_context: &RunContext, wanted: RestRequirements) -> Result<(), Violation> {
    let grows = |text: String| Err(Violation::new(ViolationKind::Grows, text));
    for machine in run_context.in_service() {
        let Some(store) = machine.store() else { continue };
        let transfers = store.transfers().stats();
        let is_owed = !transfers.waiting.is_empty() || !transfers.hints.is_empty();
        if transfers.stray_partition_count > 0 || is_owed {
            return grows(format!("{} never comes to an end with {transfers:?}", machine.name));
        }
        if !is_quiet(&machine) {
            let call_count = open_calls(&machine);
            return grows(format!("{} always has {call_count} calls under way", machine.name));
        }
        let active = store.active();
        if active.gets + active.puts > 0 {
            return grows(format!("{} never comes to an end with {active:?}", machine.name));
        }
    }
    let contents = contents_of_all(run_context)?;
    if wanted.equal_replicas {
        keys(run_context).try_for_each(|key| check_replicas(run_context, key, &contents))?;
    }
    check_leftovers(run_context, &contents, wanted)
}

/// Waits until the replicas of a cluster are equal, for at most a minute.
pub async fn until_replicas_equal(run_context: &RunContext) {
    until_equal(run_context, PATIENCE, Instant::now() + PATIENCE).await;
}

/// Waits until all primaries have equal copies, so that no reap record of one rejects a value that others
/// have. Records that can't be read are never equal. Gives up at `give_up_at`, or when for the time of
/// `mending` no node has had a reap record: nothing is rejected any more then, and anti-entropy has
/// repaired what it can.
async fn until_equal(run_context: &RunContext, mending: Duration, give_up_at: Instant) {
    let are_equal = || {
        let contents = contents_of_all(run_context);
        contents.is_ok_and(|all| {
            keys(run_context).all(|key| check_replicas(run_context, key, &all).is_ok())
        })
    };
    let has_records = |machine: &Arc<Machine>| {
        machine.store().is_some_and(|store| store.reap_record_stats().count > 0)
    };
    let mut free_since = Instant::now();
    while !are_equal() {
        if run_context.in_service().iter().any(has_records) {
            free_since = Instant::now();
        }
        if Instant::now() >= give_up_at || free_since.elapsed() >= mending {
            return;
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Checks that no node keeps strays, or tombstones that should have been reaped.
fn check_leftovers(
    run_context: &RunContext,
    all: &[Contents],
    wanted: RestRequirements,
) -> Result<(), Violation> {
    for (machine, contents) in run_context.in_service().iter().zip(all) {
        let Some(store) = machine.store() else { continue };
        for (key, object) in &contents.objects {
            let name = RecordName::of(*key, run_context.policy(*key));
            let is_own = primaries(&store, &name).contains(&Machine::node_id_at(machine.index));
            let left = match (is_own, object.is_tombstone()) {
                (true, false) => continue,
                (true, true) if !wanted.no_tombstones => continue,
                (true, true) => "a tombstone",
                (false, _) => "what is not its own",
            };
            let held = describe_copies(run_context, all, *key);
            let text = format!("{} keeps {left} under key {}: {held}", machine.name, key.0);
            return Err(Violation::new(ViolationKind::Grows, text));
        }
    }
    Ok(())
}
