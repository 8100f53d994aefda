//! Properties of a request that follow from its resource and are needed before it is answered.

use super::connection::Request;
use super::refusal::Refusal;
use super::route::{PathSegment, Route};
use crate::turn::Weight;
use base64::Engine as _;
use md5::{Digest, Md5};

/// The weight of a request in a connection's turn.
pub(super) const fn weight_of(route: &Route<'_>) -> Weight {
    match route {
        Route::Object(_) | Route::Ping | Route::Livez | Route::Readyz | Route::Preflist(_) => {
            Weight::Plain
        }
        Route::Root
        | Route::Props(_)
        | Route::TypeProps(_)
        | Route::Datatype(..)
        | Route::Search
        | Route::Queue(_)
        | Route::Membership
        | Route::Counter(_) => Weight::General,
        Route::Keys(_)
        | Route::OldBucket(_)
        | Route::Buckets(_)
        | Route::Walk(..)
        | Route::Index(..)
        | Route::Changes(_)
        | Route::Mapred
        | Route::Stats
        | Route::Metrics
        | Route::Fold(_)
        | Route::Admin(_) => Weight::Heavy,
    }
}

/// True if the resource parses bodies as JSON documents.
pub(super) fn takes_documents(route: &Route<'_>) -> bool {
    match route {
        Route::Mapred
        | Route::Datatype(..)
        | Route::Props(_)
        | Route::TypeProps(_)
        | Route::OldBucket(_)
        | Route::Queue(_) => true,
        Route::Admin(parts) => !takes_records(parts),
        _ => false,
    }
}

/// True if a path below `/admin` takes records. They are read in place from the body, without parsing a
/// document.
fn takes_records(parts: &[PathSegment<'_>]) -> bool {
    let [_, import, what] = parts else { return false };
    matches!((&**import, &**what), (b"import", b"objects" | b"check"))
}

/// True if the answer includes all figures of the node, which takes a thread about a millisecond or more.
pub(super) fn shows_all_statistics(route: &Route<'_>) -> bool {
    match route {
        Route::Stats | Route::Metrics => true,
        Route::Admin(parts) => {
            matches!(parts.get(1).map(|part| &**part), Some(b"status" | b"stat" | b"overview"))
        }
        _ => false,
    }
}

/// Refuses a body that does not match its `Content-MD5`.
pub(super) fn check_md5(request: &Request) -> Result<(), Refusal> {
    let Some(sent) = request.head.get("content-md5") else { return Ok(()) };
    let sent = base64::engine::general_purpose::STANDARD.decode(sent.trim_ascii());
    let digest = Md5::digest(&request.body);
    if sent.is_ok_and(|sent| sent == digest.as_slice()) {
        return Ok(());
    }
    let expected = base64::engine::general_purpose::STANDARD.encode(digest);
    Err(Refusal::bad(format!(
        "Content-MD5 is not that of the body, which is {expected}: \
         the body was damaged on its way\n"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::route::route;

    #[test]
    fn batches_of_records_are_no_documents() {
        let takes =
            |path: &str| takes_documents(&route(path.as_bytes(), true).expect("a resource"));
        assert!(!takes("/admin/v1/import/objects"));
        assert!(!takes("/admin/v1/import/check"));
        assert!(takes("/admin/v1/import/digest"));
        assert!(takes("/admin/v1/bucket-types/t"));
        assert!(takes("/mapred"));
        assert!(!takes("/types/t/buckets/b/keys/k"));
    }
}
