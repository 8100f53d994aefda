//! Lists of buckets, of keys and of matches of index queries, as one document or as streams.

use super::connection::{HttpConnection, Request};
use super::index;
use super::negotiate::choose_media_type;
use super::params::parse_timeout;
use super::props::module_first;
use super::refusal::Refusal;
use super::response::{JSON, append_chunk, reply, reply_in_pieces};
use super::route::BucketName;
use super::uri;
use crate::index_entries::term_text;
use crate::index_query;
use crate::security::RequiredPermission;
use bytes::Bytes;
use quoit_core::{
    BucketListing, Deadline, IndexMatch, IndexQuery, IndexResults, IndexSelection, KeyListing,
    RequestError,
};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use serde_json::{Value, json};

const BUCKETS_TIMEOUT_MS: u32 = 300_000;
const KEYS_TIMEOUT_MS: u32 = 480_000;
const KEYS_STREAM_TIMEOUT_MS: u32 = 60_000;
/// Size in bytes from which on a document is sent in pieces. Below this size, a failure can still replace the
/// document by an error.
pub(super) const HELD_BYTES_MAX: usize = 1024 * 1024;

/// Form of a listing: one document, or a stream of documents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Whole,
    Stream,
}

impl Mode {
    /// The mode that a query parameter selects; `None` for any other value.
    fn of(value: Option<&[u8]>) -> Option<Self> {
        match value? {
            b"true" => Some(Self::Whole),
            b"stream" => Some(Self::Stream),
            _ => None,
        }
    }
}

/// A listing in progress.
pub(super) enum Listing {
    Buckets(BucketListing),
    Keys(Box<KeyListing>),
    /// The matches of an index query, as keys or as terms and keys.
    Matches {
        results: Box<IndexResults>,
        shows_terms: bool,
    },
}

impl Listing {
    /// Appends the next items to a JSON list. Returns false if there are no more.
    pub(super) async fn append_next(
        &mut self,
        document: &mut Vec<u8>,
        is_first: bool,
    ) -> Result<bool, RequestError> {
        let names = match self {
            Self::Buckets(listing) => listing.next().await?,
            Self::Keys(listing) => listing.next().await?,
            Self::Matches { results, shows_terms: true } => {
                let matches = results.next().await?;
                matches.iter().for_each(|matches| append_pairs(document, matches, is_first));
                return Ok(matches.is_some());
            }
            Self::Matches { results, shows_terms: false } => {
                let keys = |matches: Vec<IndexMatch>| matches.into_iter().map(|each| each.key);
                results.next().await?.map(|matches| keys(matches).collect())
            }
        };
        names.iter().for_each(|names| append_names(document, names, is_first));
        Ok(names.is_some())
    }

    /// The name of the list's member in its document.
    pub(super) const fn member(&self) -> &'static str {
        match self {
            Self::Buckets(_) => "buckets",
            Self::Keys(_) | Self::Matches { shows_terms: false, .. } => "keys",
            Self::Matches { shows_terms: true, .. } => "results",
        }
    }

    /// The continuation for the next page, if there may be one.
    pub(super) fn continuation(&self) -> Option<String> {
        let Self::Matches { results, .. } = self else { return None };
        results.continuation().map(|position| index_query::continuation_text(&position))
    }

    /// Ends a document after its list.
    fn close(&self, document: &mut Vec<u8>) {
        document.push(b']');
        if let Some(continuation) = self.continuation() {
            document.extend_from_slice(b",\"continuation\":\"");
            document.extend_from_slice(continuation.as_bytes());
            document.push(b'"');
        }
        document.push(b'}');
    }

    /// Answers with the fault of a list that could not be made.
    fn failed(&self, connection: &mut HttpConnection, fault: RequestError) -> Result<(), Refusal> {
        if let Self::Matches { .. } = self {
            return Err(fault.into());
        }
        reply(&mut connection.out, connection.form, 200)
            .content_type(JSON)
            .finish(&error_document(&fault));
        Ok(())
    }
}

/// True if a request for a bucket in the old URL form asks for keys.
pub(super) fn lists_keys(query: &[u8]) -> bool {
    Mode::of(uri::query_value(query, "keys").as_deref()).is_some()
}

