//! Plain requests are read as the general decoder reads them, or not at all.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use quoit_wire::messages::{RpbContent, RpbGetReq, RpbPutReq};
use quoit_wire::{Body, FrameDecoder, MessageCode, PlainGet, PlainPut, append_message};

fn blob() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 120..300),
    ]
    .prop_map(Bytes::from)
}

prop_compose! {
    fn get()(
        bucket_type in prop::option::of(blob()),
        bucket in blob(),
        key in blob(),
        numbers in prop::array::uniform5(prop::option::of(any::<u32>())),
        flags in prop::array::uniform5(prop::option::of(any::<bool>())),
        if_modified in prop::option::weighted(0.1, blob()),
    ) -> RpbGetReq {
        let [r, pr, timeout, n_val, node_confirms] = numbers;
        let [basic_quorum, notfound_ok, head, deletedvclock, sloppy_quorum] = flags;
        RpbGetReq {
            bucket_type, bucket, key, r, pr, timeout, n_val, node_confirms, basic_quorum,
            notfound_ok, head, deletedvclock, sloppy_quorum, if_modified,
        }
    }
}

prop_compose! {
    fn put()(
        bucket_type in prop::option::of(blob()),
        bucket in blob(),
        key in prop::option::weighted(0.9, blob()),
        vclock in prop::option::of(blob()),
        value in blob(),
        content_type in prop::option::of(blob()),
        charset in prop::option::weighted(0.1, blob()),
        numbers in prop::array::uniform6(prop::option::of(any::<u32>())),
        sloppy_quorum in prop::option::of(any::<bool>()),
        rare in prop::array::uniform5(prop::option::weighted(0.1, any::<bool>())),
    ) -> RpbPutReq {
        let [w, dw, pw, timeout, n_val, node_confirms] = numbers;
        let [return_body, return_head, if_none_match, if_not_modified, asis] = rare;
        let content = RpbContent { value, content_type, charset, ..RpbContent::default() };
        RpbPutReq {
            bucket_type, bucket, key, vclock, content, w, dw, pw, timeout, n_val, node_confirms,
            sloppy_quorum, return_body, return_head, if_none_match, if_not_modified, asis,
        }
    }
}

fn is_plain(put: &RpbPutReq) -> bool {
    let denied =
        [put.return_body, put.return_head, put.if_none_match, put.if_not_modified, put.asis];
    put.key.is_some() && put.content.charset.is_none() && !denied.contains(&Some(true))
}

fn owned(bytes: Option<&[u8]>) -> Option<Bytes> {
    bytes.map(Bytes::copy_from_slice)
}

fn owned_get(get: &PlainGet<'_>) -> RpbGetReq {
    RpbGetReq {
        bucket_type: owned(get.bucket_type),
        bucket: Bytes::copy_from_slice(get.bucket),
        key: Bytes::copy_from_slice(get.key),
        r: get.r,
        pr: get.pr,
        timeout: get.timeout,
        n_val: get.n_val,
        node_confirms: get.node_confirms,
        basic_quorum: get.basic_quorum,
        notfound_ok: get.notfound_ok,
        head: get.head,
        deletedvclock: get.deletedvclock,
        sloppy_quorum: get.sloppy_quorum,
        if_modified: None,
    }
}

/// The request with the fields of a plain put. Fields that a plain put may set to false are absent.
fn owned_put(put: &PlainPut<'_>) -> RpbPutReq {
    RpbPutReq {
        bucket_type: owned(put.bucket_type),
        bucket: Bytes::copy_from_slice(put.bucket),
        key: Some(Bytes::copy_from_slice(put.key)),
        vclock: owned(put.vclock),
        content: RpbContent {
            value: Bytes::copy_from_slice(put.value),
            content_type: owned(put.content_type),
            ..RpbContent::default()
        },
        w: put.w,
        dw: put.dw,
        pw: put.pw,
        timeout: put.timeout,
        n_val: put.n_val,
        node_confirms: put.node_confirms,
        sloppy_quorum: put.sloppy_quorum,
        ..RpbPutReq::default()
    }
}

