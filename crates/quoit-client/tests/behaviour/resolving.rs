//! Resolving of siblings, and read-modify-write updates.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::messages::*;
use quoit_client::*;
use std::time::{Duration, UNIX_EPOCH};
use tokio::join;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn sibling(value: &'static str, last_mod: u32) -> RpbContent {
    RpbContent { value: bytes(value), last_mod: Some(last_mod), ..Default::default() }
}

fn found(content: Vec<RpbContent>, context: &'static str) -> RpbGetResp {
    RpbGetResp { content, vclock: Some(bytes(context)), unchanged: None }
}

fn append(old: Option<Content>) -> Option<Content> {
    let mut value = old.map_or_else(Vec::new, |old| old.value.to_vec());
    value.push(b'!');
    Some(Content::new(value))
}

#[test]
fn the_latest_sibling_wins_and_of_equals_the_greatest_tag_in_any_order() {
    let content = |value: &'static str, secs, vtag| Content {
        last_modified: Some(UNIX_EPOCH + Duration::from_secs(secs)),
        vtag: Some(bytes(vtag)),
        ..Content::new(value)
    };
    let siblings = [content("a", 1, "z"), content("b", 2, "x"), content("c", 2, "y")];
    for rotation in 0..3 {
        let mut siblings = siblings.to_vec();
        siblings.rotate_left(rotation);
        assert_eq!(LatestModified.resolve(siblings).unwrap().value, "c");
    }
    assert!(LatestModified.resolve(Vec::new()).is_err());
}

#[tokio::test]
async fn a_resolved_read_gives_one_value_and_the_context_of_all() {
    let (mut fake, client) = Fake::with_client().await;
    let location = Bucket::new("b").key("k");
    let answer = found(vec![sibling("new", 2), sibling("old", 1)], "c");
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (got, _) = join!(client.get_resolved(&location, &LatestModified), serve);
    let (content, context) = got.unwrap().unwrap();
    assert_eq!((content.value, context), (bytes("new"), Context(bytes("c"))));
}

#[tokio::test]
async fn a_sibling_that_was_deleted_last_means_that_there_is_nothing() {
    let (mut fake, client) = Fake::with_client().await;
    let location = Bucket::new("b").key("k");
    let tombstone = RpbContent { deleted: Some(true), ..sibling("", 3) };
    let answer = found(vec![sibling("new", 2), tombstone], "c");
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (got, _) = join!(client.get_resolved(&location, &LatestModified), serve);
    assert_eq!(got.unwrap(), None);
}

#[tokio::test]
async fn a_resolver_that_fails_is_an_error_of_the_place() {
    struct Undecided;
    impl Resolver for Undecided {
        fn resolve(
            &self,
            siblings: Vec<Content>,
        ) -> Result<Content, Box<dyn std::error::Error + Send + Sync>> {
            Err(format!("{} values", siblings.len()).into())
        }
    }
    let (mut fake, client) = Fake::with_client().await;
    let location = Bucket::new("b").key("k");
    let answer = found(vec![sibling("x", 2), sibling("y", 1)], "c");
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (got, _) = join!(client.get_resolved(&location, &Undecided), serve);
    let text = got.unwrap_err().to_string();
    assert_eq!(text, "siblings of default/b/k not resolved: 2 values");
}

#[tokio::test]
async fn an_update_writes_with_the_context_it_read_and_on_condition() {
    let (mut fake, client) = Fake::with_client().await;
    let (location, options) = (Bucket::new("b").key("k"), UpdateOptions::default());
    let serve = async {
        let answer = found(vec![sibling("new", 2), sibling("old", 1)], "c");
        let get: RpbGetReq = fake.answer_next(&answer).await;
        assert_eq!(get.deletedvclock, Some(true));
        fake.answer_next::<RpbPutReq, _>(&RpbPutResp::default()).await
    };
    let (written, put) = join!(client.update(&location, &LatestModified, &options, append), serve);
    assert_eq!(written.unwrap().unwrap().value, "new!");
    assert_eq!((put.content.value, put.vclock.unwrap()), (bytes("new!"), bytes("c")));
    assert_eq!((put.if_not_modified, put.if_none_match), (Some(true), None));
}

#[tokio::test]
async fn an_update_of_nothing_writes_only_if_there_is_still_nothing() {
    let (mut fake, client) = Fake::with_client().await;
    let (location, options) = (Bucket::new("b").key("k"), UpdateOptions::default());
    for context in [None, Some(bytes("tombstone"))] {
        let serve = async {
            let answer = RpbGetResp { vclock: context.clone(), ..Default::default() };
            fake.answer_next::<RpbGetReq, _>(&answer).await;
            fake.answer_next::<RpbPutReq, _>(&RpbPutResp::default()).await
        };
        let (written, put) =
            join!(client.update(&location, &LatestModified, &options, append), serve);
        assert_eq!(written.unwrap().unwrap().value, "!");
        assert_eq!((put.if_not_modified, put.if_none_match), (None, Some(true)));
        assert_eq!(put.vclock, context);
    }
}

#[tokio::test]
async fn an_update_starts_again_from_what_others_wrote_meanwhile() {
    let (mut fake, client) = Fake::with_client().await;
    let (location, options) = (Bucket::new("b").key("k"), UpdateOptions::default());
    let serve = async {
        fake.answer_next::<RpbGetReq, _>(&RpbGetResp::default()).await;
        fake.answer_next::<RpbPutReq, _>(&crate::fake::error("match_found")).await;
        fake.answer_next::<RpbGetReq, _>(&found(vec![sibling("x", 1)], "c1")).await;
        fake.answer_next::<RpbPutReq, _>(&crate::fake::error("modified")).await;
        fake.answer_next::<RpbGetReq, _>(&found(vec![sibling("y", 2)], "c2")).await;
        fake.answer_next::<RpbPutReq, _>(&RpbPutResp::default()).await
    };
    let (written, put) = join!(client.update(&location, &LatestModified, &options, append), serve);
    assert_eq!(written.unwrap().unwrap().value, "y!");
    assert_eq!(put.vclock.unwrap(), "c2");
}

#[tokio::test]
async fn an_update_gives_up_when_its_attempts_are_used_up() {
    let (mut fake, client) = Fake::with_client().await;
    let location = Bucket::new("b").key("k");
    let options = UpdateOptions { attempts_max: 2, ..Default::default() };
    let serve = async {
        for _ in 0..2 {
            fake.answer_next::<RpbGetReq, _>(&found(vec![sibling("x", 1)], "c")).await;
            fake.answer_next::<RpbPutReq, _>(&crate::fake::error("modified")).await;
        }
    };
    let (outcome, ()) = join!(client.update(&location, &LatestModified, &options, append), serve);
    assert!(matches!(outcome, Err(Error::Contended { attempts: 2, .. })), "{outcome:?}");
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let (mut fake, client) = Fake::with_client().await;
    let (location, options) = (Bucket::new("b").key("k"), UpdateOptions::default());
    let answer = found(vec![sibling("x", 1)], "c");
    let serve = fake.answer_next::<RpbGetReq, _>(&answer);
    let (written, _) = join!(client.update(&location, &LatestModified, &options, |_| None), serve);
    assert_eq!(written.unwrap(), None);
    assert!(fake.is_quiet());
}
