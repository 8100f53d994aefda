//! Frames and greetings between nodes.

use bytes::{Bytes, BytesMut};
use quoit_wire::internode::{
    FLAG_LAST, FRAME_OVERHEAD_BYTES, FrameKind, FramePrefix, Hello, InternodeDecoder,
    InternodeFrame, Refusal, append_frame, append_hello,
};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "internode-frames", run, seeds };

const FRAME_BYTES_MAX: u32 = 1024 * 1024;

/// Checks that the frames of a stream do not depend on how the stream is split, that frames are encoded to
/// the same bytes, and that an accepted greeting survives being encoded and decoded again.
fn run(input: &[u8]) {
    let whole = frames(&[input]);
    let (first, second) = input.split_at(input.len() / 2);
    assert_eq!(whole, frames(&[first, second]), "frames depend on where the stream is cut");
    let mut at = 0;
    for frame in whole {
        let size_bytes = frame.size_bytes();
        let came = &input[at..at + size_bytes];
        // The header is not compared: prost has no type for an arbitrary message.
        let mut sent = Vec::new();
        append_frame(&mut sent, frame.prefix, &(), &frame.payload).expect("it came in a frame");
        assert_eq!(sent[4..12], came[4..12], "the fixed fields change by being sent");
        assert_eq!(sent[FRAME_OVERHEAD_BYTES..], came[size_bytes - frame.payload.len()..]);
        at += size_bytes;
        check_hello(frame);
    }
}

fn check_hello(frame: InternodeFrame) {
    let Ok(hello) = Hello::from_frame(frame) else { return };
    let mut sent = Vec::new();
    append_hello(&mut sent, &hello).expect("it came in a frame");
    let mut buffer = BytesMut::from(&sent[..]);
    let frame = InternodeDecoder::new(u32::MAX).next_frame(&mut buffer);
    let frame = frame.expect("its own frame is good").expect("and whole");
    assert_eq!(Hello::from_frame(frame), Ok(hello), "a greeting changes by being sent");
}

/// The frames of a stream that arrives in these pieces, up to the first frame that is refused.
fn frames(pieces: &[&[u8]]) -> Vec<InternodeFrame> {
    let decoder = InternodeDecoder::new(FRAME_BYTES_MAX);
    let mut buffer = BytesMut::new();
    let mut found = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Ok(Some(frame)) = decoder.next_frame(&mut buffer) {
            found.push(frame);
        }
    }
    found
}

fn seeds() -> Vec<Vec<u8>> {
    let hello = Hello {
        version_min: 1,
        version_max: 2,
        cluster_id: Bytes::from_static(&[1; 16]),
        node_id: Bytes::from_static(&[2; 16]),
        node_name: "quoit@127.0.0.1".to_owned(),
        boot_id: 3,
        address: "127.0.0.1:8099".to_owned(),
        expected_node_id: Bytes::from_static(&[4; 16]),
        window_bytes: 1 << 20,
        window_calls: 100,
        frame_bytes_max: 1 << 20,
        stream_window_bytes: 1 << 16,
        ..Hello::default()
    };
    let mut greeting = Vec::new();
    append_hello(&mut greeting, &hello).expect("it is small");
    let mut talk = greeting.clone();
    let request = FramePrefix { method: 0x0100, ..FramePrefix::new(FrameKind::Request, 1) };
    append_frame(&mut talk, request, &7_u32, b"value").expect("it is small");
    let answer = FramePrefix { flags: FLAG_LAST, ..FramePrefix::new(FrameKind::Answer, 1) };
    append_frame(&mut talk, answer, &(), b"answer").expect("it is small");
    let refusal = Refusal { code: 2, text: "no".to_owned() };
    let prefix = FramePrefix::new(FrameKind::Refusal, 2);
    append_frame(&mut talk, prefix, &refusal, b"").expect("it is small");
    for kind in
        [FrameKind::Cancel, FrameKind::Window, FrameKind::Ping, FrameKind::Pong, FrameKind::Goodbye]
    {
        let prefix = FramePrefix::new(kind, 1);
        append_frame(&mut talk, prefix, &(), &[0, 0, 1, 0]).expect("it is small");
    }
    vec![greeting, talk]
}
