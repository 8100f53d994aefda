//! Messages compared with bytes that were written by hand from the protocol's definition.

use bytes::{Bytes, BytesMut};
use quoit_wire::messages::*;
use quoit_wire::{Body, DecodeError, FrameDecoder, MessageCode, append_empty, append_message};

/// Checks that a message is encoded as this frame, and that the frame is decoded to the message.
fn check<M: Body>(message: M, frame: &[u8]) {
    let mut written = BytesMut::new();
    append_message(&mut written, &message).unwrap();
    assert_eq!(written[..], *frame);
    let taken = FrameDecoder::default().next_frame(&mut written).unwrap().unwrap();
    assert!(written.is_empty());
    assert_eq!(taken.code, M::CODE as u8);
    assert_eq!(taken.decode::<M>().unwrap(), message);
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn messages_without_fields_are_frames_of_the_code_only() {
    check(RpbPingReq {}, &[0, 0, 0, 1, 1]);
    check(RpbPingResp {}, &[0, 0, 0, 1, 2]);
    check(RpbGetResp::default(), &[0, 0, 0, 1, 10]);
    check(RpbPutResp::default(), &[0, 0, 0, 1, 12]);
    check(RpbDelResp {}, &[0, 0, 0, 1, 14]);
    check(RpbListBucketsReq::default(), &[0, 0, 0, 1, 15]);
    check(RpbListBucketsResp::default(), &[0, 0, 0, 1, 16]);
    check(RpbIndexResp::default(), &[0, 0, 0, 1, 26]);
    check(RpbCounterGetResp::default(), &[0, 0, 0, 1, 53]);
    check(DtUpdateResp::default(), &[0, 0, 0, 1, 83]);
    check(RpbStartTls {}, &[0, 0, 0, 1, 255]);
    let mut buffer = Vec::new();
    append_empty(&mut buffer, MessageCode::SetBucketResp);
    assert_eq!(buffer, [0, 0, 0, 1, 22]);
}

#[test]
fn error_answers_have_text_and_code_even_when_the_code_is_zero() {
    let error = RpbErrorResp { errmsg: bytes("no"), errcode: 0 };
    check(error, &[0, 0, 0, 7, 0, 0x0a, 2, b'n', b'o', 0x10, 0]);
}

#[test]
fn a_get_request_has_its_options_by_ascending_tag() {
    let get = RpbGetReq {
        bucket: bytes("b"),
        key: bytes("k"),
        r: Some(u32::MAX - 2),
        pr: Some(1),
        basic_quorum: Some(true),
        notfound_ok: Some(false),
        if_modified: Some(bytes("c")),
        head: Some(true),
        deletedvclock: Some(true),
        timeout: Some(300),
        sloppy_quorum: Some(false),
        n_val: Some(3),
        bucket_type: Some(bytes("t")),
        node_confirms: Some(2),
    };
    #[rustfmt::skip]
    check(get, &[
        0, 0, 0, 38, 9,
        0x0a, 1, b'b', 0x12, 1, b'k',
        0x18, 0xfd, 0xff, 0xff, 0xff, 0x0f,
        0x20, 1, 0x28, 1, 0x30, 0, 0x3a, 1, b'c', 0x40, 1, 0x48, 1, 0x50, 0xac, 2, 0x58, 0,
        0x60, 3, 0x6a, 1, b't', 0x70, 2,
    ]);
}

#[test]
fn a_put_request_nests_its_content() {
    let content = RpbContent {
        value: bytes("v"),
        content_type: Some(bytes("a/b")),
        charset: Some(bytes("u")),
        content_encoding: Some(bytes("z")),
        vtag: Some(bytes("V")),
        links: vec![RpbLink {
            bucket: Some(bytes("x")),
            key: Some(bytes("y")),
            tag: Some(bytes("z")),
        }],
        last_mod: Some(1),
        last_mod_usecs: Some(2),
        usermeta: vec![RpbPair { key: bytes("m"), value: None }],
        indexes: vec![RpbPair { key: bytes("i"), value: Some(bytes("7")) }],
        deleted: Some(true),
    };
    let put = RpbPutReq {
        bucket: bytes("b"),
        key: Some(bytes("k")),
        vclock: Some(bytes("c")),
        content,
        w: Some(1),
        dw: Some(0),
        return_body: Some(true),
        pw: Some(2),
        if_not_modified: Some(true),
        if_none_match: Some(true),
        return_head: Some(true),
        timeout: Some(9),
        asis: Some(true),
        sloppy_quorum: Some(true),
        n_val: Some(1),
        bucket_type: Some(bytes("t")),
        node_confirms: Some(1),
    };
    #[rustfmt::skip]
    check(put, &[
        0, 0, 0, 88, 11,
        0x0a, 1, b'b', 0x12, 1, b'k', 0x1a, 1, b'c',
        0x22, 47,
        0x0a, 1, b'v', 0x12, 3, b'a', b'/', b'b', 0x1a, 1, b'u', 0x22, 1, b'z', 0x2a, 1, b'V',
        0x32, 9, 0x0a, 1, b'x', 0x12, 1, b'y', 0x1a, 1, b'z',
        0x38, 1, 0x40, 2,
        0x4a, 3, 0x0a, 1, b'm',
        0x52, 6, 0x0a, 1, b'i', 0x12, 1, b'7',
        0x58, 1,
        0x28, 1, 0x30, 0, 0x38, 1, 0x40, 2, 0x48, 1, 0x50, 1, 0x58, 1, 0x60, 9, 0x68, 1, 0x70, 1,
        0x78, 1, 0x82, 1, 1, b't', 0x88, 1, 1,
    ]);
}

#[test]
fn a_delete_request_and_a_put_answer_as_the_definition_says() {
    let delete = RpbDelReq {
        bucket: bytes("b"),
        key: bytes("k"),
        rw: Some(1),
        vclock: Some(bytes("c")),
        r: Some(2),
        w: Some(3),
        pr: Some(4),
        pw: Some(5),
        dw: Some(6),
        timeout: Some(7),
        sloppy_quorum: Some(true),
        n_val: Some(8),
        bucket_type: Some(bytes("t")),
    };
    #[rustfmt::skip]
    check(delete, &[
        0, 0, 0, 31, 13,
        0x0a, 1, b'b', 0x12, 1, b'k', 0x18, 1, 0x22, 1, b'c', 0x28, 2, 0x30, 3, 0x38, 4, 0x40, 5,
        0x48, 6, 0x50, 7, 0x58, 1, 0x60, 8, 0x6a, 1, b't',
    ]);
    let put = RpbPutResp { key: Some(bytes("k")), ..Default::default() };
    check(put, &[0, 0, 0, 4, 12, 0x1a, 1, b'k']);
    let unchanged = RpbGetResp { unchanged: Some(true), ..Default::default() };
    check(unchanged, &[0, 0, 0, 3, 10, 0x18, 1]);
}

#[test]
fn properties_have_their_tags_up_to_the_last() {
    let modfun = RpbModFun { module: bytes("m"), function: bytes("f") };
    let hook = RpbCommitHook { modfun: None, name: Some(bytes("J")) };
    let props = RpbBucketProps {
        n_val: Some(3),
        allow_mult: Some(true),
        last_write_wins: Some(false),
        precommit: vec![RpbCommitHook { modfun: Some(modfun.clone()), name: None }],
        has_precommit: Some(true),
        postcommit: vec![hook],
        has_postcommit: Some(true),
        chash_keyfun: Some(modfun.clone()),
        linkfun: Some(modfun),
        old_vclock: Some(1),
        young_vclock: Some(2),
        big_vclock: Some(3),
        small_vclock: Some(4),
        pr: Some(5),
        r: Some(6),
        w: Some(7),
        pw: Some(8),
        dw: Some(9),
        rw: Some(10),
        basic_quorum: Some(true),
        notfound_ok: Some(true),
        backend: Some(bytes("B")),
        search: Some(false),
        repl: Some(RpbReplMode::True as i32),
        search_index: Some(bytes("S")),
        datatype: Some(bytes("D")),
        consistent: Some(false),
        write_once: Some(true),
        hll_precision: Some(14),
    };
    #[rustfmt::skip]
    check(RpbGetBucketResp { props }, &[
        0, 0, 0, 101, 20,
        0x0a, 98,
        0x08, 3, 0x10, 1, 0x18, 0,
        0x22, 8, 0x0a, 6, 0x0a, 1, b'm', 0x12, 1, b'f', 0x28, 1,
        0x32, 3, 0x12, 1, b'J', 0x38, 1,
        0x42, 6, 0x0a, 1, b'm', 0x12, 1, b'f', 0x4a, 6, 0x0a, 1, b'm', 0x12, 1, b'f',
        0x50, 1, 0x58, 2, 0x60, 3, 0x68, 4, 0x70, 5, 0x78, 6,
        0x80, 1, 7, 0x88, 1, 8, 0x90, 1, 9, 0x98, 1, 10, 0xa0, 1, 1, 0xa8, 1, 1,
        0xb2, 1, 1, b'B', 0xb8, 1, 0, 0xc0, 1, 3, 0xca, 1, 1, b'S', 0xd2, 1, 1, b'D',
        0xd8, 1, 0, 0xe0, 1, 1, 0xe8, 1, 14,
    ]);
}

#[test]
fn a_preference_list_says_false_and_zero_aloud() {
    let item = RpbBucketKeyPreflistItem { partition: 0, node: bytes("n"), primary: false };
    #[rustfmt::skip]
    check(RpbGetBucketKeyPreflistResp { preflist: vec![item] }, &[
        0, 0, 0, 10, 34, 0x0a, 7, 0x08, 0, 0x12, 1, b'n', 0x18, 0,
    ]);
}

#[test]
fn a_layout_has_its_nodes_by_place_and_its_rules_by_type() {
    let node = RpbLayoutNode { name: bytes("n"), address: bytes("a:1") };
    let rule = RpbLayoutRule {
        bucket_type: bytes("t"),
        bucket: Some(bytes("b")),
        n_val: 3,
        bucket_only: Some(true),
    };
    let layout = RpbGetLayoutResp {
        tag: bytes("x"),
        ring_size: Some(64),
        nodes: vec![node],
        primaries: Some(bytes("\0\0")),
        rules: vec![rule],
    };
    #[rustfmt::skip]
    check(layout, &[
        0, 0, 0, 32, 161, 0x0a, 1, b'x', 0x10, 64,
        0x1a, 8, 0x0a, 1, b'n', 0x12, 3, b'a', b':', b'1',
        0x22, 2, 0, 0,
        0x2a, 10, 0x0a, 1, b't', 0x12, 1, b'b', 0x18, 3, 0x20, 1,
    ]);
    check(RpbGetLayoutReq { known_tag: Some(bytes("x")) }, &[0, 0, 0, 4, 160, 0x0a, 1, b'x']);
}

#[test]
fn counters_are_zigzag() {
    let update = RpbCounterUpdateReq {
        bucket: bytes("b"),
        key: bytes("k"),
        amount: -2,
        returnvalue: Some(true),
        ..Default::default()
    };
    #[rustfmt::skip]
    check(update, &[0, 0, 0, 11, 50, 0x0a, 1, b'b', 0x12, 1, b'k', 0x18, 3, 0x38, 1]);
    check(RpbCounterGetResp { value: Some(1) }, &[0, 0, 0, 3, 53, 0x08, 2]);
}

#[test]
fn maps_nest_in_maps() {
    let field = MapField { name: bytes("f"), kind: MapFieldType::Map as i32 };
    let flag = MapField { name: bytes("g"), kind: MapFieldType::Flag as i32 };
    let inner = MapEntry { field: flag, flag_value: Some(false), ..Default::default() };
    let entry = MapEntry { field, map_value: vec![inner], ..Default::default() };
    let value = DtValue { map_value: vec![entry], ..Default::default() };
    let fetched = DtFetchResp { context: None, kind: DataType::Map as i32, value: Some(value) };
    #[rustfmt::skip]
    check(fetched, &[
        0, 0, 0, 25, 81,
        0x10, 3, 0x1a, 20,
        0x1a, 18, 0x0a, 5, 0x0a, 1, b'f', 0x10, 5,
        0x32, 9, 0x0a, 5, 0x0a, 1, b'g', 0x10, 4, 0x28, 0,
    ]);
}

#[test]
fn an_index_query_has_its_form_even_when_it_is_zero() {
    let query = RpbIndexReq {
        bucket: bytes("b"),
        index: bytes("$key"),
        qtype: IndexQueryType::Eq as i32,
        key: Some(bytes("k")),
        return_body: Some(true),
        ..Default::default()
    };
    #[rustfmt::skip]
    check(query, &[
        0, 0, 0, 18, 25,
        0x0a, 1, b'b', 0x12, 4, b'$', b'k', b'e', b'y', 0x18, 0, 0x22, 1, b'k', 0x80, 1, 1,
    ]);
}

#[test]
fn segments_are_taken_one_by_one_and_packed() {
    let tombs = RpbAaeFoldFindTombsReq {
        bucket: bytes("b"),
        segment_filter: true,
        id_filter: vec![7, 300],
        ..Default::default()
    };
    let before = b"\x12\x01b\x50\0\xf0\x01\x01";
    let after = b"\xc0\x02\0";
    let one_by_one = [&before[..], b"\xf8\x01\x07\xf8\x01\xac\x02", after].concat();
    let packed = [&before[..], b"\xfa\x01\x03\x07\xac\x02", after].concat();
    let cut = [&before[..], b"\xfa\x01\x02\x07\xac", after].concat();
    check(tombs.clone(), &[&[0, 0, 0, one_by_one.len() as u8 + 1, 218], &one_by_one[..]].concat());
    assert_eq!(RpbAaeFoldFindTombsReq::decode_body(packed.into()).unwrap(), tombs);
    assert!(matches!(
        RpbAaeFoldFindTombsReq::decode_body(cut.into()),
        Err(DecodeError::Truncated { .. })
    ));
}

#[test]
fn every_code_has_its_number() {
    let numbers: Vec<u8> = MessageCode::ALL.iter().map(|&code| code as u8).collect();
    #[rustfmt::skip]
    assert_eq!(numbers, [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 29, 30, 31, 32, 33, 34, 40, 41, 42, 50, 51, 52, 53, 70, 71, 80, 81, 82, 83,
        160, 161, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176, 177,
        202, 203, 204, 205, 206, 207, 210, 211, 212, 213, 214, 215, 216, 217, 218, 219, 220, 221,
        222, 223, 224, 230, 231, 253, 254, 255,
    ]);
    for byte in 0..=255 {
        let code = MessageCode::from_byte(byte);
        assert_eq!(code.is_some(), numbers.contains(&byte), "{byte}");
        assert!(code.is_none_or(|code| code as u8 == byte));
    }
    assert_eq!(MessageCode::GetReq.to_string(), "GetReq (9)");
}

#[test]
fn questions_about_parts_of_data_types_are_quoits_own() {
    let query = DtQueryReq {
        bucket: bytes("b"),
        key: bytes("k"),
        bucket_type: bytes("t"),
        element: Some(bytes("e")),
        ..DtQueryReq::default()
    };
    let names = [0x0a, 1, b'b', 0x12, 1, b'k', 0x1a, 1, b't'];
    let frame = [&[0, 0, 0, 13, 162][..], &names, &[0x6a, 1, b'e']].concat();
    check(query, &frame);
    let page = DtQueryReq {
        bucket: bytes("b"),
        key: bytes("k"),
        bucket_type: bytes("t"),
        page_size: Some(7),
        cursor: Some(bytes("c")),
        ..DtQueryReq::default()
    };
    let asked = [0x78, 7, 0x82, 1, 1, b'c'];
    check(page, &[&[0, 0, 0, 16, 162][..], &names, &asked].concat());
    let in_field = DtQueryReq {
        bucket: bytes("b"),
        key: bytes("k"),
        bucket_type: bytes("t"),
        path: vec![MapField { name: bytes("f"), kind: MapFieldType::Set as i32 }],
        ..DtQueryReq::default()
    };
    let path = [0x8a, 1, 5, 0x0a, 1, b'f', 0x10, 2];
    check(in_field, &[&[0, 0, 0, 18, 162][..], &names, &path].concat());
    let size = DtQueryResp {
        kind: DataType::Set as i32,
        found: true,
        size: Some(300),
        ..DtQueryResp::default()
    };
    check(size, &[0, 0, 0, 8, 163, 8, 2, 16, 1, 24, 0xac, 2]);
}
