//! A resource whose routes, methods and checks are here, and whose engine is not: index queries.

use super::connection::{Connection, Request};
use super::refusal::Refusal;
use super::route::{BucketName, Name};
use quoit_core::RequestError;

/// A feature that this version does not have.
fn not_served(what: &str) -> Refusal {
    let text = format!("{what} are not served by this version of the server.\n");
    Refusal::Text(501, text.into())
}

impl Connection {
    /// `/buckets/B/index/F/...`.
    pub(super) fn index_query(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        names: &[Name<'_>],
    ) -> Result<(), Refusal> {
        if !(2..=3).contains(&names.len()) {
            return Err(Refusal::bad("An index query names a field and one term or two.\n"));
        }
        self.check_origin(&request.head)?;
        let state = self.context.store.control().read();
        if state.bucket_props(bucket.as_ref()).is_err() {
            return Err(RequestError::NoSuchType(bucket.bucket_type.to_vec()).into());
        }
        Err(not_served("Index queries"))
    }
}
