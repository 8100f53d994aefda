//! After everything is mended, and before any read: a cluster that is left alone comes to rest.
//!
//! Nothing has grown then: no node keeps what belongs to others, no request is under way, nothing waits for
//! anybody, tombstones are reaped. And replicas are the same without any read that repairs them.

use crate::contents::Contents;
use crate::finish::{all_held, check_replicas, contents_of_all, keys, known_by_all, primaries};
use crate::ground::Ground;
use crate::growth::{is_quiet, open_calls};
use crate::machine::Machine;
use crate::names::Name;
use crate::violation::{Fault, Violation};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time that a cluster may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that they may take longer to be the same where clocks were wrong. Where the last write wins, a
/// primary keeps out what is older than its reap record by time; that may be a new value, by a clock that was
/// behind, which other primaries take. A reap record retires after two rounds of reports, which are two
/// minutes apart, and the first of them begins up to two minutes after it was made.
const PATIENCE_AFTER_WRONG_CLOCKS: Duration = Duration::from_secs(400);
/// Pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Waits until nothing moves, nothing is left over, and the replicas are the same; where a disk is damaged,
/// only for what wrong clocks leave behind.
///
/// A number of replicas that is raised is made good by anti-entropy alone.
/// Without anti-entropy replicas may stay different when a process has ended with what it remembered of
/// others' absence, and where the last write wins when nodes did not agree on which that is. Tombstones of a
/// clock that was ahead stay until their time has come.
///
/// # Errors
///
/// Names the work that is still left after a minute, or longer after wrong clocks and losses of power.
pub async fn come_to_rest(
    ground: &Ground,
    has_exchanges: bool,
    keeps_tombstones: bool,
) -> Result<(), Violation> {
    let hardships = ground.history.lock().hardships.clone();
    let mending = if has_exchanges { PATIENCE } else { Duration::ZERO };
    if hardships.is_disk_damaged {
        if hardships.are_clocks_wrong {
            let give_up_at = Instant::now() + PATIENCE + PATIENCE_AFTER_WRONG_CLOCKS;
            until_equal(ground, mending, give_up_at).await;
        }
        return Ok(());
    }
    let is_told = !hardships.has_process_ended && !hardships.are_clocks_wrong;
    // A node that has forgotten tells nobody what it lacks; and where it was to reap a tombstone, the others
    // do so ten minutes later.
    let is_forgotten = !hardships.files_lost_us.is_empty();
    let is_count_changed = ground.history.lock().replica_counts.is_changed();
    let equal_replicas = has_exchanges || is_told && !is_forgotten && !is_count_changed;
    let may_stay = keeps_tombstones || hardships.are_clocks_wrong || is_forgotten;
    let wanted = Wanted { equal_replicas, no_tombstones: equal_replicas && !may_stay };
    let mut patience = PATIENCE;
    if hardships.are_clocks_wrong {
        patience += PATIENCE_AFTER_WRONG_CLOCKS;
    }
    let equal_until = Instant::now() + patience;
    if !hardships.power_losses_us.is_empty() {
        patience += PATIENCE_AFTER_POWER_LOSS;
    }
    let give_up_at = Instant::now() + patience;
    loop {
        match look(ground, wanted) {
            Ok(()) => break,
            Err(Violation { fault, text }) if Instant::now() > give_up_at => {
                return Err(Violation::new(fault, text + &known_by_all(ground)));
            }
            Err(_) => sleep(LOOK_PAUSE).await,
        }
    }
    if hardships.are_clocks_wrong {
        until_equal(ground, mending, equal_until).await;
    }
    ground.trace.note("run", "AT REST");
    Ok(())
}

/// Time that it may take longer where machines have lost their power. A tombstone that its first primary has
/// lost is left behind: another one reaps it ten to twenty minutes after it was due, which is up to twenty
/// seconds after it was written.
const PATIENCE_AFTER_POWER_LOSS: Duration = Duration::from_secs(1_220);

/// Demands on the cluster when it is at rest after the faults.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    equal_replicas: bool,
    no_tombstones: bool,
}

fn look(ground: &Ground, wanted: Wanted) -> Result<(), Violation> {
    let grows = |text: String| Err(Violation::new(Fault::Grows, text));
    for machine in ground.in_service() {
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
    let contents = contents_of_all(ground)?;
    if wanted.equal_replicas {
        keys(ground).try_for_each(|key| check_replicas(ground, key, &contents))?;
    }
    check_leftovers(ground, &contents, wanted)
}

/// Waits until the replicas of a cluster are the same, or for as long as it may take.
pub async fn replicas_meet(ground: &Ground) {
    until_equal(ground, PATIENCE, Instant::now() + PATIENCE).await;
}

/// Waits until no primary keeps out any more what others have taken: neither what reads would repair nor what
/// listings would show. What can't be read is never equal. Gives up at a time, or when no node has had a reap
/// record for as long as `mending`: nothing is kept out then, and what could be mended is.
async fn until_equal(ground: &Ground, mending: Duration, give_up_at: Instant) {
    let are_equal = || {
        let contents = contents_of_all(ground);
        contents.is_ok_and(|all| keys(ground).all(|key| check_replicas(ground, key, &all).is_ok()))
    };
    let has_records = |machine: &Arc<Machine>| {
        machine.store().is_some_and(|store| store.reap_record_stats().count > 0)
    };
    let mut free_since = Instant::now();
    while !are_equal() {
        if ground.in_service().iter().any(has_records) {
            free_since = Instant::now();
        }
        if Instant::now() >= give_up_at || free_since.elapsed() >= mending {
            return;
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Checks that no node keeps strays, nor tombstones that all replicas have.
fn check_leftovers(ground: &Ground, all: &[Contents], wanted: Wanted) -> Result<(), Violation> {
    for (machine, contents) in ground.in_service().iter().zip(all) {
        let Some(store) = machine.store() else { continue };
        for (key, object) in &contents.objects {
            let name = Name::of(*key, ground.policy(*key));
            let is_own = primaries(&store, &name).contains(&Machine::node_id_at(machine.index));
            let left = match (is_own, object.is_tombstone()) {
                (true, false) => continue,
                (true, true) if !wanted.no_tombstones => continue,
                (true, true) => "a tombstone",
                (false, _) => "what is not its own",
            };
            let held = all_held(ground, all, *key);
            let text = format!("{} keeps {left} under key {}: {held}", machine.name, key.0);
            return Err(Violation::new(Fault::Grows, text));
        }
    }
    Ok(())
}
