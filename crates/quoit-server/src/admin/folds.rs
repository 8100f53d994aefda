//! Folds over the records of a bucket, in the background.

use super::{allow, error};
use crate::folds::{FoldEnd, FoldJob};
use crate::http::{HttpConnection, Method, Refusal, Request, query_value};
use crate::riak_queue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use quoit_core::{FoldFound, FoldKind, FoldMode, RecordRange, RequestError};
use quoit_model::segments::{Segments, TreeSize};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Number of found records in one answer.
const FOUND_MAX: usize = 1_000;
/// Longest wait for found records, in milliseconds.
const WAIT_MS_MAX: u64 = 30_000;

/// Characters that names do not escape.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A fold as the operator requests it. Names are percent-encoded.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct FoldRequest {
    fold: String,
    #[serde(rename = "type")]
    bucket_type: String,
    bucket: String,
    from_key: Option<String>,
    to_key: Option<String>,
    modified_from: Option<u64>,
    modified_to: Option<u64>,
    segments: Option<Vec<u32>>,
    tree_size: Option<String>,
    siblings: Option<u32>,
    bytes: Option<u64>,
    method: Option<String>,
    queue: Option<String>,
    hash_iv: Option<u32>,
    limit: Option<u64>,
}

impl FoldRequest {
    fn range(&self) -> Result<RecordRange, Refusal> {
        let named = |name: &str| Bytes::from(percent_decode_str(name).collect::<Vec<u8>>());
        let modified = self.modified_from.is_some() || self.modified_to.is_some();
        let size = self.tree_size.as_deref().map_or(Ok(TreeSize::Large), str::parse);
        let size = size.map_err(|fault| error(400, "invalid_fold", &fault.to_string()))?;
        let segments = self.segments.clone().map(|numbers| Segments::new(size, numbers));
        let segments = segments.transpose();
        let segments = segments.map_err(|fault| error(400, "invalid_fold", &fault.to_string()))?;
        Ok(RecordRange {
            bucket_type: named(&self.bucket_type),
            bucket: named(&self.bucket),
            first_key: self.from_key.as_deref().map(named).unwrap_or_default(),
            last_key: self.to_key.as_deref().map(named),
            modified_secs: modified
                .then(|| (self.modified_from.unwrap_or(0), self.modified_to.unwrap_or(u64::MAX))),
            segments,
        })
    }

    fn kind(&self) -> Result<FoldKind, Refusal> {
        let bad = |message: &str| error(400, "invalid_fold", message);
        let method = match self.method.as_deref() {
            None | Some("count") => FoldMode::Count,
            Some("local" | "job") => FoldMode::Change,
            Some(other) => {
                return Err(bad(&format!(
                    "the method {other} is unknown: write count, local or job"
                )));
            }
        };
        Ok(match (self.fold.as_str(), self.siblings, self.bytes) {
            ("fetch_clocks", ..) => FoldKind::FetchClocks,
            ("find_keys", Some(siblings), None) => FoldKind::ManySiblings(siblings),
            ("find_keys", None, Some(bytes)) => FoldKind::Large(bytes),
            ("find_keys", ..) => return Err(bad("find_keys takes either siblings or bytes")),
            ("object_stats", ..) => FoldKind::ObjectStats,
            ("find_tombs", ..) => FoldKind::FindTombs,
            ("reap_tombs", ..) => FoldKind::ReapTombs(method),
            ("erase_keys", ..) => FoldKind::EraseKeys(method),
            ("repair_keys", ..) => FoldKind::RepairKeys,
            ("tree_entries", ..) => FoldKind::TreeEntries(self.hash_iv),
            ("repl_keys", ..) => FoldKind::ReplKeys,
            (other, ..) => {
                return Err(bad(&format!(
                    "the fold {other} is none of fetch_clocks, find_keys, object_stats, find_tombs, \
                     reap_tombs, erase_keys, repair_keys, tree_entries, repl_keys"
                )));
            }
        })
    }
}