fn without_denials(put: &RpbPutReq) -> RpbPutReq {
    RpbPutReq {
        return_body: None,
        return_head: None,
        if_none_match: None,
        if_not_modified: None,
        asis: None,
        ..put.clone()
    }
}

/// Checks that both decoders agree on a body. The general decoder must accept every plain body.
fn check_body(body: &[u8]) {
    let whole = Bytes::copy_from_slice(body);
    if let Some(get) = PlainGet::read(body) {
        assert_eq!(RpbGetReq::decode_body(whole.clone()).unwrap(), owned_get(&get));
    }
    if let Some(put) = PlainPut::read(body) {
        let decoded = RpbPutReq::decode_body(whole).unwrap();
        assert!(is_plain(&decoded), "{decoded:?}");
        assert_eq!(without_denials(&decoded), owned_put(&put));
    }
}

proptest! {
    #[test]
    fn gets_without_a_condition_are_plain(get in get()) {
        let body = prost::Message::encode_to_vec(&get);
        let read = PlainGet::read(&body);
        prop_assert_eq!(read.is_some(), get.if_modified.is_none());
        check_body(&body);
    }

    #[test]
    fn puts_that_only_store_a_value_are_plain(put in put()) {
        let body = prost::Message::encode_to_vec(&put);
        prop_assert_eq!(PlainPut::read(&body).is_some(), is_plain(&put));
        check_body(&body);
    }

    #[test]
    fn damaged_bodies_are_never_read_otherwise_than_by_the_general_decoder(
        get in get(),
        put in put(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for mut body in [prost::Message::encode_to_vec(&get), prost::Message::encode_to_vec(&put)] {
            if body.is_empty() {
                continue;
            }
            for (at, byte) in &flips {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            check_body(&body);
            check_body(&body[..cut.index(body.len())]);
        }
    }

    #[test]
    fn a_frame_is_looked_at_only_when_it_is_whole(get in get()) {
        let mut buffer = BytesMut::new();
        append_message(&mut buffer, &get).unwrap();
        buffer.extend_from_slice(b"more");
        let decoder = FrameDecoder::default();
        let whole = buffer.len() - 4;
        let frame = decoder.peek_frame(&buffer).unwrap();
        prop_assert!(frame.is(MessageCode::GetReq) && !frame.is(MessageCode::PutReq));
        prop_assert_eq!(frame.size_bytes, whole);
        prop_assert_eq!(frame.body, &prost::Message::encode_to_vec(&get)[..]);
        prop_assert!((0..whole).all(|count| decoder.peek_frame(&buffer[..count]).is_none()));
    }
}

#[test]
fn a_field_given_twice_is_not_plain() {
    let body = b"\x0a\x01b\x12\x01k\x12\x01l";
    assert_eq!(PlainGet::read(body), None);
    assert_eq!(RpbGetReq::decode_body(Bytes::from_static(body)).unwrap().key, "l");
    let repeated_denial = b"\x0a\x01b\x12\x01k\x22\x02\x0a\x00\x38\x00\x38\x00";
    assert!(PlainPut::read(repeated_denial).is_some());
    let retracted_denial = b"\x0a\x01b\x12\x01k\x22\x02\x0a\x00\x38\x00\x38\x01";
    assert_eq!(PlainPut::read(retracted_denial), None);
}

#[test]
fn a_length_of_zero_or_over_the_limit_is_not_a_frame() {
    let decoder = FrameDecoder::new(3);
    assert_eq!(decoder.peek_frame(&[0, 0, 0, 0, 9]), None);
    assert_eq!(decoder.peek_frame(&[0, 0, 0, 4, 9, 9, 9, 9]), None);
    assert!(decoder.peek_frame(&[0, 0, 0, 3, 9, 9, 9]).is_some());
}
