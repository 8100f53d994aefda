//! Commands on data: objects, lists of keys and buckets, index queries, data types.

mod get;
mod list;
mod object;
mod put;
mod types;

pub use get::{GetArgs, get};
pub use list::{BucketsArgs, IndexArgs, KeyRange, KeysArgs, buckets, index, keys, keys_of};
pub use put::{DelArgs, PutArgs, del, put};
pub use types::{
    CounterCommand, GsetCommand, HllCommand, MapCommand, SetCommand, counter, gset, hll, map, set,
};

use crate::api::Reply;
use crate::names::BucketName;
use anyhow::{Error, anyhow};

/// Makes an error of a refused read or write. `what` names the missing thing in the message.
pub(crate) fn refused(reply: &Reply, bucket: &BucketName, what: &dyn std::fmt::Display) -> Error {
    let told = reply.text();
    match reply.status {
        // If the bucket type does not exist, the answer is an HTML page.
        404 if told.starts_with('<')
            || told.contains("bucket_type_unknown")
            || told.contains("Unknown bucket type") =>
        {
            let bucket_type = crate::names::shown(&bucket.bucket_type);
            anyhow!(
                "bucket type {bucket_type} does not exist or is not active; `quoit admin bucket-type list` \
                 shows those that are, `quoit admin bucket-type create {bucket_type}` and then `activate` \
                 make it"
            )
        }
        404 => anyhow!("there is no {what}"),
        412 => anyhow!(
            "{what} does not fit the condition: it was changed meanwhile, or exists already"
        ),
        status if told.is_empty() || told.starts_with('<') => {
            anyhow!("the node refuses {what} with HTTP status {status}")
        }
        _ => anyhow!("the node refuses {what}: {told}"),
    }
}

/// Words that stand for a number of replicas.
const QUORUM_WORDS: [&str; 4] = ["one", "quorum", "all", "default"];

/// Validates a number of replicas.
fn quorum(text: &str) -> Result<String, String> {
    if QUORUM_WORDS.contains(&text) || text.parse::<u32>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(format!(
        "'{text}' is not a number of replicas: write a number, or {}",
        QUORUM_WORDS.join(", ")
    ))
}

/// Appends a parameter to a query, if it has a value.
pub(crate) fn add(query: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(&format!("{name}={}", crate::api::segment(value)));
    }
}
