//! Requests that read many objects or keys.

use bytes::Bytes;
use quoit_client::wire::messages::{
    IndexQueryType, RpbIndexBodyResp, RpbIndexReq, RpbIndexResp, RpbListKeysReq, RpbListKeysResp,
};

use super::drawn_indexes::DrawnQuery;
use super::{PbObstacle, PbPlan, RiakcPb};
use crate::driver::indexes::TermRange;

/// The index of keys.
const KEY_INDEX: &[u8] = b"$key";

/// Above every key of text.
const LAST_KEY: &[u8] = &[0xff];

impl RiakcPb {
    /// Asks an index for a range with its terms; whatever it finds is well.
    pub(super) async fn query(
        &mut self,
        plan: &PbPlan,
        range: TermRange,
    ) -> Result<(), PbObstacle> {
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

    /// Asks an index of the configuration for a range, without its terms; whatever it finds is well.
    pub(super) async fn query_drawn(
        &mut self,
        plan: &PbPlan,
        query: DrawnQuery,
    ) -> Result<(), PbObstacle> {
        let request = RpbIndexReq {
            index: query.field,
            range_min: Some(query.first),
            range_max: Some(query.last),
            ..range_of(plan)
        };
        let RpbIndexResp { .. } = self.links.link().call(&request, plan.timeout_read).await?;
        Ok(())
    }

    /// Reads objects from a key on in the order of keys; whatever it finds is well.
    pub(super) async fn scan(
        &mut self,
        plan: &PbPlan,
        from: Bytes,
        count: u64,
    ) -> Result<(), PbObstacle> {
        let request = RpbIndexReq {
            index: Bytes::from_static(KEY_INDEX),
            range_min: Some(from),
            range_max: Some(Bytes::from_static(LAST_KEY)),
            // It is one of 32 bits.
            max_results: u32::try_from(count).ok(),
            return_body: Some(true),
            ..range_of(plan)
        };
        let RpbIndexBodyResp { .. } = self.links.link().call(&request, plan.timeout_read).await?;
        Ok(())
    }

    /// Lists all keys of the bucket and throws them away.
    pub(super) async fn list_keys(&mut self, plan: &PbPlan) -> Result<(), PbObstacle> {
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

/// A query of a range of the bucket, to be filled in.
fn range_of(plan: &PbPlan) -> RpbIndexReq {
    RpbIndexReq {
        bucket: plan.bucket.clone(),
        bucket_type: plan.bucket_type.clone(),
        qtype: IndexQueryType::Range as i32,
        ..RpbIndexReq::default()
    }
}
