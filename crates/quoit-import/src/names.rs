//! Bucket names on the command line.

use anyhow::{Result, anyhow};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use quoit_client::Bucket;
use quoit_model::key::BucketRef;

/// Name of the bucket type of untyped buckets.
pub(crate) const DEFAULT_TYPE: &str = "default";

/// Punctuation that is not percent-encoded in names.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':').remove(b'@');

/// Percent-encodes a name for the command line.
pub(crate) fn encoded(name: &[u8]) -> String {
    percent_encode(name, PLAIN).to_string()
}

/// Formats a bucket for the command line: TYPE/BUCKET, percent-encoded.
pub(crate) fn bucket_name(bucket: &Bucket) -> String {
    let bucket_type = bucket.bucket_type.as_deref().unwrap_or(DEFAULT_TYPE.as_bytes());
    format!("{}/{}", encoded(bucket_type), encoded(&bucket.name))
}

/// Parses TYPE/BUCKET; `%2F` is a slash inside a name.
pub(crate) fn bucket_named(text: &str) -> Result<Bucket> {
    let (bucket_type, bucket) = text.split_once('/').ok_or_else(|| {
        anyhow!("{text} is not of the form TYPE/BUCKET; the default type is named default")
    })?;
    let decoded = |part| percent_decode_str(part).collect::<Vec<u8>>();
    Ok(bucket_of(BucketRef { bucket_type: &decoded(bucket_type), bucket: &decoded(bucket) }))
}

/// A bucket for the client library, which represents the type `default` by no name.
pub(crate) fn bucket_of(name: BucketRef<'_>) -> Bucket {
    match name.bucket_type {
        b"default" => Bucket::new(name.bucket),
        bucket_type => Bucket::new(name.bucket).typed(bucket_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_reads_as_it_is_printed() {
        for bucket in [Bucket::new(b"a b/c"), Bucket::new(b"\xff\0").typed("t%")] {
            let text = bucket_name(&bucket);
            assert_eq!(bucket_named(&text).expect("a name"), bucket, "{text}");
        }
        assert!(bucket_named("only-a-type").is_err());
    }
}
