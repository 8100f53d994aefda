//! Definitions of source queues: names, and filters that choose the writes.

use bytes::Bytes;
use quoit_model::key::BucketRef;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Longest name of a queue, in bytes.
pub const QUEUE_NAME_BYTES_MAX: usize = 128;
/// Maximum number of queues of a node.
pub const QUEUE_COUNT_MAX: usize = 64;

/// Filter of the writes that a source queue takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueueFilter {
    /// All writes (`any`).
    Any,
    /// No writes: the queue is only for full-sync and folds (`block_rtq`).
    BlockRealTime,
    /// Writes to buckets of this name in any bucket type (`bucketname.NAME`).
    BucketName(Bytes),
    /// Writes to buckets whose names have this prefix, in any bucket type (`bucketprefix.TEXT`).
    BucketPrefix(Bytes),
    /// Writes to buckets of this bucket type (`buckettype.TYPE`). Untyped buckets never match.
    BucketType(Bytes),
}

impl QueueFilter {
    /// True if the filter takes writes to a bucket.
    #[must_use]
    pub fn takes(&self, bucket: BucketRef<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::BlockRealTime => false,
            Self::BucketName(name) => bucket.bucket == name,
            Self::BucketPrefix(prefix) => bucket.bucket.starts_with(prefix),
            Self::BucketType(name) => !bucket.is_untyped() && bucket.bucket_type == name,
        }
    }
}

impl fmt::Display for QueueFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, name) = match self {
            Self::Any => return formatter.write_str("any"),
            Self::BlockRealTime => return formatter.write_str("block_rtq"),
            Self::BucketName(name) => ("bucketname", name),
            Self::BucketPrefix(prefix) => ("bucketprefix", prefix),
            Self::BucketType(name) => ("buckettype", name),
        };
        write!(formatter, "{word}.{}", String::from_utf8_lossy(name))
    }
}

/// A fault in the definition of a queue.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum QueueDefinitionError {
    /// No colon separates name and filter.
    #[error("`{0}` is not a queue definition: wanted NAME:FILTER, such as q1:any")]
    NoFilter(String),
    /// The name is empty, too long, or has characters that would need quoting in a URL or a list.
    #[error(
        "`{0}` is not a valid name of a queue: wanted 1 to {QUEUE_NAME_BYTES_MAX} letters, digits, `_`, `-` \
         or `.`"
    )]
    Name(String),
    /// The filter is unknown.
    #[error(
        "`{0}` is not a filter of a queue: wanted any, block_rtq, bucketname.NAME, bucketprefix.TEXT or \
         buckettype.TYPE"
    )]
    Filter(String),
}

impl FromStr for QueueFilter {
    type Err = QueueDefinitionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || QueueDefinitionError::Filter(text.to_owned());
        match text {
            "any" => return Ok(Self::Any),
            "block_rtq" => return Ok(Self::BlockRealTime),
            _ => {}
        }
        // Names of buckets may contain dots themselves, so only the first one separates.
        let (word, name) = text.split_once('.').ok_or_else(bad)?;
        // The manifest keeps each definition in a line of text.
        if name.is_empty() || name.contains(char::is_control) {
            return Err(bad());
        }
        let name = Bytes::copy_from_slice(name.as_bytes());
        match word {
            "bucketname" => Ok(Self::BucketName(name)),
            "bucketprefix" => Ok(Self::BucketPrefix(name)),
            "buckettype" => Ok(Self::BucketType(name)),
            _ => Err(bad()),
        }
    }
}

/// Definition of a queue, as in the setting `replrtq_srcqueue`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueDefinition {
    /// Name of the queue.
    pub name: String,
    /// The writes that it takes.
    pub filter: QueueFilter,
}

impl QueueDefinition {
    /// Checks the name of a queue.
    ///
    /// # Errors
    ///
    /// If it is empty, longer than 128 bytes, or contains characters other than
    /// letters, digits, `_`, `-` and `.`.
    pub fn check_name(name: &str) -> Result<(), QueueDefinitionError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match !name.is_empty() && name.len() <= QUEUE_NAME_BYTES_MAX && name.bytes().all(is_plain) {
            true => Ok(()),
            false => Err(QueueDefinitionError::Name(name.to_owned())),
        }
    }

    /// Reads a list `NAME:FILTER|NAME:FILTER`. Returns the valid definitions, and an error for each
    /// invalid one.
    #[must_use]
    pub fn read_list(text: &str) -> (Vec<Self>, Vec<QueueDefinitionError>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for part in text.split('|').map(str::trim).filter(|part| !part.is_empty()) {
            match part.parse() {
                Ok(definition) => good.push(definition),
                Err(fault) => bad.push(fault),
            }
        }
        (good, bad)
    }
}

impl FromStr for QueueDefinition {
    type Err = QueueDefinitionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no_filter = || QueueDefinitionError::NoFilter(text.to_owned());
        let (name, filter) = text.split_once(':').ok_or_else(no_filter)?;
        Self::check_name(name)?;
        Ok(Self { name: name.to_owned(), filter: filter.parse()? })
    }
}

impl fmt::Display for QueueDefinition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.name, self.filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed<'a>(bucket_type: &'a str, bucket: &'a str) -> BucketRef<'a> {
        BucketRef { bucket_type: bucket_type.as_bytes(), bucket: bucket.as_bytes() }
    }

    #[test]
    fn filters_take_the_buckets_that_they_name() {
        let takes = |filter: &str, bucket: BucketRef<'_>| {
            filter.parse::<QueueFilter>().expect("a filter").takes(bucket)
        };
        let (plain, in_type) = (typed("default", "users.eu"), typed("maps", "users.eu"));
        assert!(takes("any", plain) && takes("any", in_type));
        assert!(!takes("block_rtq", plain) && !takes("block_rtq", in_type));
        assert!(takes("bucketname.users.eu", plain) && takes("bucketname.users.eu", in_type));
        assert!(!takes("bucketname.users", plain));
        assert!(takes("bucketprefix.users", plain) && takes("bucketprefix.users", in_type));
        assert!(takes("buckettype.maps", in_type) && !takes("buckettype.maps", plain));
        assert!(!takes("buckettype.default", plain), "untyped buckets have no bucket type");
    }

    #[test]
    fn a_list_gives_its_good_definitions_and_a_fault_for_each_bad_one() {
        let text = "q1:any|q2|bad name:any|q3:bucket.x|q4:bucketname.|q5:bucketprefix.a:b";
        let (good, bad) = QueueDefinition::read_list(text);
        let shown: Vec<String> = good.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["q1:any", "q5:bucketprefix.a:b"]);
        assert_eq!(bad.len(), 4);
        assert!(bad[0].to_string().contains("`q2`"), "{}", bad[0]);
        assert!(bad[2].to_string().contains("bucket.x"), "{}", bad[2]);
    }
}
