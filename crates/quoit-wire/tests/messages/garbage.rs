//! Bodies that are not valid messages.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use quoit_wire::messages::*;
use quoit_wire::{DecodeError, append_message};

/// Checks the error of a body that is not a valid `M`.
#[track_caller]
fn check<M: Body>(body: &[u8], complaint: &str) {
    let error = M::decode_body(Bytes::copy_from_slice(body)).unwrap_err();
    assert_eq!(error.to_string(), complaint);
}

#[test]
fn an_absent_required_field_is_named() {
    check::<RpbGetReq>(&[], "RpbGetReq lacks its required field bucket (tag 1); send it");
    check::<RpbGetReq>(&[0x0a, 1, b'b'], "RpbGetReq lacks its required field key (tag 2); send it");
    check::<RpbErrorResp>(
        &[0x0a, 1, b'e'],
        "RpbErrorResp lacks its required field errcode (tag 2); send it",
    );
    check::<DtFetchResp>(&[], "DtFetchResp lacks its required field kind (tag 2); send it");
}

#[test]
fn an_absent_required_message_or_field_inside_of_one_is_named() {
    let bucket = [0x0a, 1, b'b'];
    check::<RpbPutReq>(&bucket, "RpbPutReq lacks its required field content (tag 4); send it");
    check::<RpbPutReq>(
        &[&bucket[..], &[0x22, 0]].concat(),
        "RpbContent lacks its required field value (tag 1); send it",
    );
    check::<RpbPutReq>(
        &[&bucket[..], &[0x22, 4, 0x0a, 0, 0x4a, 0]].concat(),
        "RpbPair lacks its required field key (tag 1); send it",
    );
}

#[test]
fn required_fields_may_be_empty_in_any_order_and_given_twice() {
    let get = RpbGetReq::decode_body(Bytes::from_static(&[0x12, 0, 0x0a, 1, b'a', 0x0a, 0]));
    assert_eq!(get.unwrap(), RpbGetReq::default());
}

#[test]
fn a_wrong_wire_type_is_named_with_its_field() {
    let remedy = "check the message definitions of the client";
    check::<RpbGetReq>(
        &[0x08, 1],
        &format!("RpbGetReq.bucket (tag 1) has wire type 0 where 2 belongs; {remedy}"),
    );
    check::<RpbGetReq>(
        &[0x1d, 1, 0, 0, 0],
        &format!("RpbGetReq.r (tag 3) has wire type 5 where 0 belongs; {remedy}"),
    );
    check::<RpbPutReq>(
        &[0x0a, 1, b'b', 0x22, 2, 0x10, 1],
        &format!("RpbContent.content_type (tag 2) has wire type 0 where 2 belongs; {remedy}"),
    );
}

