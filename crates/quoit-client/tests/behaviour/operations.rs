//! Operations: the requests that the client sends, and its reading of the answers.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::messages::*;
use quoit_client::*;
use std::time::{Duration, UNIX_EPOCH};
use tokio::join;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn location() -> Location {
    Bucket::new("b").typed("t").key("k")
}

#[tokio::test]
async fn a_get_sends_only_what_was_asked_for() {
    let (mut fake, client) = Fake::with_client().await;
    let location = Bucket::new("b").key("k");
    let answer = RpbGetResp::default();
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (answer, request) = join!(client.get(&location), serve);
    assert_eq!(answer.unwrap(), None);
    let plain = RpbGetReq { bucket: bytes("b"), key: bytes("k"), ..Default::default() };
    assert_eq!(request, plain);
}

#[tokio::test]
async fn a_get_sends_all_its_options() {
    let (mut fake, client) = Fake::with_client().await;
    let options = GetOptions {
        r: Quorum::One,
        pr: Quorum::Count(2),
        basic_quorum: Some(true),
        notfound_ok: Some(false),
        if_modified: Some(Context(bytes("c"))),
        head: true,
        tombstone: true,
        timeout: Some(Duration::from_millis(1500)),
        sloppy_quorum: Some(false),
        n_val: Some(3),
        node_confirms: Some(1),
    };
    let location = location();
    let answer = RpbGetResp::default();
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (_, request) = join!(client.get_with(&location, &options), serve);
    let expected = RpbGetReq {
        bucket: bytes("b"),
        key: bytes("k"),
        r: Some(0xffff_fffe),
        pr: Some(2),
        basic_quorum: Some(true),
        notfound_ok: Some(false),
        if_modified: Some(bytes("c")),
        head: Some(true),
        deletedvclock: Some(true),
        timeout: Some(1500),
        sloppy_quorum: Some(false),
        n_val: Some(3),
        bucket_type: Some(bytes("t")),
        node_confirms: Some(1),
    };
    assert_eq!(request, expected);
}

/// Checks the result of a get for an answer.
async fn check_fetched(answer: RpbGetResp, fetched: Fetched) {
    let (mut fake, client) = Fake::with_client().await;
    let (location, options) = (location(), GetOptions::default());
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (got, _) = join!(client.get_with(&location, &options), serve);
    assert_eq!(got.unwrap(), fetched);
}

#[tokio::test]
async fn answers_of_gets_have_their_four_meanings() {
    let clock = Some(bytes("c"));
    let context = Context(bytes("c"));
    check_fetched(RpbGetResp::default(), Fetched::NotFound).await;
    let unchanged = RpbGetResp { unchanged: Some(true), ..Default::default() };
    check_fetched(unchanged, Fetched::Unchanged).await;
    let tombstone = RpbGetResp { vclock: clock.clone(), ..Default::default() };
    check_fetched(tombstone, Fetched::Tombstone(context.clone())).await;
    let sibling = |value| RpbContent { value: bytes(value), ..Default::default() };
    let content = vec![sibling("x"), sibling("y")];
    let found = RpbGetResp { content, vclock: clock, unchanged: None };
    let siblings = vec![Content::new("x"), Content::new("y")];
    check_fetched(found, Fetched::Found(Object { context, siblings })).await;
}

#[tokio::test]
async fn content_goes_and_comes_whole() {
    let (mut fake, client) = Fake::with_client().await;
    let content = Content {
        value: bytes("v"),
        content_type: Some(bytes("a/b")),
        charset: Some(bytes("utf-8")),
        content_encoding: Some(bytes("gzip")),
        links: vec![Link { bucket: bytes("x"), key: bytes("y"), tag: bytes("z") }],
        user_meta: vec![(bytes("m"), bytes("1")), (bytes("m"), bytes("2"))],
        indexes: vec![(bytes("i_int"), bytes("7"))],
        deleted: true,
        last_modified: None,
        vtag: None,
    };
    let (location, options) = (location(), PutOptions { return_body: true, ..Default::default() });
    let serve = async {
        let request = fake.next().await;
        let put: RpbPutReq = request.message();
        assert_eq!((put.content.last_mod, &put.content.vtag), (None, &None));
        let stored = RpbContent {
            last_mod: Some(1_700_000_000),
            last_mod_usecs: Some(250_000),
            vtag: Some(bytes("V")),
            ..put.content
        };
        let vclock = Some(bytes("c"));
        request.answer(&RpbPutResp { content: vec![stored], vclock, key: None }).await;
    };
    let (stored, ()) = join!(client.put_with(&location, content.clone(), &options), serve);
    let stored = stored.unwrap().object.unwrap();
    let expected = Content {
        last_modified: Some(UNIX_EPOCH + Duration::from_millis(1_700_000_000_250)),
        vtag: Some(bytes("V")),
        ..content
    };
    assert_eq!(stored.single(), Some(&expected));
    assert_eq!(stored.context, Context(bytes("c")));
}

