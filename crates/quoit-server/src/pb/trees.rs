//! Hash trees by which Riak compares clusters: one tree for all records of buckets with the same `n_val`.

use super::connection::PbConnection;
use super::fault::Fault;
use super::index::ENTRY_BYTES;
use super::listing::listing_fault;
use bytes::Bytes;
use quoit_core::{RequestError, TreeClock};
use quoit_model::context::encode_riak_context;
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::segments::{Segments, TreeSize};
use quoit_riak::{BRANCH_BYTES, numbered_branch};
use quoit_wire::messages::{
    RpbAaeFoldFetchClocksNValReq, RpbAaeFoldKeyValueResp, RpbAaeFoldMergeBranchNValReq,
    RpbAaeFoldMergeRootNValReq, RpbAaeFoldTreeResp, RpbKeysValue,
};
use std::sync::Arc;

/// Size of the trees that are kept.
const SIZE: TreeSize = TreeSize::Large;

impl PbConnection {
    pub(super) async fn tree_root(
        &mut self,
        request: RpbAaeFoldMergeRootNValReq,
    ) -> Result<(), Fault> {
        let n_val = check_n_val(request.n_val)?;
        let store = Arc::clone(&self.context.store);
        let root = async move { store.riak_trees().root(n_val).await.map_err(listing_fault) };
        let root = self.unless_disconnected(Box::pin(root)).await?;
        let size = SIZE as u32;
        self.send(&RpbAaeFoldTreeResp { size, level_one: Some(root), level_two: Vec::new() })
    }

    pub(super) async fn tree_branches(
        &mut self,
        request: RpbAaeFoldMergeBranchNValReq,
    ) -> Result<(), Fault> {
        let RpbAaeFoldMergeBranchNValReq { n_val, id_filter } = request;
        let n_val = check_n_val(n_val)?;
        if let Some(none) = id_filter.iter().find(|number| **number >= SIZE.branch_count()) {
            let count = SIZE.branch_count();
            return Err(Fault::Text(format!("there is no branch {none} of {count}")));
        }
        self.check_gathered(id_filter.len() * BRANCH_BYTES, "ask for fewer branches")?;
        let store = Arc::clone(&self.context.store);
        let numbers = id_filter.clone();
        let branches = async move {
            store.riak_trees().branches(n_val, &numbers).await.map_err(listing_fault)
        };
        let branches = self.unless_disconnected(Box::pin(branches)).await?;
        let numbered = id_filter.iter().zip(&branches);
        let level_two = numbered.map(|(number, branch)| numbered_branch(*number, branch)).collect();
        self.send(&RpbAaeFoldTreeResp { size: SIZE as u32, level_one: None, level_two })
    }

    pub(super) async fn tree_clocks(
        &mut self,
        request: RpbAaeFoldFetchClocksNValReq,
    ) -> Result<(), Fault> {
        let n_val = check_n_val(request.n_val)?;
        let segments = Segments::new(SIZE, request.id_filter);
        let segments = segments.map_err(|fault| Fault::Text(fault.to_string()))?;
        let modified = request.modified_range.unwrap_or(false).then(|| {
            let (from, to) = (request.last_mod_start, request.last_mod_end);
            (from.map_or(0, u64::from), to.map_or(u64::MAX, u64::from))
        });
        let store = Arc::clone(&self.context.store);
        let clocks = async move {
            store.riak_trees().clocks(n_val, &segments, modified).await.map_err(listing_fault)
        };
        let clocks = self.unless_disconnected(Box::pin(clocks)).await?;
        let bytes = |clock: &TreeClock| clock.bucket.len() + clock.key.len() + ENTRY_BYTES;
        self.check_gathered(clocks.iter().map(bytes).sum(), "ask for fewer segments")?;
        let keys_value = clocks.into_iter().map(entry).collect();
        let response_type = Bytes::from_static(b"clock");
        self.send(&RpbAaeFoldKeyValueResp { response_type, keys_value })
    }
}

fn entry(clock: TreeClock) -> RpbKeysValue {
    let TreeClock { bucket_type, bucket, key, clock, .. } = clock;
    let bucket_type = (bucket_type != DEFAULT_BUCKET_TYPE).then_some(bucket_type);
    RpbKeysValue { bucket_type, bucket, key, value: encode_riak_context(&clock) }
}

/// Refuses 0, which no bucket has.
fn check_n_val(n_val: u32) -> Result<u32, Fault> {
    if n_val > 0 { Ok(n_val) } else { Err(Fault::Text("n_val has to be 1 or more".to_owned())) }
}

/// The size of a tree with this number; refuses unknown numbers.
pub(super) fn tree_size(number: u32) -> Result<TreeSize, Fault> {
    TreeSize::of_number(number).map_err(|fault| Fault::Text(fault.to_string()))
}

/// The same fault as that of a fold that has met an older node.
pub(super) fn without_entry() -> Fault {
    listing_fault(RequestError::Remote("a record without its place in the tree".to_owned()))
}
