//! Frames and messages of the Protocol Buffers interface.

use bytes::{Bytes, BytesMut};
use quoit_wire::messages::*;
use quoit_wire::{Frame, FrameDecoder, append_message};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "pb-frames", run, seeds };

/// Checks that the frames of a stream do not depend on how the stream is split, and that a decoded message
/// survives being encoded and decoded again.
fn run(input: &[u8]) {
    let whole = frames(&[input]);
    let middle = input.len() / 2;
    let (first, second) = input.split_at(middle);
    assert_eq!(whole, frames(&[first, second]), "frames depend on where the stream is cut");
    for frame in whole {
        check_messages(&frame);
    }
}

/// The frames of a stream that arrives in these pieces, up to the first frame that is refused.
fn frames(pieces: &[&[u8]]) -> Vec<Frame> {
    let decoder = FrameDecoder::default();
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

fn check_message<M: Body>(frame: &Frame) {
    if frame.code != M::CODE as u8 {
        return;
    }
    let Ok(message) = frame.clone().decode::<M>() else { return };
    let mut written = BytesMut::new();
    append_message(&mut written, &message).expect("what came in a frame fits in one");
    let frame = FrameDecoder::default().next_frame(&mut written);
    let frame = frame.expect("its own frame is good").expect("and whole");
    let again: M = frame.decode().expect("what was just encoded decodes");
    assert_eq!(again, message, "a message changes by being sent");
}

macro_rules! messages {
    ($($message:ident,)*) => {
        fn check_messages(frame: &Frame) {
            $(check_message::<$message>(frame);)*
        }

        /// A default message of every kind, as one stream.
        fn empty_messages() -> Vec<u8> {
            let mut stream = Vec::new();
            $(
                append_message(&mut stream, &<$message>::default()).expect("it is small");
            )*
            stream
        }
    };
}

messages! {
    DtFetchReq,
    DtFetchResp,
    DtQueryReq,
    DtQueryResp,
    DtUpdateReq,
    DtUpdateResp,
    RpbAuthReq,
    RpbAuthResp,
    RpbCSBucketReq,
    RpbCSBucketResp,
    RpbCounterGetReq,
    RpbCounterGetResp,
    RpbCounterUpdateReq,
    RpbCounterUpdateResp,
    RpbCoverageReq,
    RpbCoverageResp,
    RpbDelReq,
    RpbDelResp,
    RpbErrorResp,
    RpbGetBucketKeyPreflistReq,
    RpbGetBucketKeyPreflistResp,
    RpbGetBucketReq,
    RpbGetBucketResp,
    RpbGetBucketTypeReq,
    RpbGetClientIdReq,
    RpbGetClientIdResp,
    RpbGetLayoutReq,
    RpbGetLayoutResp,
    RpbGetReq,
    RpbGetResp,
    RpbGetServerInfoReq,
    RpbGetServerInfoResp,
    RpbIndexBodyResp,
    RpbIndexReq,
    RpbIndexResp,
    RpbListBucketsReq,
    RpbListBucketsResp,
    RpbListKeysReq,
    RpbListKeysResp,
    RpbMapRedReq,
    RpbMapRedResp,
    RpbPingReq,
    RpbPingResp,
    RpbPutReq,
    RpbPutResp,
    RpbResetBucketReq,
    RpbResetBucketResp,
    RpbSetBucketReq,
    RpbSetBucketResp,
    RpbSetBucketTypeReq,
    RpbSetClientIdReq,
    RpbSetClientIdResp,
    RpbStartTls,
}

fn seeds() -> Vec<Vec<u8>> {
    let text = Bytes::from_static;
    let pair = RpbPair { key: text(b"name_bin"), value: Some(text(b"x")) };
    let link = RpbLink { bucket: Some(text(b"b")), key: Some(text(b"k")), tag: Some(text(b"t")) };
    let content = RpbContent {
        value: text(b"value"),
        content_type: Some(text(b"text/plain")),
        links: vec![link],
        usermeta: vec![pair.clone()],
        indexes: vec![pair],
        ..RpbContent::default()
    };
    let get = RpbGetReq {
        bucket: text(b"b"),
        key: text(b"k"),
        r: Some(u32::MAX - 1),
        if_modified: Some(text(b"clock")),
        bucket_type: Some(text(b"maps")),
        ..RpbGetReq::default()
    };
    let put = RpbPutReq {
        bucket: text(b"b"),
        key: Some(text(b"k")),
        vclock: Some(text(b"clock")),
        content: content.clone(),
        return_body: Some(true),
        ..RpbPutReq::default()
    };
    let answer = RpbGetResp {
        content: vec![content.clone(), content],
        vclock: Some(text(b"clock")),
        ..RpbGetResp::default()
    };
    let mut seeds = vec![empty_messages(), Vec::new(), Vec::new(), Vec::new()];
    append_message(&mut seeds[1], &get).expect("it is small");
    append_message(&mut seeds[2], &put).expect("it is small");
    append_message(&mut seeds[3], &answer).expect("it is small");
    seeds
}
