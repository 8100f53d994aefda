//! Queries of secondary indexes.

use super::connection::{HttpConnection, Request};
use super::listing::{Listing, error_document, open_list};
use super::params::erlang_string;
use super::refusal::Refusal;
use super::render::{append_boundary, boundary};
use super::response::{JSON, MULTIPART, reply_in_pieces};
use super::route::{BucketName, PathSegment};
use super::uri;
use crate::index_query::{self, QueryFault, Terms};
use bytes::Bytes;
use quoit_core::{Deadline, IndexQuery, RequestError};

impl From<QueryFault> for Refusal {
    fn from(fault: QueryFault) -> Self {
        Self::bad(match fault {
            QueryFault::Entry(fault) => {
                format!("Invalid query: {}\n", crate::erlang_text::index_fault(&fault))
            }
            QueryFault::PatternOfIntegers => {
                "Can not use term regular expressions on integer queries".into()
            }
            QueryFault::Pattern { text, reason, at } => {
                let (text, reason) = (erlang_string(&text), erlang_string(reason.as_bytes()));
                format!("Invalid term regular expression {text} : {{{reason},{at}}}")
            }
            QueryFault::Continuation(sent) => {
                let sent = crate::erlang_text::binary(&sent);
                format!("Invalid query: {{invalid_continuation,{sent}}}\n")
            }
        })
    }
}

/// A query and the form of its answer.
#[derive(Debug)]
struct IndexRequest {
    query: IndexQuery,
    shows_terms: bool,
    is_stream: bool,
    /// `None` = the timeout of the node's settings.
    timeout_ms: Option<u64>,
}

impl HttpConnection {
    /// `/buckets/B/index/F/...`.
    pub(super) async fn index_query(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        names: &[PathSegment<'_>],
        parameters: &[u8],
    ) -> Result<(), Refusal> {
        let IndexRequest { query, shows_terms, is_stream, timeout_ms } =
            asked(bucket, names, parameters)?;
        let jobs = &self.context.settings.jobs;
        // A stream consists of parts in JSON, so clients that accept multipart or JSON get it.
        let (allowed, job, media_types) = if is_stream {
            (jobs.stream_secondary_index, "stream_secondary_index", &[MULTIPART, JSON][..])
        } else {
            (jobs.secondary_index, "secondary_index", &[JSON][..])
        };
        self.check_job(request, allowed, job, media_types)?;
        let default_ms = self.context.settings.index_timeout_ms;
        let deadline = Deadline::after_ms(timeout_ms.unwrap_or(default_ms));
        self.hold_pieces()?;
        let results = deadline.limit(self.context.store.listings().query_index(query));
        let results = self.unless_disconnected(Box::pin(results)).await??;
        let mut matches = Listing::Matches { results: Box::new(results), shows_terms };
        if self.form.head_only {
            // The answer to HEAD has no matches.
            reply_in_pieces(&mut self.out, self.form, 200)
                .header("Content-Type", if is_stream { MULTIPART } else { JSON })
                .stream();
            self.end_stream();
            return Ok(());
        }
        if is_stream {
            self.write_parts(matches, deadline).await
        } else {
            self.write_document(&mut matches, deadline, None).await
        }
    }

    /// Sends a part for each batch of matches, and one with the continuation at the end.
    async fn write_parts(
        &mut self,
        mut matches: Listing,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        let boundary = boundary();
        let media_type = format!("multipart/mixed;boundary={boundary}");
        reply_in_pieces(&mut self.out, self.form, 200)
            .header("Content-Type", media_type.as_bytes())
            .stream();
        loop {
            let mut document = Vec::new();
            open_list(&mut document, matches.member());
            let next = deadline.limit(matches.append_next(&mut document, true));
            let has_more = match self.unless_disconnected(Box::pin(next)).await? {
                Ok(has_more) => has_more,
                Err(fault) => {
                    self.send_part(&boundary, &error_document(&fault)).await?;
                    break;
                }
            };
            if !has_more {
                if let Some(continuation) = matches.continuation() {
                    let document = format!("{{\"continuation\":\"{continuation}\"}}");
                    self.send_part(&boundary, document.as_bytes()).await?;
                }
                break;
            }
            document.extend_from_slice(b"]}");
            self.send_part(&boundary, &document).await?;
        }
        let mut end = Vec::new();
        append_boundary(&mut end, &boundary, true);
        super::response::append_chunk(&mut self.out, self.form, &end);
        self.end_stream();
        Ok(())
    }

    async fn send_part(&mut self, boundary: &str, document: &[u8]) -> Result<(), Refusal> {
        let mut part = Vec::with_capacity(document.len() + 100);
        append_boundary(&mut part, boundary, false);
        part.extend_from_slice(b"Content-Type: application/json\r\n\r\n");
        part.extend_from_slice(document);
        Ok(self.send_chunk(&part).await?)
    }
}

fn asked(
    bucket: &BucketName<'_>,
    names: &[PathSegment<'_>],
    parameters: &[u8],
) -> Result<IndexRequest, Refusal> {
    let bytes = |name: &PathSegment<'_>| Bytes::copy_from_slice(name);
    let (field, terms) = match names {
        [field, term] => (bytes(field), Terms::One(bytes(term))),
        [field, first, last] => (bytes(field), Terms::Range(bytes(first), bytes(last))),
        _ => {
            let text = "An index query names a field and one term, or the first and the last.\n";
            return Err(Refusal::bad(text));
        }
    };
    let is_range = matches!(terms, Terms::Range(..));
    let selection = index_query::selection(&field, terms).map_err(QueryFault::Entry)?;
    let has_terms = index_query::has_terms(&selection, is_range);
    let bucket = bucket.as_ref();
    bucket.key(b"*").check().map_err(RequestError::from)?;
    let mut query = IndexQuery::new(bucket, selection);
    let value = |name| uri::query_value(parameters, name);
    if let Some(pattern) = value("term_regex") {
        index_query::set_pattern(&mut query, &pattern)?;
    }
    query.max_results = value("max_results").map(|text| max_results(&text)).transpose()?;
    query.sorted = boolean(parameters, "pagination_sort")?;
    let shows_terms = boolean(parameters, "return_terms")? && has_terms;
    let timeout_ms = value("timeout").map(|text| timeout_ms(&text)).transpose()?;
    if let Some(continuation) = value("continuation") {
        index_query::continue_after(&mut query, &continuation)?;
    }
    let is_stream = value("stream").as_deref() == Some(b"true");
    Ok(IndexRequest { query, shows_terms, is_stream, timeout_ms })
}

/// Parses a query, for fuzzing. Returns for any input.
pub(super) fn fuzz(bucket: &BucketName<'_>, names: &[PathSegment<'_>], parameters: &[u8]) {
    let _ = asked(bucket, names, parameters);
}

/// A page size.
pub(super) fn max_results(text: &[u8]) -> Result<u32, Refusal> {
    match number(text) {
        Some(number) if number > 0 => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        _ => {
            let text = erlang_string(text);
            Err(Refusal::bad(format!("Invalid \"max_results\". {text} is not a positive integer")))
        }
    }
}

fn timeout_ms(text: &[u8]) -> Result<u64, Refusal> {
    number(text).ok_or_else(|| {
        let text = erlang_string(text);
        Refusal::bad(format!("Bad timeout value {text}. Must be a non-negative integer\n"))
    })
}

/// Parses a number without a sign. A number that does not fit saturates at `u32::MAX`.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number = || std::str::from_utf8(text).ok()?.parse().ok();
    is_number.then(|| number().unwrap_or(u64::from(u32::MAX)))
}

