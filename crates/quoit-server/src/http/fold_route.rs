//! Paths of folds: folds over a bucket, and folds over the hash trees of an `n_val`.

use super::route::{BucketName, PathSegment, UrlForm};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use std::borrow::Cow;

/// The fold that a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FoldRoute<'r> {
    /// The root of the tree of an `n_val`.
    CachedRoot(PathSegment<'r>),
    /// Branches of such a tree.
    CachedBranches(PathSegment<'r>),
    /// Keys and version vectors in segments of such a tree.
    CachedClocks(PathSegment<'r>),
    /// Names of all buckets that hold records.
    BucketList,
    /// A fold over a bucket.
    Range(BucketName<'r>, RangeFold<'r>),
}

impl FoldRoute<'_> {
    /// True if the fold changes records or a queue.
    #[must_use]
    pub const fn changes(&self) -> bool {
        match self {
            Self::Range(_, fold) => matches!(
                fold,
                RangeFold::Repl(_) | RangeFold::Repair | RangeFold::Reap | RangeFold::Erase
            ),
            Self::CachedRoot(_)
            | Self::CachedBranches(_)
            | Self::CachedClocks(_)
            | Self::BucketList => false,
        }
    }
}

/// A fold over a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangeFold<'r> {
    /// Builds a tree of this size.
    Tree(PathSegment<'r>),
    /// Returns keys and version vectors.
    Clocks,
    /// Puts keys into the queue with this name.
    Repl(PathSegment<'r>),
    /// Repairs replicas.
    Repair,
    /// Returns keys with more siblings than this.
    Siblings(PathSegment<'r>),
    /// Returns keys with more bytes than this.
    Sizes(PathSegment<'r>),
    /// Counts records by size and by siblings.
    Stats,
    /// Returns tombstones.
    Tombs,
    /// Reaps tombstones.
    Reap,
    /// Deletes records.
    Erase,
}

/// The fold that a path names, given by its parts; `name` decodes a part. `None` if there is no such fold.
pub(super) fn fold_route<'r>(
    parts: &[&'r [u8]],
    name: impl Fn(&'r [u8]) -> PathSegment<'r>,
) -> Option<FoldRoute<'r>> {
    let (kind, rest) = match parts {
        [b"aaebucketlist"] => return Some(FoldRoute::BucketList),
        [b"cachedtrees", b"nvals", n_val, b"root"] => {
            return Some(FoldRoute::CachedRoot(name(n_val)));
        }
        [b"cachedtrees", b"nvals", n_val, b"branch"] => {
            return Some(FoldRoute::CachedBranches(name(n_val)));
        }
        [b"cachedtrees", b"nvals", n_val, b"keysclocks"] => {
            return Some(FoldRoute::CachedClocks(name(n_val)));
        }
        [kind, rest @ ..] => (*kind, rest),
        [] => return None,
    };
    let (bucket, rest) = match rest {
        [b"types", bucket_type, b"buckets", bucket, rest @ ..] => {
            let (bucket_type, bucket) = (name(bucket_type), name(bucket));
            (BucketName { bucket_type, bucket, form: UrlForm::Typed }, rest)
        }
        [b"buckets", bucket, rest @ ..] => {
            let bucket_type = Cow::Borrowed(DEFAULT_BUCKET_TYPE);
            (BucketName { bucket_type, bucket: name(bucket), form: UrlForm::Untyped }, rest)
        }
        _ => return None,
    };
    let fold = match (kind, rest) {
        (b"rangetrees", [b"trees", size]) => RangeFold::Tree(name(size)),
        (b"rangetrees", [b"keysclocks"]) => RangeFold::Clocks,
        (b"rangerepl", [b"queuename", queue]) => RangeFold::Repl(name(queue)),
        (b"rangerepair", []) => RangeFold::Repair,
        (b"siblings", [b"counts", count]) => RangeFold::Siblings(name(count)),
        (b"objectsizes", [b"sizes", bytes]) => RangeFold::Sizes(name(bytes)),
        (b"objectstats", []) => RangeFold::Stats,
        (b"tombs", []) => RangeFold::Tombs,
        (b"reap", []) => RangeFold::Reap,
        (b"erase", []) => RangeFold::Erase,
        _ => return None,
    };
    Some(FoldRoute::Range(bucket, fold))
}
