//! Queries of secondary indexes, and of keys in order.

use super::Client;
use super::listing::Frames;
use crate::answer::answer;
use crate::error::Error;
use crate::location::Bucket;
use crate::options::timeout_ms;
use crate::pool::Repeatable;
use bytes::Bytes;
use quoit_wire::messages::{IndexQueryType, RpbIndexReq, RpbIndexResp};
use std::time::Duration;

/// Length of the longest key, in bytes.
const KEY_BYTES_MAX: usize = 65_535;

/// A term of an index: bytes for a field that ends in `_bin`, an integer for a field that ends in `_int`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub Bytes);

macro_rules! terms {
    ($($number:ty),*) => {
        $(impl From<$number> for Term {
            fn from(number: $number) -> Self {
                Self(number.to_string().into())
            }
        })*
    };
}

terms!(i32, i64, i128, u32, u64);

impl From<&str> for Term {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Term {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Bytes> for Term {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

/// A query of an index of a bucket, or of the bucket's keys.
///
/// ```no_run
/// # use quoit_client::{Bucket, Client, IndexQuery};
/// # async fn example(client: Client) -> Result<(), quoit_client::Error> {
/// let people = Bucket::new("people");
/// let mut query = IndexQuery::range(&people, "age_int", 20, 29).with_terms().max_results(100);
/// loop {
///     let page = client.query_page(&query).await?;
///     for found in page.matches {
///         println!("{} is {:?}", found.key.escape_ascii(), found.term);
///     }
///     let Some(continuation) = page.continuation else { break };
///     query = query.continue_after(continuation);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct IndexQuery {
    request: RpbIndexReq,
    timeout: Option<Duration>,
}

impl IndexQuery {
    fn new(bucket: &Bucket, index: impl Into<Term>) -> Self {
        let request = RpbIndexReq {
            bucket: bucket.name.clone(),
            bucket_type: bucket.bucket_type.clone(),
            index: index.into().0,
            ..RpbIndexReq::default()
        };
        Self { request, timeout: None }
    }

    /// Finds the objects that have one term.
    #[must_use]
    pub fn equal(bucket: &Bucket, index: impl Into<Term>, term: impl Into<Term>) -> Self {
        let mut query = Self::new(bucket, index);
        query.request.qtype = IndexQueryType::Eq as i32;
        query.request.key = Some(term.into().0);
        query
    }

    /// Finds the objects with terms from `min` to `max`, both inclusive. An object with several terms in
    /// the range is found once for each.
    #[must_use]
    pub fn range(
        bucket: &Bucket,
        index: impl Into<Term>,
        min: impl Into<Term>,
        max: impl Into<Term>,
    ) -> Self {
        let mut query = Self::new(bucket, index);
        query.request.qtype = IndexQueryType::Range as i32;
        query.request.range_min = Some(min.into().0);
        query.request.range_max = Some(max.into().0);
        query
    }

    /// Finds the keys of a bucket, in order.
    #[must_use]
    pub fn keys(bucket: &Bucket) -> Self {
        Self::equal(bucket, "$bucket", "_").sorted()
    }

    /// Finds the keys from `first` to `last`, both inclusive, in order.
    #[must_use]
    pub fn keys_between(bucket: &Bucket, first: impl Into<Term>, last: impl Into<Term>) -> Self {
        Self::range(bucket, "$key", first, last).sorted()
    }

    /// Finds the keys that begin with a prefix, in order.
    #[must_use]
    pub fn keys_with_prefix(bucket: &Bucket, prefix: impl Into<Term>) -> Self {
        let Term(prefix) = prefix.into();
        let mut end = prefix.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let Some(last) = end.pop() else {
            let beyond_all = Bytes::from(vec![u8::MAX; KEY_BYTES_MAX]);
            return Self::keys_between(bucket, prefix, beyond_all);
        };
        end.push(last + 1);
        let mut query = Self::keys_between(bucket, prefix, Bytes::from(end));
        query.request.range_max_excluded = Some(true);
        query
    }

    /// Returns terms with the keys. Only range queries of fields have them.
    #[must_use]
    pub fn with_terms(mut self) -> Self {
        self.request.return_terms = Some(true);
        self
    }

    /// Sorts the matches by term, then by key.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.request.pagination_sort = Some(true);
        self
    }

