//! Riak's replication over Protocol Buffers.

use crate::error::PeerError;
use crate::queue_lengths::QueueLengths;
use crate::side::{BucketName, RecordClock};
use bytes::Bytes;
use quoit_client::{Connection, Login};
use quoit_model::context::{decode_context, encode_riak_context};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::segments::TreeSize;
use quoit_riak::{Fetched, RangeFilter, Tree, check, split_numbered};
use quoit_wire::messages::{
    RpbAaeFoldFetchClocksNValReq, RpbAaeFoldFetchClocksRangeReq, RpbAaeFoldKeyValueResp,
    RpbAaeFoldMergeBranchNValReq, RpbAaeFoldMergeRootNValReq, RpbAaeFoldMergeTreesRangeReq,
    RpbAaeFoldTreeResp, RpbFetchReq, RpbFetchResp, RpbKeysValue, RpbMembershipReq,
    RpbMembershipResp, RpbPushReq, RpbPushResp,
};

/// Maximum bytes of a frame that a peer may send: an object, or the clocks of many records.
const FRAME_BYTES_MAX: u32 = 256 << 20;

#[derive(Debug)]
pub(crate) struct PbPeer(Connection);

impl PbPeer {
    pub(crate) async fn connect(address: &str, login: Option<&Login>) -> Result<Self, PeerError> {
        let connection = match login {
            Some(login) => Connection::connect_as(address, login).await?,
            None => Connection::connect(address).await?,
        };
        Ok(Self(connection.with_frame_length_max(FRAME_BYTES_MAX)))
    }

    pub(crate) async fn fetch(&mut self, queue: &str) -> Result<Option<Fetched>, PeerError> {
        let request = RpbFetchReq { queuename: queue.to_owned().into(), encoding: None };
        let answer: RpbFetchResp = self.0.call(&request).await?;
        if answer.queue_empty {
            return Ok(None);
        }
        let no = |what: &str| PeerError::malformed(format!("an entry without {what}"));
        let replicated = answer.replencoded_object.ok_or_else(|| no("an object"))?;
        check(&replicated, answer.crc_check.ok_or_else(|| no("a checksum"))?)?;
        Ok(Some(Fetched::decode(&replicated)?))
    }

    pub(crate) async fn push(
        &mut self,
        queue: &str,
        records: &[RecordClock],
    ) -> Result<Option<QueueLengths>, PeerError> {
        let entry = |record: &RecordClock| RpbKeysValue {
            bucket_type: record.bucket.typed(),
            bucket: record.bucket.bucket.clone(),
            key: record.key.clone(),
            value: encode_riak_context(&record.clock),
        };
        let request = RpbPushReq {
            queuename: queue.to_owned().into(),
            keys_value: records.iter().map(entry).collect(),
        };
        let answer: RpbPushResp = self.0.call(&request).await?;
        let length = |length: Option<u32>| length.unwrap_or(0).into();
        Ok(answer.queue_exists.then(|| QueueLengths {
            fold: length(answer.foldq_length),
            full_sync: length(answer.fsync_length),
            real_time: length(answer.realt_length),
        }))
    }

    pub(crate) async fn members(&mut self) -> Result<Vec<(String, u16)>, PeerError> {
        let answer: RpbMembershipResp = self.0.call(&RpbMembershipReq::default()).await?;
        let nodes = answer.up_nodes.into_iter().map(|node| {
            let host = String::from_utf8_lossy(&node.ip).into_owned();
            let port = node.port.try_into().map_err(|_| PeerError::malformed("a port"))?;
            Ok((host, port))
        });
        nodes.collect()
    }

    pub(crate) async fn tree_root(&mut self, n_val: u32) -> Result<Bytes, PeerError> {
        let answer: RpbAaeFoldTreeResp = self.0.call(&RpbAaeFoldMergeRootNValReq { n_val }).await?;
        answer.level_one.ok_or_else(|| PeerError::malformed("a tree without a root"))
    }

    pub(crate) async fn tree_branches(
        &mut self,
        n_val: u32,
        numbers: &[u32],
    ) -> Result<Vec<(u32, Bytes)>, PeerError> {
        let request = RpbAaeFoldMergeBranchNValReq { n_val, id_filter: numbers.to_vec() };
        let answer: RpbAaeFoldTreeResp = self.0.call(&request).await?;
        let branches = answer.level_two.into_iter().map(|numbered| {
            let (number, branch) = split_numbered(&numbered)?;
            Ok((number, numbered.slice_ref(branch)))
        });
        branches.collect()
    }

