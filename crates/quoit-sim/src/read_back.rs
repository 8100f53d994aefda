//! The end of a run: reads everything back, and checks the stores of all nodes.

use crate::contents::{Contents, merged};
use crate::final_listings::{ListedCopy, check_listings, rotten_copies};
use crate::finish::{answer, check_replicas, contents_of_all, keys, policies, retry_until_success};
use crate::history::{Entry, FoundValue, KeyNumber, Reader};
use crate::machine::Machine;
use crate::requests::{self, Quorums};
use crate::run_context::RunContext;
use crate::violation::{Violation, ViolationKind};
use quoit_model::props::Quorum;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time that read repairs get to end.
const REPAIR_PAUSE: Duration = Duration::from_secs(2);

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
