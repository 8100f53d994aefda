//! Digests: one number by which replicas compare states without sending them.

use super::State;
use crate::data_type::content::{Content, Field};
use crate::data_type::item::Item;
use crate::digest::hash_dot_of;
use std::num::Wrapping;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const PRESENCE: u8 = 16;
const COUNTER: u8 = 17;
const ELEMENT: u8 = 18;
const REGISTER: u8 = 19;
const FLAG: u8 = 20;
const HLL: u8 = 21;

impl State {
    /// Equal where the same writes count, different (but for chance, 2^-64) where others do. A write
    /// stands for what it wrote. What waits for events to come is not in it, since the clock decides it.
    ///
    /// The sum of the digests of all items, in any order: that of an element or field changes alone.
    #[must_use]
    pub fn digest(&self) -> u64 {
        of_field(&self.record, 0).0
    }
}

impl Content {
    /// What the content of a record adds to the state's digest.
    pub(in crate::data_type) fn digest(&self) -> u64 {
        of_content(self, 0).0
    }
}

/// `seed` stands for the names of the fields around.
fn of_field(field: &Field, seed: u64) -> Wrapping<u64> {
    of_item(PRESENCE, &field.presence, seed) + of_content(&field.content, seed)
}

fn of_content(content: &Content, seed: u64) -> Wrapping<u64> {
    match content {
        Content::Counter(item) => of_item(COUNTER, item, seed),
        Content::Set(elements) => elements
            .iter()
            .map(|(element, item)| of_item(ELEMENT, item, xxh3_64_with_seed(element, seed)))
            .sum(),
        Content::Register(item) => of_item(REGISTER, item, seed),
        Content::Flag(item) => of_item(FLAG, item, seed),
        Content::Map(fields) => fields
            .iter()
            .map(|(name, field)| {
                let kind_seed = seed.wrapping_add(1 + name.kind as u64);
                of_field(field, xxh3_64_with_seed(&name.name, kind_seed))
            })
            .sum(),
        Content::Hll(item) => of_item(HLL, item, seed),
    }
}

fn of_item<P>(kind: u8, item: &Item<P>, seed: u64) -> Wrapping<u64> {
    item.live().iter().map(|write| Wrapping(hash_dot_of(kind, &write.dot, seed))).sum()
}
