//! Queries of secondary indexes, and folds over the objects of a bucket.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::{GetForm, bucket_of, get_response};
use crate::erlang_text;
use crate::index_entries::term_text;
use crate::index_query::{self, QueryFault, Terms};
use bytes::Bytes;
use prost::Message;
use quoit_core::{
    Deadline, IndexMatch, IndexQuery, IndexResults, IndexSelection, ReadOptions, RequestError,
};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::object::IndexTerm;
use quoit_wire::messages::{
    IndexQueryType, RpbCSBucketReq, RpbCSBucketResp, RpbIndexBodyResp, RpbIndexObject, RpbIndexReq,
    RpbIndexResp, RpbPair,
};

/// Memory of an entry of an answer besides its bytes, in bytes.
pub(super) const ENTRY_BYTES: usize = 128;

/// Advice for a client whose answer is too large for one message.
const SMALLER_ANSWERS: &str = "ask for a stream, or in pages with max_results";

/// Number of objects read for one frame, and their size in bytes. The last object may exceed the size.
const OBJECT_COUNT: usize = 16;
const OBJECT_BYTES: usize = 1024 * 1024;

impl From<QueryFault> for Fault {
    fn from(fault: QueryFault) -> Self {
        Self::Text(erlang_text::query_fault(&fault))
    }
}

/// Converts the fault of a query that has begun.
fn query_fault(fault: RequestError) -> Fault {
    match fault {
        RequestError::Timeout => Fault::Text("{error,timeout}".into()),
        fault => fault.into(),
    }
}

/// Form in which a client wants the matches of a query.
#[derive(Clone, Copy)]
struct MatchForm {
    /// With terms beside the keys.
    shows_terms: bool,
    /// In several messages.
    is_stream: bool,
}

/// The form of objects in the answer to a query.
const PLAIN_FORM: GetForm = GetForm { head: false, tombstone_wanted: false };

impl PbConnection {
    pub(super) async fn query_index(&mut self, request: RpbIndexReq) -> Result<(), Fault> {
        let is_stream = request.stream == Some(true);
        let jobs = &self.context.settings.jobs;
        if is_stream {
            self.allowed(jobs.stream_secondary_index, "stream_secondary_index")?;
        } else {
            self.allowed(jobs.secondary_index, "secondary_index")?;
        }
        let query = self.query_of(&request)?;
        let is_range = request.qtype() == IndexQueryType::Range;
        let of_keys = matches!(query.selection, IndexSelection::Keys(_));
        let shows_terms = request.return_terms == Some(true)
            && index_query::has_terms(&query.selection, is_range);
        let deadline = self.deadline(request.timeout);
        self.hold_pieces()?;
        let results = self.begin_query(query, deadline).await?;
        if request.return_body == Some(true) && of_keys {
            let bucket = bucket_of(&request.bucket_type, &request.bucket);
            return self.send_bodies(bucket, results, deadline, is_stream).await;
        }
        self.send_matches(results, deadline, MatchForm { shows_terms, is_stream }).await
    }

    fn query_of(&self, request: &RpbIndexReq) -> Result<IndexQuery, Fault> {
        let bucket = bucket_of(&request.bucket_type, &request.bucket);
        bucket.key(b"*").check().map_err(RequestError::from)?;
        let selection = index_query::selection(&request.index, terms_of(request)?);
        let mut selection = selection.map_err(QueryFault::Entry)?;
        let excludes_last =
            request.range_max_excluded == Some(true) && request.qtype() == IndexQueryType::Range;
        if let (IndexSelection::Keys(bounds), true) = (&mut selection, excludes_last) {
            bounds.end = request.range_max.clone();
        }
        let mut query = IndexQuery::new(bucket, selection);
        if let Some(pattern) = &request.term_regex {
            index_query::set_pattern(&mut query, pattern)?;
        }
        query.sorted = request.pagination_sort == Some(true);
        self.restrict(&mut query, request.cover_context.as_ref())?;
        set_page(&mut query, request.max_results, request.continuation.as_ref())?;
        Ok(query)
    }

    /// The deadline of a query; without a timeout from the client, that of the node's settings.
    fn deadline(&self, timeout_ms: Option<u32>) -> Deadline {
        let default_ms = self.context.settings.index_timeout_ms;
        Deadline::after_ms(timeout_ms.map_or(default_ms, u64::from))
    }

