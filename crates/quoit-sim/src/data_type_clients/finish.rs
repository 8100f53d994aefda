//! The end of a run for data types: reads every record at every node, and compares the copies.

use crate::data_types::Record;
use crate::data_types::check::check;
use crate::data_types::history::ObservedValue;
use crate::finish::retry_until_success;
use crate::machine::Machine;
use crate::names::{partition_of, primaries_of};
use crate::replica_counts::N_VAL_DEFAULT;
use crate::requests::Quorums;
use crate::run_context::RunContext;
use crate::violation::{Violation, ViolationKind};
use quoit_core::ReplicatedStore;
use std::time::Duration;

/// Time that read repairs get to end.
const REPAIR_PAUSE: Duration = Duration::from_secs(2);

/// Reads every record at every node, compares the values and the copies, and checks all reads of the run.
///
/// # Errors
///
/// When a request still fails after 30 s, nodes show different values, or a promise was broken.
pub async fn read_back(run_context: &RunContext) -> Result<(), Violation> {
    let is_damaged = run_context.history.lock().hardships.is_disk_damaged;
    let machines = run_context.in_service();
    let mut ends: Vec<(Record, ObservedValue)> = Vec::new();
    for record in Record::all() {
        let mut shown: Vec<ObservedValue> = Vec::new();
        for machine in &machines {
            let mut attempt_count = 0;
            let read = || {
                attempt_count += 1;
                // A damaged copy answers with an error until a client writes the key again.
                let may_leave_out = is_damaged && attempt_count > 5;
                let quorums =
                    if may_leave_out { Quorums::strict(2_000) } else { Quorums::all(2_000) };
                run_context.fetch(machine, record, quorums)
            };
            let what = format!("fetch d{} at {}", record.0, machine.name);
            let (number, _) = retry_until_success(run_context, &what, read).await?;
            shown.push(run_context.data_types.lock().fetches[number].seen.clone());
        }
        if !is_damaged && shown.windows(2).any(|pair| pair[0] != pair[1]) {
            let text = format!("d{} is shown as {shown:?} by one node after the other", record.0);
            return Err(Violation::new(ViolationKind::Diverged, text));
        }
        ends.extend(shown.pop().map(|seen| (record, seen)));
    }
    tokio::time::sleep(REPAIR_PAUSE).await;
    if !is_damaged {
        Record::all().try_for_each(|record| check_replicas(run_context, record))?;
    }
    let mut history = run_context.data_types.lock();
    history.hardships = run_context.history.lock().hardships.clone();
    check(&history, &ends)
}

/// Compares the digests of a record's copies on its primaries.
fn check_replicas(run_context: &RunContext, record: Record) -> Result<(), Violation> {
    let broken = |text: String| Violation::new(ViolationKind::Broken, text);
    let name = record.name();
    let wanted = record.key_ref(&name).encoded();
    let mut held = Vec::new();
    for machine in run_context.in_service() {
        let store = machine.store().ok_or_else(|| broken(format!("{} is down", machine.name)))?;
        let is_primary = {
            let state = store.control().read();
            let partition = partition_of(record.key_ref(&name), state.ring_size());
            let primaries = primaries_of(partition, state.layouts().newest(), N_VAL_DEFAULT);
            primaries.contains(&Machine::node_id_at(machine.index))
        };
        if !is_primary {
            continue;
        }
        let digest = digest_at(&store, &wanted)
            .map_err(|error| broken(format!("{} can't be read: {error}", machine.name)))?;
        held.push((machine.name.clone(), digest));
    }
    if held.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return Ok(());
    }
    let text = format!("replicas of d{} have the digests {held:x?}", record.0);
    Err(Violation::new(ViolationKind::Diverged, text))
}

/// Returns the digest of a node's copy of a record; `None` if there is none or it is a tombstone, which
/// another node may have reaped already.
pub(crate) fn digest_at(
    store: &ReplicatedStore,
    wanted: &[u8],
) -> Result<Option<u64>, quoit_store::error::StoreError> {
    use quoit_model::hash::{Identity, Partition};
    for partition in (0..store.control().ring_size().get()).map(Partition) {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = store.engine().fold(partition, identity, 100, false)?;
            let found = page.entries.iter().find(|(name, _)| name[..] == *wanted);
            if let Some((_, record)) = found {
                return Ok((!record.meta.tombstone).then_some(record.meta.digest));
            }
            from = page.next;
        }
    }
    Ok(None)
}
