//! Digests of states: numbers by which replicas compare states without sending them.

use super::State;
use crate::clock::Dot;
use crate::data_type::content::{Content, MapField};
use crate::data_type::item::Item;
use crate::data_type::pages::ItemHash;
use crate::data_type::{CausalClock, EventSet};
use crate::digest::hash_dot_of;
use std::num::Wrapping;

const PRESENCE: u8 = 16;
const COUNTER: u8 = 17;
const ELEMENT: u8 = 18;
const REGISTER: u8 = 19;
const FLAG: u8 = 20;
const HLL: u8 = 21;
const AROUND: u8 = 22;

/// Added to the kind of an item, for its deferred events.
const WAITING: u8 = 64;

impl State {
    /// Two states have the same digest if the same writes count in both, and different digests otherwise,
    /// except by chance (2^-64). The digest covers the events of the writes, which determine their payloads.
    /// It leaves out deferred events, since the clock decides about them.
    ///
    /// The digest is the sum of the digests of all items, so a change of an element or field
    /// changes only its own part.
    #[must_use]
    pub fn digest(&self) -> u64 {
        of_field(&self.record, 0).0
    }
}

impl Content {
    /// The content's part of the digest of its state. `seed` is derived from the names of the
    /// enclosing fields; it is 0 for the content of a record.
    pub(in crate::data_type) fn digest(&self, seed: u64) -> u64 {
        of_content(self, seed).0
    }

    /// As [`Content::digest`], including deferred events that the clock does not have. Replicas
    /// with different clocks compare these digests.
    pub(in crate::data_type) fn digest_of_all(&self, clock: &CausalClock, seed: u64) -> u64 {
        (of_content(self, seed) + waiting_in_content(self, seed, clock)).0
    }

    /// Calls `show` with the hash of each element or field, its part of the digest, and true if it
    /// is live. The digest includes deferred events, as in [`Content::digest_of_all`].
    pub(in crate::data_type) fn each_item_digest(
        &self,
        clock: &CausalClock,
        seed: u64,
        mut show: impl FnMut(ItemHash, u64, bool),
    ) {
        match self {
            Self::Set(elements) => {
                for (element, item) in elements {
                    let hash = ItemHash::of_element_in(element, seed);
                    let waiting = waiting_in(ELEMENT, item.deferred(), hash.0, clock);
                    show(hash, (of_item(ELEMENT, item, hash.0) + waiting).0, item.is_live());
                }
            }
            Self::Map(fields) => {
                for (name, field) in fields {
                    let hash = ItemHash::of_field_in(name, seed);
                    let digest = of_field(field, hash.0) + waiting_in_field(field, hash.0, clock);
                    show(hash, digest.0, field.is_live());
                }
            }
            Self::Counter(_)
            | Self::Register(_)
            | Self::Flag(_)
            | Self::Hll(_)
            | Self::Branch(_) => {}
        }
    }
}

fn waiting_in_field(field: &MapField, seed: u64, clock: &CausalClock) -> Wrapping<u64> {
    let around = (!field.deferred.is_empty()).then_some(&field.deferred);
    waiting_in(AROUND, around, seed, clock)
        + waiting_in(PRESENCE, field.presence.deferred(), seed, clock)
        + waiting_in_content(&field.content, seed, clock)
}

fn waiting_in_content(content: &Content, seed: u64, clock: &CausalClock) -> Wrapping<u64> {
    let waiting = |kind, deferred| waiting_in(kind, deferred, seed, clock);
    match content {
        Content::Counter(item) => waiting(COUNTER, item.deferred()),
        Content::Register(item) => waiting(REGISTER, item.deferred()),
        Content::Flag(item) => waiting(FLAG, item.deferred()),
        Content::Hll(item) => waiting(HLL, item.deferred()),
        Content::Set(elements) => elements
            .iter()
            .filter(|(_, item)| item.deferred().is_some())
            .map(|(element, item)| {
                let hash = ItemHash::of_element_in(element, seed);
                waiting_in(ELEMENT, item.deferred(), hash.0, clock)
            })
            .sum(),
        Content::Map(fields) => fields
            .iter()
            .map(|(name, field)| {
                waiting_in_field(field, ItemHash::of_field_in(name, seed).0, clock)
            })
            .sum(),
        // A branch with deferred events has been loaded.
        Content::Branch(_) => Wrapping(0),
    }
}

/// Hash of the deferred events that the clock does not have.
fn waiting_in(
    kind: u8,
    deferred: Option<&EventSet>,
    seed: u64,
    clock: &CausalClock,
) -> Wrapping<u64> {
    let Some(deferred) = deferred else { return Wrapping(0) };
    let mut deferred = deferred.clone();
    deferred.subtract(clock);
    let runs = deferred.iter().flat_map(|(actor, runs)| runs.iter().map(move |run| (actor, run)));
    runs.map(|(actor, run)| {
        let dot = Dot { actor: actor.clone(), counter: run.last, time_secs: 0 };
        Wrapping(hash_dot_of(kind | WAITING, &dot, seed.wrapping_add(run.first)))
    })
    .sum()
}

/// `seed` is derived from the names of the enclosing fields.
fn of_field(field: &MapField, seed: u64) -> Wrapping<u64> {
    of_item(PRESENCE, &field.presence, seed) + of_content(&field.content, seed)
}

fn of_content(content: &Content, seed: u64) -> Wrapping<u64> {
    match content {
        Content::Counter(item) => of_item(COUNTER, item, seed),
        Content::Set(elements) => elements
            .iter()
            .map(|(element, item)| of_item(ELEMENT, item, ItemHash::of_element_in(element, seed).0))
            .sum(),
        Content::Register(item) => of_item(REGISTER, item, seed),
        Content::Flag(item) => of_item(FLAG, item, seed),
        Content::Map(fields) => {
            let fields = fields.iter();
            fields.map(|(name, field)| of_field(field, ItemHash::of_field_in(name, seed).0)).sum()
        }
        Content::Hll(item) => of_item(HLL, item, seed),
        Content::Branch(branch) => Wrapping(branch.digest),
    }
}

fn of_item<P>(kind: u8, item: &Item<P>, seed: u64) -> Wrapping<u64> {
    item.live().iter().map(|write| Wrapping(hash_dot_of(kind, &write.dot, seed))).sum()
}
