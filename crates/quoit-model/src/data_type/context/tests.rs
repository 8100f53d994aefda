use super::*;
use crate::data_type::Run;
use crate::test_objects::{actor, any_vector, dot};
use proptest::collection::vec;
use proptest::prelude::*;

const RECORD: u64 = 42;

fn any_clock() -> impl Strategy<Value = CausalClock> {
    let run = (vec(0u8..3, 1..3), 1u64..9, 0u64..4);
    (any_vector(), vec(run, 0..6)).prop_map(|(vector, runs)| {
        let mut clock = CausalClock::from(vector);
        for (name, first, more) in runs {
            clock.add_run(&actor(&name), Run { first, last: first + more }, 0);
        }
        clock
    })
}

proptest! {
    #[test]
    fn a_context_means_the_clock(clock in any_clock()) {
        let context = encode_context(&clock, RECORD);
        prop_assert_eq!(decode_context(&context, RECORD), Ok(clock));
    }

    #[test]
    fn a_context_is_of_one_record(clock in any_clock(), other in any::<u64>()) {
        prop_assume!(other != RECORD);
        let context = encode_context(&clock, RECORD);
        prop_assert!(decode_context(&context, other).is_err());
    }

    #[test]
    fn cut_off_and_changed_contexts_are_refused(
        clock in any_clock(),
        at: prop::sample::Index,
        bit in 0..8u8,
    ) {
        let context = encode_context(&clock, RECORD);
        let at = at.index(context.len());
        prop_assert!(decode_context(&context[..at], RECORD).is_err());
        let mut changed = context.to_vec();
        changed[at] ^= 1 << bit;
        prop_assert!(decode_context(&changed, RECORD).is_err());
    }

    /// The checksum is right, so that the decoder reads the body.
    #[test]
    fn what_decodes_is_what_would_be_encoded(body in vec(any::<u8>(), 0..40)) {
        let mut context = vec![CONTEXT_FORMAT_1];
        context.extend(body);
        let sum = checksum(&context, RECORD);
        context.extend(sum);
        if let Ok(clock) = decode_context(&context, RECORD) {
            prop_assert_eq!(decode_context(&encode_context(&clock, RECORD), RECORD), Ok(clock));
        }
    }
}

#[test]
fn contexts_of_plain_objects_and_nothing_are_refused() {
    let plain = crate::context::encode_context(&VersionVector::from_entries([dot(b"a", 1)]));
    for context in [&plain[..], b"", b"\x83h\x00"] {
        let refused = decode_context(context, RECORD).unwrap_err();
        assert!(refused.to_string().contains("another format"), "{refused}");
    }
}

#[test]
fn absurdly_many_entries_are_refused() {
    let clock_of = |entry_count: usize| {
        let names = (0..entry_count as u64).map(|number| incarnation(&actor(b"store"), number));
        let mut clock = CausalClock::default();
        names.for_each(|actor| clock.add(&Dot { actor, counter: 1, time_secs: 0 }));
        encode_context(&clock, RECORD)
    };
    assert!(decode_context(&clock_of(CONTEXT_ENTRIES_MAX), RECORD).is_ok());
    let entry_count = CONTEXT_ENTRIES_MAX + 1;
    let refused = Err(RemoveContextError::TooManyEntries { entry_count });
    assert_eq!(decode_context(&clock_of(entry_count), RECORD), refused);
}

#[test]
fn events_that_this_store_has_not_issued_are_refused() {
    let store = actor(b"thestore");
    let own = |number| incarnation(&store, number);
    let event = |actor: &Actor, counter| Dot { actor: actor.clone(), counter, time_secs: 0 };
    let mut clock = CausalClock::default();
    clock.add_run(&own(7), Run { first: 1, last: 5 }, 0);
    let check = |dot: Dot| {
        let mut context = CausalClock::default();
        context.add(&dot);
        check_context(&context, &clock, &store, 9).is_ok()
    };
    // Counters above 1 are in the context's dot cloud, since the context has no earlier event.
    assert!(check(event(&own(7), 5)) && check(event(&own(7), 1)));
    assert!(!check(event(&own(7), 6)));
    assert!(check(event(&own(9), 100)), "an earlier life's incarnation");
    assert!(!check(event(&own(10), 1)));
    assert!(check(event(&store, 9)) && !check(event(&store, 10)));
    assert!(check(event(&actor(b"another!"), 1 << 60)));
    assert!(check(event(&incarnation(&actor(b"another!"), 1 << 60), 1 << 60)));
}
