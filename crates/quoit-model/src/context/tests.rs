use super::*;
use crate::test_objects::{actor, any_vector, dot};
use proptest::prelude::*;
use std::io::Write as _;

/// The clock of Riak's example: actor 01 02 03 04 00 00 00 01, counter 1, time 63800000000.
const RIAK_CLOCK: &[u8] = b"\x83l\0\0\0\x01h\x02m\0\0\0\x08\x01\x02\x03\x04\0\0\0\x01h\x02a\x01\
    n\x05\0\0\xbe\xc6\xda\x0ej";

/// The context that Riak sends for this clock; in base64
/// `a85hYGBgzGDKBVIcjEzMLBBuImMeKwPDvmO3+LIA`.
const RIAK_CONTEXT: &[u8] = &[
    0x6b, 0xce, 0x61, 0x60, 0x60, 0x60, 0xcc, 0x60, 0xca, 0x05, 0x52, 0x1c, 0x8c, 0x4c, 0xcc, 0x2c,
    0x10, 0x6e, 0x22, 0x63, 0x1e, 0x2b, 0x03, 0xc3, 0xbe, 0x63, 0xb7, 0xf8, 0xb2, 0x00,
];

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn example() -> VersionVector {
    VersionVector::from_entries([dot(b"\x01\x02\x03\x04\0\0\0\x01", 1)])
}

proptest! {
    #[test]
    fn a_context_brings_back_its_clock(clock in any_vector()) {
        let context = encode_context(&clock);
        prop_assert!(!context.is_empty());
        prop_assert_eq!(decode_context(&context), Ok(clock));
    }

    #[test]
    fn equal_clocks_have_equal_contexts(
        clock in any_vector(),
        order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
        time_secs: u64,
    ) {
        let entry = |place| clock.entries().get(place).cloned();
        let entries = order.into_iter().filter_map(entry).map(|entry| Dot { time_secs, ..entry });
        let turned = VersionVector::from_entries(entries);
        prop_assert_eq!(encode_context(&turned), encode_context(&clock));
    }

    #[test]
    fn a_damaged_context_is_an_error(
        clock in any_vector(),
        place: prop::sample::Index,
        flip in 1u8..,
    ) {
        let context = encode_context(&clock);
        let cut = 1 + place.index(context.len() - 1);
        prop_assert_eq!(decode_context(&context[..cut]).is_ok(), cut == context.len());
        let mut damaged = context.to_vec();
        let place = 1 + place.index(damaged.len() - 1);
        damaged[place] ^= flip;
        prop_assert!(decode_context(&damaged).is_err());
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..100),
        kind in 0..4,
    ) {
        if let (Some(first), 0..2) = (bytes.first_mut(), kind) {
            *first = [CONTEXT_FORMAT_1, ETF_VERSION][kind as usize];
        }
        let _ = decode_context(&bytes);
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);
        let _ = decode_context(&bytes);
        let _ = decode_context(&deflate(&bytes));
    }
}

#[test]
fn no_context_is_an_empty_clock() {
    assert_eq!(decode_context(b""), Ok(VersionVector::default()));
    assert_eq!(decode_context(&encode_context(&VersionVector::default())), Ok(Default::default()));
}

#[test]
fn the_form_is_as_documented() {
    let context = encode_context(&VersionVector::from_entries([dot(b"b", 300), dot(b"a", 1)]));
    let body = b"\x57\x02\x01a\x01\x01b\xac\x02";
    assert_eq!(context, [&body[..], &checksum(body)].concat());
}

#[test]
fn only_sorted_actors_with_counters_pass_even_with_a_right_checksum() {
    let check = |body: &[u8]| decode_context(&[body, &checksum(body)].concat()).is_ok();
    assert!(check(b"\x57\x02\x01a\x01\x01b\x01"));
    assert!(!check(b"\x57\x02\x01b\x01\x01a\x01"));
    assert!(!check(b"\x57\x02\x01a\x01\x01a\x02"));
    assert!(!check(b"\x57\x01\x01a\x00"));
    assert!(!check(b"\x57\x01\x01a\x01\x00"));
    assert!(!check(b"\x57\x02\x01a\x01"));
}

#[test]
fn contexts_of_riak_are_taken_in_all_their_forms() {
    let raw = [&b"\x83h\x02d\0\x0aencode_raw"[..], &RIAK_CLOCK[1..]].concat();
    let deflated = deflate(RIAK_CLOCK);
    let len = (deflated.len() as u32).to_be_bytes();
    let zlib = [&b"\x83h\x02w\x0bencode_zlibm"[..], &len, &deflated].concat();
    for context in [RIAK_CONTEXT, &raw, &deflated, &zlib] {
        let clock = decode_context(context).expect("a context of Riak's");
        assert_eq!(clock, example());
        assert_eq!(clock.entries()[0].time_secs, 63_800_000_000);
    }
}

#[test]
fn the_first_byte_begins_no_deflate_stream() {
    assert_eq!(CONTEXT_FORMAT_1 >> 1 & 3, 3);
    assert_eq!(inflate_raw(&[CONTEXT_FORMAT_1; 64], 1000), None);
}

#[test]
fn an_error_names_the_bytes_and_the_remedy() {
    let error = decode_context(b"\x00garbage!").expect_err("garbage").to_string();
    assert!(error.contains("9 bytes") && error.contains("00676172626167"), "{error}");
    assert!(error.contains("send back the bytes of an earlier answer"), "{error}");
}

#[test]
fn inflation_is_bounded() {
    let bomb = deflate(&vec![0; RIAK_CLOCK_BYTES_MAX + 1]);
    let error = decode_context(&bomb).expect_err("too large").to_string();
    assert!(error.contains("1048576"), "{error}");
    let bomb = deflate(&[deflate(&vec![0; 1 << 23]), vec![0]].concat());
    assert!(decode_context(&bomb).is_err());
}

fn many(entry_count: u32) -> VersionVector {
    VersionVector::from_entries((0..entry_count).map(|name| dot(&name.to_be_bytes(), 1)))
}

#[test]
fn the_number_of_entries_is_bounded_in_every_form() {
    let most = CONTEXT_ENTRIES_MAX as u32;
    let riak = |clock: &VersionVector| {
        let mut out = Vec::new();
        encode_riak_clock(clock, &mut out);
        deflate(&out)
    };
    let (fits, over) = (many(most), many(most + 1));
    assert_eq!(decode_context(&encode_context(&fits)), Ok(fits.clone()));
    assert_eq!(decode_context(&riak(&fits)), Ok(fits));
    let error = ContextError::TooManyEntries { entry_count: CONTEXT_ENTRIES_MAX + 1 };
    assert_eq!(decode_context(&encode_context(&over)), Err(error.clone()));
    assert_eq!(decode_context(&riak(&over)), Err(error));
    assert!(decode_context(&riak(&many(most + 100))).is_err());
}

#[test]
fn events_that_this_store_never_issued_are_refused() {
    let own = actor(b"own");
    let clock = VersionVector::from_entries([dot(b"own", 7), dot(b"foreign", 1 << 60)]);
    assert_eq!(check_context(&clock, &own, 7), Ok(()));
    let error = check_context(&clock, &own, 6).expect_err("7 was never issued").to_string();
    assert!(error.contains("event 7") && error.contains("6f776e"), "{error}");
    assert_eq!(check_context(&clock, &actor(b"other"), 0), Ok(()));
}
