//! Keys that are text, made of numbers and random bits.

use std::io::Write as _;

use super::{Key, KeyKind};
use crate::random::{Random, hex, mix};

/// Replaces `bytes` by the decimal digits of `integer`.
pub(super) fn write_decimal(bytes: &mut Vec<u8>, integer: i64) {
    bytes.clear();
    write!(bytes, "{integer}").expect("writing to a vector does not fail");
}

/// Replaces the bytes of a key by its external term, in the format of Erlang's `term_to_binary`: tags 97,
/// 98 and 110 for integers, 106, 107 and 108 for strings, 109 for binaries.
pub(super) fn write_external_term(key: &mut Key, kind: KeyKind) {
    let bytes = std::mem::take(&mut key.bytes);
    let term = &mut key.bytes;
    term.push(131);
    // Configurations limit keys to sizes far below 4 GiB.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    match kind {
        KeyKind::Integer => match (u8::try_from(key.integer), i32::try_from(key.integer)) {
            (Ok(small), _) => term.extend([97, small]),
            (_, Ok(integer)) => {
                term.push(98);
                term.extend(integer.to_be_bytes());
            }
            _ => {
                let magnitude = key.integer.unsigned_abs();
                let size = quoit_number::low_u8(8 - u64::from(magnitude.leading_zeros()) / 8);
                let sign = u8::from(key.integer < 0);
                term.extend([110, size, sign]);
                term.extend(magnitude.to_le_bytes().iter().take(usize::from(size)));
            }
        },
        KeyKind::String if bytes.is_empty() => term.push(106),
        KeyKind::String => match u16::try_from(bytes.len()) {
            Ok(length) => {
                term.push(107);
                term.extend(length.to_be_bytes());
                term.extend(bytes);
            }
            // A string longer than 65,535 bytes is encoded as a list of integers.
            Err(_) => {
                term.push(108);
                term.extend(length);
                term.extend(bytes.into_iter().flat_map(|byte| [97, byte]));
                term.push(106);
            }
        },
        KeyKind::Binary => {
            term.push(109);
            term.extend(length);
            term.extend(bytes);
        }
    }
}

/// Splits `integer` by successive moduli: the first piece is the remainder by the first modulus, and the
/// quotient is then divided by the next modulus. Pieces are never negative.
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

/// Writes the text of key `number`. Each group is a hash of the number and the group's position, the same
/// in every run and release.
pub(super) fn write_dynamo(bytes: &mut Vec<u8>, number: u64) {
    let start = mix(number);
    write_groups(bytes, |index| hex(mix(start ^ index)));
}

/// Replaces `bytes` by a random UUID of version 4, either raw or as text with `separator` between its five
/// groups.
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
