//! Replication queues over HTTP.

use super::connection::{HttpConnection, Request};
use super::head::Method;
use super::negotiate::accepts_media_type;
use super::refusal::Refusal;
use super::response::{TEXT, reply};
use super::uri::query_value;
use crate::riak_queue::{self, AnswerKind, PLAIN, QueueAnswer, WITH_TREE_ENTRY};
use bytes::Bytes;
use quoit_core::{QueueLengths, ReplicatedStore};
use quoit_model::context::decode_context;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::riak_clock::encode_riak_clock;
use quoit_riak::{EMPTY_QUEUE_BODY, FetchAnswer, decode_base64};
use serde_json::{Value, json};
use std::sync::Arc;

const OCTETS: &[u8] = b"application/octet-stream";

/// A record that a push names.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct PushedKey {
    bucket_type: String,
    bucket: String,
    key: String,
}

impl HttpConnection {
    /// Answers `/queuename/NAME`.
    pub(super) async fn queue(
        &mut self,
        request: &Request,
        name: &[u8],
        method: Method,
        query: &[u8],
    ) -> Result<(), Refusal> {
        if method == Method::Post {
            return self.push_keys(request, name);
        }
        let form = query_value(query, "object_format");
        let with_tree_entry = match form.as_deref() {
            None | Some(PLAIN) => false,
            Some(WITH_TREE_ENTRY) => true,
            Some(other) => {
                return Err(Refusal::bad(format!("Format {} not defined\n", codes(other))));
            }
        };
        let store = Arc::clone(&self.context.store);
        if !accepts_media_type(request.head.get_list("accept").as_deref(), OCTETS) {
            return Err(Refusal::Page(406));
        }
        // A queue that does not exist is treated as empty.
        let queue = queue_name(&store, name).ok();
        let next = Box::pin(async move {
            match queue {
                Some(queue) => riak_queue::next(&store, &queue).await,
                None => Ok(None),
            }
        });
        let Some(answer) = self.unless_disconnected(next).await?? else {
            reply(&mut self.out, self.form, 200).content_type(OCTETS).finish(EMPTY_QUEUE_BODY);
            return Ok(());
        };
        let QueueAnswer { replicated, kind, tree_entry } = answer;
        let tombstone_clock = match kind {
            AnswerKind::Tombstone(clock) => {
                let mut term = Vec::new();
                encode_riak_clock(&clock, &mut term);
                Some(Bytes::from(term))
            }
            AnswerKind::Object | AnswerKind::Reap => None,
        };
        let tree_entry = with_tree_entry.then_some((tree_entry.segment, tree_entry.value));
        self.hold_answer(replicated.len())?;
        let body = FetchAnswer { tombstone_clock, tree_entry, replicated }.to_body();
        reply(&mut self.out, self.form, 200).content_type(OCTETS).finish(&body);
        Ok(())
    }

    fn push_keys(&mut self, request: &Request, name: &[u8]) -> Result<(), Refusal> {
        if !accepts_media_type(request.head.get_list("accept").as_deref(), TEXT) {
            return Err(Refusal::Page(406));
        }
        let queue = queue_name(&self.context.store, name)?;
        let pushed = parse_pushed(&request.body).ok_or_else(malformed)?;
        let keys: Vec<KeyRef<'_>> = pushed.iter().map(key_of).collect();
        let lengths = riak_queue::push(&self.context.store, &queue, &keys)?;
        let text = match lengths {
            Some(QueueLengths { fold, full_sync, real_time }) => {
                format!("Queue {queue}: {fold} {full_sync} {real_time}")
            }
            None => format!("No queue {queue}"),
        };
        reply(&mut self.out, self.form, 200).content_type(TEXT).finish(text.as_bytes());
        Ok(())
    }

    /// Answers `/membership_request`.
    pub(super) fn membership(&mut self) {
        let up = riak_queue::up_nodes(&self.context.store, true);
        let entry = |(ip, port): (String, u16)| json!({"ip": ip, "port": port.to_string()});
        let up: Vec<Value> = up.into_iter().map(entry).collect();
        self.write_json(&json!({ "up_nodes": up }));
    }
}

fn malformed() -> Refusal {
    Refusal::bad("Malformed Keyclock list~n")
}

/// The name of a queue, if it exists.
pub(super) fn queue_name(store: &ReplicatedStore, name: &[u8]) -> Result<String, Refusal> {
    let text = std::str::from_utf8(name).ok();
    let known = text.filter(|name| riak_queue::exists(store, name));
    known.map(str::to_owned).ok_or_else(|| no_queue(name))
}

pub(super) fn no_queue(name: &[u8]) -> Refusal {
    Refusal::bad(format!("Queue name {} not defined\n", codes(name)))
}

/// A name as Erlang prints the list of its characters.
fn codes(name: &[u8]) -> String {
    let codes: Vec<String> = name.iter().map(u8::to_string).collect();
    format!("[{}]", codes.join(","))
}

/// The records of a push; `None` if one is malformed.
pub(super) fn parse_pushed(body: &[u8]) -> Option<Vec<PushedKey>> {
    let document: Value = serde_json::from_slice(body).ok()?;
    document.as_object()?.get("keys-clocks")?.as_array()?.iter().map(pushed).collect()
}

fn pushed(entry: &Value) -> Option<PushedKey> {
    let text = |name: &str| entry.get(name)?.as_str().map(str::to_owned);
    // A version vector is base64 text, or the list of its character codes as in answers of folds.
    let clock = match entry.get("clock")? {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Array(codes) => {
            let code = |code: &Value| u8::try_from(code.as_u64()?).ok();
            codes.iter().map(code).collect::<Option<Vec<u8>>>()?
        }
        _ => return None,
    };
    decode_context(&decode_base64(&clock)?).ok()?;
    let bucket_type = match entry.get("bucket-type") {
        None => String::from_utf8_lossy(DEFAULT_BUCKET_TYPE).into_owned(),
        Some(name) => name.as_str()?.to_owned(),
    };
    Some(PushedKey { bucket_type, bucket: text("bucket")?, key: text("key")? })
}

fn key_of(pushed: &PushedKey) -> KeyRef<'_> {
    let PushedKey { bucket_type, bucket, key } = pushed;
    BucketRef { bucket_type: bucket_type.as_bytes(), bucket: bucket.as_bytes() }.key(key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_with_one_bad_element_is_refused_whole() {
        let clock = "a85hYGBgzGDKBVIcickl+UWOjo4ZTImMeawMjPP3PODLAgA=";
        let good = json!({"bucket": "b", "key": "k", "clock": clock});
        let of =
            |elements: Value| parse_pushed(json!({"keys-clocks": elements}).to_string().as_bytes());
        assert_eq!(of(json!([good, good])).map(|pushed| pushed.len()), Some(2));
        let codes: Vec<u8> = clock.bytes().collect();
        assert!(of(json!([{"bucket": "b", "key": "k", "clock": codes}])).is_some());
        for bad in [
            json!({"bucket": "b", "key": "k"}),
            json!({"bucket": "b", "key": "k", "clock": "!!"}),
            json!({"key": "k", "clock": clock}),
            json!("text"),
        ] {
            assert_eq!(of(json!([good, bad])), None, "{bad}");
        }
        assert_eq!(parse_pushed(b"[]"), None);
    }
}
