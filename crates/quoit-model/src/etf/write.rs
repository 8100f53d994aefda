//! Writer of whole terms, and of parts for callers without a [`Term`]. No function here writes the
//! version byte.

use super::{Term, tag};

/// Appends an integer.
#[expect(clippy::indexing_slicing, reason = "16 bytes, less the zero bytes at the end")]
pub fn put_integer(out: &mut Vec<u8>, integer: i128) {
    if let Ok(small) = u8::try_from(integer) {
        out.extend_from_slice(&[tag::SMALL_INTEGER, small]);
    } else if let Ok(medium) = i32::try_from(integer) {
        out.push(tag::INTEGER);
        out.extend_from_slice(&medium.to_be_bytes());
    } else {
        let magnitude = integer.unsigned_abs().to_le_bytes();
        let significant = 16 - (integer.unsigned_abs().leading_zeros() / 8) as usize;
        put_big(out, integer < 0, &magnitude[..significant]);
    }
}

/// Appends an integer of more than 128 bits, given by its sign and its magnitude (lowest byte
/// first, without zero bytes at the end).
pub fn put_big(out: &mut Vec<u8>, negative: bool, magnitude: &[u8]) {
    match u8::try_from(magnitude.len()) {
        Ok(len) => out.extend_from_slice(&[tag::SMALL_BIG, len]),
        Err(_) => put_tagged_len(out, tag::LARGE_BIG, magnitude.len()),
    }
    out.push(negative.into());
    out.extend_from_slice(magnitude);
}

fn put_tagged_len(out: &mut Vec<u8>, tag: u8, len: usize) {
    let len = u32::try_from(len).expect("terms are bounded by the size of an object, under 4 GiB");
    out.push(tag);
    out.extend_from_slice(&len.to_be_bytes());
}

/// Appends a binary.
///
/// # Panics
///
/// Panics if the binary has 4 GiB or more, as do the other functions here. Objects are far smaller.
pub fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    put_tagged_len(out, tag::BINARY, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the header of a tuple; its elements follow.
pub fn put_tuple_header(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(len) => out.extend_from_slice(&[tag::SMALL_TUPLE, len]),
        Err(_) => put_tagged_len(out, tag::LARGE_TUPLE, len),
    }
}

/// Appends the header of a list that is not empty. Its elements follow, then a tail, which is
/// [`put_nil`] for a proper list.
pub fn put_list_header(out: &mut Vec<u8>, len: usize) {
    put_tagged_len(out, tag::LIST, len);
}

/// Appends the empty list.
pub fn put_nil(out: &mut Vec<u8>) {
    out.push(tag::NIL);
}

/// Appends an Erlang string, which is a list of integers from 0 to 255.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    // A list is written as a string if its length fits the two bytes for it.
    match u16::try_from(text.len()) {
        Ok(0) => put_nil(out),
        Ok(len) => {
            out.push(tag::STRING);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(text);
        }
        Err(_) => {
            put_list_header(out, text.len());
            for byte in text {
                out.extend_from_slice(&[tag::SMALL_INTEGER, *byte]);
            }
            put_nil(out);
        }
    }
}

fn put_atom(out: &mut Vec<u8>, name: &[u8]) {
    let len = u16::try_from(name.len()).expect("atoms have at most 255 characters");
    out.push(tag::ATOM);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(name);
}

/// Appends a term.
pub fn put_term(out: &mut Vec<u8>, term: &Term) {
    match term {
        Term::Integer(integer) => put_integer(out, *integer),
        Term::BigInteger { negative, magnitude } => put_big(out, *negative, magnitude),
        Term::Float(float) => {
            out.push(tag::FLOAT);
            out.extend_from_slice(&float.to_be_bytes());
        }
        Term::Atom(name) => put_atom(out, name),
        Term::Tuple(elements) => {
            put_tuple_header(out, elements.len());
            elements.iter().for_each(|element| put_term(out, element));
        }
        Term::List(elements) => match term.to_text() {
            Some(text) => put_text(out, &text),
            None => put_list(out, elements, None),
        },
        Term::ImproperList(elements, tail) => put_list(out, elements, Some(tail)),
        Term::Text(text) => put_text(out, text),
        Term::Binary(bytes) => put_binary(out, bytes),
        Term::Map(pairs) => {
            put_tagged_len(out, tag::MAP, pairs.len());
            for (key, value) in pairs {
                put_term(out, key);
                put_term(out, value);
            }
        }
    }
}

fn put_list(out: &mut Vec<u8>, elements: &[Term], tail: Option<&Term>) {
    put_list_header(out, elements.len());
    elements.iter().for_each(|element| put_term(out, element));
    match tail {
        Some(tail) => put_term(out, tail),
        None => put_nil(out),
    }
}
