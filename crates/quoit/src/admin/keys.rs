//! `keys`: names of a bucket's records, in order.

use super::{Api, plain, segment};
use crate::config_command::Format;
use crate::output::say;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

/// Without an option, prints all keys.
#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    /// Bucket type.
    bucket_type: String,
    /// Bucket.
    bucket: String,
    /// Only keys that begin with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only this key and those after it.
    #[arg(long, value_name = "KEY")]
    start: Option<String>,
    /// Only this key and those before it.
    #[arg(long, value_name = "KEY")]
    end: Option<String>,
    /// Only so many keys.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keys asked for at a time.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    page_size: u32,
}

impl KeysArgs {
    /// The path of a page of so many keys, without a continuation.
    fn path(&self, page_size: u64) -> String {
        let [bucket_type, bucket] = [&self.bucket_type, &self.bucket].map(|name| segment(name));
        let mut path =
            format!("types/{bucket_type}/buckets/{bucket}/keys?keys=true&max_results={page_size}");
        for (name, value) in [("prefix", &self.prefix), ("start", &self.start), ("end", &self.end)]
        {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", segment(value)));
            }
        }
        path
    }
}

/// Prints keys as they come, one a line.
pub(crate) fn keys(api: &Api, args: &KeysArgs, format: Format) -> Result<()> {
    let (mut left, mut cursor) = (args.limit.unwrap_or(u64::MAX), String::new());
    while left > 0 {
        let path = args.path(left.min(args.page_size.into()));
        let Some(page) = api.get_data(&format!("{path}{cursor}"))? else {
            bail!("bucket type {} does not exist or is not active", args.bucket_type);
        };
        let Value::Array(keys) = &page["keys"] else {
            bail!("the node's answer has no keys: {page}");
        };
        keys.iter().for_each(|key| match format {
            Format::Json => say!("{key}"),
            Format::Human => say!("{}", plain(key)),
        });
        left = left.saturating_sub(keys.len() as u64);
        match page["continuation"].as_str() {
            Some(next) => cursor = format!("&continuation={next}"),
            None => break,
        }
    }
    Ok(())
}