impl HttpConnection {
    /// Lists the buckets of a bucket type.
    pub(super) async fn list_buckets(
        &mut self,
        bucket_type: &[u8],
        request: &Request,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let timeout_ms = timeout(query)?;
        let mode = Mode::of(uri::query_value(query, "buckets").as_deref());
        let jobs = &self.context.settings.jobs;
        let (allowed, job) = match mode {
            Some(Mode::Stream) => (jobs.stream_list_buckets, "stream_list_buckets"),
            _ => (jobs.list_buckets, "list_buckets"),
        };
        self.check_listing(request, allowed || mode.is_none(), job)?;
        let bucket = BucketRef { bucket_type, bucket: b"*" };
        self.check_type(bucket)?;
        let Some(mode) = mode else {
            self.write_json(&json!({"buckets": []}));
            return Ok(());
        };
        self.hold_pieces()?;
        let listing = Box::pin(self.context.store.listings().list_buckets(bucket_type));
        let listing = self.unless_disconnected(listing).await??;
        let deadline = Deadline::after_ms(timeout_ms.unwrap_or(BUCKETS_TIMEOUT_MS).into());
        self.write_listing(mode, Listing::Buckets(listing), deadline, None).await
    }

    /// Lists the keys of a bucket.
    pub(super) async fn list_keys(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        self.write_keys(request, bucket, query, None).await
    }

    /// Answers `/riak/B` with keys, properties or both.
    pub(super) async fn old_bucket(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let wants_props = uri::query_value(query, "props").as_deref() != Some(b"false");
        let wants_keys = Mode::of(uri::query_value(query, "keys").as_deref()).is_some();
        match (wants_keys, wants_props) {
            (false, false) => Err(Refusal::Page(404)),
            (false, true) => self.get_props(request, bucket),
            (true, wants_props) => {
                // A user may have a grant to list the keys but not to see the properties.
                let first = match wants_props && self.may_see_props(bucket) {
                    true => format!("{{\"props\":{}}}", module_first(&self.bucket_props(bucket)?)),
                    false => "{}".to_owned(),
                };
                self.write_keys(request, bucket, query, Some(first)).await
            }
        }
    }

    fn may_see_props(&mut self, bucket: &BucketName<'_>) -> bool {
        let permission = quoit_security::Permission::GetBucket;
        let need = RequiredPermission::of_bucket(permission, bucket.as_ref());
        self.session.check(self.context.store.control(), &need).is_ok()
    }

    async fn write_keys(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        query: &[u8],
        first: Option<String>,
    ) -> Result<(), Refusal> {
        let timeout_ms = timeout(query)?;
        let mode = Mode::of(uri::query_value(query, "keys").as_deref());
        let jobs = &self.context.settings.jobs;
        let (allowed, job) = match mode {
            Some(Mode::Stream) => (jobs.stream_list_keys, "stream_list_keys"),
            _ => (jobs.list_keys, "list_keys"),
        };
        self.check_listing(request, allowed || mode.is_none(), job)?;
        self.check_type(bucket.as_ref())?;
        let Some(mode) = mode else {
            self.write_json(&json!({}));
            return Ok(());
        };
        self.hold_pieces()?;
        let store = &self.context.store;
        let listing = match ordered_query(bucket, query)? {
            None => {
                let listing = Box::pin(store.listings().list_keys(bucket.as_ref()));
                match self.unless_disconnected(listing).await? {
                    Ok(listing) => Listing::Keys(Box::new(listing)),
                    // Riak detects this only after it has begun its answer.
                    Err(fault @ RequestError::InsufficientCoverage) => {
                        reply(&mut self.out, self.form, 200)
                            .content_type(JSON)
                            .finish(&error_document(&fault));
                        return Ok(());
                    }
                    Err(fault) => return Err(fault.into()),
                }
            }
            Some(query) => {
                let results = self
                    .unless_disconnected(Box::pin(store.listings().list_keys_in_order(query)))
                    .await??;
                Listing::Matches { results: Box::new(results), shows_terms: false }
            }
        };
        let default_ms = match mode {
            Mode::Whole => KEYS_TIMEOUT_MS,
            Mode::Stream => KEYS_STREAM_TIMEOUT_MS,
        };
        let deadline = Deadline::after_ms(timeout_ms.unwrap_or(default_ms).into());
        self.write_listing(mode, listing, deadline, first).await
    }

    fn check_listing(&self, request: &Request, allowed: bool, job: &str) -> Result<(), Refusal> {
        self.check_job(request, allowed, job, &[JSON])
    }

