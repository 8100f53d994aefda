//! The slowest requests, the hottest keys and the largest objects of this node.

use crate::context::ServerContext;
use quoit_core::SlowRequest;
use quoit_model::key::KeyRef;
use serde_json::{Value, json};

/// Microseconds in a millisecond.
const US_PER_MS: f64 = 1_000.0;

/// The parts of a record's name as strings. Bytes that are not UTF-8 are replaced.
fn name(encoded: &[u8]) -> Value {
    let Ok(key) = KeyRef::decode(encoded) else { return Value::Null };
    let [bucket_type, bucket, key] = [key.bucket.bucket_type, key.bucket.bucket, key.key]
        .map(|part| String::from_utf8_lossy(part).into_owned());
    json!({"type": bucket_type, "bucket": bucket, "key": key})
}

/// Names of the nodes that a request asked. A removed node has its last known name, or its id.
fn asked(context: &ServerContext, each: &SlowRequest) -> Vec<String> {
    if each.asked.is_empty() {
        return vec![context.node_name.clone()];
    }
    let state = context.store.control().read();
    let members = state.members();
    each.asked.iter().map(|id| members.name_of(*id).to_string()).collect()
}

/// The slowest requests, the slowest first.
pub(super) fn slow(context: &ServerContext) -> Value {
    let slowest = context.store.request_log().slowest(context.store.clock());
    let shown = slowest.iter().map(|each| {
        let mut shown = name(&each.key);
        if let Some(shown) = shown.as_object_mut() {
            shown.extend(times(each));
            shown.insert("replicas".to_owned(), json!(asked(context, each)));
        }
        shown
    });
    json!({"node": context.node_name, "requests": shown.collect::<Vec<_>>()})
}

fn times(each: &SlowRequest) -> serde_json::Map<String, Value> {
    let ms = |us: u64| us as f64 / US_PER_MS;
    let times = json!({
        "request": each.kind.word(),
        "ended_unix_ms": each.ended_unix_us / 1_000,
        "total_ms": ms(each.total_us),
        "own_copy_ms": ms(each.own_us),
        "others_ms": ms(each.total_us - each.own_us),
        "size_bytes": each.size_bytes,
        "siblings": (each.sibling_count > 0).then_some(each.sibling_count),
        "failed": each.failed,
    });
    match times {
        Value::Object(times) => times,
        _ => serde_json::Map::new(),
    }
}

/// The most requested keys, and the largest objects.
#[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
pub(super) fn keys(context: &ServerContext) -> Value {
    let (log, clock) = (context.store.request_log(), context.store.clock());
    let hot = log.hottest(clock).into_iter().map(|each| {
        let mut shown = name(&each.key);
        shown["requests_per_sec"] = ((each.requests_per_sec * 10.0).round() / 10.0).into();
        shown["percent"] = ((each.share * 1_000.0).round() / 10.0).into();
        shown
    });
    let large = log.largest(clock).into_iter().map(|each| {
        let mut shown = name(&each.key);
        shown["size_bytes"] = each.size_bytes.into();
        shown["siblings"] = (each.sibling_count > 0).then_some(each.sibling_count).into();
        shown
    });
    json!({
        "node": context.node_name,
        "hot": hot.collect::<Vec<_>>(),
        "large": large.collect::<Vec<_>>(),
    })
}
