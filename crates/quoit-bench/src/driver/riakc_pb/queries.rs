//! Requests that read many objects or keys.

use bytes::Bytes;
use quoit_client::wire::messages::{
    IndexQueryType, RpbIndexBodyResp, RpbIndexReq, RpbIndexResp, RpbListKeysReq, RpbListKeysResp,
};

use super::drawn_indexes::DrawnQuery;
use super::{PbAttemptError, PbPlan, RiakcPb};
use crate::driver::indexes::TermRange;

/// The index of keys.
const KEY_INDEX: &[u8] = b"$key";

/// A term above every key that is text.
const LAST_KEY: &[u8] = &[0xff];

impl RiakcPb {
    /// Queries a range of an index and returns its terms. Any result is a success.
    pub(super) async fn query(
        &mut self,
        plan: &PbPlan,
        range: TermRange,
    ) -> Result<(), PbAttemptError> {
        let TermRange { field, first, last } = range;
        let request = RpbIndexReq {
            index: Bytes::from_static(field.as_bytes()),
            range_min: Some(first.into()),
            range_max: Some(last.into()),
            return_terms: Some(true),
            ..range_of(plan)
        };
        let RpbIndexResp { .. } = self.links.link().call(&request, plan.timeout_read).await?;
        Ok(())
    }

    /// Queries a range of one of the configuration's indexes, without its terms. Any result is a success.
    pub(super) async fn query_drawn(
        &mut self,
        plan: &PbPlan,
        query: DrawnQuery,
    ) -> Result<(), PbAttemptError> {
        let request = RpbIndexReq {
            index: query.field,
            range_min: Some(query.first),
            range_max: Some(query.last),
            ..range_of(plan)
        };
        let RpbIndexResp { .. } = self.links.link().call(&request, plan.timeout_read).await?;
        Ok(())
    }

    /// Reads up to `count` objects in key order, starting at `from`. Any result is a success.
    pub(super) async fn scan(
        &mut self,
        plan: &PbPlan,
        from: Bytes,
        count: u64,
    ) -> Result<(), PbAttemptError> {
        let request = RpbIndexReq {
            index: Bytes::from_static(KEY_INDEX),
            range_min: Some(from),
            range_max: Some(Bytes::from_static(LAST_KEY)),
            // `count` is at most a 32-bit number, so this is never `None`.
            max_results: u32::try_from(count).ok(),
            return_body: Some(true),
            ..range_of(plan)
        };
        let RpbIndexBodyResp { .. } = self.links.link().call(&request, plan.timeout_read).await?;
        Ok(())
    }

    /// Lists all keys of the bucket and discards them.
    pub(super) async fn list_keys(&mut self, plan: &PbPlan) -> Result<(), PbAttemptError> {
        let request = RpbListKeysReq {
            bucket: plan.bucket.clone(),
            bucket_type: plan.bucket_type.clone(),
            timeout: u32::try_from(plan.timeout_listkeys.as_millis()).ok(),
        };
        let is_last = |part: RpbListKeysResp| part.done == Some(true);
        let listed = self.links.link().call_in_parts(&request, plan.timeout_listkeys, is_last);
        Ok(listed.await?)
    }
}

/// A range query of the bucket. The caller fills in the index and the range.
fn range_of(plan: &PbPlan) -> RpbIndexReq {
    RpbIndexReq {
        bucket: plan.bucket.clone(),
        bucket_type: plan.bucket_type.clone(),
        qtype: IndexQueryType::Range as i32,
        ..RpbIndexReq::default()
    }
}
