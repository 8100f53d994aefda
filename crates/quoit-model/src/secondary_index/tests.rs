use super::*;
use crate::index_integer::IndexInteger;
use crate::test_objects::{any_bytes, any_object};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Names and terms that are prefixes of others, with bytes at both ends of the range.
fn short() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..4)
        .prop_map(Bytes::from)
}

fn any_term() -> impl Strategy<Value = IndexTerm> {
    prop_oneof![
        any::<i128>().prop_map(IndexTerm::integer),
        (any::<i128>(), 0..128u32).prop_map(|(number, bits)| IndexTerm::integer(number >> bits)),
        (-300..300i128).prop_map(IndexTerm::integer),
        any_large_integer(),
        short().prop_map(IndexTerm::Binary),
    ]
}

/// Integers near the ends of `i128` and of the sizes that the first byte can state, and far beyond.
fn any_large_integer() -> impl Strategy<Value = IndexTerm> {
    let magnitude = prop_oneof![
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x80), Just(0xff)], 15..20),
        prop::collection::vec(any::<u8>(), 15..300),
    ];
    (any::<bool>(), magnitude).prop_map(|(is_negative, magnitude)| {
        let number = IndexInteger::from_sign_and_magnitude(is_negative, &magnitude);
        IndexTerm::Integer(number.expect("at most 300 bytes"))
    })
}

/// Bucket type, bucket, field, term and key.
type Named = (Bytes, Bytes, Bytes, IndexTerm, Bytes);

fn named() -> impl Strategy<Value = Named> {
    (short(), short(), short(), any_term(), short())
}

fn bucket(named: &Named) -> BucketRef<'_> {
    BucketRef { bucket_type: &named.0, bucket: &named.1 }
}

fn place(named: &Named) -> Vec<u8> {
    let entry = IndexEntry { field: named.2.clone(), term: named.3.clone() };
    entry.place(bucket(named).key(&named.4)).unwrap()
}

proptest! {
    #[test]
    fn places_are_ordered_as_what_they_stand_for(one in named(), other in named()) {
        let place = [&one, &other].map(place);
        prop_assert_eq!(place[0].cmp(&place[1]), one.cmp(&other));
        let record = [&one.0, &one.1, &one.4].map(|name| name.to_vec());
        prop_assert_eq!(record_of_place(&place[0]), Some(record));
        let (from, end) = bucket_span(bucket(&other));
        let is_within = from <= place[0] && place[0] < end;
        prop_assert_eq!(is_within, bucket(&one) == bucket(&other));
    }

    #[test]
    fn positions_are_ordered_and_come_back(one in (any_term(), short()), other in (any_term(), short())) {
        let [first, second] = [&one, &other].map(|(term, key)| IndexPosition::of(term, key));
        prop_assert_eq!(first.cmp(&second), one.cmp(&other));
        prop_assert_eq!(IndexPosition::from_bytes(first.as_bytes().clone()), Ok(first.clone()));
        prop_assert_eq!(first.parts(), one);
    }

    #[test]
    fn a_span_has_what_its_range_has(
        all in prop::collection::vec(named(), 1..20),
        ends in (any_term(), any_term(), any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        after in prop::option::of(any::<prop::sample::Index>()),
        suffix: [u8; 2],
    ) {
        let of = ends.2.get(&all);
        // Some upper ends are existing terms.
        let max = if all.len().is_multiple_of(2) { &ends.3.get(&all).3 } else { &ends.1 };
        let range = IndexRange { bucket: bucket(of), field: &of.2, min: &ends.0, max };
        let after = after.map(|index| index.get(&all));
        let after = after.map(|named| IndexPosition::of(&named.3, &named.4));
        let span = range.span(after.as_ref());
        for named in &all {
            let position = IndexPosition::of(&named.3, &named.4);
            let is_wanted = (&named.0, &named.1, &named.2) == (&of.0, &of.1, &of.2)
                && (range.min..=max).contains(&&named.3)
                && after.as_ref().is_none_or(|after| position > *after);
            let place = place(named);
            // Stores append bytes to places to distinguish equal ones.
            let stored = [place.as_slice(), &suffix].concat();
            prop_assert_eq!(span.from() <= &stored[..] && &stored[..] < span.end(), is_wanted);
            if is_wanted {
                prop_assert!(!span.is_empty());
                prop_assert_eq!(span.position(&place), Some(position));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_position_or_not_without_a_panic(bytes in any_bytes(40)) {
        let _ = record_of_place(&bytes);
        if let Ok(position) = IndexPosition::from_bytes(bytes.clone()) {
            let (term, key) = position.parts();
            prop_assert_eq!(IndexPosition::of(&term, &key).as_bytes().clone(), bytes);
        }
    }

    #[test]
    fn stored_objects_have_the_entries_of_their_live_values(object in any_object()) {
        let mut expected = BTreeSet::new();
        for sibling in object.siblings.iter().filter(|sibling| !sibling.deleted) {
            expected.extend(sibling.meta.indexes.iter().cloned());
        }
        let mut stored = Vec::new();
        object.encode_into(&mut stored);
        let expected: Vec<_> = expected.into_iter().collect();
        prop_assert_eq!(&object.index_entries(), &expected);
        prop_assert_eq!(object.has_index_entries(), !expected.is_empty());
        prop_assert_eq!(index_entries_of(&stored).unwrap(), expected);
    }

    #[test]
    fn damaged_objects_have_no_entries_but_no_panic_either(bytes in any_bytes(60)) {
        let stored = [&[crate::codec::OBJECT_FORMAT_1], &bytes[..]].concat();
        let _ = index_entries_of(&stored);
    }
}

#[test]
fn an_entry_is_bounded_with_the_names_of_its_record() {
    let key = BucketRef::untyped(b"bucket").key(b"key");
    let with_term = |size| {
        let term = IndexTerm::Binary(Bytes::from(vec![1; size]));
        IndexEntry { field: Bytes::from_static(b"f_bin"), term }.place(key).map(|place| place.len())
    };
    let overhead = with_term(0).unwrap();
    let fits = INDEX_PLACE_BYTES_MAX - overhead;
    assert_eq!(with_term(fits), Ok(INDEX_PLACE_BYTES_MAX));
    let size_bytes = INDEX_PLACE_BYTES_MAX + 1;
    assert_eq!(with_term(fits + 1), Err(IndexEntryTooLarge::One { size_bytes }));
}

#[test]
fn integers_are_short() {
    let size = |number| IndexPosition::of(&IndexTerm::integer(number), b"k").as_bytes().len() - 3;
    assert_eq!([0, -1, 255, -256, 256, i128::MAX].map(size), [1, 1, 2, 2, 3, 17]);
}

#[test]
fn entries_are_bounded_together_with_the_names_of_their_record() {
    let long = vec![b'k'; 60_000];
    let key = BucketRef::untyped(b"bucket").key(&long);
    let entries = |count: i64| -> Vec<IndexEntry> {
        let term = |number: i64| IndexTerm::integer(number.into());
        let entry = |number| IndexEntry { field: Bytes::from_static(b"f_int"), term: term(number) };
        (0..count).map(entry).collect()
    };
    assert_eq!(places(&entries(200), key).map(|places| places.len()), Ok(200));
    assert_eq!(places(&entries(300), key), Err(IndexEntryTooLarge::Together));
}
