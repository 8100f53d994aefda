//! Terms as bytes that are ordered as the terms are.
//!
//! An integer from 0 on is 0x20 plus the number of its bytes without leading zero bytes, and these. One below
//! 0 is 0x1f less the number of bytes that -1 minus it has, and these inverted. A binary is 0x40 and an
//! [ordered part](crate::ordered_bytes).

use crate::object::IndexTerm;
use crate::ordered_bytes::{push_part, read_part};
use bytes::Bytes;

const FROM_ZERO: u8 = 0x20;
const BELOW_ZERO: u8 = 0x1f;
const BINARY: u8 = 0x40;
const INTEGER_BYTES_MAX: u8 = 16;

pub(super) fn push_term(out: &mut Vec<u8>, term: &IndexTerm) {
    match term {
        IndexTerm::Integer(number) => push_integer(out, *number),
        IndexTerm::Binary(term) => {
            out.push(BINARY);
            push_part(out, term);
        }
    }
}

fn push_integer(out: &mut Vec<u8>, number: i128) {
    let is_below = number < 0;
    // -1 - n is !n, which is not below 0.
    let size = if is_below { !number } else { number } as u128;
    let skipped = size.leading_zeros() as usize / 8;
    let count = INTEGER_BYTES_MAX - skipped as u8;
    out.push(if is_below { BELOW_ZERO - count } else { FROM_ZERO + count });
    // The bytes of a number below 0 are those of its size inverted.
    out.extend_from_slice(&number.to_be_bytes()[skipped..]);
}

/// The term that the bytes begin with, and what follows it.
pub(super) fn read_term(bytes: &[u8]) -> Option<(IndexTerm, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    if *kind == BINARY {
        let (term, rest) = read_part(rest)?;
        return Some((IndexTerm::Binary(Bytes::from(term)), rest));
    }
    let (fill, count) = match *kind {
        kind @ FROM_ZERO.. => (0, kind - FROM_ZERO),
        kind => (u8::MAX, BELOW_ZERO - kind),
    };
    let skipped = INTEGER_BYTES_MAX.checked_sub(count)?;
    let (digits, rest) = rest.split_at_checked(usize::from(count))?;
    let mut number = [fill; INTEGER_BYTES_MAX as usize];
    number[usize::from(skipped)..].copy_from_slice(digits);
    let number = i128::from_be_bytes(number);
    // Shorter forms of a number, and others of its sign, are no terms.
    let mut only = Vec::with_capacity(17);
    push_integer(&mut only, number);
    (only.first() == Some(kind)).then_some((IndexTerm::Integer(number), rest))
}
