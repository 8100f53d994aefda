use super::*;
use crate::object::Metadata;
use crate::test_objects::{actor, any_object, dot};
use proptest::prelude::*;

fn encoded(object: &Object) -> Bytes {
    let mut out = Vec::new();
    object.encode_into(&mut out);
    Bytes::from(out)
}

/// The debug form, which has the times and the order of clock entries that `==` ignores.
fn exactly(object: &Object) -> String {
    format!("{object:?}")
}

proptest! {
    #[test]
    fn every_object_comes_back_as_it_was(object in any_object()) {
        let bytes = encoded(&object);
        let decoded = Object::decode(&bytes).expect("own encoding");
        prop_assert_eq!(exactly(&decoded), exactly(&object));
        let clock = Object::decode_clock(&bytes).expect("own encoding");
        prop_assert_eq!(format!("{clock:?}"), format!("{:?}", object.clock));
        prop_assert_eq!(encoded(&decoded), bytes);
    }

    #[test]
    fn the_front_and_the_last_value_are_the_stored_form(
        object in any_object(),
        bytes_min in 0..40usize,
    ) {
        let mut front = b"before".to_vec();
        let rest = object.encode_front_into(bytes_min, &mut front);
        prop_assert_eq!([&front[6..], &rest].concat(), encoded(&object));
        let last_bytes = object.siblings.last().map_or(0, |sibling| sibling.value.len());
        let is_left_out = last_bytes > 0 && last_bytes >= bytes_min;
        prop_assert_eq!(rest.len(), if is_left_out { last_bytes } else { 0 });
    }

    #[test]
    fn an_object_cut_off_anywhere_is_an_error(
        object in any_object(),
        cut: prop::sample::Index,
    ) {
        let bytes = encoded(&object);
        let len = cut.index(bytes.len());
        prop_assert!(Object::decode(&bytes.slice(..len)).is_err());
    }

    #[test]
    fn surplus_bytes_are_an_error(object in any_object(), surplus in 1usize..9) {
        let mut bytes = encoded(&object).to_vec();
        bytes.resize(bytes.len() + surplus, 0);
        prop_assert!(Object::decode(&bytes.into()).is_err());
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        own: bool,
    ) {
        if own && let Some(first) = bytes.first_mut() {
            *first = OBJECT_FORMAT_1;
        }
        let _ = Object::decode(&bytes.into());
    }

    #[test]
    fn mutated_objects_never_panic_and_reencode(
        object in any_object(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encoded(&object).to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(decoded) = Object::decode(&Bytes::from(bytes)) {
            let again = Object::decode(&encoded(&decoded)).expect("own encoding");
            prop_assert_eq!(exactly(&again), exactly(&decoded));
        }
    }
}

/// The example of `docs/design/object-format.md`, byte by byte.
#[test]
fn the_documented_example_is_what_is_written() {
    let event = Dot { time_secs: 63_800_000_000, ..dot(b"\x01\x02\x03\x04\0\0\0\x01", 1) };
    let mut clock = VersionVector::default();
    clock.advance(&event);
    let sibling = Sibling {
        dot: Some(event),
        last_modified_us: 1_600_000_000_000_007,
        vtag: Bytes::from_static(b"tag"),
        meta: Metadata {
            content_type: Some(Bytes::from_static(b"text/plain")),
            ..Metadata::default()
        },
        value: Bytes::from_static(b"v"),
        ..Sibling::default()
    };
    let object = Object { clock, siblings: [sibling].into_iter().collect() };
    let expected = [
        &[0x51, 1, 8, 1, 2, 3, 4, 0, 0, 0, 1, 1][..],
        &[0x80, 0xfc, 0x9a, 0xd6, 0xed, 0x01],
        &[1, 0x3a, 0x00, 0],
        &1_600_000_000_000_007u64.to_le_bytes(),
        b"\x03tag\x05\x01v",
    ];
    assert_eq!(encoded(&object), expected.concat());
}

#[test]
fn content_types_are_written_out_unless_the_format_numbers_them() {
    let written = |content_type: &'static str| {
        let content_type = Some(Bytes::from_static(content_type.as_bytes()));
        let meta = Metadata { content_type, ..Metadata::default() };
        let sibling = Sibling { meta, ..Sibling::default() };
        encoded(&Object { siblings: [sibling].into_iter().collect(), ..Object::default() })
    };
    assert_eq!(written("a/b"), b"\x51\0\x01\x20\0\x06a/b\0".as_slice());
    assert_eq!(written(""), b"\x51\0\x01\x20\0\0\0".as_slice());
    for (content_type, number) in [("application/json", 1), ("text/plain", 5), ("image/png", 23)] {
        assert_eq!(written(content_type), [0x51, 0, 1, 0x20, 0, number, 0].as_slice());
    }
    let unknown = Object::decode(&Bytes::from_static(&[0x51, 0, 1, 0x20, 0, 25, 0]));
    assert!(matches!(unknown, Err(ObjectError::BadField { value: 25, .. })), "{unknown:?}");
}

#[test]
fn a_value_shares_the_input() {
    let sibling = Sibling { value: Bytes::from(vec![7; 4096]), ..Sibling::default() };
    let object = Object { siblings: [sibling].into_iter().collect(), ..Object::default() };
    let bytes = encoded(&object);
    let decoded = Object::decode(&bytes).expect("own encoding");
    assert!(bytes.as_ptr_range().contains(&decoded.siblings[0].value.as_ptr()));
}

