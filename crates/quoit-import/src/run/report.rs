//! The report of an import.

use super::tally::Tally;
use super::verify::Verified;
use crate::Format;
use crate::output::{say, shown};
use quoit_model::key::BucketRef;
use serde_json::{Value, json};

/// Figures of a finished import.
pub(super) struct ImportFigures<'v> {
    /// Counts over all runs of the import.
    pub(super) tally: Tally,
    pub(super) verified: Option<&'v Verified>,
    pub(super) is_resumed: bool,
    /// Duration of this run, in seconds.
    pub(super) secs: f64,
}

/// Prints the report.
pub(super) fn report(figures: ImportFigures<'_>, format: Format) {
    let document = document(figures);
    match format {
        Format::Json => say!("{document}"),
        Format::Human => print(&document),
    }
}

fn document(figures: ImportFigures<'_>) -> Value {
    let ImportFigures { tally, verified, is_resumed, secs } = figures;
    let buckets: Vec<Value> = tally
        .buckets
        .into_counts()
        .iter()
        .map(|((bucket_type, bucket), sent)| {
            let name = BucketRef { bucket_type, bucket };
            let stored = verified.and_then(|verified| verified.bucket(name));
            json!({
                "type": shown(bucket_type),
                "bucket": shown(bucket),
                "sent": sent,
                "stored": stored.map(|(count, _)| count),
                "digest": stored.map(|(_, digest)| digest),
            })
        })
        .collect();
    json!({
        "read": tally.read,
        "sent": tally.sent,
        "same_copies": tally.copies,
        "tombstones_skipped": tally.tombstones_skipped,
        "expired_skipped": tally.expired_skipped,
        "resumed": is_resumed,
        "seconds": (secs * 10.0).round() / 10.0,
        "buckets": buckets,
        "damaged_count": tally.damaged_count,
        "damaged": tally.damaged,
        "verified": verified.map(|verified| json!({
            "checked": verified.checked_count,
            "behind_count": verified.behind_count,
            "behind": verified.behind,
        })),
    })
}

fn print(document: &Value) {
    let count = |name: &str| document[name].as_u64().unwrap_or(0);
    say!(
        "{} copies read, {} records sent in {} s; {} copies were the same as others",
        count("read"),
        count("sent"),
        document["seconds"],
        count("same_copies")
    );
    let (tombstones, expired) = (count("tombstones_skipped"), count("expired_skipped"));
    if tombstones + expired > 0 {
        say!("left out: {tombstones} tombstones, {expired} expired");
    }
    for bucket in document["buckets"].as_array().into_iter().flatten() {
        let name = |part: &str| bucket[part].as_str().unwrap_or_default().to_owned();
        let stored = match bucket["stored"].as_u64() {
            Some(count) => format!(", {count} live records stored, digest {}", name("digest")),
            None => String::new(),
        };
        say!("  {}/{}: {} sent{stored}", name("type"), name("bucket"), bucket["sent"]);
    }
    match &document["verified"] {
        Value::Null => say!("not verified"),
        verified => say!(
            "verified: {} of {} records are stored in this version or a later one",
            verified["checked"].as_u64().unwrap_or(0)
                - verified["behind_count"].as_u64().unwrap_or(0),
            verified["checked"]
        ),
    }
    let behind = document.pointer("/verified/behind").and_then(Value::as_array);
    for what in behind.into_iter().flatten() {
        say!("  behind: {}", what.as_str().unwrap_or_default());
    }
    for what in document["damaged"].as_array().into_iter().flatten() {
        say!("  not imported: {}", what.as_str().unwrap_or_default());
    }
}