    /// Returns at most this many matches, sorted. The server refuses 0.
    #[must_use]
    pub fn max_results(mut self, count: u32) -> Self {
        self.request.max_results = Some(count);
        self
    }

    /// Continues from the end of a page of the same query.
    #[must_use]
    pub fn continue_after(mut self, continuation: Bytes) -> Self {
        self.request.continuation = Some(continuation);
        self
    }

    /// Finds only matches whose term, or key in queries of keys, matches a regular expression. The
    /// expression may match anywhere unless it is anchored. Fields that end in `_int` have no expressions.
    #[must_use]
    pub fn matching(mut self, pattern: &str) -> Self {
        self.request.term_regex = Some(Bytes::copy_from_slice(pattern.as_bytes()));
        self
    }

    /// Bounds the time that the server may take for the whole answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn request(&self, stream: bool) -> RpbIndexReq {
        RpbIndexReq {
            stream: stream.then_some(true),
            timeout: timeout_ms(self.timeout),
            ..self.request.clone()
        }
    }
}

/// A match of a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexMatch {
    /// The term, if [`IndexQuery::with_terms`] asked for it and the query has terms. Integers are decimal
    /// text.
    pub term: Option<Bytes>,
    /// The object's key.
    pub key: Bytes,
}

fn matches(answer: &mut RpbIndexResp) -> Vec<IndexMatch> {
    let keys = std::mem::take(&mut answer.keys).into_iter();
    let pairs = std::mem::take(&mut answer.results).into_iter();
    let keys = keys.map(|key| IndexMatch { term: None, key });
    let pairs =
        pairs.map(|pair| IndexMatch { term: Some(pair.key), key: pair.value.unwrap_or_default() });
    keys.chain(pairs).collect()
}

/// One answer of a query: all its matches, or a page of them.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexPage {
    /// The matches.
    pub matches: Vec<IndexMatch>,
    /// Position from which [`IndexQuery::continue_after`] reads the next page; `None` if there is no further
    /// page. The next page may be empty.
    pub continuation: Option<Bytes>,
}

/// Matches of a query as a stream. Dropping it ends the query on the server too.
#[derive(Debug)]
pub struct IndexResults {
    frames: Frames,
    continuation: Option<Bytes>,
}

impl IndexResults {
    /// Waits for the next matches, some at a time; `None` at the end and after it.
    ///
    /// The future may be dropped and `next` called again without loss.
    ///
    /// # Errors
    ///
    /// Any [`Error`], which ends the stream.
    pub async fn next(&mut self) -> Option<Result<Vec<IndexMatch>, Error>> {
        loop {
            let part = self.frames.next(answer::<RpbIndexResp>, |part| part.done == Some(true));
            let mut part = match part.await? {
                Ok(part) => part,
                Err(error) => return Some(Err(error)),
            };
            let found = matches(&mut part);
            self.continuation = part.continuation;
            if !found.is_empty() {
                return Some(Ok(found));
            }
        }
    }

    /// Position of the next page, once the stream has ended; see [`IndexPage::continuation`].
    #[must_use]
    pub fn continuation(&self) -> Option<&Bytes> {
        self.continuation.as_ref()
    }

    /// Waits for all remaining matches.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. Matches that came before the error are lost.
    pub async fn collect(mut self) -> Result<Vec<IndexMatch>, Error> {
        let mut all = Vec::new();
        while let Some(found) = self.next().await {
            all.append(&mut found?);
        }
        Ok(all)
    }
}

impl Client {
    /// Runs a query and returns its matches as a stream. They have no order unless the query is sorted.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. A query that the server refuses is [`Error::Server`].
    pub async fn query(&self, query: &IndexQuery) -> Result<IndexResults, Error> {
        let frames = self.frames(&query.request(true), query.timeout).await?;
        Ok(IndexResults { frames, continuation: None })
    }

    /// Runs a query and returns its matches in one answer. Use it for pages, and for queries with few
    /// matches.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query). The client repeats the query where that may help.
    pub async fn query_page(&self, query: &IndexQuery) -> Result<IndexPage, Error> {
        let request = query.request(false);
        let mut answer: RpbIndexResp =
            self.pool.call(&request, Repeatable::Safe, query.timeout, None).await?;
        Ok(IndexPage { matches: matches(&mut answer), continuation: answer.continuation })
    }
}
