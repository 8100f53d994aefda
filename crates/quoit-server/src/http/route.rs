//! Resources and their paths.

use super::fold_route::{FoldRoute, fold_route};
use super::head::Method;
use super::uri;
use smallvec::SmallVec;
use std::borrow::Cow;

/// A decoded part of a path.
pub type PathSegment<'r> = Cow<'r, [u8]>;

/// The three forms of URLs. Links and locations in an answer have the form of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrlForm {
    /// `/riak/B/K`.
    Old,
    /// `/buckets/B/keys/K`.
    Untyped,
    /// `/types/T/buckets/B/keys/K`.
    Typed,
}

/// The bucket that a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketName<'r> {
    /// `default` if the path has no bucket type.
    pub bucket_type: PathSegment<'r>,
    /// Name of the bucket.
    pub bucket: PathSegment<'r>,
    /// The form of the URL.
    pub form: UrlForm,
}

/// The record that a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordName<'r> {
    /// The bucket.
    pub bucket: BucketName<'r>,
    /// The key.
    pub key: PathSegment<'r>,
}

/// The resource that a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route<'r> {
    /// The list of resources.
    Root,
    /// A check that the node answers, as in Riak.
    Ping,
    /// A check that the process answers.
    Livez,
    /// A check that the node serves clients, with the reasons if not.
    Readyz,
    /// Statistics as JSON.
    Stats,
    /// Statistics in Prometheus' text format or as OpenMetrics.
    Metrics,
    /// The buckets of a bucket type.
    Buckets(PathSegment<'r>),
    /// The keys of a bucket. POST stores an object under a new key.
    Keys(BucketName<'r>),
    /// A bucket's properties.
    Props(BucketName<'r>),
    /// A bucket type's properties.
    TypeProps(PathSegment<'r>),
    /// Properties and keys of a bucket in the old URL form. POST stores an object under a new key.
    OldBucket(BucketName<'r>),
    /// An object.
    Object(RecordName<'r>),
    /// A walk along links, starting from an object.
    Walk(RecordName<'r>, SmallVec<[&'r [u8]; 8]>),
    /// The preference list of a record.
    Preflist(RecordName<'r>),
    /// An index query.
    Index(BucketName<'r>, SmallVec<[PathSegment<'r>; 4]>),
    /// The change feed of a bucket.
    Changes(BucketName<'r>),
    /// A MapReduce job.
    Mapred,
    /// Any resource of Riak Search, which Quoit does not have.
    Search,
    /// A data type. POST without a key generates one.
    Datatype(BucketName<'r>, Option<PathSegment<'r>>),
    /// A counter of Riak 1.4.
    Counter(RecordName<'r>),
    /// A fold.
    Fold(FoldRoute<'r>),
    /// A replication queue. POST puts references to records into it.
    Queue(PathSegment<'r>),
    /// The nodes that are up.
    Membership,
    /// The administration API, with the parts of the path after `/admin`.
    Admin(SmallVec<[PathSegment<'r>; 8]>),
}

/// Reader of names in paths.
#[derive(Clone, Copy)]
struct Reader {
    decodes: bool,
}

impl Reader {
    fn name<'r>(self, part: &'r [u8]) -> PathSegment<'r> {
        if self.decodes { uri::decode(part) } else { Cow::Borrowed(part) }
    }
}

const DEFAULT_TYPE: PathSegment<'static> = Cow::Borrowed(quoit_model::key::DEFAULT_BUCKET_TYPE);

/// Finds the resource of a path; `None` if there is none. If `decodes`, names are percent-decoded.
pub fn route(path: &[u8], decodes: bool) -> Option<Route<'_>> {
    let parts = uri::segments(path)?;
    let reader = Reader { decodes };
    match parts.as_slice() {
        [] => Some(Route::Root),
        [b"ping"] => Some(Route::Ping),
        [b"livez"] => Some(Route::Livez),
        [b"readyz"] => Some(Route::Readyz),
        [b"stats"] => Some(Route::Stats),
        [b"metrics"] => Some(Route::Metrics),
        [b"mapred"] => Some(Route::Mapred),
        [b"search" | b"solr", ..] => Some(Route::Search),
        [b"membership_request"] => Some(Route::Membership),
        [b"queuename", queue] => Some(Route::Queue(reader.name(queue))),
        [b"admin", rest @ ..] => {
            Some(Route::Admin(rest.iter().map(|part| uri::decode(part)).collect()))
        }
        [b"riak", rest @ ..] => old(rest, reader),
        [b"types", bucket_type, b"props"] => Some(Route::TypeProps(reader.name(bucket_type))),
        [b"types", bucket_type, b"buckets", rest @ ..] => {
            buckets(rest, reader.name(bucket_type), UrlForm::Typed, reader)
        }
        [b"buckets", rest @ ..] => buckets(rest, DEFAULT_TYPE, UrlForm::Untyped, reader),
        parts => fold_route(parts, |part| reader.name(part)).map(Route::Fold),
    }
}

fn old<'r>(parts: &[&'r [u8]], reader: Reader) -> Option<Route<'r>> {
    let named = |bucket: &'r [u8]| BucketName {
        bucket_type: DEFAULT_TYPE,
        bucket: reader.name(bucket),
        form: UrlForm::Old,
    };
    Some(match parts {
        [] => Route::Buckets(DEFAULT_TYPE),
        [bucket] => Route::OldBucket(named(bucket)),
        [bucket, key] => Route::Object(record(named(bucket), key, reader)),
        [bucket, key, steps @ ..] => {
            Route::Walk(record(named(bucket), key, reader), steps.iter().copied().collect())
        }
    })
}

fn buckets<'r>(
    parts: &[&'r [u8]],
    bucket_type: PathSegment<'r>,
    form: UrlForm,
    reader: Reader,
) -> Option<Route<'r>> {
    let [bucket, rest @ ..] = parts else { return Some(Route::Buckets(bucket_type)) };
    let bucket = BucketName { bucket_type, bucket: reader.name(bucket), form };
    Some(match rest {
        [b"props"] => Route::Props(bucket),
        [b"keys"] => Route::Keys(bucket),
        [b"changes"] => Route::Changes(bucket),
        [b"keys", key] => Route::Object(record(bucket, key, reader)),
        [b"keys", key, b"preflist"] => Route::Preflist(record(bucket, key, reader)),
        [b"keys", key, steps @ ..] => {
            Route::Walk(record(bucket, key, reader), steps.iter().copied().collect())
        }
        [b"index", field, terms @ ..] => {
            let names = std::iter::once(field).chain(terms).map(|part| reader.name(part));
            Route::Index(bucket, names.collect())
        }
        [b"datatypes"] if form == UrlForm::Typed => Route::Datatype(bucket, None),
        [b"datatypes", key] if form == UrlForm::Typed => {
            Route::Datatype(bucket, Some(reader.name(key)))
        }
        [b"counters", key] if form == UrlForm::Untyped => {
            Route::Counter(record(bucket, key, reader))
        }
        _ => return None,
    })
}

fn record<'r>(bucket: BucketName<'r>, key: &'r [u8], reader: Reader) -> RecordName<'r> {
    RecordName { bucket, key: reader.name(key) }
}

impl Route<'_> {
    /// The methods that the resource accepts.
    pub fn methods(&self) -> &'static [Method] {
        use Method::{Delete, Get, Head, Post, Put};
        match self {
            Self::Root
            | Self::Ping
            | Self::Livez
            | Self::Readyz
            | Self::Stats
            | Self::Metrics
            | Self::Buckets(_)
            | Self::Preflist(_)
            | Self::Fold(_)
            | Self::Membership
            | Self::Index(..)
            | Self::Changes(_) => &[Get, Head],
            Self::Search => &[Get, Head, Post, Put, Delete],
            Self::Keys(_) | Self::Walk(..) | Self::Mapred => &[Get, Head, Post],
            // No HEAD: a fetch removes an entry from the queue, which an answer without a body would lose.
            Self::Queue(_) => &[Get, Post],
            Self::Props(_) => &[Get, Head, Put, Delete],
            Self::TypeProps(_) => &[Get, Head, Put],
            Self::OldBucket(_) => &[Get, Head, Put, Post],
            Self::Object(_) | Self::Admin(_) => &[Get, Head, Post, Put, Delete],
            Self::Datatype(_, None) => &[Post],
            Self::Datatype(_, Some(_)) => &[Get, Head, Post],
            Self::Counter(_) => &[Get, Head, Post],
        }
    }
}