#[test]
fn an_unknown_enumeration_value_is_named_with_its_field() {
    let query = [0x0a, 1, b'b', 0x12, 1, b'i'];
    check::<RpbIndexReq>(
        &[&query[..], &[0x18, 2]].concat(),
        "RpbIndexReq.qtype is 2, which that enumeration does not have",
    );
    let minus_one = [0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    check::<RpbIndexReq>(
        &[&query[..], &minus_one[..]].concat(),
        "RpbIndexReq.qtype is 18446744073709551615, which that enumeration does not have",
    );
}

#[test]
fn a_message_that_breaks_off_says_where() {
    check::<RpbGetReq>(
        &[0x0a, 5, b'b'],
        "RpbGetReq of 3 bytes breaks off at byte 2; send it whole",
    );
    check::<RpbGetReq>(&[0x0a], "RpbGetReq of 1 bytes breaks off at byte 1; send it whole");
    let endless = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    check::<RpbGetReq>(&endless, "RpbGetReq of 11 bytes breaks off at byte 11; send it whole");
    check::<RpbGetReq>(&[0xff; 12], "RpbGetReq of 12 bytes breaks off at byte 0; send it whole");
}

#[test]
fn a_key_that_names_no_field_is_refused() {
    check::<RpbPingReq>(&[0x00, 0], "RpbPingReq has the field key 0x0, which names no field");
    check::<RpbPingReq>(&[0x0f, 0], "RpbPingReq has the field key 0xf, which names no field");
    check::<RpbPingReq>(
        &[0xf8, 0xff, 0xff, 0xff, 0x7f, 0],
        "RpbPingReq has the field key 0x7fffffff8, which names no field",
    );
}

#[test]
fn unknown_fields_of_every_wire_type_are_skipped() {
    #[rustfmt::skip]
    let body = [
        0xf8, 1, 7,
        0xf9, 1, 1, 2, 3, 4, 5, 6, 7, 8,
        0x0a, 1, b'b',
        0xfa, 1, 2, 0xff, 0xff,
        0xfd, 1, 1, 2, 3, 4,
        0xfb, 1, 0x0a, 1, b'x', 0xfc, 1,
        0x12, 1, b'k',
    ];
    let get = RpbGetReq::decode_body(Bytes::copy_from_slice(&body)).unwrap();
    assert_eq!((&get.bucket[..], &get.key[..]), (&b"b"[..], &b"k"[..]));
    check::<RpbPingReq>(
        &[0xfb, 1, 0x0c],
        "RpbPingReq is not valid Protocol Buffers: \
         failed to decode Protobuf message: unexpected end group tag",
    );
}

#[test]
fn messages_nest_to_the_limit_and_no_deeper() {
    /// An answer to a fetch with this many nested fields.
    fn nested(entries: usize) -> Vec<u8> {
        let field = MapField { name: Bytes::new(), kind: MapFieldType::Map as i32 };
        let mut entry = MapEntry { field: field.clone(), ..Default::default() };
        for _ in 1..entries {
            let outer = MapEntry { field: field.clone(), ..Default::default() };
            entry = MapEntry { map_value: vec![entry], ..outer };
        }
        let value = DtValue { map_value: vec![entry], ..Default::default() };
        let answer = DtFetchResp { kind: DataType::Map as i32, value: Some(value), context: None };
        let mut frame = Vec::new();
        append_message(&mut frame, &answer).unwrap();
        frame.split_off(5)
    }
    assert!(DtFetchResp::decode_body(nested(97).into()).is_ok());
    let error = DtFetchResp::decode_body(nested(98).into()).unwrap_err();
    assert_eq!(error, DecodeError::TooDeep { message: "MapField", depth_max: 100 });
}

/// A body that is nearly valid: fields with plausible tags and random contents.
fn nearly_a_body() -> impl Strategy<Value = Vec<u8>> {
    let field = (1u8..18, 0u8..6, prop::collection::vec(any::<u8>(), 0..12)).prop_map(
        |(tag, wire_type, content)| {
            let mut field = vec![(tag << 3 | wire_type) & 0x7f];
            if wire_type == 2 {
                field.push(content.len() as u8);
            }
            field.extend(content);
            field
        },
    );
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        prop::collection::vec(field, 0..10).prop_map(|fields| fields.concat()),
    ]
}

proptest! {
    #[test]
    fn garbage_never_panics_and_what_the_shape_admits_prost_decodes(body in nearly_a_body()) {
        fn decode<M: Body>(body: &Bytes) {
            match M::decode_body(body.clone()) {
                Ok(message) => {
                    let again = M::decode_body(message.encode_to_vec().into()).unwrap();
                    assert_eq!(again, message);
                }
                // The check against the shape finds every fault that `prost` finds, except in
                // groups.
                Err(DecodeError::Malformed { source, .. }) => {
                    assert!(M::decode(body.clone()).is_err(), "{source}");
                }
                Err(_) => {}
            }
        }
        let body = Bytes::from(body);
        decode::<RpbGetReq>(&body);
        decode::<RpbGetResp>(&body);
        decode::<RpbPutReq>(&body);
        decode::<RpbDelReq>(&body);
        decode::<RpbSetBucketReq>(&body);
        decode::<RpbListKeysResp>(&body);
        decode::<RpbIndexReq>(&body);
        decode::<DtUpdateReq>(&body);
        decode::<DtFetchResp>(&body);
        decode::<RpbCounterUpdateReq>(&body);
    }

    #[test]
    fn a_valid_request_cut_short_is_refused(cut in 0usize..60) {
        let put = RpbPutReq {
            bucket: Bytes::from_static(b"bucket"),
            key: Some(Bytes::from_static(b"key")),
            content: RpbContent { value: Bytes::from_static(&[1; 30]), ..Default::default() },
            ..Default::default()
        };
        let mut body = put.encode_to_vec();
        body.truncate(cut);
        let whole = body.len() == put.encoded_len();
        prop_assert_eq!(RpbPutReq::decode_body(body.into()).is_ok(), whole);
    }
}
