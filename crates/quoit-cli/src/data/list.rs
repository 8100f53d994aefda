//! `quoit keys`, `quoit buckets` and `quoit index`.

use super::{add, refused};
use crate::api::{Api, Call, segment};
use crate::document::value_at;
use crate::format::Format;
use crate::names::{BucketName, in_path};
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Result, bail};
use clap::Args;
use quoit_progress::{Progress, Unit};
use serde_json::Value;
use std::io::IsTerminal;

/// Formats a value on one line, a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads a document; a bucket or bucket type that does not exist is an error.
fn document(api: &Api, bucket: &BucketName, path: String) -> Result<Value> {
    let reply = api.call(&Call { path, ..Call::default() })?;
    match serde_json::from_slice(&reply.body) {
        Ok(document) if reply.status == 200 => Ok(document),
        _ => Err(refused(&reply, bucket, bucket)),
    }
}

/// Progress display of a listing; `None` if the listing itself goes to the terminal.
fn listing(limit: Option<u64>) -> Option<Progress> {
    let is_seen = std::io::stdout().is_terminal();
    (!is_seen).then(|| Progress::on_stderr("listing", Unit::Items("keys"), limit))
}

fn told(progress: &mut Option<Progress>, listed: u64) {
    progress.iter_mut().for_each(|progress| progress.show(listed, String::new));
}

fn show(value: &Value, format: Format) {
    match format {
        Format::Json => say!("{value}"),
        Format::Human => say!("{}", plain(value)),
    }
}

/// Selection of keys of a bucket.
#[derive(Args, Debug)]
pub struct KeyRange {
    /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
    bucket: BucketName,
    /// Only keys that begin with this text.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only this key and the keys after it.
    #[arg(long, value_name = "KEY")]
    start: Option<String>,
    /// Only this key and the keys before it.
    #[arg(long, value_name = "KEY")]
    end: Option<String>,
    /// List at most this many keys.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Number of keys in each request.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    page_size: u32,
}

/// List the keys of a bucket in order, one on each line: all keys, or those of a prefix or a range.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quoit keys b\n  quoit keys carts/de --prefix 2026- --limit 10"
)]
pub struct KeysArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    range: KeyRange,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints the keys of a bucket.
///
/// # Errors
///
/// The bucket type does not exist, or the node refuses.
pub fn keys(args: &KeysArgs) -> Result<()> {
    keys_of(&Api::new(&args.target), &args.range, args.format)
}

/// Prints keys as they arrive.
///
/// # Errors
///
/// Like [`keys`].
pub fn keys_of(api: &Api, range: &KeyRange, format: Format) -> Result<()> {
    let (mut left, mut cursor) = (range.limit.unwrap_or(u64::MAX), None::<String>);
    let (mut listed, mut progress) = (0, listing(range.limit));
    while left > 0 {
        let mut query = format!("?keys=true&max_results={}", left.min(range.page_size.into()));
        for (name, value) in
            [("prefix", &range.prefix), ("start", &range.start), ("end", &range.end)]
        {
            add(&mut query, name, value.as_deref());
        }
        add(&mut query, "continuation", cursor.as_deref());
        let page = document(api, &range.bucket, format!("{}/keys{query}", range.bucket.path()))?;
        let Value::Array(keys) = value_at(&page, "/keys") else {
            bail!("the node's answer has no keys: {page}")
        };
        keys.iter().for_each(|key| show(key, format));
        left = left.saturating_sub(keys.len() as u64);
        listed += keys.len() as u64;
        told(&mut progress, listed);
        match value_at(&page, "/continuation").as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    progress.iter_mut().for_each(Progress::clear);
    Ok(())
}

/// List the buckets of a type that contain keys, one on each line.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit buckets\n  quoit buckets carts")]
pub struct BucketsArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Bucket type.
    #[arg(default_value = "default", value_name = "TYPE")]
    bucket_type: String,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints the buckets of a type.
///
/// # Errors
///
/// The bucket type does not exist, or the node refuses.
pub fn buckets(args: &BucketsArgs) -> Result<()> {
    let api = Api::new(&args.target);
    let of_type =
        BucketName { bucket_type: args.bucket_type.clone().into_bytes(), bucket: b"-".to_vec() };
    let path = format!("types/{}/buckets?buckets=true", segment(&args.bucket_type));
    let listed = document(&api, &of_type, path)?;
    let Value::Array(names) = value_at(&listed, "/buckets") else {
        bail!("the node's answer has no buckets: {listed}")
    };
    let mut names = names.clone();
    names.sort_by_key(plain);
    names.iter().for_each(|name| show(name, args.format));
    Ok(())
}

/// Find keys by an index: those of one term, or of all terms in a range.
///
/// Names of fields end in _int (integers) or _bin (text). $key is the index of the keys themselves, $bucket
/// the index of the whole bucket.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit index people/all name_bin ann\n  \
                        quoit index people/all age_int 18 65 --terms --limit 100")]
pub struct IndexArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
    bucket: BucketName,
    /// Field, for example age_int.
    field: String,
    /// The term, or the first term of a range.
    #[arg(allow_hyphen_values = true)]
    term: String,
    /// Last term of the range.
    #[arg(allow_hyphen_values = true)]
    last: Option<String>,
    /// Print the terms as well, before the keys.
    #[arg(long, requires = "last")]
    terms: bool,
    /// Only terms that match this regular expression.
    #[arg(long, value_name = "PATTERN", requires = "last")]
    matching: Option<String>,
    /// List at most this many keys.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Number of keys in each request.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    page_size: u32,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints the keys that an index query finds.
///
/// # Errors
///
/// The bucket type does not exist, a term does not fit its field, or the node refuses.
pub fn index(args: &IndexArgs) -> Result<()> {
    let api = Api::new(&args.target);
    let (mut left, mut cursor) = (args.limit.unwrap_or(u64::MAX), None::<String>);
    let mut path = format!(
        "{}/index/{}/{}",
        args.bucket.path(),
        in_path(args.field.as_bytes()),
        in_path(args.term.as_bytes())
    );
    if let Some(last) = &args.last {
        path.push_str(&format!("/{}", in_path(last.as_bytes())));
    }
    let (mut listed, mut progress) = (0, listing(args.limit));
    while left > 0 {
        let mut query = format!("?max_results={}", left.min(args.page_size.into()));
        add(&mut query, "return_terms", args.terms.then_some("true"));
        add(&mut query, "term_regex", args.matching.as_deref());
        add(&mut query, "continuation", cursor.as_deref());
        let page = document(&api, &args.bucket, format!("{path}{query}"))?;
        let count = match (value_at(&page, "/results"), value_at(&page, "/keys")) {
            (Value::Array(results), _) => {
                results.iter().for_each(|result| show_result(result, args.format));
                results.len()
            }
            (_, Value::Array(keys)) => {
                keys.iter().for_each(|key| show(key, args.format));
                keys.len()
            }
            _ => bail!("the node's answer has no keys: {page}"),
        };
        left = left.saturating_sub(count as u64);
        listed += count as u64;
        told(&mut progress, listed);
        match value_at(&page, "/continuation").as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    progress.iter_mut().for_each(Progress::clear);
    Ok(())
}

/// Prints a key with its term, which the node sends as `{"TERM":"KEY"}`.
fn show_result(result: &Value, format: Format) {
    match (format, result.as_object()) {
        (Format::Human, Some(pairs)) => {
            pairs.iter().for_each(|(term, key)| say!("{term}\t{}", plain(key)));
        }
        _ => say!("{result}"),
    }
}