    pub(crate) async fn tree_clocks(
        &mut self,
        n_val: u32,
        segments: &[u32],
        modified_secs: Option<(u64, u64)>,
    ) -> Result<Vec<RecordClock>, PeerError> {
        let request = RpbAaeFoldFetchClocksNValReq {
            n_val,
            id_filter: segments.to_vec(),
            modified_range: Some(modified_secs.is_some()),
            last_mod_start: modified_secs.map(|(from, _)| secs(from)),
            last_mod_end: modified_secs.map(|(_, to)| secs(to)),
        };
        clocks(self.0.call(&request).await?)
    }

    pub(crate) async fn range_tree(
        &mut self,
        bucket: &BucketName,
        size: TreeSize,
        filter: &RangeFilter,
    ) -> Result<Tree, PeerError> {
        let request = RpbAaeFoldMergeTreesRangeReq {
            bucket_type: bucket.typed(),
            bucket: bucket.bucket.clone(),
            key_range: filter.keys.is_some(),
            start_key: filter.keys.clone().map(|(first, _)| first),
            end_key: filter.keys.clone().map(|(_, last)| last),
            tree_size: size as u32,
            segment_filter: filter.segments.is_some(),
            id_filter: filter.segments.as_ref().map_or(Vec::new(), |some| some.segments.clone()),
            filter_tree_size: filter.segments.as_ref().map(|some| some.tree_size as u32),
            modified_range: filter.modified_secs.is_some(),
            last_mod_start: filter.modified_secs.map(|(from, _)| secs(from)),
            last_mod_end: filter.modified_secs.map(|(_, to)| secs(to)),
            use_prehash: filter.salt.is_none(),
            init_vector: filter.salt,
        };
        let answer: RpbAaeFoldTreeResp = self.0.call(&request).await?;
        let told = TreeSize::of_number(answer.size).map_err(PeerError::malformed)?;
        let mut tree = Tree::empty(told);
        for numbered in &answer.level_two {
            let (number, compressed) = split_numbered(numbered)?;
            tree.set_compressed_branch(number, compressed)?;
        }
        Ok(tree)
    }

    pub(crate) async fn range_clocks(
        &mut self,
        bucket: &BucketName,
        filter: &RangeFilter,
    ) -> Result<Vec<RecordClock>, PeerError> {
        let request = RpbAaeFoldFetchClocksRangeReq {
            bucket_type: bucket.typed(),
            bucket: bucket.bucket.clone(),
            key_range: filter.keys.is_some(),
            start_key: filter.keys.clone().map(|(first, _)| first),
            end_key: filter.keys.clone().map(|(_, last)| last),
            segment_filter: filter.segments.is_some(),
            id_filter: filter.segments.as_ref().map_or(Vec::new(), |some| some.segments.clone()),
            filter_tree_size: filter.segments.as_ref().map(|some| some.tree_size as u32),
            modified_range: filter.modified_secs.is_some(),
            last_mod_start: filter.modified_secs.map(|(from, _)| secs(from)),
            last_mod_end: filter.modified_secs.map(|(_, to)| secs(to)),
        };
        clocks(self.0.call(&request).await?)
    }
}

/// Seconds since 1970 in the form of the messages.
fn secs(secs: u64) -> u32 {
    u32::try_from(secs).unwrap_or(u32::MAX)
}

fn clocks(answer: RpbAaeFoldKeyValueResp) -> Result<Vec<RecordClock>, PeerError> {
    let record = |entry: RpbKeysValue| {
        let bucket_type = entry.bucket_type.filter(|name| !name.is_empty());
        let bucket_type = bucket_type.unwrap_or(Bytes::from_static(DEFAULT_BUCKET_TYPE));
        Ok(RecordClock {
            bucket: BucketName { bucket_type, bucket: entry.bucket },
            key: entry.key,
            clock: decode_context(&entry.value).map_err(PeerError::malformed)?,
        })
    };
    answer.keys_value.into_iter().map(record).collect()
}