impl HttpConnection {
    /// Answers a request below `/admin/v1/folds`.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    pub(super) async fn folds(
        &self,
        request: &Request,
        method: Method,
        names: &[&[u8]],
        query: &[u8],
    ) -> Result<Value, Refusal> {
        let [id] = names else {
            if method == Method::Post {
                return self.begin_fold(request).await;
            }
            allow(method, &[Method::Get, Method::Head, Method::Post])?;
            let all: Value = self.context.folds.all().iter().map(|job| shown(job)).collect();
            return Ok(json!({"folds": all}));
        };
        let number = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
        let job = number.and_then(|id| self.context.folds.get(id));
        let job = job.ok_or_else(|| {
            let id = String::from_utf8_lossy(id);
            error(404, "no_fold", &format!("there is no fold {id} on this node"))
        })?;
        if method == Method::Delete {
            job.cancel();
            return Ok(shown(&job));
        }
        allow(method, &[Method::Get, Method::Head, Method::Delete])?;
        let wait_ms = query_value(query, "wait_ms").and_then(|text| {
            std::str::from_utf8(&text).ok().and_then(|text| text.parse::<u64>().ok())
        });
        let wait = Duration::from_millis(wait_ms.unwrap_or(0).min(WAIT_MS_MAX));
        // HEAD takes no records, because its answer could not contain them.
        let count_max = if method == Method::Head { 0 } else { FOUND_MAX };
        let found = job.take_found(count_max, wait).await;
        let mut document = shown(&job);
        document["found"] = found.iter().map(found_json).collect();
        Ok(document)
    }

    async fn begin_fold(&self, request: &Request) -> Result<Value, Refusal> {
        let wanted: FoldRequest = serde_json::from_slice(&request.body).map_err(|fault| {
            error(400, "invalid_fold", &format!("the body is not a fold: {fault}"))
        })?;
        let kind = wanted.kind()?;
        let queue = match (&wanted.queue, kind) {
            (Some(queue), FoldKind::ReplKeys) => {
                if !riak_queue::exists(&self.context.store, queue) {
                    let message =
                        format!("this node has no queue {queue}; quoit repl queue lists them");
                    return Err(error(404, "no_queue", &message));
                }
                Some(queue)
            }
            (None, FoldKind::ReplKeys) => {
                return Err(error(400, "invalid_fold", "repl_keys needs the name of a queue"));
            }
            _ => None,
        };
        let limit = wanted.limit.unwrap_or(u64::MAX);
        let fold = self.context.store.folds().begin(wanted.range()?, kind, limit).await;
        let fold = fold.map_err(|fault| match &fault {
            RequestError::NoSuchType(_) => error(404, "no_type", &fault.to_string()),
            _ => error(503, "unavailable", &fault.to_string()),
        })?;
        let fold = match queue {
            Some(queue) => fold.into_queue(queue),
            None => fold,
        };
        let title = format!("{} {} {}", wanted.fold, wanted.bucket_type, wanted.bucket);
        let job = self.context.folds.begin(title, fold).ok_or_else(|| {
            let message = "as many folds as may run at once do; wait for one or cancel it";
            error(409, "too_many", message)
        })?;
        Ok(shown(&job))
    }
}

fn shown(job: &FoldJob) -> Value {
    let status = job.status();
    let progress = &status.progress;
    let (state, message) = match &status.end {
        None => ("running", None),
        Some(FoldEnd::Done) => ("done", None),
        Some(FoldEnd::Limit) => ("limit", None),
        Some(FoldEnd::Cancelled) => ("cancelled", None),
        Some(FoldEnd::Failed(message)) => ("failed", Some(message)),
    };
    let bars = |bars: &std::collections::BTreeMap<u32, u64>| {
        bars.iter().map(|(bar, count)| (bar.to_string(), json!(count))).collect::<Value>()
    };
    json!({
        "id": job.id,
        "fold": job.title,
        "state": state,
        "message": message,
        "elapsed_secs": (status.elapsed.as_secs_f64() * 10.0).round() / 10.0,
        "looked_at": progress.looked_at_count,
        "looked_at_bytes": progress.looked_at_bytes,
        "matches": progress.match_count,
        "failed": progress.failed_count,
        "sizes": bars(&progress.sizes),
        "siblings": bars(&progress.siblings),
        "waiting": status.waiting_count,
    })
}

fn found_json(found: &FoldFound) -> Value {
    let FoldFound { key, clock, number, tree_entry } = found;
    let key = percent_encode(key, NAME).to_string();
    match tree_entry {
        Some(entry) => json!({"key": key, "segment": entry.segment, "hash": entry.value}),
        None => json!({"key": key, "vclock": STANDARD.encode(clock), "number": number}),
    }
}
