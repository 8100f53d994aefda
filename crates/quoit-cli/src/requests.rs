//! `quoit slow-log` and `quoit hot-keys`.

use crate::api::{Answer, Api};
use crate::columns::columns;
use crate::figures::size;
use crate::format::Format;
use crate::names::shown;
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

/// Show the slowest requests that the node coordinated in the last ten to twenty minutes.
///
/// `own copy` is the time until the node had read or written its own copy, `others` the time that it then
/// waited for other replicas and for disks. `slow_log.maximum` sets the number of requests kept.
#[derive(Args, Debug)]
pub struct SlowLogArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Show at most this many requests.
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Show the keys that are requested most often at the node, and the largest objects read or written.
///
/// The node samples the requests that it coordinates: keys of the last one to two minutes, sizes of the
/// last ten to twenty minutes. `hot_keys.maximum` sets the number of entries kept.
#[derive(Args, Debug)]
pub struct HotKeysArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Show at most this many of each.
    #[arg(long, default_value_t = 10, value_name = "N")]
    limit: usize,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

fn asked(api: &Api, path: &str) -> Result<Value> {
    match api.get(path)? {
        Answer::Done(document) => Ok(document),
        Answer::Refused { message, .. } => bail!("{message}"),
    }
}

fn list(document: &Value, limit: usize) -> &[Value] {
    let all = document.as_array().map(Vec::as_slice).unwrap_or_default();
    all.get(..limit).unwrap_or(all)
}

/// Name of a record as the command line takes it.
fn name(record: &Value) -> String {
    let part = |name: &str| shown(record[name].as_str().unwrap_or_default().as_bytes());
    format!("{}/{}/{}", part("type"), part("bucket"), part("key"))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Shows the slowest requests.
///
/// # Errors
///
/// No node answers, or the node refuses.
pub fn slow_log(args: &SlowLogArgs) -> Result<()> {
    let document = asked(&Api::new(&args.target), "slow-log")?;
    match args.format {
        Format::Json => say!("{document}"),
        Format::Human => say!("{}", slow_requests(&document, args.limit)),
    }
    Ok(())
}

fn slow_requests(document: &Value, limit: usize) -> String {
    let slow = list(&document["requests"], limit);
    if slow.is_empty() {
        return format!("no request of {} took a millisecond", plain(&document["node"]));
    }
    let heading =
        ["total", "own copy", "others", "request", "size", "siblings", "record", "replicas asked"];
    let rows = slow.iter().map(|each| {
        let ms = |name: &str| format!("{:.1} ms", each[name].as_f64().unwrap_or_default());
        let failed = if each["failed"] == true { " (failed)" } else { "" };
        [
            ms("total_ms"),
            ms("own_copy_ms"),
            ms("others_ms"),
            format!("{}{failed}", plain(&each["request"])),
            size(&each["size_bytes"]),
            plain(&each["siblings"]),
            name(each),
            replicas(&each["replicas"]),
        ]
    });
    columns(std::iter::once(heading.map(str::to_owned)).chain(rows))
}

/// Names of the replicas that were asked.
fn replicas(asked: &Value) -> String {
    match asked.as_array() {
        Some(names) => names.iter().map(plain).collect::<Vec<_>>().join(", "),
        None => "-".to_owned(),
    }
}

/// Shows hot keys and large objects.
///
/// # Errors
///
/// No node answers, or the node refuses.
pub fn hot_keys(args: &HotKeysArgs) -> Result<()> {
    let document = asked(&Api::new(&args.target), "hot-keys")?;
    match args.format {
        Format::Json => say!("{document}"),
        Format::Human => say!("{}", keys(&document, args.limit)),
    }
    Ok(())
}

fn keys(document: &Value, limit: usize) -> String {
    let hot = list(&document["hot"], limit).iter().map(|each| {
        [plain(&each["requests_per_sec"]), format!("{} %", plain(&each["percent"])), name(each)]
    });
    let hot = std::iter::once(["requests/s", "of all", "record"].map(str::to_owned)).chain(hot);
    let large = list(&document["large"], limit)
        .iter()
        .map(|each| [size(&each["size_bytes"]), plain(&each["siblings"]), name(each)]);
    let large = std::iter::once(["size", "siblings", "record"].map(str::to_owned)).chain(large);
    format!("asked for most\n{}\n\nlargest\n{}", columns(hot), columns(large))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_slow_request_tells_where_the_time_went() {
        let document = json!({"node": "a@h", "requests": [{
            "request": "put", "type": "t", "bucket": "b/c", "key": "k", "total_ms": 250.0, "own_copy_ms": 1.5,
            "others_ms": 248.5, "size_bytes": 2048, "siblings": null, "replicas": ["a@h", "c@h"],
            "failed": true,
        }]});
        let shown = slow_requests(&document, 20);
        let expected =
            "250.0 ms  1.5 ms    248.5 ms  put (failed)  2.0 KB  -         t/b%2Fc/k  a@h, c@h";
        assert!(shown.ends_with(expected), "{shown}");
        assert!(slow_requests(&json!({"node": "a@h"}), 20).contains("no request of a@h"));
    }

    #[test]
    fn hot_keys_and_large_objects_are_two_lists() {
        let document = json!({
            "hot": [{"type": "t", "bucket": "b", "key": "k", "requests_per_sec": 12.5, "percent": 40.0}],
            "large": [{"type": "t", "bucket": "b", "key": "big", "size_bytes": 3 << 20, "siblings": 2}],
        });
        let shown = keys(&document, 10);
        assert!(
            shown.contains("12.5        40.0 %  t/b/k")
                && shown.contains("3.0 MB  2         t/b/big"),
            "{shown}"
        );
    }
}
