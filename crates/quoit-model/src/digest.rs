//! The digest of an object: a number by which replicas compare their copies without sending them.

use crate::clock::{Dot, VersionVector};
use crate::codec::encode_sibling;
use crate::object::{Object, Sibling};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

const CLOCK_ENTRY: u8 = 1;
const LIVE_DOT: u8 = 2;
const DELETED_DOT: u8 = 3;
const UNDOTTED: u8 = 4;
const CLOUD: u8 = 5;
const LONG_ACTOR: u8 = 0x80;

/// Maximum length in bytes of an actor that is hashed as it is. A longer one is replaced by its
/// 128-bit hash.
const ACTOR_BYTES_MAX: usize = 55;

impl Object {
    /// The digest is equal on all replicas with the same causal state, and different for other states, except
    /// by chance (2^-64). It covers the clock without its times. For each sibling it covers the dot and the
    /// tombstone flag or, without a dot, the whole sibling; for data types also the dot cloud. The order of
    /// siblings and clock entries does not matter.
    ///
    /// Costs one short hash for each clock entry and sibling; values are hashed only without a dot.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let clock = self.clock.entries().iter().map(|entry| hash_dot(CLOCK_ENTRY, entry));
        let siblings = self.siblings.iter().map(hash_sibling);
        // A sum does not depend on the order, and unlike XOR does not cancel equal parts.
        clock.chain(siblings).fold(0, u64::wrapping_add)
    }
}

/// The digest of an object with one live value.
pub(crate) fn of_plain(clock: &VersionVector, dot: &Dot) -> u64 {
    let clock = clock.entries().iter().map(|entry| hash_dot(CLOCK_ENTRY, entry));
    clock.fold(hash_dot(LIVE_DOT, dot), u64::wrapping_add)
}

fn hash_sibling(sibling: &Sibling) -> u64 {
    let beyond_gaps = sibling.note().filter(|cloud| !cloud.is_empty());
    beyond_gaps
        .map_or(0, |cloud| xxh3_64_with_seed(cloud, CLOUD.into()))
        .wrapping_add(hash_value(sibling))
}

fn hash_value(sibling: &Sibling) -> u64 {
    match (&sibling.dot, sibling.deleted) {
        (Some(dot), false) => hash_dot(LIVE_DOT, dot),
        (Some(dot), true) => hash_dot(DELETED_DOT, dot),
        (None, _) => {
            let mut encoded = vec![UNDOTTED];
            encode_sibling(sibling, &VersionVector::default(), &mut encoded);
            xxh3_64(&encoded)
        }
    }
}

fn hash_dot(kind: u8, dot: &Dot) -> u64 {
    hash_dot_of(kind, dot, 0)
}

/// Hash of an event. `kind` says what it is part of, `seed` distinguishes places of the same kind.
#[expect(
    clippy::indexing_slicing,
    reason = "an actor of at most `ACTOR_BYTES_MAX` bytes fits behind the first nine"
)]
pub(crate) fn hash_dot_of(kind: u8, dot: &Dot, seed: u64) -> u64 {
    let mut input = [0; 9 + ACTOR_BYTES_MAX];
    input[1..9].copy_from_slice(&dot.counter.to_le_bytes());
    let actor = dot.actor.0.as_slice();
    if actor.len() <= ACTOR_BYTES_MAX {
        input[0] = kind;
        input[9..9 + actor.len()].copy_from_slice(actor);
        xxh3_64_with_seed(&input[..9 + actor.len()], seed)
    } else {
        input[0] = kind | LONG_ACTOR;
        input[9..25].copy_from_slice(&xxh3_128(actor).to_le_bytes());
        xxh3_64_with_seed(&input[..25], seed)
    }
}
