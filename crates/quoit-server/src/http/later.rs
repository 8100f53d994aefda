//! Resources whose routes, methods and checks are here, and whose engines are not: index queries,
//! data types, counters.

use super::connection::{Connection, Request};
use super::head::Method;
use super::params::ObjectParams;
use super::refusal::{Refusal, n_val_text};
use super::response::{TEXT, reply};
use super::route::{BucketName, Name};
use super::uri;
use quoit_core::RequestError;
use quoit_model::key::DEFAULT_BUCKET_TYPE;

/// A feature that this version does not have.
fn not_served(what: &str) -> Refusal {
    let text = format!("{what} are not served by this version of the server.\n");
    Refusal::Text(501, text.into())
}

impl Connection {
    /// `/types/T/buckets/B/datatypes/K`.
    pub(super) fn datatype(
        &mut self,
        request: &Request,
        method: Method,
        bucket: &BucketName<'_>,
        key: Option<Name<'_>>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let writes = method == Method::Post;
        let params = ObjectParams::parse(query).map_err(Refusal::bad)?;
        self.check_origin(&request.head)?;
        if let (DEFAULT_BUCKET_TYPE, Some(key)) = (&*bucket.bucket_type, &key) {
            self.point_to_counter(&bucket.bucket, key);
            return Ok(());
        }
        let state = self.context.store.control().read();
        let Ok(props) = state.bucket_props(bucket.as_ref()) else {
            let name = String::from_utf8_lossy(&bucket.bucket_type);
            return Err(Refusal::Text(404, format!("Unknown bucket type: {name}\n").into()));
        };
        if !props.allow_mult {
            return Err(Refusal::Text(403, "Bucket must be allow_mult=true\n".into()));
        }
        if props.datatype.is_none() {
            let text = "Bucket datatype 'undefined' is not a supported type.\n";
            return Err(Refusal::Text(403, text.into()));
        }
        let checked = if writes {
            props.write_quorums(&params.write_params()).map(drop)
        } else {
            props.read_quorums(&params.read_params()).map(drop)
        };
        checked.map_err(|fault| Refusal::bad(n_val_text(fault.n_val)))?;
        if writes && !super::props::is_json(request) {
            return Err(Refusal::Page(406));
        }
        Err(not_served("Data types"))
    }

    fn point_to_counter(&mut self, bucket: &[u8], key: &[u8]) {
        reply(&mut self.out, self.form, 301)
            .lines(|out| {
                out.extend_from_slice(b"Location: /buckets/");
                uri::encode_into(out, bucket);
                out.extend_from_slice(b"/counters/");
                uri::encode_into(out, key);
                out.extend_from_slice(b"\r\n");
            })
            .body(TEXT, b"Counters in the default bucket-type should use the legacy URL\n");
    }

    /// `/buckets/B/counters/K`.
    pub(super) fn counter(&mut self, request: &Request, query: &[u8]) -> Result<(), Refusal> {
        ObjectParams::parse(query).map_err(Refusal::bad)?;
        let amount = std::str::from_utf8(&request.body).ok().map(|text| text.parse::<i128>());
        if request.head.method == Some(Method::Post) && !matches!(amount, Some(Ok(_))) {
            return Err(Refusal::Page(400));
        }
        self.check_origin(&request.head)?;
        Err(not_served("Counters"))
    }

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