impl BucketName<'_> {
    /// The bucket in the form of the store.
    pub fn as_ref(&self) -> quoit_model::key::BucketRef<'_> {
        quoit_model::key::BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket }
    }
}

impl RecordName<'_> {
    /// The record in the form of the store.
    pub fn as_ref(&self) -> quoit_model::key::KeyRef<'_> {
        self.bucket.as_ref().key(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<Route<'_>> {
        route(path.as_bytes(), true)
    }

    #[test]
    fn all_of_search_is_one_resource() {
        for path in ["/search/query/i", "/search/index", "/solr/i/select"] {
            assert_eq!(of(path), Some(Route::Search), "{path}");
        }
    }

    #[test]
    fn a_bucket_with_or_without_a_type_has_a_change_feed() {
        for path in ["/buckets/b/changes", "/types/t/buckets/b/changes"] {
            assert!(matches!(of(path), Some(Route::Changes(_))), "{path}");
        }
    }

    #[test]
    fn an_object_has_three_urls() {
        let Some(Route::Object(old)) = of("/riak/b/k") else { panic!("old form") };
        let Some(Route::Object(untyped)) = of("/buckets/b/keys/k/") else { panic!("untyped") };
        let Some(Route::Object(typed)) = of("/types/t/buckets/b%20x/keys/k%2F2") else {
            panic!("typed form")
        };
        assert_eq!((&*old.bucket.bucket_type, &*old.key), (&b"default"[..], &b"k"[..]));
        assert_eq!(untyped.as_ref(), old.as_ref());
        assert_eq!((&*typed.bucket.bucket, &*typed.key), (&b"b x"[..], &b"k/2"[..]));
        assert_eq!(typed.bucket.form, UrlForm::Typed);
    }

    #[test]
    fn the_preference_list_comes_before_link_walking() {
        assert!(matches!(of("/buckets/b/keys/k/preflist"), Some(Route::Preflist(_))));
        assert!(matches!(of("/buckets/b/keys/k/_,_,1"), Some(Route::Walk(..))));
        assert!(matches!(of("/riak/b/k/preflist"), Some(Route::Walk(..))));
    }

    #[test]
    fn empty_names_and_unknown_paths_lead_nowhere() {
        for path in [
            "/nonsense",
            "/buckets//keys/k",
            "/buckets/b/nonsense",
            "/types",
            "/types/t",
            "/buckets/b",
            "/types/t/nonsense",
            "/buckets/b/datatypes/k",
            "/types/t/buckets/b/counters/k",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn names_stay_as_sent_where_decoding_is_off() {
        let Some(Route::Object(name)) = route(b"/buckets/a%20b/keys/k+1", false) else {
            panic!("an object")
        };
        assert_eq!((&*name.bucket.bucket, &*name.key), (&b"a%20b"[..], &b"k+1"[..]));
    }
}