    /// Refuses requests of pages of other sites, operations that the operator has switched off, and clients
    /// that accept none of `media_types`.
    pub(super) fn check_job(
        &self,
        request: &Request,
        allowed: bool,
        job: &str,
        media_types: &[&[u8]],
    ) -> Result<(), Refusal> {
        self.check_origin(&request.head)?;
        if !allowed {
            let text = format!("Operation '{{riak_kv,{job}}}' is not enabled");
            return Err(Refusal::Text(403, text.into()));
        }
        if choose_media_type(request.head.get_list("accept").as_deref(), media_types).is_none() {
            return Err(Refusal::Page(406));
        }
        Ok(())
    }

    /// Refuses bucket types that do not exist or are not active, with the status of lists and properties.
    pub(super) fn check_type(&self, bucket: BucketRef<'_>) -> Result<(), Refusal> {
        let state = self.context.store.control().read();
        state.type_props(bucket.bucket_type).map(drop).map_err(|_| Refusal::Page(404))
    }

    /// Writes a JSON document as the answer.
    pub(crate) fn write_json(&mut self, document: &Value) {
        reply(&mut self.out, self.form, 200)
            .content_type(JSON)
            .finish(document.to_string().as_bytes());
    }

    async fn write_listing(
        &mut self,
        mode: Mode,
        mut listing: Listing,
        deadline: Deadline,
        first: Option<String>,
    ) -> Result<(), Refusal> {
        if self.form.head_only {
            // The answer to HEAD has no names.
            reply_in_pieces(&mut self.out, self.form, 200).header("Content-Type", JSON).stream();
            self.end_stream();
            return Ok(());
        }
        match mode {
            Mode::Stream => self.write_documents(&mut listing, deadline, first).await,
            Mode::Whole => self.write_document(&mut listing, deadline, first).await,
        }
    }

    /// Sends a document for each batch of names, and an empty one at the end.
    async fn write_documents(
        &mut self,
        listing: &mut Listing,
        deadline: Deadline,
        first: Option<String>,
    ) -> Result<(), Refusal> {
        reply_in_pieces(&mut self.out, self.form, 200).header("Content-Type", JSON).stream();
        if let Some(first) = first {
            append_chunk(&mut self.out, self.form, first.as_bytes());
        }
        loop {
            let mut document = Vec::new();
            open_list(&mut document, listing.member());
            let next = deadline.limit(listing.append_next(&mut document, true));
            let has_more = match self.unless_disconnected(Box::pin(next)).await? {
                Ok(true) => {
                    document.extend_from_slice(b"]}");
                    true
                }
                Ok(false) => {
                    listing.close(&mut document);
                    false
                }
                Err(fault) => {
                    document = error_document(&fault);
                    false
                }
            };
            if has_more {
                self.send_chunk(&document).await?;
            } else {
                append_chunk(&mut self.out, self.form, &document);
                self.end_stream();
                return Ok(());
            }
        }
    }

    /// Sends one document, in pieces if it is long. Once a piece is sent, a failure closes the connection, so
    /// that no client mistakes a partial list for the whole list.
    pub(super) async fn write_document(
        &mut self,
        listing: &mut Listing,
        deadline: Deadline,
        first: Option<String>,
    ) -> Result<(), Refusal> {
        let mut document = Vec::new();
        match first {
            Some(first) if first != "{}" => {
                document = first.into_bytes();
                document.pop();
                document.push(b',');
            }
            _ => document.push(b'{'),
        }
        open_member(&mut document, listing.member());
        let (mut is_first, mut streams) = (true, false);
        loop {
            let next = deadline.limit(listing.append_next(&mut document, is_first));
            match self.unless_disconnected(Box::pin(next)).await? {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) if streams => {
                    return Err(std::io::Error::other(fault.to_string()).into());
                }
                Err(fault) => return listing.failed(self, fault),
            }
            is_first = false;
            if document.len() >= HELD_BYTES_MAX {
                if !streams {
                    reply_in_pieces(&mut self.out, self.form, 200)
                        .header("Content-Type", JSON)
                        .stream();
                    streams = true;
                }
                self.send_chunk(&document).await?;
                document.clear();
            }
        }
        listing.close(&mut document);
        if streams {
            append_chunk(&mut self.out, self.form, &document);
            self.end_stream();
        } else {
            reply(&mut self.out, self.form, 200).content_type(JSON).finish(&document);
        }
        Ok(())
    }
}

fn timeout(query: &[u8]) -> Result<Option<u32>, Refusal> {
    let value = uri::query_value(query, "timeout");
    value.map(|text| parse_timeout(&text)).transpose().map_err(Refusal::bad)
}