#[tokio::test]
async fn a_put_sends_all_its_options() {
    let (mut fake, client) = Fake::with_client().await;
    let options = PutOptions {
        context: Some(Context(bytes("c"))),
        w: Quorum::All,
        dw: Quorum::Count(0),
        pw: Quorum::Majority,
        return_body: true,
        return_head: true,
        if_not_modified: true,
        if_none_match: true,
        timeout: Some(Duration::from_micros(1)),
        asis: true,
        sloppy_quorum: Some(true),
        n_val: Some(1),
        node_confirms: Quorum::Count(2),
        resend: true,
    };
    let location = location();
    let answer = RpbPutResp::default();
    let serve = fake.answer_next::<RpbPutReq, _>(&answer);
    let (stored, request) = join!(client.put_with(&location, Content::new("v"), &options), serve);
    assert_eq!(stored.unwrap(), Stored { key: None, object: None });
    let expected = RpbPutReq {
        bucket: bytes("b"),
        key: Some(bytes("k")),
        vclock: Some(bytes("c")),
        content: RpbContent { value: bytes("v"), ..Default::default() },
        w: Some(0xffff_fffc),
        dw: Some(0),
        return_body: Some(true),
        pw: Some(0xffff_fffd),
        if_not_modified: Some(true),
        if_none_match: Some(true),
        return_head: Some(true),
        timeout: Some(1),
        asis: Some(true),
        sloppy_quorum: Some(true),
        n_val: Some(1),
        bucket_type: Some(bytes("t")),
        node_confirms: Some(2),
    };
    assert_eq!(request, expected);
}

#[tokio::test]
async fn an_insert_tells_the_key_that_the_server_chose() {
    let (mut fake, client) = Fake::with_client().await;
    let (bucket, options) = (Bucket::new("b"), PutOptions::default());
    let answer = RpbPutResp { key: Some(bytes("chosen")), ..Default::default() };
    let serve = fake.answer_next::<RpbPutReq, _>(&answer);
    let (stored, request) = join!(client.insert(&bucket, Content::text("v"), &options), serve);
    assert_eq!(stored.unwrap().key.unwrap(), "chosen");
    assert_eq!(request.key, None);
    assert_eq!(request.content.content_type.unwrap(), "text/plain");
}

#[tokio::test]
async fn a_delete_sends_all_its_options() {
    let (mut fake, client) = Fake::with_client().await;
    let options = DeleteOptions {
        context: Some(Context(bytes("c"))),
        rw: Quorum::Count(1),
        r: Quorum::Count(2),
        pr: Quorum::Count(3),
        w: Quorum::Count(4),
        pw: Quorum::Count(5),
        dw: Quorum::Count(6),
        timeout: Some(Duration::MAX),
        sloppy_quorum: Some(false),
        n_val: Some(7),
        resend: true,
    };
    let location = location();
    let serve = fake.answer_next::<RpbDelReq, _>(&RpbDelResp {});
    let (outcome, request) = join!(client.delete_with(&location, &options), serve);
    outcome.unwrap();
    let expected = RpbDelReq {
        bucket: bytes("b"),
        key: bytes("k"),
        rw: Some(1),
        vclock: Some(bytes("c")),
        r: Some(2),
        w: Some(4),
        pr: Some(3),
        pw: Some(5),
        dw: Some(6),
        timeout: Some(u32::MAX),
        sloppy_quorum: Some(false),
        n_val: Some(7),
        bucket_type: Some(bytes("t")),
    };
    assert_eq!(request, expected);
}

