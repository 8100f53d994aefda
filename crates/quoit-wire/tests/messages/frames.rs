//! Splitting a stream of bytes into frames.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use quoit_wire::frame::{FRAME_LENGTH_BYTES_MAX_DEFAULT, append_frame};
use quoit_wire::messages::{RpbGetReq, RpbPingReq};
use quoit_wire::{DecodeError, Frame, FrameDecoder, FrameError, MessageCode};

#[test]
fn a_frame_comes_out_only_when_its_last_byte_is_there() {
    let stream = [0, 0, 0, 3, 77, 1, 2];
    let decoder = FrameDecoder::default();
    let mut buffer = BytesMut::new();
    for (at, &byte) in stream.iter().enumerate() {
        assert_eq!(decoder.next_frame(&mut buffer), Ok(None));
        let missing = if at < 4 { 4 - at } else { 7 - at };
        assert_eq!(decoder.missing_bytes(&buffer), Ok(missing));
        buffer.extend_from_slice(&[byte]);
    }
    assert_eq!(decoder.missing_bytes(&buffer), Ok(0));
    let frame = Frame { code: 77, body: Bytes::from_static(&[1, 2]) };
    assert_eq!(decoder.next_frame(&mut buffer), Ok(Some(frame)));
    assert!(buffer.is_empty());
}

#[test]
fn a_frame_of_length_zero_is_refused() {
    let mut buffer = BytesMut::from(&[0, 0, 0, 0, 1][..]);
    assert_eq!(FrameDecoder::default().next_frame(&mut buffer), Err(FrameError::ZeroLength));
    assert_eq!(FrameDecoder::default().missing_bytes(&buffer), Err(FrameError::ZeroLength));
}

#[test]
fn the_longest_frame_allowed_passes_and_one_byte_more_is_refused() {
    let decoder = FrameDecoder::new(3);
    let mut buffer = BytesMut::from(&[0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 4][..]);
    let frame = Frame { code: 1, body: Bytes::from_static(&[2, 3]) };
    assert_eq!(decoder.next_frame(&mut buffer), Ok(Some(frame)));
    let refused = FrameError::TooLarge { length_bytes: 4, length_bytes_max: 3 };
    assert_eq!(decoder.next_frame(&mut buffer), Err(refused));
    assert_eq!(buffer[..], [0, 0, 0, 4], "a refused frame stays in the buffer");
}

#[test]
fn the_default_limit_refuses_a_claim_of_four_gibibytes_before_its_bytes_arrive() {
    let mut buffer = BytesMut::from(&[0xff; 4][..]);
    let refused = FrameError::TooLarge {
        length_bytes: u64::from(u32::MAX),
        length_bytes_max: FRAME_LENGTH_BYTES_MAX_DEFAULT,
    };
    assert_eq!(FrameDecoder::default().next_frame(&mut buffer), Err(refused));
}

#[test]
fn a_body_shares_the_memory_of_the_read_buffer() {
    let mut buffer = BytesMut::from(&[0, 0, 0, 7, 9, 0x0a, 1, b'b', 0x12, 1, b'k'][..]);
    let start = buffer.as_ptr();
    let frame = FrameDecoder::default().next_frame(&mut buffer).unwrap().unwrap();
    let get: RpbGetReq = frame.decode().unwrap();
    assert_eq!(get.bucket.as_ptr(), start.wrapping_add(7));
    assert_eq!(get.key.as_ptr(), start.wrapping_add(10));
}

#[test]
fn a_buffer_is_used_again_when_its_frames_are_dropped() {
    let decoder = FrameDecoder::default();
    let mut buffer = BytesMut::with_capacity(64);
    let mut places = Vec::new();
    for _ in 0..100 {
        buffer.reserve(64);
        buffer.extend_from_slice(&[0, 0, 0, 3, 1, 2, 3]);
        let frame = decoder.next_frame(&mut buffer).unwrap().unwrap();
        places.push(frame.body.as_ptr());
    }
    places.dedup();
    assert!(places.len() <= 2, "the buffer moved {} times", places.len());
}

#[test]
fn a_frame_of_another_message_is_refused() {
    let frame = Frame { code: 2, body: Bytes::new() };
    let refused = DecodeError::UnexpectedCode { expected: MessageCode::PingReq, got: 2 };
    assert_eq!(frame.decode::<RpbPingReq>(), Err(refused));
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..64)
}

proptest! {
    #[test]
    fn frames_survive_any_way_of_being_split(
        frames in prop::collection::vec((0usize..49, body()), 0..10),
        pieces in prop::collection::vec(1usize..40, 1..200),
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (code, body) in frames {
            let code = MessageCode::ALL[code];
            append_frame(&mut stream, code, |buffer| buffer.extend_from_slice(&body)).unwrap();
            expected.push(Frame { code: code as u8, body: Bytes::from(body) });
        }
        let decoder = FrameDecoder::default();
        let mut buffer = BytesMut::new();
        let mut got = Vec::new();
        let mut rest = &stream[..];
        for piece in pieces.into_iter().chain([usize::MAX]) {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            rest = later;
            buffer.extend_from_slice(now);
            while let Some(frame) = decoder.next_frame(&mut buffer).unwrap() {
                got.push(frame);
            }
        }
        prop_assert!(buffer.is_empty());
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn random_bytes_never_panic_the_frame_decoder(bytes in body()) {
        let decoder = FrameDecoder::new(40);
        let mut buffer = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = decoder.next_frame(&mut buffer) {}
        let _ = decoder.missing_bytes(&buffer);
    }
}