#[test]
fn riak_objects_are_told_apart_by_their_first_byte() {
    for format in [53, 131] {
        let error =
            Object::decode(&Bytes::copy_from_slice(&[format, 1, 0, 0])).expect_err("foreign");
        assert_eq!(error, ObjectError::UnknownFormat { format });
    }
}

#[test]
fn an_actor_twice_in_a_clock_is_an_error() {
    let entry = [1, b'a', 1, 0];
    let bytes = [&[OBJECT_FORMAT_1, 2][..], &entry, &entry, &[0]].concat();
    let error = Object::decode(&bytes.into()).expect_err("two entries of one actor");
    assert!(matches!(error, ObjectError::BadField { .. }), "{error}");

    let mut bytes = vec![OBJECT_FORMAT_1, 40];
    for name in 0..39u8 {
        bytes.extend_from_slice(&[1, name, 1, 0]);
    }
    bytes.extend_from_slice(&[1, 7, 1, 0, 0]);
    assert!(Object::decode(&bytes.into()).is_err());
}

#[test]
fn a_counter_of_0_is_an_error() {
    let error = Object::decode(&Bytes::from_static(&[OBJECT_FORMAT_1, 1, 1, b'a', 0, 0, 0]));
    assert!(matches!(error, Err(ObjectError::BadField { what: "counter", .. })), "{error:?}");
}

fn dotted(name: &[u8], counter: u64) -> Sibling {
    Sibling { dot: Some(dot(name, counter)), ..Sibling::default() }
}

fn object_of(dots: &[Dot], siblings: &[Sibling]) -> Object {
    let clock = VersionVector::from_entries(dots.iter().cloned());
    Object { clock, siblings: siblings.iter().cloned().collect() }
}

#[test]
fn the_digest_ignores_order_and_times() {
    let (one, two) = (dot(b"a", 1), dot(b"b", 2));
    let values = [dotted(b"a", 1), dotted(b"b", 2)];
    let object = object_of(&[one.clone(), two.clone()], &values);
    let turned = object_of(
        &[Dot { time_secs: 9, ..two }, one],
        &[values[1].clone(), Sibling { last_modified_us: 5, ..values[0].clone() }],
    );
    assert_eq!(object.digest(), turned.digest());
}

#[test]
fn the_digest_tells_states_apart() {
    let undotted = Sibling { vtag: Bytes::from_static(b"t"), ..Sibling::default() };
    let states = [
        object_of(&[], &[]),
        object_of(&[dot(b"a", 1)], &[]),
        object_of(&[dot(b"a", 2)], &[]),
        object_of(&[dot(b"a", 2)], &[dotted(b"a", 2)]),
        object_of(&[dot(b"a", 2)], &[dotted(b"a", 1)]),
        object_of(&[dot(b"a", 2)], &[Sibling { deleted: true, ..dotted(b"a", 2) }]),
        object_of(&[dot(b"a", 2)], &[dotted(b"a", 1), dotted(b"a", 2)]),
        object_of(&[dot(b"a", 2), dot(b"b", 2)], &[dotted(b"a", 2)]),
        object_of(&[], std::slice::from_ref(&undotted)),
        object_of(&[], &[Sibling { last_modified_us: 1, ..undotted.clone() }]),
        object_of(&[], &[Sibling { vtag: Bytes::from_static(b"u"), ..undotted.clone() }]),
        object_of(&[], &[Sibling { value: Bytes::from_static(b"v"), ..undotted.clone() }]),
        object_of(&[], &[Sibling { deleted: true, ..undotted.clone() }]),
        object_of(&[], &[undotted.clone(), undotted]),
        object_of(&[dot(&[1; 56], 1)], &[]),
        object_of(&[dot(&[1; 57], 1)], &[]),
    ];
    let mut digests: Vec<u64> = states.iter().map(Object::digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), states.len());
}

#[test]
fn of_equal_counters_the_later_time_stays() {
    let at = |time_secs| VersionVector::from_entries([Dot { time_secs, ..dot(b"p", 1) }]);
    for (mut one, other) in [(at(5), at(9)), (at(9), at(5))] {
        one.merge(&other);
        assert_eq!(one.entries()[0].time_secs, 9);
    }
}

#[test]
fn vectors_with_thousands_of_entries_follow_the_same_rules() {
    let many = |from: u32, to: u32, counter: u64| {
        VersionVector::from_entries((from..to).map(|name| dot(&name.to_be_bytes(), counter)))
    };
    let (low, high) = (many(0, 600, 2), many(300, 900, 1));
    let mut all = low.clone();
    all.merge(&high);
    assert_eq!(all.entries().len(), 900);
    assert!(all.descends(&low) && all.descends(&high));
    assert!(!low.descends(&all) && !high.descends(&low));
    assert_eq!(all.counter(&actor(&400u32.to_be_bytes())), 2);
    assert_eq!(all.entries()[0].actor, actor(&0u32.to_be_bytes()));
    let mut other_way = high.clone();
    other_way.merge(&low);
    assert_eq!(other_way, all);
    assert_eq!(other_way.counter(&actor(&400u32.to_be_bytes())), 2, "the higher counter stays");
}
