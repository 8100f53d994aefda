//! The change feed of a bucket: one line of JSON for each change, with the position after the change.

use super::connection::HttpConnection;
use super::refusal::Refusal;
use super::response::reply_in_pieces;
use super::route::BucketName;
use super::uri::query_value;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use quoit_core::{
    ChangeBatch, ChangeEvent, ChangeFeedError, ChangeKind, ChangeQuery, ChangeStream, ChangesSince,
    PositionError,
};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

const JSON_LINES: &[u8] = b"application/x-ndjson";
/// Interval at which a reader that follows gets its position while there are no changes.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Size of the gathered lines, in bytes, at which they are sent.
const PIECE_BYTES: usize = 64 << 10;
const US_PER_SEC: u64 = 1_000_000;

impl HttpConnection {
    /// Streams the changes of a bucket.
    pub(super) async fn changes(
        &mut self,
        bucket: &BucketName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let follows = query_value(query, "follow").as_deref() == Some(b"true");
        let asked = asked(bucket, query, self.context.store.clock().unix_us())?;
        self.hold_pieces()?;
        let mut stream = self.context.store.change_feeds().begin(asked).map_err(refused)?;
        // The first step finds out whether the node still keeps the changes after the reader's position.
        let first = self.unless_disconnected(Box::pin(stream.next())).await?;
        let mut batch = first.map_err(refused)?;
        reply_in_pieces(&mut self.out, self.form, 200).header("Content-Type", JSON_LINES).stream();
        if self.form.head_only {
            self.end_stream();
            return Ok(());
        }
        // A reader that follows gets its position at once.
        let mut told_at: Option<Instant> = None;
        let mut lines = Vec::new();
        loop {
            for change in &batch.changes {
                append_change(&mut lines, change);
            }
            let is_last = batch.at_end && !follows;
            let is_silent = told_at.is_none_or(|told_at| told_at.elapsed() >= HEARTBEAT);
            let is_due = batch.at_end && is_silent;
            if is_last || is_due {
                append_position(&mut lines, &stream, &batch);
            }
            if !lines.is_empty() && (batch.at_end || lines.len() >= PIECE_BYTES) {
                self.send_chunk(&lines).await?;
                lines.clear();
                told_at = Some(Instant::now());
            }
            if is_last || self.socket.is_stopping() {
                break;
            }
            if batch.at_end {
                self.unless_disconnected(Box::pin(stream.rest())).await?;
            }
            batch = match self.unless_disconnected(Box::pin(stream.next())).await? {
                Ok(batch) => batch,
                Err(fault) => {
                    append_line(&mut lines, &fault_document(&fault));
                    self.send_chunk(&lines).await?;
                    break;
                }
            };
        }
        if !lines.is_empty() {
            self.send_chunk(&lines).await?;
        }
        self.end_stream();
        Ok(())
    }
}

fn asked(bucket: &BucketName<'_>, query: &[u8], now_us: u64) -> Result<ChangeQuery, Refusal> {
    let copied = |name: &[u8]| Bytes::copy_from_slice(name);
    let bad = |what: &str, text: &[u8], wanted: &str| {
        let text = String::from_utf8_lossy(text);
        Refusal::bad(format!("{what}={text} is not understood: wanted {wanted}\n"))
    };
    let kind = match query_value(query, "kind").as_deref() {
        None => None,
        Some(b"put") => Some(ChangeKind::Put),
        Some(b"delete") => Some(ChangeKind::Delete),
        Some(other) => return Err(bad("kind", other, "put or delete")),
    };
    let since = match query_value(query, "since").as_deref() {
        None | Some(b"oldest") => ChangesSince::Oldest,
        Some(b"now") => ChangesSince::Time(now_us),
        Some(text) => match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
            // Numbers below this are seconds, up to the year 5138. The limit keeps a time in a finer unit
            // from being taken for seconds.
            Some(secs @ 0..100_000_000_000_u64) => ChangesSince::Time(secs * US_PER_SEC),
            _ => match URL_SAFE_NO_PAD.decode(text) {
                Ok(position) => ChangesSince::Position(position.into()),
                Err(_) => return Err(refused(ChangeFeedError::Position(PositionError))),
            },
        },
    };
    Ok(ChangeQuery {
        bucket_type: copied(&bucket.bucket_type),
        bucket: copied(&bucket.bucket),
        prefix: query_value(query, "prefix").map(|prefix| copied(&prefix)).unwrap_or_default(),
        kind,
        since,
    })
}

