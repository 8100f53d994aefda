//! The HTTP interface: it decodes a request, makes one call of the store, and encodes the answer.
//!
//! The connection loop does not use an HTTP library: requests are answered on the thread that parsed them,
//! header names and values stay in the received bytes, and answers are written directly into the
//! connection's buffer. A connection is a task. It answers all complete requests that have arrived, in
//! order, and writes the answers together.
//!
//! | file | contents |
//! | --- | --- |
//! | `admission`, `required_access` | identity and permissions of clients |
//! | `connection`, `input`, `head`, `chunked` | requests as they arrive |
//! | `uri`, `route`, `params`, `negotiate`, `conditions`, `links`, `csrf` | meaning of a request |
//! | `response`, `refusal`, `render` | form of answers |
//! | `object_*`, `datatype`, `walk`, `listing`, `index`, `props`, `mapred*` | resources of data |
//! | `folds`, `fold_*`, `queues` | replication with nodes of Riak, and the folds that they use |
//! | `server`, `stats`, `metrics` | resources of the node |

mod admission;
mod changes;
mod chunked;
mod conditions;
mod connection;
mod csrf;
mod data_type_figures;
mod datatype;
mod datatype_query;
mod dispatch;
mod fold_json;
mod fold_route;
mod folds;
mod head;
mod index;
mod input;
mod internode_figures;
mod link_figures;
mod links;
mod listing;
mod mapred;
mod metrics;
mod negotiate;
mod object_read;
mod object_write;
mod params;
mod props;
mod queues;
mod refusal;
mod render;
mod replication_figures;
mod request_properties;
mod required_access;
mod response;
mod ring_figures;
mod route;
#[cfg(test)]
mod route_table;
mod security_figures;
mod server;
mod stats;
mod uri;
mod walk;

pub use connection::serve;

pub(crate) use connection::{HttpConnection, Request};
pub(crate) use csrf::check_no_page;
pub(crate) use head::Method;
pub(crate) use props::is_json;
pub(crate) use refusal::Refusal;
pub(crate) use route::PathSegment;
pub(crate) use stats::statistics;
pub(crate) use uri::query_value;

/// Largest body that [`fuzz_request`] reads, in bytes.
const FUZZ_BODY_BYTES_MAX: usize = 1 << 20;

/// Parses a request and finds its resource, without a store, for fuzzing. Returns for any input.
pub fn fuzz_request(bytes: &[u8]) {
    datatype::fuzz(bytes);
    let _ = queues::parse_pushed(bytes);
    let mut input = bytes::BytesMut::from(bytes);
    while let Ok(Some(head)) = head::take_head(&mut input) {
        let _ = (head.keeps_alive(), head.expects_continue());
        match head.framing(FUZZ_BODY_BYTES_MAX) {
            Ok(head::BodyFraming::Length(size)) => drop(input.split_to(size.min(input.len()))),
            Ok(head::BodyFraming::Chunked) => {
                let body = chunked::ChunkedBody::new(FUZZ_BODY_BYTES_MAX).take(&mut input);
                if !matches!(body, Ok(Some(_))) {
                    return;
                }
            }
            Err(_) => return,
        }
        fuzz_meaning(&head);
    }
}

fn fuzz_meaning(head: &head::Head) {
    let (path, query) = uri::split_target(head.target());
    let _ = params::ObjectParams::parse(query);
    let conditions = conditions::ReadConditions::of(head);
    let times = conditions::ReadTimes { last_modified_secs: 1, now_secs: 2 };
    let _ = conditions.verdict(b"tag", times);
    let _ = conditions::write_precondition(head);
    let _ = csrf::check(head, true, csrf::Scheme::Http);
    let _ = object_write::metadata(head, route::UrlForm::Untyped, b"bucket", 0);
    if let Some(route) = route::route(path, true) {
        let _ = route.methods();
        match &route {
            route::Route::Walk(_, steps) => drop(walk::parse_steps(steps)),
            route::Route::Changes(bucket) => changes::fuzz(bucket, query),
            route::Route::Index(bucket, names) => index::fuzz(bucket, names, query),
            route::Route::Keys(bucket) => listing::fuzz(bucket, query),
            route::Route::Fold(_) => folds::fuzz(query),
            _ => {}
        }
    }
    let accept = head.get_list("accept");
    let _ = negotiate::choose_media_type(accept.as_deref(), &[b"text/plain", b"multipart/mixed"]);
    let _ = negotiate::accepts_charset(head.get_list("accept-charset").as_deref(), b"utf-8");
}
