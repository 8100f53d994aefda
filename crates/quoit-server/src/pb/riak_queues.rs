//! Replication queues for sinks and full-sync of Riak.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::bucket_of;
use crate::riak_queue::{self, AnswerKind, PLAIN, QueueAnswer, WITH_TREE_ENTRY};
use bytes::Bytes;
use quoit_core::QueueLengths;
use quoit_model::context::encode_riak_context;
use quoit_model::key::KeyRef;
use quoit_riak::checksum;
use quoit_wire::messages::{
    RpbClusterMemberEntry, RpbFetchReq, RpbFetchResp, RpbKeysValue, RpbMembershipReq,
    RpbMembershipResp, RpbPushReq, RpbPushResp,
};
use std::sync::Arc;

impl PbConnection {
    pub(super) async fn fetch(&mut self, request: RpbFetchReq) -> Result<(), Fault> {
        let with_tree_entry = match request.encoding.as_deref() {
            None | Some(PLAIN) => false,
            Some(WITH_TREE_ENTRY) => true,
            Some(other) => {
                let form = String::from_utf8_lossy(other);
                return Err(Fault::Text(format!(
                    "encoding {form} is unknown: write internal or internal_aaehash"
                )));
            }
        };
        let store = Arc::clone(&self.context.store);
        let queue = queue_name(&request.queuename)?;
        if !riak_queue::exists(&store, queue) {
            return Err(Fault::Text("queue_not_defined".to_owned()));
        }
        let queue = queue.to_owned();
        let next = async move { Ok(riak_queue::next(&store, &queue).await?) };
        let Some(answer) = self.unless_disconnected(Box::pin(next)).await? else {
            return self.send(&RpbFetchResp { queue_empty: true, ..RpbFetchResp::default() });
        };
        let QueueAnswer { replicated, kind, tree_entry } = answer;
        let (deleted, clock) = match kind {
            AnswerKind::Object => (Some(false), None),
            AnswerKind::Tombstone(clock) => (Some(true), Some(encode_riak_context(&clock))),
            AnswerKind::Reap => (None, None),
        };
        let tree_entry = with_tree_entry.then_some(tree_entry);
        self.send(&RpbFetchResp {
            queue_empty: false,
            deleted,
            crc_check: Some(checksum(&replicated)),
            replencoded_object: Some(replicated),
            deleted_vclock: clock,
            segment_id: tree_entry.map(|entry| entry.segment),
            segment_hash: tree_entry.map(|entry| entry.value),
        })
    }

    pub(super) fn push(&mut self, request: &RpbPushReq) -> Result<(), Fault> {
        let keys: Vec<KeyRef<'_>> = request.keys_value.iter().map(key_of).collect();
        let queue = queue_name(&request.queuename)?;
        let lengths = riak_queue::push(&self.context.store, queue, &keys)?;
        let queuename = Some(request.queuename.clone());
        let Some(QueueLengths { fold, full_sync, real_time }) = lengths else {
            let none = RpbPushResp { queuename, queue_exists: false, ..RpbPushResp::default() };
            return self.send(&none);
        };
        let told = |length| Some(u32::try_from(length).unwrap_or(u32::MAX));
        self.send(&RpbPushResp {
            queuename,
            queue_exists: true,
            foldq_length: told(fold),
            fsync_length: told(full_sync),
            realt_length: told(real_time),
        })
    }

    pub(super) fn membership(&mut self, _: &RpbMembershipReq) -> Result<(), Fault> {
        let up = riak_queue::up_nodes(&self.context.store, false);
        let entry = |(ip, port): (String, u16)| RpbClusterMemberEntry {
            ip: Bytes::from(ip.into_bytes()),
            port: port.into(),
        };
        self.send(&RpbMembershipResp { up_nodes: up.into_iter().map(entry).collect() })
    }
}

fn key_of(entry: &RpbKeysValue) -> KeyRef<'_> {
    bucket_of(&entry.bucket_type, &entry.bucket).key(&entry.key)
}

/// The name of a queue. Queues have text as names, so other bytes name no queue.
fn queue_name(name: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(name).map_err(|_| Fault::Text("queue_not_defined".to_owned()))
}
