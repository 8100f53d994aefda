//! Names that a store generates: entity tags, and keys of records stored without one; and
//! conversions of Riak's time stamps.

use crate::clock::{Dot, VersionVector};
use crate::context::encode_context;
use bytes::Bytes;
use quoit_number::low_u64;
use xxhash_rust::xxh3::xxh3_128;

/// Seconds from year 0 to 1970. Riak's time stamps count from year 0.
pub const UNIX_EPOCH_RIAK_SECS: u64 = 62_167_219_200;

/// Number of base-62 digits of a 64-bit number.
const HALF_DIGITS: usize = 11;
/// Number of characters of entity tags and generated keys.
pub const NAME_CHARS: usize = 2 * HALF_DIGITS;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Converts seconds since 1970 to a Riak time stamp.
#[must_use]
pub const fn riak_secs(unix_secs: u64) -> u64 {
    unix_secs.saturating_add(UNIX_EPOCH_RIAK_SECS)
}

/// Converts a Riak time stamp to seconds since 1970; 0 for times before 1970.
#[must_use]
pub const fn unix_secs(riak_secs: u64) -> u64 {
    riak_secs.saturating_sub(UNIX_EPOCH_RIAK_SECS)
}

/// The entity tag of the value that `dot` wrote to the record with this identity hash: 22 base-62 characters
/// of an XXH3-128. Every replica computes the same tag. Two values of one record have different tags, except
/// by chance (2^-128). Costs one short hash and one allocation.
#[must_use]
pub fn make_vtag(dot: &Dot, identity: u64) -> Bytes {
    Bytes::copy_from_slice(&vtag_text(dot, identity))
}

/// As [`make_vtag`], without the allocation.
#[must_use]
#[expect(clippy::indexing_slicing, reason = "the actor was copied to this place")]
pub fn vtag_text(dot: &Dot, identity: u64) -> [u8; NAME_CHARS] {
    let actor = dot.actor.0.as_slice();
    let mut stack = [0; 16 + 48];
    stack[..8].copy_from_slice(&identity.to_le_bytes());
    stack[8..16].copy_from_slice(&dot.counter.to_le_bytes());
    let hash = match stack.get_mut(16..16 + actor.len()) {
        Some(place) => {
            place.copy_from_slice(actor);
            xxh3_128(&stack[..16 + actor.len()])
        }
        None => xxh3_128(&[&stack[..16], actor].concat()),
    };
    base_62(hash)
}

/// The entity tag of an object with siblings: 22 base-62 characters of the XXH3-128 of the clock's
/// context. Equal clocks have equal tags.
#[must_use]
pub fn clock_tag(clock: &VersionVector) -> Bytes {
    Bytes::copy_from_slice(&base_62(xxh3_128(&encode_context(clock))))
}

/// Encodes each 64-bit half as 11 digits, since 64-bit divisions cost a tenth of 128-bit ones.
#[expect(clippy::indexing_slicing, reason = "a remainder of 62 is the number of a digit")]
fn base_62(number: u128) -> [u8; NAME_CHARS] {
    let mut text = [0; NAME_CHARS];
    let (high, low) = text.split_at_mut(HALF_DIGITS);
    for (half, mut rest) in [(high, (number >> 64) as u64), (low, low_u64(number))] {
        for digit in half.iter_mut().rev() {
            *digit = DIGITS[(rest % 62) as usize];
            rest /= 62;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::dot;

    #[test]
    fn numbers_become_fixed_base_62_text() {
        assert_eq!(base_62(0), *b"0000000000000000000000");
        assert_eq!(base_62(61), *b"000000000000000000000z");
        assert_eq!(base_62(62 << 64), *b"0000000001000000000000");
        assert_eq!(base_62(u128::MAX), *b"LygHa16AHYFLygHa16AHYF");
    }

    #[test]
    fn tags_differ_by_record_actor_and_counter() {
        let long = [1; 49];
        let mut tags = vec![
            make_vtag(&dot(b"a", 1), 7),
            make_vtag(&dot(b"a", 2), 7),
            make_vtag(&dot(b"b", 1), 7),
            make_vtag(&dot(b"a", 1), 8),
            make_vtag(&dot(&long, 1), 7),
            make_vtag(&dot(&long[1..], 1), 7),
        ];
        assert!(tags.iter().all(|tag| tag.len() == NAME_CHARS));
        assert_eq!(tags[0], make_vtag(&Dot { time_secs: 9, ..dot(b"a", 1) }, 7));
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 6);
    }

    #[test]
    fn riak_counts_seconds_from_year_0() {
        assert_eq!(riak_secs(1_632_780_800), 63_800_000_000);
        assert_eq!(unix_secs(63_800_000_000), 1_632_780_800);
        assert_eq!(unix_secs(5), 0);
    }
}
