#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

/// Half noise and half text, like many real values.
fn half_compressible(size_bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    });
    let text = b"It was the best of times. ".iter().copied().cycle();
    noise.take(size_bytes / 2).chain(text.take(size_bytes - size_bytes / 2)).collect()
}

fn noise(size_bytes: usize) -> Vec<u8> {
    half_compressible(2 * size_bytes)[..size_bytes].to_vec()
}

fn packed_behind(value: &[u8], compresses: bool) -> Vec<u8> {
    let mut out = b"name".to_vec();
    out.extend_from_slice(value);
    pack(&mut out, 4, compresses);
    assert!(out.starts_with(b"name"), "what stands before a value is left alone");
    out.split_off(4)
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u8>(), 0..2_000usize).prop_map(|(byte, count)| vec![byte; count]),
        prop::collection::vec(any::<u8>(), 0..600),
        (0..3_000usize).prop_map(half_compressible),
        Just(vec![MARK]),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_value_comes_back(value in any_value(), compresses in any::<bool>()) {
        let stored = packed_behind(&value, compresses);
        let alone = packed(&value, compresses);
        let (is_changed, capacity) = (alone.is_some(), alone.as_ref().map(Vec::capacity));
        prop_assert_eq!(is_changed, stored != value, "a copy, or none");
        prop_assert_eq!(alone.as_deref().unwrap_or(&value), stored.as_slice());
        prop_assert!(capacity.is_none_or(|capacity| capacity == stored.len()));
        prop_assert!(stored.len() <= value.len() + PLAIN_HEADER_BYTES);
        prop_assert_eq!(unpack(&stored).unwrap(), value.as_slice());
        if is_framed(&stored) {
            // The front can be read before the rest.
            let front = front_of(&stored).unwrap();
            prop_assert!(value.starts_with(front) && front.len() >= value.len().min(FRONT_BYTES));
            let cut_off = &stored[..stored.len().min(HEADER_BYTES + FRONT_BYTES)];
            prop_assert!(value.starts_with(front_of(cut_off).unwrap()));
        }
    }

    #[test]
    fn damaged_frames_are_told_or_are_of_the_size_that_they_say(
        value in any_value(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut stored = packed_behind(&value, true);
        if stored.is_empty() {
            return Ok(());
        }
        let place = at.index(stored.len());
        stored[place] = byte;
        stored.truncate(cut.index(stored.len()) + 1);
        if is_framed(&stored) {
            let mut buffer = Vec::new();
            let unpacked = unpack_into(&stored, &mut buffer);
            prop_assert!(buffer.len() <= stored.len() * RATIO_MAX);
            // Old contents of the buffer must not show.
            let mut used = vec![0xAA; buffer.len()];
            prop_assert_eq!(&unpack_into(&stored, &mut used), &unpacked);
            if let Ok(size_bytes) = unpacked {
                prop_assert_eq!(&used[..size_bytes], &buffer[..size_bytes]);
            }
        }
    }
}

#[test]
fn what_shrinks_is_compressed_and_its_frame_is_as_described() {
    let value = half_compressible(8_000);
    let stored = packed_behind(&value, true);
    assert!(stored.len() < 4_600, "{}", stored.len());
    assert_eq!(stored[..8], [0xC7, 1, 192, 0, 0x40, 0x1F, 0, 0]);
    assert_eq!(stored[8..200], value[..192]);
    let block = lz4_flex::block::compress(&value[192..]);
    assert_eq!(stored[200..], block);
    assert_eq!(packed_behind(&value, false), value);
}

#[test]
fn what_does_not_shrink_or_is_small_is_stored_as_it_is() {
    let value = noise(8_000);
    assert_eq!(packed_behind(&value, true), value);
    let almost = [noise(8_000), vec![b'a'; 300]].concat();
    assert_eq!(packed_behind(&almost, true), almost, "a saving of a thirtieth is none");
    let small = vec![b'a'; COMPRESSED_BYTES_MIN - 1];
    assert_eq!(packed_behind(&small, true), small);
    assert!(packed_behind(&vec![b'a'; COMPRESSED_BYTES_MIN], true).len() < 250);
}

#[test]
fn a_value_that_looks_like_a_frame_is_told_apart() {
    for value in
        [&[MARK][..], &[MARK, LZ4, 1, 2, 3], &packed_behind(&half_compressible(2_000), true)]
    {
        for compresses in [false, true] {
            let stored = packed_behind(value, compresses);
            assert!(is_framed(&stored));
            assert_eq!(unpack(&stored).unwrap(), value);
        }
    }
}

#[test]
fn sizes_that_can_not_be_take_no_memory() {
    let mut hostile = packed_behind(&vec![b'a'; 10_000], true);
    hostile[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut buffer = Vec::new();
    let fault = unpack_into(&hostile, &mut buffer).unwrap_err();
    assert!(matches!(fault, FrameError::Size { claimed_bytes: 0xFFFF_FFFF, .. }), "{fault}");
    assert_eq!(buffer.capacity(), 0);
    // Less than the size of the front.
    hostile[4..8].copy_from_slice(&10_u32.to_le_bytes());
    assert!(matches!(unpack(&hostile), Err(FrameError::Size { claimed_bytes: 10, .. })));
}

#[test]
fn every_fault_says_what_is_wrong() {
    let good = packed_behind(&vec![b'a'; 10_000], true);
    let text = |frame: &[u8]| unpack(frame).unwrap_err().to_string();
    assert_eq!(text(&[MARK]), "a compressed value of 1 bytes ends within its front");
    assert_eq!(text(&good[..50]), "a compressed value of 50 bytes ends within its front");
    assert!(text(&[MARK, 9]).contains("method 9, which this version does not know"));
    let mut longer = good.clone();
    longer[4] += 1;
    assert!(
        text(&longer).contains("decompresses to 9808 bytes and not to 9809"),
        "{}",
        text(&longer)
    );
    assert!(text(&good[..good.len() - 3]).contains("damaged"));
}

#[test]
fn a_buffer_grows_to_what_is_wanted_and_no_further() {
    let mut buffer = Vec::new();
    for size_bytes in [40_000, 60_000] {
        let stored = packed_behind(&half_compressible(size_bytes), true);
        assert!(is_framed(&stored));
        assert_eq!(unpack_into(&stored, &mut buffer), Ok(size_bytes));
        assert!(buffer.capacity() <= 64 << 10, "{}", buffer.capacity());
    }
}

#[test]
fn what_a_thread_keeps_tells_nothing_of_the_value_before() {
    // Alternates between the small and the large table, with values that have much in common.
    for size_bytes in [200_000, 1_000, 70_000, 600, 65_727, 65_726, 200_000] {
        for value in [half_compressible(size_bytes), vec![b'x'; size_bytes]] {
            let stored = packed(&value, true).unwrap();
            assert_eq!(unpack(&stored).unwrap(), value);
        }
    }
}
