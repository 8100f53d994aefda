//! Requests by their message codes.

use super::codes::{is_response, unknown_code};
use super::connection::PbConnection;
use super::decoded::decoded_bytes;
use super::fault::Fault;
use crate::memory::REQUESTS_BYTES_FREE;
use quoit_wire::MessageCode;
use quoit_wire::frame::Frame;

/// Decodes the message of a frame, checks that the client may send it, and calls a method with it.
macro_rules! ask {
    ($connection:ident.$answer:ident($frame:ident)) => {{
        let request = $connection.admitted($frame)?;
        $connection.$answer(request)
    }};
    ($connection:ident.$answer:ident(&$frame:ident)) => {{
        let request = $connection.admitted($frame)?;
        $connection.$answer(&request)
    }};
}

/// Like `ask!`, for a method that is called rarely and has a large future, for which the task of every idle
/// connection would reserve space otherwise.
macro_rules! rare {
    ($connection:ident.$answer:ident($frame:ident)) => {
        Box::pin(ask!($connection.$answer($frame)))
    };
}

impl PbConnection {
    /// Decodes a request by its code, checks that the client may send it, and answers it.
    pub(super) async fn dispatch(&mut self, frame: Frame) -> Result<(), Fault> {
        if frame.body.len() > REQUESTS_BYTES_FREE {
            self.hold_decoded(&frame)?;
        }
        let Some(code) = MessageCode::from_byte(frame.code) else {
            return Err(unknown_code(frame.code));
        };
        match code {
            MessageCode::GetReq => ask!(self.get(frame)).await,
            MessageCode::PutReq => ask!(self.put(frame)).await,
            MessageCode::DelReq => ask!(self.delete(frame)).await,
            MessageCode::PingReq => self.ping(),
            MessageCode::GetClientIdReq => self.get_client_id(),
            MessageCode::SetClientIdReq => ask!(self.set_client_id(frame)),
            MessageCode::GetServerInfoReq => self.server_info(),
            MessageCode::ListBucketsReq => ask!(self.list_buckets(frame)).await,
            MessageCode::ListKeysReq => rare!(self.list_keys(frame)).await,
            MessageCode::IndexReq => rare!(self.query_index(frame)).await,
            MessageCode::CSBucketReq => rare!(self.fold_bucket(frame)).await,
            MessageCode::MapRedReq => Box::pin(self.map_reduce(frame.decode()?)).await,
            MessageCode::CoverageReq => ask!(self.coverage(frame)).await,
            MessageCode::GetBucketReq => ask!(self.get_bucket(frame)),
            MessageCode::SetBucketReq => rare!(self.set_bucket(frame)).await,
            MessageCode::ResetBucketReq => rare!(self.reset_bucket(frame)).await,
            MessageCode::GetBucketTypeReq => ask!(self.get_bucket_type(frame)),
            MessageCode::SetBucketTypeReq => rare!(self.set_bucket_type(frame)).await,
            MessageCode::GetBucketKeyPreflistReq => ask!(self.preflist(frame)),
            MessageCode::GetLayoutReq => ask!(self.layout(&frame)),
            MessageCode::QueueTakeReq => ask!(self.take_queued(frame)).await,
            MessageCode::ClusterDigestsReq => ask!(self.cluster_digests(frame)).await,
            MessageCode::QueuePutReq => ask!(self.queue_for(frame)),
            MessageCode::DeleteSeenReq => ask!(self.delete_seen(frame)).await,
            MessageCode::CopyPageReq => ask!(self.copy_page(frame)).await,
            MessageCode::CopyRangesReq => ask!(self.copy_ranges(frame)).await,
            MessageCode::BucketTypesReq => ask!(self.bucket_types(frame)),
            MessageCode::DtFetchReq => ask!(self.fetch_data_type(frame)).await,
            MessageCode::DtUpdateReq => ask!(self.update_data_type(frame)).await,
            MessageCode::DtQueryReq => ask!(self.query_data_type(frame)).await,
            MessageCode::FetchReq => ask!(self.fetch(frame)).await,
            MessageCode::PushReq => ask!(self.push(&frame)),
            MessageCode::MembershipReq => ask!(self.membership(&frame)),
            MessageCode::AaeFoldMergeRootNValReq => ask!(self.tree_root(frame)).await,
            MessageCode::AaeFoldMergeBranchNValReq => ask!(self.tree_branches(frame)).await,
            MessageCode::AaeFoldFetchClocksNValReq => ask!(self.tree_clocks(frame)).await,
            MessageCode::AaeFoldMergeTreesRangeReq => rare!(self.range_tree(frame)).await,
            MessageCode::AaeFoldReplKeysReq => rare!(self.repl_keys(frame)).await,
            MessageCode::AaeFoldFetchClocksRangeReq => rare!(self.fetch_clocks(frame)).await,
            MessageCode::AaeFoldFindKeysReq => rare!(self.find_keys(frame)).await,
            MessageCode::AaeFoldObjectStatsReq => rare!(self.object_stats(frame)).await,
            MessageCode::AaeFoldFindTombsReq => rare!(self.find_tombs(frame)).await,
            MessageCode::AaeFoldRepairKeysReq => rare!(self.repair_keys(frame)).await,
            MessageCode::AaeFoldReapTombsReq => rare!(self.reap_tombs(frame)).await,
            MessageCode::AaeFoldEraseKeysReq => rare!(self.erase_keys(frame)).await,
            MessageCode::AaeFoldListBucketsReq => ask!(self.fold_buckets(frame)).await,
            MessageCode::CounterGetReq => ask!(self.get_counter(frame)).await,
            MessageCode::CounterUpdateReq => ask!(self.update_counter(frame)).await,
            MessageCode::StartTls => {
                Err(Fault::Text("Security not enabled; STARTTLS not allowed.".into()))
            }
            code if is_response(code) => Err(Fault::Closing(format!(
                "Error processing incoming message: error:{code} is an answer, not a request:[]"
            ))),
            code => Err(unknown_code(code as u8)),
        }
    }

    /// Asks for the memory that a large message takes when it is decoded. The memory is returned after the
    /// request.
    fn hold_decoded(&mut self, frame: &Frame) -> Result<(), Fault> {
        let held = self.reservation.reserve_minimum(decoded_bytes(frame.code, &frame.body));
        held.map_err(|fault| Fault::Text(format!("the request is not taken: {fault}")))
    }
}