    async fn send_matches(
        &mut self,
        mut results: IndexResults,
        deadline: Deadline,
        form: MatchForm,
    ) -> Result<(), Fault> {
        let MatchForm { shows_terms, is_stream } = form;
        let mut answer = RpbIndexResp::default();
        let mut gathered_bytes = 0;
        while let Some(matches) = self.next_matches(&mut results, deadline).await? {
            gathered_bytes += matches.iter().map(match_bytes).sum::<usize>();
            if shows_terms {
                answer.results.extend(matches.into_iter().map(pair));
            } else {
                answer.keys.extend(matches.into_iter().map(|each| each.key));
            }
            if is_stream {
                self.send(&std::mem::take(&mut answer))?;
                self.flush().await?;
            } else {
                self.check_gathered(gathered_bytes, SMALLER_ANSWERS)?;
            }
        }
        answer.continuation = continuation(&results);
        answer.done = is_stream.then_some(true);
        self.send(&answer)
    }

    async fn send_bodies(
        &mut self,
        bucket: BucketRef<'_>,
        mut results: IndexResults,
        deadline: Deadline,
        is_stream: bool,
    ) -> Result<(), Fault> {
        let mut answer = RpbIndexBodyResp::default();
        let mut gathered_bytes = 0;
        while let Some(matches) = self.next_matches(&mut results, deadline).await? {
            let mut keys = &matches[..];
            while !keys.is_empty() {
                let objects = self.objects_of(bucket, &mut keys, deadline).await?;
                gathered_bytes += objects.iter().map(object_bytes).sum::<usize>();
                answer.objects.extend(objects);
                if is_stream {
                    self.send(&std::mem::take(&mut answer))?;
                    self.flush().await?;
                } else {
                    self.check_gathered(gathered_bytes, SMALLER_ANSWERS)?;
                }
            }
        }
        answer.continuation = continuation(&results);
        answer.done = is_stream.then_some(true);
        self.send(&answer)
    }

    /// Streams the objects in a range of keys, in the order of keys.
    pub(super) async fn fold_bucket(&mut self, request: RpbCSBucketReq) -> Result<(), Fault> {
        self.allowed(self.context.settings.jobs.stream_secondary_index, "stream_secondary_index")?;
        let bucket = bucket_of(&request.bucket_type, &request.bucket);
        let mut query = IndexQuery::new(bucket, IndexSelection::Keys(fold_bounds(&request)));
        query.sorted = true;
        self.restrict(&mut query, request.cover_context.as_ref())?;
        set_page(&mut query, request.max_results, request.continuation.as_ref())?;
        let deadline = self.deadline(request.timeout);
        self.hold_pieces()?;
        let mut results = self.begin_query(query, deadline).await?;
        while let Some(matches) = self.next_matches(&mut results, deadline).await? {
            let mut keys = &matches[..];
            while !keys.is_empty() {
                let objects = self.objects_of(bucket, &mut keys, deadline).await?;
                if !objects.is_empty() {
                    self.send(&RpbCSBucketResp { objects, ..RpbCSBucketResp::default() })?;
                    self.flush().await?;
                }
            }
        }
        let continuation = continuation(&results);
        self.send(&RpbCSBucketResp { objects: Vec::new(), continuation, done: Some(true) })
    }

    async fn begin_query(
        &self,
        query: IndexQuery,
        deadline: Deadline,
    ) -> Result<IndexResults, Fault> {
        let begun = async {
            deadline
                .limit(self.context.store.listings().query_index(query))
                .await
                .map_err(query_fault)
        };
        self.unless_disconnected(Box::pin(begun)).await
    }

    /// The next matches, or an error if the client disconnects first.
    async fn next_matches(
        &self,
        results: &mut IndexResults,
        deadline: Deadline,
    ) -> Result<Option<Vec<IndexMatch>>, Fault> {
        let next = async { deadline.limit(results.next()).await.map_err(query_fault) };
        self.unless_disconnected(Box::pin(next)).await
    }