fn refused(fault: ChangeFeedError) -> Refusal {
    let status = match fault {
        ChangeFeedError::Off => 404,
        ChangeFeedError::Position(_) => 400,
        ChangeFeedError::Gap { .. } => 410,
        ChangeFeedError::Request(fault) => return fault.into(),
    };
    Refusal::Json(status, fault_document(&fault))
}

/// A fault as a line of the stream, or as the whole answer.
#[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
fn fault_document(fault: &ChangeFeedError) -> Value {
    let error = match fault {
        ChangeFeedError::Off => "off",
        ChangeFeedError::Position(_) => "position",
        ChangeFeedError::Gap { .. } => "gap",
        ChangeFeedError::Request(_) => "failed",
    };
    let mut document = json!({"kind": "error", "error": error, "message": fault.to_string()});
    if let ChangeFeedError::Gap { resume, .. } = fault {
        document["resume"] = URL_SAFE_NO_PAD.encode(resume).into();
    }
    document
}

fn append_line(lines: &mut Vec<u8>, document: &Value) {
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(&mut *lines, document);
    lines.push(b'\n');
}

fn append_change(lines: &mut Vec<u8>, change: &ChangeEvent) {
    let mut document = Map::new();
    document.insert("kind".to_owned(), change.kind.name().into());
    match std::str::from_utf8(&change.key) {
        Ok(key) => document.insert("key".to_owned(), key.into()),
        Err(_) => document.insert("key_base64".to_owned(), STANDARD.encode(&change.key).into()),
    };
    document.insert("time_us".to_owned(), change.time_us.into());
    if !change.context.is_empty() {
        document.insert("context".to_owned(), STANDARD.encode(&change.context).into());
    }
    document.insert("position".to_owned(), URL_SAFE_NO_PAD.encode(&change.position).into());
    append_line(lines, &Value::Object(document));
}

/// Appends the position after all changes sent so far, and the names of the nodes whose changes may be
/// missing.
fn append_position(lines: &mut Vec<u8>, stream: &ChangeStream, batch: &ChangeBatch) {
    let unreached: Vec<&str> = batch.unreached.iter().map(|name| &**name).collect();
    let position = URL_SAFE_NO_PAD.encode(stream.position());
    append_line(lines, &json!({"kind": "position", "position": position, "unreached": unreached}));
}

/// Parses parameters, for fuzzing. Returns for any input.
pub(super) fn fuzz(bucket: &BucketName<'_>, query: &[u8]) {
    let _: Result<_, Refusal> = asked(bucket, query, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line_and_keys_that_are_no_text_are_encoded() {
        let mut change = ChangeEvent {
            key: Bytes::from_static(b"a\"b"),
            kind: ChangeKind::Delete,
            time_us: 7,
            context: Bytes::from_static(b"ctx"),
            position: vec![1, 2],
        };
        let mut lines = Vec::new();
        append_change(&mut lines, &change);
        change.key = Bytes::from_static(b"\xff");
        append_change(&mut lines, &change);
        let lines: Vec<Value> = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect();
        assert_eq!(lines[0]["key"], "a\"b");
        assert_eq!((&lines[0]["kind"], &lines[0]["context"]), (&json!("delete"), &json!("Y3R4")));
        assert_eq!(lines[1]["key_base64"], "/w==");
        assert_eq!(lines[1]["position"], "AQI");
    }
}
