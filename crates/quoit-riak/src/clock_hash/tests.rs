use super::*;
use proptest::prelude::*;
use quoit_model::clock::Actor;

fn clock_of(entries: &[(Vec<u8>, u64, u64)]) -> VersionVector {
    VersionVector::from_entries(entries.iter().map(|(actor, counter, time_secs)| Dot {
        actor: Actor(SmallVec::from_slice(actor)),
        counter: *counter,
        time_secs: *time_secs,
    }))
}

proptest! {
    #[test]
    fn the_order_of_entries_makes_no_difference(
        entries in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 0..20), (1u64.., any::<u64>()), 0..8,
        ),
    ) {
        let entries: Vec<_> =
            entries.into_iter().map(|(actor, (counter, time))| (actor, counter, time)).collect();
        let reversed: Vec<_> = entries.iter().rev().cloned().collect();
        let (one, other) = (clock_of(&entries), clock_of(&reversed));
        prop_assert_eq!(clock_hash(&one), clock_hash(&other));
        prop_assert_eq!(salted_clock_hash(&one, 7), salted_clock_hash(&other, 7));
        prop_assert!(clock_hash(&one) < 1 << 27);
    }
}

/// In Erlang: `erlang:phash2([])`.
#[test]
fn the_empty_clock_has_the_hash_of_the_empty_list() {
    assert_eq!(clock_hash(&VersionVector::default()), 3_468_870_702 & ((1 << 27) - 1));
}
