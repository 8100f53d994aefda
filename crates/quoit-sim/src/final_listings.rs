//! Comparison of the listings of keys at the end of a run with the reads of all keys.

use crate::contents::Contents;
use crate::finish::{
    answer, contents_of_all, describe_copies, keys, policies, retry_until_success,
};
use crate::history::{FoundValue, KeyNumber};
use crate::machine::Machine;
use crate::names::RecordName;
use crate::requests;
use crate::run_context::RunContext;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::NodeId;
use quoit_model::hash::Partition;
use quoit_store::index::Tag;
use std::collections::{BTreeMap, BTreeSet};

/// A node's copy of a key, as its store has it after a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedCopy {
    /// The node has no record of the key.
    Missing,
    /// The node has a record of the key and can read it.
    Readable,
    /// The node is a primary of the key, and its record of the key is damaged.
    Damaged,
}

impl ListedCopy {
    /// Returns the copy in the contents of a node. `at` is the place of the key's record in the index.
    fn of(contents: &Contents, key: KeyNumber, at: (Partition, Tag), is_primary: bool) -> Self {
        match contents.objects.contains_key(&key) {
            true => Self::Readable,
            false if is_primary && contents.unread.contains(&at) => Self::Damaged,
            false => Self::Missing,
        }
    }
}

/// True if a listing has to show a key of which a read found this.
fn must_be_listed(found: &[FoundValue]) -> bool {
    found.iter().any(|found| matches!(found, FoundValue::Value(_)))
}

/// True if a listing may show a key of which a read found this. A listing may show a key with a tombstone,
/// or with a value that has expired. `rotten` returns the copies of all nodes in a run whose disks have
/// rotted, in other runs none: reads find nothing as long as the only copy is damaged, while listings show
/// its name; and the copy may have been repaired since the read.
fn may_be_listed(
    found: &[FoundValue],
    has_expiring: bool,
    rotten: impl FnOnce() -> Vec<ListedCopy>,
) -> bool {
    let is_there = |copy: &ListedCopy| *copy != ListedCopy::Missing;
    !found.is_empty() || has_expiring || rotten().iter().any(is_there)
}

/// Compares the listings of a node with its reads.
///
/// # Errors
///
/// When a listing still fails after 30 s, lacks a key whose value a read has found, or shows one that no
/// node may list.
pub(crate) async fn check_listings(
    run_context: &RunContext,
    machine: &Machine,
    found: &BTreeMap<KeyNumber, Vec<FoundValue>>,
) -> Result<(), Violation> {
    for policy in policies(run_context) {
        let list =
            || async { answer(machine.ask(move |store| requests::list_keys(store, policy)).await) };
        let listed = retry_until_success(run_context, &format!("list {policy:?}"), list).await?;
        let of_policy: BTreeMap<KeyNumber, &[FoundValue]> = found
            .iter()
            .filter(|(key, _)| run_context.policy(**key) == policy)
            .map(|(key, found)| (*key, &found[..]))
            .collect();
        let is_complete = of_policy
            .iter()
            .filter(|(_, found)| must_be_listed(found))
            .all(|(key, _)| listed.contains(key));
        let has_expiring = |key: KeyNumber| {
            let history = run_context.history.lock();
            history.writes_of(key).any(|(_, write)| write.expires_us.is_some())
        };
        let is_true = listed.iter().all(|key| {
            of_policy.get(key).is_some_and(|found| {
                let rotten = || rotten_copies(run_context, machine, *key);
                may_be_listed(found, has_expiring(*key), rotten)
            })
        });
        if !(is_complete && is_true) {
            let contents = contents_of_all(run_context)?;
            let keys = keys(run_context).filter(|key| run_context.policy(*key) == policy);
            let held = keys.map(|key| (key, describe_copies(run_context, &contents, key)));
            let there = of_policy.iter().filter(|(_, found)| !found.is_empty());
            let text = format!(
                "{} lists {listed:?} of {policy:?}, and reads found {:?}; {:?}",
                machine.name,
                there.collect::<Vec<_>>(),
                held.collect::<Vec<_>>(),
            );
            return Err(Violation::new(ViolationKind::WrongListing, text));
        }
    }
    Ok(())
}

/// Returns the copies of a key on all nodes; none if no disk has rotted. Listings ask the primaries, by one
/// of the layouts that the listing node knows.
pub(crate) fn rotten_copies(
    run_context: &RunContext,
    machine: &Machine,
    key: KeyNumber,
) -> Vec<ListedCopy> {
    let is_damaged = run_context.history.lock().hardships.is_disk_damaged;
    let Some(store) = machine.store().filter(|_| is_damaged) else { return Vec::new() };
    let name = RecordName::of(key, run_context.policy(key));
    let (at, primaries) = {
        let state = store.control().read();
        let (ring_size, n_val) = (state.ring_size(), name.n_val(&state));
        let live = state.layouts().live().iter();
        let primaries: BTreeSet<NodeId> =
            live.flat_map(|layout| name.primaries(layout, ring_size, n_val)).collect();
        ((name.partition(ring_size), name.tag()), primaries)
    };
    let all = contents_of_all(run_context).unwrap_or_default();
    let copies = run_context.in_service().into_iter().zip(&all).map(|(machine, contents)| {
        let is_primary = primaries.contains(&Machine::node_id_at(machine.index));
        ListedCopy::of(contents, key, at, is_primary)
    });
    copies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::WriteNumber;
    use crate::policy::Policy;
    use quoit_model::clock::VersionVector;
    use quoit_model::object::Object;

    const KEY: KeyNumber = KeyNumber(10);

    #[test]
    fn a_listing_has_to_show_values_and_may_show_tombstones_and_what_may_have_expired() {
        let value = [FoundValue::Value(WriteNumber(1))];
        let tombstone = [FoundValue::Tombstone(b"actor".to_vec(), 1)];
        assert!(must_be_listed(&value) && !must_be_listed(&tombstone) && !must_be_listed(&[]));
        assert!(may_be_listed(&value, false, Vec::new));
        assert!(may_be_listed(&tombstone, false, Vec::new));
        assert!(may_be_listed(&[], true, Vec::new));
        assert!(!may_be_listed(&[], false, Vec::new));
    }

    #[test]
    fn a_key_that_no_read_finds_may_be_listed_if_a_primary_cannot_read_its_record_of_it() {
        let tag = |key| RecordName::of(key, Policy::LastWriteWins).tag();
        let (at, other_tag) = ((Partition(3), tag(KEY)), tag(KeyNumber(14)));
        let object = Object { clock: VersionVector::default(), siblings: Default::default() };
        let of = |unread: &[(Partition, Tag)], is_readable: bool, is_primary: bool| {
            let mut contents = Contents::default();
            contents.unread.extend(unread);
            if is_readable {
                contents.objects.insert(KEY, object.clone());
            }
            ListedCopy::of(&contents, KEY, at, is_primary)
        };
        let may_be_listed = |copy| may_be_listed(&[], false, || vec![ListedCopy::Missing, copy]);
        assert!(may_be_listed(of(&[at], false, true)), "its only copy is damaged");
        assert!(may_be_listed(of(&[], true, true)), "it was repaired after the read");
        assert!(!may_be_listed(of(&[], false, true)), "no node has a record of it");
        assert!(!may_be_listed(of(&[(at.0, other_tag)], false, true)), "another key is damaged");
        assert!(!may_be_listed(of(&[(Partition(4), at.1)], false, true)), "it is elsewhere");
        assert!(!may_be_listed(of(&[at], false, false)), "listings ask primaries only");
    }
}
