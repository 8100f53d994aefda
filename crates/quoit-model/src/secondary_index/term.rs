//! Encoding of terms as bytes that have the order of the terms.
//!
//! An integer n >= 0 is a byte 0x20 plus the number of its bytes without leading zero bytes,
//! followed by these bytes, highest first. An integer n < 0 is a byte 0x1f less the number of bytes
//! of -1 - n, followed by these bytes inverted. If there are more than 16 bytes, 17 takes the place
//! of their number, which follows in four bytes, inverted for n < 0. A binary is a byte 0x40 and an
//! [ordered part](crate::ordered_bytes).

use crate::index_integer::IndexInteger;
use crate::object::IndexTerm;
use crate::ordered_bytes::{push_part, read_part};
use bytes::Bytes;
use quoit_number::{length_u32, low_u8};

const FROM_ZERO: u8 = 0x20;
const BELOW_ZERO: u8 = 0x1f;
const BINARY: u8 = 0x40;
/// Maximum number of bytes that the first byte can state. One more says that the number follows.
const COUNTED_BYTES_MAX: u8 = 16;
const MORE_BYTES: u8 = COUNTED_BYTES_MAX + 1;

pub(super) fn push_term(out: &mut Vec<u8>, term: &IndexTerm) {
    match term {
        IndexTerm::Integer(number) => push_integer(out, number),
        IndexTerm::Binary(term) => {
            out.push(BINARY);
            push_part(out, term);
        }
    }
}

fn push_integer(out: &mut Vec<u8>, number: &IndexInteger) {
    match number.to_i128() {
        Some(number) => push_small(out, number),
        None => push_large(out, number),
    }
}

#[expect(clippy::indexing_slicing, reason = "`small_form` counts leading bytes of the number")]
fn push_small(out: &mut Vec<u8>, number: i128) {
    let (kind, skipped) = small_form(number);
    out.push(kind);
    // The two's complement bytes of a negative number are the inverted bytes of -1 - n.
    out.extend_from_slice(&number.to_be_bytes()[skipped..]);
}

/// The first byte of a number's form, and the number of leading bytes that are omitted.
fn small_form(number: i128) -> (u8, usize) {
    let is_below = number < 0;
    // For n < 0, -1 - n is !n, which is not negative.
    let size = if is_below { !number } else { number };
    let skipped = low_u8((size.leading_zeros() / 8).into());
    let count = COUNTED_BYTES_MAX - skipped;
    (if is_below { BELOW_ZERO - count } else { FROM_ZERO + count }, skipped.into())
}

/// Appends a number outside the range of `i128`.
fn push_large(out: &mut Vec<u8>, number: &IndexInteger) {
    let (is_below, mut size) = number.sign_and_magnitude();
    if is_below {
        subtract_one(&mut size);
    }
    size.reverse();
    let count = u8::try_from(size.len()).map_or(MORE_BYTES, |count| count.min(MORE_BYTES));
    out.push(if is_below { BELOW_ZERO - count } else { FROM_ZERO + count });
    let inverted = if is_below { u8::MAX } else { 0 };
    if count == MORE_BYTES {
        let length = length_u32(size.len()).to_be_bytes();
        out.extend(length.map(|byte| byte ^ inverted));
    }
    out.extend(size.iter().map(|byte| byte ^ inverted));
}

/// Subtracts one from a positive number with the lowest byte first; the result has no zero byte at
/// the end.
fn subtract_one(number: &mut Vec<u8>) {
    for byte in &mut *number {
        let borrows = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrows {
            break;
        }
    }
    if number.last() == Some(&0) {
        number.pop();
    }
}

/// Adds one to a number with the lowest byte first.
fn add_one(number: &mut Vec<u8>) {
    for byte in &mut *number {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
    number.push(1);
}

/// Reads the term at the beginning of the bytes; returns it with the bytes that follow.
pub(super) fn read_term(bytes: &[u8]) -> Option<(IndexTerm, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    if *kind == BINARY {
        let (term, rest) = read_part(rest)?;
        return Some((IndexTerm::Binary(Bytes::from(term)), rest));
    }
    let (is_below, count) = match *kind {
        kind @ FROM_ZERO.. => (false, kind - FROM_ZERO),
        kind => (true, BELOW_ZERO - kind),
    };
    if let Some(skipped) = COUNTED_BYTES_MAX.checked_sub(count) {
        let (digits, rest) = rest.split_at_checked(usize::from(count))?;
        let mut number = [if is_below { u8::MAX } else { 0 }; COUNTED_BYTES_MAX as usize];
        number.get_mut(usize::from(skipped)..)?.copy_from_slice(digits);
        let number = i128::from_be_bytes(number);
        if (number < 0) == is_below {
            // A number that is not in its shortest form is refused.
            return (small_form(number).0 == *kind).then(|| (IndexTerm::integer(number), rest));
        }
    }
    read_large(bytes, is_below, count)
}

/// Reads a number outside the range of `i128`.
fn read_large(bytes: &[u8], is_below: bool, count: u8) -> Option<(IndexTerm, &[u8])> {
    let inverted = if is_below { u8::MAX } else { 0 };
    let (_, rest) = bytes.split_first()?;
    let (count, digits) = if count == MORE_BYTES {
        let (length, digits) = rest.split_first_chunk::<4>()?;
        (u32::from_be_bytes(length.map(|byte| byte ^ inverted)) as usize, digits)
    } else {
        (usize::from(count), rest)
    };
    let (digits, after) = digits.split_at_checked(count)?;
    let mut size: Vec<u8> = digits.iter().rev().map(|byte| byte ^ inverted).collect();
    if is_below {
        add_one(&mut size);
    }
    let number = IndexInteger::from_sign_and_magnitude(is_below, &size)?;
    // A number that is not in its shortest form is refused.
    let read = bytes.strip_suffix(after)?;
    let mut only = Vec::with_capacity(read.len());
    push_integer(&mut only, &number);
    (only == read).then_some((IndexTerm::Integer(number), after))
}
