//! Ping, client id, server info, preference lists.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::bucket_of;
use crate::context::RIAK_KV_VERSION;
use bytes::Bytes;
use quoit_wire::MessageCode;
use quoit_wire::messages::{
    RpbBucketKeyPreflistItem, RpbGetBucketKeyPreflistReq, RpbGetBucketKeyPreflistResp,
    RpbGetClientIdResp, RpbGetServerInfoResp, RpbSetClientIdReq,
};

impl PbConnection {
    pub(super) fn ping(&mut self) -> Result<(), Fault> {
        self.send_empty(MessageCode::PingResp);
        Ok(())
    }

    pub(super) fn get_client_id(&mut self) -> Result<(), Fault> {
        let client_id = self.client_id.clone();
        self.send(&RpbGetClientIdResp { client_id })
    }

    pub(super) fn set_client_id(&mut self, request: RpbSetClientIdReq) -> Result<(), Fault> {
        // Copied: a slice would keep the read buffer alive as long as the connection.
        self.client_id = Bytes::copy_from_slice(&request.client_id);
        self.send_empty(MessageCode::SetClientIdResp);
        Ok(())
    }

    pub(super) fn server_info(&mut self) -> Result<(), Fault> {
        let node = Bytes::copy_from_slice(self.context.node_name.as_bytes());
        let version = Bytes::from_static(RIAK_KV_VERSION.as_bytes());
        self.send(&RpbGetServerInfoResp { node: Some(node), server_version: Some(version) })
    }

    pub(super) fn preflist(&mut self, request: RpbGetBucketKeyPreflistReq) -> Result<(), Fault> {
        let key = bucket_of(&request.bucket_type, &request.bucket).key(&request.key);
        let preflist = self
            .context
            .store
            .preflist(key)?
            .into_iter()
            .map(|place| RpbBucketKeyPreflistItem {
                partition: i64::from(place.partition.0),
                node: Bytes::from(place.node),
                primary: place.primary,
            })
            .collect();
        self.send(&RpbGetBucketKeyPreflistResp { preflist })
    }
}
