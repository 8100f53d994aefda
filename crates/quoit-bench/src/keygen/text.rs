//! Keys that are text made of numbers and random bits.

use std::io::Write as _;

use super::Key;
use crate::random::{Random, hex, mix};

/// Replaces `bytes` by the decimal digits of `integer`.
pub(super) fn write_decimal(bytes: &mut Vec<u8>, integer: i64) {
    bytes.clear();
    write!(bytes, "{integer}").expect("writing to a vector does not fail");
}

/// Splits `integer` by successive moduli: the first piece is the integer modulo the first of
/// them, the next goes on with the quotient. Pieces of a negative integer are not negative.
pub(super) fn split(integer: i64, moduli: &[i64], pieces: &mut Vec<Key>) {
    let mut rest = integer;
    pieces.clear();
    pieces.extend(moduli.iter().map(|modulus| {
        let piece = Key { integer: rest.rem_euclid(*modulus), bytes: Vec::new() };
        rest = rest.div_euclid(*modulus);
        piece
    }));
}

/// Replaces `bytes` by four groups of 16 digits joined by `-`, 67 bytes in all.
pub(super) fn write_groups(bytes: &mut Vec<u8>, mut group: impl FnMut(u64) -> [u8; 16]) {
    bytes.clear();
    for index in 0..4 {
        if index > 0 {
            bytes.push(b'-');
        }
        bytes.extend_from_slice(&group(index));
    }
}

/// The text of key `number`: each group is a hash of the number and the place of the group, the
/// same in every run and release.
pub(super) fn write_dynamo(bytes: &mut Vec<u8>, number: u64) {
    let start = mix(number);
    write_groups(bytes, |index| hex(mix(start ^ index)));
}

/// Replaces `bytes` by a random UUID of version 4: raw, or as text with `separator` between its
/// five groups.
pub(super) fn write_uuid(bytes: &mut Vec<u8>, random: &mut Random, separator: Option<&[u8]>) {
    let high = random.bits() & !0xf000 | 0x4000;
    let low = random.bits() & !(0b11 << 62) | (0b10 << 62);
    bytes.clear();
    let Some(separator) = separator else {
        bytes.extend_from_slice(&high.to_be_bytes());
        bytes.extend_from_slice(&low.to_be_bytes());
        return;
    };
    let (high, low) = (hex(high), hex(low));
    let groups = [&high[..8], &high[8..12], &high[12..], &low[..4], &low[4..]];
    for (index, group) in groups.into_iter().enumerate() {
        if index > 0 {
            bytes.extend_from_slice(separator);
        }
        bytes.extend_from_slice(group);
    }
}
