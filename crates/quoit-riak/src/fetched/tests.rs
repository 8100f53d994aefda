use super::*;
use proptest::prelude::*;
use quoit_model::clock::{Actor, Dot};
use quoit_model::object::{Metadata, Sibling};

fn clocks() -> impl Strategy<Value = VersionVector> {
    let dot = (prop::collection::vec(any::<u8>(), 0..20), 1u64.., any::<u64>());
    let dot = dot.prop_map(|(actor, counter, time_secs)| Dot {
        actor: Actor(actor.into()),
        counter,
        time_secs,
    });
    prop::collection::vec(dot, 0..6).prop_map(VersionVector::from_entries)
}

fn siblings() -> impl Strategy<Value = Sibling> {
    let value = prop::collection::vec(any::<u8>(), 0..60);
    (value, any::<bool>(), 1..1u64 << 50, "[a-zA-Z0-9]{18,24}", prop::option::of("[a-z/]{1,20}"))
        .prop_map(|(value, deleted, last_modified_us, vtag, content_type)| Sibling {
            value: if deleted { Bytes::new() } else { value.into() },
            deleted,
            last_modified_us,
            vtag: vtag.into(),
            meta: Metadata { content_type: content_type.map(Bytes::from), ..Metadata::default() },
            ..Sibling::default()
        })
}

fn fetched() -> impl Strategy<Value = Fetched> {
    let objects =
        (clocks(), prop::collection::vec(siblings(), 1..4)).prop_map(|(clock, siblings)| {
            Replicated::Object(Object { clock, siblings: siblings.into() })
        });
    let reaps =
        (0..1u64 << 60, clocks()).prop_map(|(time_us, clock)| Replicated::Reap { time_us, clock });
    let name = || prop::collection::vec(any::<u8>(), 1..12).prop_map(Bytes::from);
    (name(), name(), name(), prop_oneof![objects, reaps]).prop_map(
        |(bucket_type, bucket, key, content)| Fetched { bucket_type, bucket, key, content },
    )
}

proptest! {
    #[test]
    fn records_come_back_and_so_do_their_bytes(record in fetched(), compresses: bool) {
        let bytes = record.encode(compresses);
        let again = Fetched::decode(&bytes);
        prop_assert_eq!(again.as_ref(), Ok(&record));
        prop_assert_eq!(again.expect("was read").encode(compresses), bytes);
    }

    #[test]
    fn bodies_come_back(record in fetched(), is_tombstone: bool) {
        let clock = is_tombstone.then(|| Bytes::from_static(b"clock"));
        let replicated = record.encode(false);
        let answer = FetchAnswer { tombstone_clock: clock, tree_entry: None, replicated };
        prop_assert_eq!(FetchAnswer::of_body(&answer.to_body()), Ok(Some(answer)));
    }

    #[test]
    fn a_cut_or_changed_body_is_told(record in fetched(), at: prop::sample::Index, bit in 0u8..8) {
        let answer = FetchAnswer {
            tombstone_clock: None,
            tree_entry: None,
            replicated: record.encode(false),
        };
        let body = answer.to_body();
        // The first two bytes decide which fields follow.
        let at = 2 + at.index(body.len() - 2);
        prop_assert!(FetchAnswer::of_body(&body.slice(..at)).is_err());
        let mut changed = body.to_vec();
        changed[at] ^= 1 << bit;
        prop_assert!(FetchAnswer::of_body(&changed.into()).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), first in 0u8..16) {
        let mut bytes = bytes;
        let _ = FetchAnswer::of_body(&bytes.clone().into());
        if let Some(start) = bytes.first_mut() {
            *start = VERSION | first;
        }
        let _ = Fetched::decode(&bytes.into());
    }
}

#[test]
fn an_empty_queue_has_a_body_of_its_own() {
    assert_eq!(FetchAnswer::of_body(&Bytes::from_static(EMPTY_QUEUE_BODY)), Ok(None));
}

/// From the description of the format: untyped bucket `b`, key `k`.
#[test]
fn names_and_flags_stand_where_riak_looks_for_them() {
    let record = Fetched {
        bucket_type: Bytes::from_static(b"default"),
        bucket: Bytes::from_static(b"b"),
        key: Bytes::from_static(b"k"),
        content: Replicated::Reap {
            time_us: 1_600_000_000_000_007,
            clock: VersionVector::default(),
        },
    };
    let expected = [
        &[0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'b', 0, 0, 0, 1, b'k'][..],
        &[0, 0, 6, 64, 0, 0, 0, 0, 0, 0, 0, 7, 131, 106],
    ];
    assert_eq!(record.encode(true), expected.concat());
    let typed = Fetched { bucket_type: Bytes::from_static(b"t"), ..record };
    assert_eq!(typed.encode(false)[1..6], [0, 0, 0, 1, b't']);
    assert!(Fetched::decode(&Bytes::from_static(&[0x24])).is_err());
}
