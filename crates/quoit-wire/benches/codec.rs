//! Cost of decoding and encoding frequent messages, in nanoseconds per message.
//!
//! Run with `cargo bench -p quoit-wire`. Each figure is the minimum of several rounds, since
//! disturbances only make a round slower.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool that prints figures")]

use bytes::{Bytes, BytesMut};
use quoit_wire::messages::*;
use quoit_wire::{ContentRef, FrameDecoder, append_get_resp, append_message};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 15;
const MESSAGES_PER_ROUND: u32 = 200_000;

/// Measures and prints one figure.
fn measure(name: &str, mut once: impl FnMut()) {
    let least = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..MESSAGES_PER_ROUND).for_each(|_| once());
            start.elapsed() / MESSAGES_PER_ROUND
        })
        .min()
        .unwrap();
    println!("{name:<44} {:>6} ns", least.as_nanos());
}

/// The frame of a message.
fn frame<M: Body>(message: &M) -> Vec<u8> {
    let mut buffer = Vec::new();
    append_message(&mut buffer, message).unwrap();
    buffer
}

/// Measures taking a frame from a reused buffer, and decoding it.
fn measure_decode<M: Body>(name: &str, message: &M) {
    let frame = frame(message);
    let decoder = FrameDecoder::default();
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    measure(name, || {
        buffer.reserve(frame.len());
        buffer.extend_from_slice(&frame);
        let taken = decoder.next_frame(&mut buffer).unwrap().unwrap();
        black_box(taken.decode::<M>().unwrap());
    });
    measure(&format!("{name}, of it taking the frame"), || {
        buffer.reserve(frame.len());
        buffer.extend_from_slice(&frame);
        black_box(decoder.next_frame(&mut buffer).unwrap().unwrap());
    });
    let body = Bytes::from(frame).slice(5..);
    measure(&format!("{name}, of it the shape check"), || {
        M::shape().check(black_box(&body)).unwrap();
    });
}

/// Measures encoding into a reused buffer.
fn measure_encode<M: Body>(name: &str, message: &M) {
    let mut buffer = Vec::with_capacity(64 * 1024);
    measure(name, || {
        buffer.clear();
        append_message(&mut buffer, black_box(message)).unwrap();
        black_box(&buffer);
    });
}

fn content(value: &Bytes) -> RpbContent {
    RpbContent {
        value: value.clone(),
        content_type: Some(Bytes::from_static(b"application/octet-stream")),
        vtag: Some(Bytes::from_static(b"4ZqXSCrBG5ywOpT2MGWVqG")),
        last_mod: Some(1_700_000_000),
        last_mod_usecs: Some(123_456),
        ..Default::default()
    }
}

fn main() {
    let value = Bytes::from(vec![b'x'; 1024]);
    let vclock = Bytes::from(vec![7; 30]);
    let bucket = Bytes::from_static(b"bucket");
    let key = Bytes::from_static(b"user:0000012345");
    let get = RpbGetReq { bucket: bucket.clone(), key: key.clone(), ..Default::default() };
    measure_decode("RpbGetReq decode", &get);
    measure_encode("RpbGetReq encode", &get);

    let put = RpbPutReq {
        bucket,
        key: Some(key),
        vclock: Some(vclock.clone()),
        content: RpbContent {
            value: value.clone(),
            content_type: Some(Bytes::from_static(b"application/octet-stream")),
            ..Default::default()
        },
        ..Default::default()
    };
    measure_decode("RpbPutReq 1 KiB decode", &put);
    measure_encode("RpbPutReq 1 KiB encode", &put);

    let found = RpbGetResp {
        content: vec![content(&value)],
        vclock: Some(vclock.clone()),
        unchanged: None,
    };
    measure_decode("RpbGetResp 1 KiB decode", &found);
    measure_encode("RpbGetResp 1 KiB encode, built before", &found);
    let mut buffer = Vec::with_capacity(64 * 1024);
    measure("RpbGetResp 1 KiB build and encode", || {
        buffer.clear();
        let answer = RpbGetResp {
            content: vec![content(black_box(&value))],
            vclock: Some(vclock.clone()),
            unchanged: None,
        };
        append_message(&mut buffer, &answer).unwrap();
        black_box(&buffer);
    });
    measure("RpbGetResp 1 KiB encode from borrowed parts", || {
        buffer.clear();
        let content = ContentRef {
            value: black_box(&value),
            content_type: Some(b"application/octet-stream"),
            vtag: Some(b"4ZqXSCrBG5ywOpT2MGWVqG"),
            last_mod: Some(1_700_000_000),
            last_mod_usecs: Some(123_456),
            ..Default::default()
        };
        append_get_resp(&mut buffer, [content], Some(&vclock)).unwrap();
        black_box(&buffer);
    });
    measure("copying 1 KiB", || {
        buffer.clear();
        buffer.extend_from_slice(black_box(&value));
        black_box(&buffer);
    });
    measure_encode("RpbPutResp empty encode", &RpbPutResp::default());
}
