//! Rules for listings: a node returns a complete listing or an error, whatever happens meanwhile.

use crate::history::{Entry, History, KeyNumber, Listing, ListingResult, Outcome, WriteKind};
use crate::names::RecordName;
use crate::violation::{Violation, ViolationKind};
use std::collections::BTreeSet;

/// Checks a listing that a node has called complete.
///
/// # Errors
///
/// The listing lacks a key or an entry that was there all the time, has one that no client wrote, or has
/// one twice.
pub(super) fn check_listing(history: &History, listing: &Listing) -> Result<(), Violation> {
    let keys_throughout =
        listing.keys_throughout.iter().filter(|key| !may_go(history, listing, **key));
    let keys_throughout: BTreeSet<KeyNumber> = keys_throughout.copied().collect();
    let is_written = |key: &KeyNumber| is_written(history, listing, *key);
    let (is_right, is_once) = match &listing.listed {
        ListingResult::Keys(keys) => {
            let listed: BTreeSet<KeyNumber> = keys.iter().copied().collect();
            let is_true = listed.iter().all(is_written);
            (is_true && keys_throughout.is_subset(&listed), listed.len() == keys.len())
        }
        ListingResult::Buckets(buckets) => {
            let written = history.key_numbers().any(|key| is_written(&key));
            let listed: BTreeSet<&[u8]> = buckets.iter().map(|name| &**name).collect();
            let is_true = listed.iter().all(|name| *name == RecordName::BUCKET && written);
            let is_complete = keys_throughout.is_empty() || listed.contains(RecordName::BUCKET);
            (is_true && is_complete, listed.len() == buckets.len())
        }
        ListingResult::Entries(entries) => {
            let listed: BTreeSet<Entry> = entries.iter().copied().collect();
            let is_true = listed.iter().all(|entry| is_made(history, listing, *entry));
            let is_complete = listing.entries_throughout.is_subset(&listed);
            (is_true && is_complete, listed.len() == entries.len())
        }
    };
    if is_right && is_once {
        return Ok(());
    }
    let text = format!(
        "{} lists {:?} of {:?} from {} to {} ms, and {keys_throughout:?} were there all the time, and \
         entries {:?}",
        listing.node,
        listing.listed,
        listing.policy,
        listing.start_us / 1_000,
        listing.end_us / 1_000,
        listing.entries_throughout,
    );
    Err(Violation::new(ViolationKind::WrongListing, text))
}

/// True if a key may have been written before the end of a listing of its bucket. Deletes count, because
/// a listing may show keys with tombstones.
fn is_written(history: &History, listing: &Listing, key: KeyNumber) -> bool {
    let is_of_policy = history.keys.get(key.0 as usize) == Some(&listing.policy);
    is_of_policy && !history.possible_before(key, listing.end_us).is_empty()
}

/// True if an index entry may exist at the end of a listing: a put of that key started before, and makes
/// an entry.
fn is_made(history: &History, listing: &Listing, (number, key): Entry) -> bool {
    let is_of_policy = history.keys.get(key.0 as usize) == Some(&listing.policy);
    let write = history.writes.get(number.0 as usize);
    let is_of_key = write.is_some_and(|write| {
        write.key == key && write.kind == WriteKind::Put && write.start_us <= listing.end_us
    });
    is_of_policy && is_of_key && history.makes_entry(number)
}

/// True if the key may have been deleted during the listing.
fn may_go(history: &History, listing: &Listing, key: KeyNumber) -> bool {
    history.writes_of(key).any(|(_, write)| {
        let is_possible = write.kind.is_delete() && write.outcome != Outcome::Refused;
        let may_last = write.end_us >= listing.start_us || write.may_be_made_late();
        is_possible && write.start_us <= listing.end_us && may_last
    })
}
