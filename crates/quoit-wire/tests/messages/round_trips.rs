//! Messages are decoded as they were encoded, and borrowed answers have the same bytes as built
//! ones.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use quoit_wire::messages::*;
use quoit_wire::quorum::{QUORUM_ALL, QUORUM_DEFAULT, QUORUM_MAJORITY, QUORUM_ONE};
use quoit_wire::{
    AnswerFields, ContentRef, FrameDecoder, Quorum, append_get_resp, append_message,
    append_put_resp,
};

fn blob() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 120..300),
    ]
    .prop_map(Bytes::from)
}

fn maybe<S: Strategy>(inner: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    prop::option::of(inner)
}

prop_compose! {
    fn pair()(key in blob(), value in maybe(blob())) -> RpbPair {
        RpbPair { key, value }
    }
}

prop_compose! {
    fn link()(bucket in maybe(blob()), key in maybe(blob()), tag in maybe(blob())) -> RpbLink {
        RpbLink { bucket, key, tag }
    }
}

prop_compose! {
    fn content()(
        value in blob(),
        texts in prop::array::uniform4(maybe(blob())),
        links in prop::collection::vec(link(), 0..3),
        times in prop::array::uniform2(maybe(any::<u32>())),
        usermeta in prop::collection::vec(pair(), 0..3),
        indexes in prop::collection::vec(pair(), 0..3),
        deleted in any::<bool>(),
    ) -> RpbContent {
        let [content_type, charset, content_encoding, vtag] = texts;
        RpbContent {
            value, content_type, charset, content_encoding, vtag, links,
            last_mod: times[0], last_mod_usecs: times[1],
            usermeta, indexes, deleted: deleted.then_some(true),
        }
    }
}

prop_compose! {
    fn put()(
        bucket in blob(),
        texts in prop::array::uniform3(maybe(blob())),
        content in content(),
        numbers in prop::array::uniform6(maybe(any::<u32>())),
        flags in prop::array::uniform6(maybe(any::<bool>())),
    ) -> RpbPutReq {
        let [key, vclock, bucket_type] = texts;
        let [w, dw, pw, timeout, n_val, node_confirms] = numbers;
        let [return_body, if_not_modified, if_none_match, return_head, asis, sloppy_quorum] = flags;
        RpbPutReq {
            bucket, key, vclock, content, w, dw, return_body, pw, if_not_modified, if_none_match,
            return_head, timeout, asis, sloppy_quorum, n_val, bucket_type, node_confirms,
        }
    }
}

fn frame<M: Body>(message: &M) -> Vec<u8> {
    let mut buffer = Vec::new();
    append_message(&mut buffer, message).unwrap();
    buffer
}

proptest! {
    #[test]
    fn a_put_request_comes_back_as_it_was(puts in prop::collection::vec(put(), 1..4)) {
        let mut buffer = BytesMut::new();
        for put in &puts {
            append_message(&mut buffer, put).unwrap();
        }
        for put in puts {
            let frame = FrameDecoder::default().next_frame(&mut buffer).unwrap().unwrap();
            prop_assert_eq!(frame.decode::<RpbPutReq>().unwrap(), put);
        }
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn borrowed_answers_are_the_bytes_of_built_ones(
        content in prop::collection::vec(content(), 0..4),
        vclock in maybe(blob()),
        key in maybe(blob()),
    ) {
        let mut got = b"before".to_vec();
        append_get_resp(&mut got, content.iter().map(ContentRef::from), vclock.as_deref()).unwrap();
        let built = RpbGetResp { content, vclock, unchanged: None };
        prop_assert_eq!(&got[6..], frame(&built));

        let RpbGetResp { content, vclock, .. } = built;
        let mut got = Vec::new();
        let parts = content.iter().map(ContentRef::from);
        let fields = AnswerFields { vclock: vclock.as_deref(), key: key.as_deref() };
        append_put_resp(&mut got, parts, fields).unwrap();
        prop_assert_eq!(got, frame(&RpbPutResp { content, vclock, key }));
    }

    #[test]
    fn quorums_come_back_as_they_were(value in prop_oneof![any::<u32>(), u32::MAX - 6..]) {
        let quorum = Quorum::from_wire(value);
        prop_assert_eq!(quorum.to_wire(), value);
        prop_assert_eq!(Quorum::from_field(quorum.to_field()), quorum);
        let reserved = (4_294_967_291..=4_294_967_294).contains(&value);
        prop_assert_eq!(quorum == Quorum::Count(value), !reserved);
    }
}

#[test]
fn quorum_words_have_the_numbers_of_the_protocol() {
    assert_eq!(Quorum::from_wire(0xffff_fffe), Quorum::One);
    assert_eq!(Quorum::from_wire(0xffff_fffd), Quorum::Majority);
    assert_eq!(Quorum::from_wire(0xffff_fffc), Quorum::All);
    assert_eq!(Quorum::from_wire(0xffff_fffb), Quorum::Default);
    assert_eq!(Quorum::from_field(None), Quorum::Default);
    assert_eq!(Quorum::Default.to_field(), None);
    assert_eq!(Quorum::from(2), Quorum::Count(2));
    let words = [QUORUM_ONE, QUORUM_MAJORITY, QUORUM_ALL, QUORUM_DEFAULT];
    assert_eq!(words, [u32::MAX - 1, u32::MAX - 2, u32::MAX - 3, u32::MAX - 4]);
}
