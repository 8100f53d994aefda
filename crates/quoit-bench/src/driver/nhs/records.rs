//! Operations on records, which are updated and read again and again.

use bytes::Bytes;
use quoit_client::wire::messages::{RpbContent, RpbPair};

use super::keys::pick;
use super::plan::NhsPlan;
use super::{Nhs, not_found};
use crate::driver::Inputs;
use crate::driver::http_link::{Method, SEGMENT, append_to_path, check_status};
use crate::driver::indexes::{self, DateForm};
use crate::driver::pb_link::kept_metadata;
use crate::http::HttpRequest;
use crate::term::Term;

impl Nhs {
    fn record_key(&self, plan: &NhsPlan, number: u64) -> Bytes {
        self.identity.key(number, plan.records.order).into()
    }

    pub(super) async fn get_record(
        &mut self,
        plan: &NhsPlan,
        inputs: &mut Inputs,
    ) -> Result<(), Term> {
        let number = pick(inputs.random(), self.record_count);
        let key = self.record_key(plan, number);
        let answer = self.get(plan, &plan.record_bucket.name, key.clone()).await?;
        if answer.content.is_empty() { Err(not_found(&key)) } else { Ok(()) }
    }

    pub(super) async fn get_record_by_http(
        &mut self,
        plan: &NhsPlan,
        inputs: &mut Inputs,
    ) -> Result<(), Term> {
        let number = pick(inputs.random(), self.record_count);
        let mut head = b"GET /buckets/".to_vec();
        append_to_path(&mut head, &plan.record_bucket.name, SEGMENT);
        head.extend_from_slice(b"/keys/");
        head.extend_from_slice(&self.record_key(plan, number));
        self.request(plan, head, "", &[200]).await
    }

    /// Reads a key over HTTP and makes the server compare its hash trees. A missing key is not an error.
    pub(super) async fn force_exchange(&mut self, plan: &NhsPlan, key: &[u8]) -> Result<(), Term> {
        let mut head = b"GET /buckets/".to_vec();
        append_to_path(&mut head, &plan.record_bucket.name, SEGMENT);
        head.extend_from_slice(b"/keys/");
        append_to_path(&mut head, key, SEGMENT);
        self.request(plan, head, "?force_aae=true", &[200, 404]).await
    }

    /// Queries an index of the records. Any result is a success.
    pub(super) async fn query(&mut self, plan: &NhsPlan, query: &str) -> Result<(), Term> {
        let mut head = b"GET /buckets/".to_vec();
        append_to_path(&mut head, &plan.record_bucket.name, SEGMENT);
        self.request(plan, head, &format!("/index/{query}"), &[200]).await
    }

    /// Sends a request. `head` is its beginning and `rest` the remainder of its path. Checks the status.
    async fn request(
        &mut self,
        plan: &NhsPlan,
        mut head: Vec<u8>,
        rest: &str,
        wanted: &[u16],
    ) -> Result<(), Term> {
        let end = format!("{rest} HTTP/1.1\r\nHost: {}\r\n\r\n", self.http_target);
        head.extend_from_slice(end.as_bytes());
        let (target, timeout) = (&self.http_target, plan.http_timeout);
        let request = HttpRequest { head: &head, body: &[] };
        let response = self.http.request(target, timeout, Method::Get, request).await?;
        check_status(response.status, wanted)
    }

    /// Adds a record or updates an existing one. The more records exist, the more likely is an update.
    pub(super) async fn update_record(
        &mut self,
        plan: &NhsPlan,
        inputs: &mut Inputs,
        value: Bytes,
        with_indexes: bool,
    ) -> Result<(), Term> {
        let bucket = &plan.record_bucket.name;
        if inputs.random().uniform(plan.records.count_max) > self.record_count {
            let key = self.record_key(plan, self.record_count + 1);
            let indexes = indexes_if(with_indexes, plan, inputs).unwrap_or_default();
            let content = RpbContent { value, indexes, ..RpbContent::default() };
            self.put(plan, bucket, key, None, content).await?;
            self.record_count += 1;
            return Ok(());
        }
        let number = pick(inputs.random(), self.record_count);
        let key = self.record_key(plan, number);
        let answer = self.get(plan, bucket, key.clone()).await?;
        let Some(first) = answer.content.into_iter().next() else { return Err(not_found(&key)) };
        let mut content = RpbContent { value, ..kept_metadata(first) };
        if let Some(indexes) = indexes_if(with_indexes, plan, inputs) {
            content.indexes = indexes;
        }
        self.put(plan, bucket, key, answer.vclock, content).await
    }

    pub(super) async fn update_generated(
        &mut self,
        plan: &NhsPlan,
        key: Bytes,
        inputs: &mut Inputs,
        value: Bytes,
    ) -> Result<(), Term> {
        let bucket = &plan.record_bucket.name;
        let answer = self.get(plan, bucket, key.clone()).await?;
        let kept = answer.content.into_iter().next().map(kept_metadata).unwrap_or_default();
        let indexes =
            indexes::all_entries(inputs.random(), plan.postcode_count_max, DateForm::Digits);
        let content = RpbContent { value, indexes, ..kept };
        self.put(plan, bucket, key, answer.vclock, content).await
    }
}

fn indexes_if(with_indexes: bool, plan: &NhsPlan, inputs: &mut Inputs) -> Option<Vec<RpbPair>> {
    with_indexes
        .then(|| indexes::all_entries(inputs.random(), plan.postcode_count_max, DateForm::Digits))
}