    /// Like [`PbConnection::objects`], with an error if the client disconnects first.
    async fn objects_of(
        &mut self,
        bucket: BucketRef<'_>,
        keys: &mut &[IndexMatch],
        deadline: Deadline,
    ) -> Result<Vec<RpbIndexObject>, Fault> {
        if let Some(IndexMatch { key, .. }) = keys.first() {
            let size_bytes_max = self.context.store.size_bytes_max(bucket.key(key));
            self.reservation.hold_read(&self.out, size_bytes_max)?;
        }
        let read = async { deadline.limit(self.objects(bucket, keys)).await.map_err(query_fault) };
        self.unless_disconnected(Box::pin(read)).await
    }

    /// Reads the objects of the first keys, as many as fit into a frame, in their order, and removes those
    /// keys from `keys`. Objects that were deleted meanwhile are left out.
    async fn objects(
        &self,
        bucket: BucketRef<'_>,
        keys: &mut &[IndexMatch],
    ) -> Result<Vec<RpbIndexObject>, RequestError> {
        let (mut objects, mut size_bytes) = (Vec::new(), 0);
        while let Some((IndexMatch { key, .. }, others)) = keys.split_first() {
            if objects.len() == OBJECT_COUNT || size_bytes >= OBJECT_BYTES {
                break;
            }
            let key_ref = bucket.key(key);
            let known_bytes = self.context.store.size_bytes_max(key_ref).unwrap_or_default();
            if !objects.is_empty() && known_bytes > OBJECT_BYTES as u64 {
                // It gets a frame of its own.
                break;
            }
            *keys = others;
            let found = self.context.store.get(key_ref, &ReadOptions::default()).await?;
            if let Some(object) = found.filter(|object| !object.is_tombstone()) {
                let object = get_response(object, None, PLAIN_FORM);
                let object = RpbIndexObject { key: key.clone(), object };
                size_bytes += object_bytes(&object);
                objects.push(object);
            }
        }
        Ok(objects)
    }
}

/// Approximate memory of an object, in bytes.
fn object_bytes(object: &RpbIndexObject) -> usize {
    object.encoded_len() + ENTRY_BYTES
}

fn pair(found: IndexMatch) -> RpbPair {
    let key = found.term.as_ref().map(term_text).unwrap_or_default();
    RpbPair { key, value: Some(found.key) }
}

fn continuation(results: &IndexResults) -> Option<Bytes> {
    results.continuation().map(|position| index_query::continuation_text(&position).into())
}

/// Approximate memory of a match, in bytes.
fn match_bytes(each: &IndexMatch) -> usize {
    let term_bytes = match &each.term {
        Some(IndexTerm::Binary(term)) => term.len(),
        Some(IndexTerm::Integer(number)) => number.large_bytes(),
        None => 0,
    };
    each.key.len() + term_bytes + ENTRY_BYTES
}

fn set_page(
    query: &mut IndexQuery,
    max_results: Option<u32>,
    continuation: Option<&Bytes>,
) -> Result<(), Fault> {
    if max_results == Some(0) {
        let text = "Invalid \"max_results\". \"0\" is not a positive integer";
        return Err(Fault::Text(text.into()));
    }
    query.max_results = max_results;
    if let Some(continuation) = continuation {
        index_query::continue_after(query, continuation)?;
    }
    Ok(())
}

fn terms_of(request: &RpbIndexReq) -> Result<Terms, Fault> {
    let printed = |term: &Option<Bytes>| {
        term.as_ref().map_or_else(|| "undefined".to_owned(), |term| erlang_text::binary(term))
    };
    match request.qtype() {
        IndexQueryType::Eq => match &request.key {
            Some(term) => Ok(Terms::One(term.clone())),
            None => Err(Fault::Text("Invalid equality query undefined".into())),
        },
        IndexQueryType::Range => match (&request.range_min, &request.range_max) {
            (Some(first), Some(last)) => Ok(Terms::Range(first.clone(), last.clone())),
            (first, last) => {
                let (first, last) = (printed(first), printed(last));
                Err(Fault::Text(format!("Invalid range query: {first} -> {last}")))
            }
        },
    }
}

fn fold_bounds(request: &RpbCSBucketReq) -> KeyBounds {
    let behind = |key: &Bytes| Bytes::from([&key[..], &[0]].concat());
    let from = match request.start_incl {
        Some(false) => behind(&request.start_key),
        _ => request.start_key.clone(),
    };
    let end = request.end_key.as_ref().map(|end| match request.end_incl {
        Some(true) => behind(end),
        _ => end.clone(),
    });
    KeyBounds { from, end }
}