/// Parses the parameters of a listing, for fuzzing. Returns for any input.
pub(super) fn fuzz(bucket: &BucketName<'_>, parameters: &[u8]) {
    let _ = ordered_query(bucket, parameters);
}

/// The query for keys in order, if the request has a prefix, a range or a page size; `None` otherwise.
fn ordered_query(bucket: &BucketName<'_>, query: &[u8]) -> Result<Option<IndexQuery>, Refusal> {
    let value = |name| uri::query_value(query, name).map(|text| Bytes::copy_from_slice(&text));
    let (prefix, start, end) = (value("prefix"), value("start"), value("end"));
    let (page, continuation) = (value("max_results"), value("continuation"));
    if [&prefix, &start, &end, &page, &continuation].into_iter().all(Option::is_none) {
        return Ok(None);
    }
    let start = KeyBounds { from: start.unwrap_or_default(), end: None };
    let end = end.map_or(KeyBounds::ALL, |end| KeyBounds::between(Bytes::new(), &end));
    let bounds = prefix.map_or(KeyBounds::ALL, KeyBounds::of_prefix).and(start).and(end);
    let mut query = IndexQuery::new(bucket.as_ref(), IndexSelection::Keys(bounds));
    query.sorted = true;
    query.max_results = page.map(|text| index::max_results(&text)).transpose()?;
    if let Some(continuation) = continuation {
        index_query::continue_after(&mut query, &continuation)?;
    }
    Ok(Some(query))
}

pub(super) fn open_list(document: &mut Vec<u8>, member: &str) {
    document.push(b'{');
    open_member(document, member);
}

fn open_member(document: &mut Vec<u8>, member: &str) {
    document.push(b'"');
    document.extend_from_slice(member.as_bytes());
    document.extend_from_slice(b"\":[");
}

/// Appends names as JSON strings. Bytes that are not UTF-8 become replacement characters.
fn append_names(document: &mut Vec<u8>, names: &[Bytes], is_first: bool) {
    for (place, name) in names.iter().enumerate() {
        if place > 0 || !is_first {
            document.push(b',');
        }
        // Writing to a vector does not fail.
        let _ = serde_json::to_writer(&mut *document, &String::from_utf8_lossy(name));
    }
}

/// Appends each match as an object with one member: its term and its key.
fn append_pairs(document: &mut Vec<u8>, matches: &[IndexMatch], is_first: bool) {
    for (place, IndexMatch { term, key }) in matches.iter().enumerate() {
        if place > 0 || !is_first {
            document.push(b',');
        }
        let term = term.as_ref().map(term_text).unwrap_or_default();
        document.push(b'{');
        let _ = serde_json::to_writer(&mut *document, &String::from_utf8_lossy(&term));
        document.push(b':');
        let _ = serde_json::to_writer(&mut *document, &String::from_utf8_lossy(key));
        document.push(b'}');
    }
}

pub(super) fn error_document(fault: &RequestError) -> Vec<u8> {
    let word = crate::erlang_text::request_error(fault);
    json!({"error": word}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_json_texts() {
        let names = [Bytes::from_static(b"a\"b"), Bytes::from_static(b"\xff\xfe")];
        let mut document = Vec::new();
        open_list(&mut document, "keys");
        append_names(&mut document, &names, true);
        append_names(&mut document, &[Bytes::from_static("к".as_bytes())], false);
        document.extend_from_slice(b"]}");
        let parsed: Value = serde_json::from_slice(&document).expect("JSON");
        assert_eq!(parsed, json!({"keys": ["a\"b", "\u{fffd}\u{fffd}", "к"]}));
    }

    #[test]
    fn matches_become_objects_of_a_term_and_a_key() {
        let found = |term: i128, key| IndexMatch {
            term: Some(quoit_model::object::IndexTerm::integer(term)),
            key: Bytes::from_static(key),
        };
        let mut document = b"[".to_vec();
        append_pairs(&mut document, &[found(-3, b"k"), found(5, b"a\"b")], true);
        append_pairs(&mut document, &[found(5, b"c")], false);
        document.push(b']');
        let parsed: Value = serde_json::from_slice(&document).expect("JSON");
        assert_eq!(parsed, json!([{"-3": "k"}, {"5": "a\"b"}, {"5": "c"}]));
    }

    #[test]
    fn a_timeout_has_the_word_that_clients_know() {
        assert_eq!(error_document(&RequestError::Timeout), b"{\"error\":\"timeout\"}");
    }
}