#[tokio::test]
async fn an_error_of_the_server_keeps_its_code_and_text() {
    let (mut fake, client) = Fake::with_client().await;
    let answer = RpbErrorResp { errmsg: bytes("{pr_val_unsatisfied,2,1}"), errcode: 7 };
    let location = location();
    let (outcome, _) = join!(client.get(&location), fake.answer_next::<RpbGetReq, _>(&answer));
    let error = outcome.unwrap_err();
    let server = error.server().unwrap();
    assert_eq!((server.code, &server.message[..]), (7, "{pr_val_unsatisfied,2,1}"));
    assert!(server.is_quorum_unsatisfied());
    assert!(fake.is_quiet(), "the server's errors are not tried again");
}

#[tokio::test]
async fn bucket_properties_are_read_written_and_reset() {
    let (mut fake, client) = Fake::with_client().await;
    let bucket = Bucket::new("b").typed("t");
    let props = BucketProps { n_val: Some(2), ..Default::default() };
    let full = RpbGetBucketResp { props: props.clone() };

    let serve = fake.answer_next::<RpbGetBucketReq, _>(&full);
    let (got, request) = join!(client.bucket_props(&bucket), serve);
    assert_eq!(got.unwrap(), props);
    let (name, bucket_type) = (bytes("b"), Some(bytes("t")));
    assert_eq!(request, RpbGetBucketReq { bucket: name.clone(), bucket_type: bucket_type.clone() });

    let serve = fake.answer_next::<RpbSetBucketReq, _>(&RpbSetBucketResp {});
    let (outcome, request) = join!(client.set_bucket_props(&bucket, props.clone()), serve);
    outcome.unwrap();
    assert_eq!((request.bucket, request.bucket_type), (name.clone(), bucket_type.clone()));
    assert_eq!(request.props, props);

    let serve = fake.answer_next::<RpbResetBucketReq, _>(&RpbResetBucketResp {});
    let (outcome, request) = join!(client.reset_bucket_props(&bucket), serve);
    outcome.unwrap();
    assert_eq!(request, RpbResetBucketReq { bucket: name, bucket_type });

    let serve = fake.answer_next::<RpbGetBucketTypeReq, _>(&full);
    let (got, request) = join!(client.bucket_type_props("t"), serve);
    assert_eq!((got.unwrap(), request.bucket_type), (props.clone(), bytes("t")));

    let serve = fake.answer_next::<RpbSetBucketTypeReq, _>(&RpbSetBucketResp {});
    let (outcome, request) = join!(client.set_bucket_type_props("t", props.clone()), serve);
    outcome.unwrap();
    assert_eq!((request.bucket_type, request.props), (bytes("t"), props));
}

#[tokio::test]
async fn nodes_tell_their_name_and_who_holds_a_key() {
    let (mut fake, client) = Fake::with_client().await;
    let (node, server_version) = (Some(bytes("n")), Some(bytes("3.2.5")));
    let info = RpbGetServerInfoResp { node, server_version };
    let serve = fake.answer_next::<RpbGetServerInfoReq, _>(&info);
    let (got, _) = join!(client.server_info(), serve);
    assert_eq!(got.unwrap(), ServerInfo { node: bytes("n"), server_version: bytes("3.2.5") });

    let item = RpbBucketKeyPreflistItem { partition: 63, node: bytes("n"), primary: true };
    let answer = RpbGetBucketKeyPreflistResp { preflist: vec![item] };
    let location = location();
    let serve = fake.answer_next::<RpbGetBucketKeyPreflistReq, _>(&answer);
    let (got, request) = join!(client.preflist(&location), serve);
    let expected = PreflistItem { partition: 63, node: bytes("n"), primary: true };
    assert_eq!(got.unwrap(), [expected]);
    let sent = (&request.bucket[..], &request.key[..], request.bucket_type.as_deref());
    assert_eq!(sent, (&b"b"[..], &b"k"[..], Some(&b"t"[..])));
}

#[test]
fn places_are_shown_with_their_bytes_escaped() {
    assert_eq!(Bucket::new("b").key("k").to_string(), "default/b/k");
    assert_eq!(Bucket::new([0xff]).typed("t").key("k").to_string(), "t/\\xff/k");
}
