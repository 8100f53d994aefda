//! `quoit keys`, `quoit buckets` and `quoit index`.

use super::{add, refused};
use crate::api::{Api, Call, segment};
use crate::format::Format;
use crate::names::{BucketName, in_path};
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Result, bail};
use clap::Args;
use quoit_progress::{Progress, Unit};
use serde_json::Value;
use std::io::IsTerminal;

/// A value on one line, text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads a document; what there is none of is an error that says so.
fn document(api: &Api, bucket: &BucketName, path: String) -> Result<Value> {
    let reply = api.call(&Call { path, ..Call::default() })?;
    match serde_json::from_slice(&reply.body) {
        Ok(document) if reply.status == 200 => Ok(document),
        _ => Err(refused(&reply, bucket, bucket)),
    }
}

/// Progress of a listing; none where its lines come on the same terminal.
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

/// Which keys of a bucket.
#[derive(Args, Debug)]
pub struct KeyRange {
    /// TYPE/BUCKET, or BUCKET for the type default; %2F is a slash inside a name.
    bucket: BucketName,
    /// Only keys that begin with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only this key and those after it.
    #[arg(long, value_name = "KEY")]
    start: Option<String>,
    /// Only this key and those before it.
    #[arg(long, value_name = "KEY")]
    end: Option<String>,
    /// Only so many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keys asked for at a time.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    page_size: u32,
}

/// List the keys of a bucket in order, one a line: all of them, by prefix or by range.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quoit keys b\n  quoit keys carts/de --prefix 2026- --limit 10"
)]
pub struct KeysArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    range: KeyRange,
    /// Form of the output.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints the keys of a bucket.
///
/// # Errors
///
/// When the bucket's type does not exist, or the node refuses.
pub fn keys(args: &KeysArgs) -> Result<()> {
    keys_of(&Api::new(&args.target), &args.range, args.format)
}

/// Prints keys as they come.
///
/// # Errors
///
/// As [`keys`].
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
        let Value::Array(keys) = &page["keys"] else {
            bail!("the node's answer has no keys: {page}")
        };
        keys.iter().for_each(|key| show(key, format));
        left = left.saturating_sub(keys.len() as u64);
        listed += keys.len() as u64;
        told(&mut progress, listed);
        match page["continuation"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    progress.iter_mut().for_each(Progress::clear);
    Ok(())
}

/// List the buckets of a type that have keys, one a line.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit buckets\n  quoit buckets carts")]
pub struct BucketsArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Bucket type.
    #[arg(default_value = "default", value_name = "TYPE")]
    bucket_type: String,
    /// Form of the output.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints the buckets of a type.
///
/// # Errors
///
/// When the type does not exist, or the node refuses.
pub fn buckets(args: &BucketsArgs) -> Result<()> {
    let api = Api::new(&args.target);
    let of_type =
        BucketName { bucket_type: args.bucket_type.clone().into_bytes(), bucket: b"-".to_vec() };
    let path = format!("types/{}/buckets?buckets=true", segment(&args.bucket_type));
    let listed = document(&api, &of_type, path)?;
    let Value::Array(names) = &listed["buckets"] else {
        bail!("the node's answer has no buckets: {listed}")
    };
    let mut names = names.clone();
    names.sort_by_key(plain);
    names.iter().for_each(|name| show(name, args.format));
    Ok(())
}

/// Find keys by an index: those of one term, or of all terms of a range.
///
/// Fields end in _int (whole numbers) or _bin (text); $key is the index of the keys themselves, $bucket
/// that of the whole bucket.
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
    /// The term, or the first of a range.
    #[arg(allow_hyphen_values = true)]
    term: String,
    /// The last term of the range.
    #[arg(allow_hyphen_values = true)]
    last: Option<String>,
    /// Print the terms as well, before the keys.
    #[arg(long, requires = "last")]
    terms: bool,
    /// Only terms that this regular expression matches.
    #[arg(long, value_name = "PATTERN", requires = "last")]
    matching: Option<String>,
    /// Only so many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keys asked for at a time.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    page_size: u32,
    /// Form of the output.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Prints the keys that an index has.
///
/// # Errors
///
/// When the bucket's type does not exist, a term does not fit its field, or the node refuses.
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
        let count = match (&page["results"], &page["keys"]) {
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
        match page["continuation"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    progress.iter_mut().for_each(Progress::clear);
    Ok(())
}

/// A key with its term, as `{"TERM":"KEY"}` of the node's answer.
fn show_result(result: &Value, format: Format) {
    match (format, result.as_object()) {
        (Format::Human, Some(pairs)) => {
            pairs.iter().for_each(|(term, key)| say!("{term}\t{}", plain(key)));
        }
        _ => say!("{result}"),
    }
}