/// Parses a flag, in any case.
fn boolean(parameters: &[u8], name: &str) -> Result<bool, Refusal> {
    match uri::query_value(parameters, name).as_deref() {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case(b"false") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case(b"true") => Ok(true),
        Some(text) => {
            let text = erlang_string(text);
            Err(Refusal::bad(format!("Invalid \"{name}\". {text} is not a boolean")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::route::UrlForm;
    use super::*;

    fn of(names: &[&'static str], parameters: &str) -> Result<IndexRequest, Refusal> {
        let bucket = BucketName {
            bucket_type: PathSegment::Borrowed(b"default"),
            bucket: PathSegment::Borrowed(b"b"),
            form: UrlForm::Untyped,
        };
        let names: Vec<PathSegment<'_>> = names.iter().map(|name| name.as_bytes().into()).collect();
        asked(&bucket, &names, parameters.as_bytes())
    }

    fn refused(names: &[&'static str], parameters: &str) -> String {
        match of(names, parameters) {
            Err(Refusal::Text(400, text)) => text.into_owned(),
            other => panic!("not refused with a text: {other:?}"),
        }
    }

    #[test]
    fn faults_have_the_words_that_clients_know() {
        let range = ["c_bin", "a", "z"];
        for (names, parameters, words) in [
            (&["f", "x"][..], "", "Invalid query: {unknown_field_type,<<\"f\">>}\n"),
            (
                &["f_int", "x"],
                "",
                "Invalid query: {field_parsing_failed,{<<\"f_int\">>,<<\"x\">>}}\n",
            ),
            (&range, "max_results=x", "Invalid \"max_results\". \"x\" is not a positive integer"),
            (&range, "max_results=0", "Invalid \"max_results\". \"0\" is not a positive integer"),
            (&range, "return_terms=x", "Invalid \"return_terms\". \"x\" is not a boolean"),
            (&range, "pagination_sort=", "Invalid \"pagination_sort\". [] is not a boolean"),
            (&range, "timeout=-1", "Bad timeout value \"-1\". Must be a non-negative integer\n"),
            (
                &["n_int", "1"],
                "term_regex=1",
                "Can not use term regular expressions on integer queries",
            ),
            (
                &range,
                "term_regex=%5B",
                "Invalid term regular expression \"[\" : {\"unclosed character class\",0}",
            ),
            (&range, "continuation=x", "Invalid query: {invalid_continuation,<<\"x\">>}\n"),
        ] {
            assert_eq!(refused(names, parameters), words, "{names:?} {parameters}");
        }
        assert!(refused(&["c_bin"], "").contains("one term"));
    }

    #[test]
    fn a_query_without_a_timeout_has_that_of_the_node() {
        let timeout_ms = |parameters| of(&["c_bin", "a"], parameters).expect("a query").timeout_ms;
        assert_eq!(timeout_ms(""), None);
        assert_eq!(timeout_ms("timeout=0"), Some(0));
        assert_eq!(timeout_ms("timeout=250"), Some(250));
    }

    #[test]
    fn flags_have_letters_of_any_case() {
        let asked = |parameters| of(&["c_bin", "a", "z"], parameters).expect("a query");
        assert!(asked("return_terms=True").shows_terms && !asked("return_terms=FALSE").shows_terms);
        assert!(asked("pagination_sort=TRUE").query.sorted);
    }

    #[test]
    fn terms_are_shown_of_ranges_of_fields_only() {
        let shows =
            |names: &[&'static str]| of(names, "return_terms=true").expect("a query").shows_terms;
        assert!(shows(&["c_bin", "a", "z"]) && shows(&["n_int", "1", "2"]));
        assert!(
            !shows(&["c_bin", "a"]) && !shows(&["$key", "a", "z"]) && !shows(&["$bucket", "_"])
        );
    }
}
