use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

#[test]
fn the_shortest_round_trip_tells_the_clocks_apart() {
    let asked = Instant::now();
    let trip = |took_us: u64, agent_ns: u64, ahead_ns: u64| RoundTrip {
        asked,
        asked_unix_ns: 1_000_000_000,
        took: Duration::from_micros(took_us),
        agent_ns,
        agent_unix_ns: 1_000_000_000 + took_us * 500 + ahead_ns,
    };
    let reading = best_reading(&[trip(900, 7, 1), trip(100, 5000, 250), trip(400, 9, 3)])
        .expect("there are round trips");
    assert_eq!((reading.ahead_ns, reading.uncertainty), (250, Duration::from_micros(50)));
    let later = asked + Duration::from_micros(50) + Duration::from_secs(2);
    assert_eq!(reading.agent_ns_at(later), 2_000_005_000);
    assert_eq!(best_reading(&[]), None);
}

proptest! {
    #[test]
    fn a_frame_is_read_whole_or_not_at_all(second in any::<u64>(), cut in 0_usize..64) {
        let message = FromAgent::Second { second, window: Box::default() };
        let frame = encode_frame(&message).expect("a frame");
        prop_assert_eq!(decode_frame(&frame).expect("no fault"), Some((message, frame.len())));
        let part = &frame[..cut.min(frame.len() - 1)];
        prop_assert_eq!(decode_frame::<FromAgent>(part).expect("no fault"), None);
    }
}

#[test]
fn files_that_are_too_large_are_refused_with_their_size() {
    assert!(check_files_size(FILES_BYTES_MAX).is_ok());
    let told = check_files_size(FILES_BYTES_MAX + 7).expect_err("too large").to_string();
    assert!(told.contains("at least 536870919 bytes; at most 536870912 are sent"), "{told}");
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_there() {
    let refused = decode_frame::<FromAgent>(&[1, 0, 0, 1]);
    assert!(matches!(refused, Err(LinkError::TooLong { .. })), "{refused:?}");
    let garbage = decode_frame::<FromAgent>(&[0, 0, 0, 2, b'{', b'}']);
    assert!(matches!(garbage, Err(LinkError::Malformed(_))), "{garbage:?}");
}
