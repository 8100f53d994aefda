//! Keys of Riak's LevelDB backend: terms in an encoding whose bytes have the order of the terms.

use bytes::Bytes;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::key::DEFAULT_BUCKET_TYPE;

const ATOM: u8 = 12;
const TUPLE: u8 = 16;
const BINARY: u8 = 18;
/// Ends the bytes of an atom or a binary.
const END: u8 = 8;

/// Decodes the name of a record; returns `None` for index entries, for the backend's own entries,
/// and for bytes that are not such a key.
pub(crate) fn record_of(key: &[u8]) -> Option<BitcaskKey> {
    let mut input = key;
    let (kind, count) = (atom_of_tuple(&mut input)?, 3);
    if kind != (b"o".to_vec(), count) {
        return None;
    }
    let (bucket_type, bucket) = match input.first()? {
        &TUPLE => {
            if tuple(&mut input)? != 2 {
                return None;
            }
            (binary(&mut input)?, binary(&mut input)?)
        }
        _ => (Bytes::from_static(DEFAULT_BUCKET_TYPE), binary(&mut input)?),
    };
    let key = binary(&mut input)?;
    input.is_empty().then_some(BitcaskKey { bucket_type, bucket, key })
}

/// The first atom of a tuple, and the tuple's number of elements.
fn atom_of_tuple(input: &mut &[u8]) -> Option<(Vec<u8>, u32)> {
    let count = tuple(input)?;
    take(input, ATOM)?;
    Some((elements(input)?, count))
}

fn tuple(input: &mut &[u8]) -> Option<u32> {
    take(input, TUPLE)?;
    let (count, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u32::from_be_bytes(*count))
}

fn binary(input: &mut &[u8]) -> Option<Bytes> {
    take(input, BINARY)?;
    elements(input).map(Bytes::from)
}

fn take(input: &mut &[u8], tag: u8) -> Option<()> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    (*first == tag).then_some(())
}

/// Reads bytes that are stored as nine bits each, a one and the byte. A zero bit ends them and pads
/// to a whole byte; then comes [`END`].
fn elements(input: &mut &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at_bit = 0;
    // An empty byte string is the end byte alone.
    if let Some((&END, rest)) = input.split_first() {
        *input = rest;
        return Some(bytes);
    }
    let bit = |place: usize| input.get(place / 8).map(|byte| byte >> (7 - place % 8) & 1);
    while bit(at_bit)? == 1 {
        let mut byte = 0;
        for place in at_bit + 1..at_bit + 9 {
            byte = byte << 1 | bit(place)?;
        }
        bytes.push(byte);
        at_bit += 9;
    }
    let padded = at_bit / 8 + 1;
    let (end, rest) = input.get(padded..)?.split_first()?;
    *input = rest;
    (*end == END).then_some(bytes)
}

/// Decodes bytes as a key, for fuzzing. Must return for all bytes.
pub fn fuzz_sext(bytes: &[u8]) {
    let _ = record_of(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digit = |place: usize| u8::from_str_radix(&text[place..place + 2], 16).expect("digits");
        (0..text.len()).step_by(2).map(digit).collect()
    }

    /// The record TYPE/BUCKET/KEY.
    fn name(path: &'static str) -> BitcaskKey {
        let mut parts = path.split('/').map(|part| Bytes::from_static(part.as_bytes()));
        let mut part = || parts.next().expect("three parts");
        BitcaskKey { bucket_type: part(), bucket: part(), key: part() }
    }

    #[test]
    fn keys_of_objects_are_names() {
        let untyped = hex("10000000030cb7800812b1000812b58008");
        assert_eq!(record_of(&untyped), Some(name("default/b/k")));
        let typed = hex("10000000030cb78008100000000212ba000812b1000812b58008");
        assert_eq!(record_of(&typed), Some(name("t/b/k")));
    }

    #[test]
    fn other_keys_are_none() {
        let index = hex("10000000050cb4800812b1000812b357ec569b700812bc000812b58008");
        assert_eq!(record_of(&index), None);
        assert_eq!(record_of(b""), None);
        let whole = hex("10000000030cb7800812b1000812b58008");
        for len in 0..whole.len() {
            assert_eq!(record_of(&whole[..len]), None, "{len}");
        }
    }

    #[test]
    fn elements_of_every_length_are_read() {
        for (encoded, expected) in
            [("08", ""), ("b08008", "a"), ("b0d8ac764b2d9acf680008", "abcdefgh")]
        {
            let encoded = hex(encoded);
            let mut input = encoded.as_slice();
            assert_eq!(elements(&mut input).as_deref(), Some(expected.as_bytes()));
            assert!(input.is_empty());
        }
    }
}
