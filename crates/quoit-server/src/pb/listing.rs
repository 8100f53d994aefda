//! Listing buckets and keys.

use super::connection::PbConnection;
use super::fault::Fault;
use super::index::ENTRY_BYTES;
use super::kv::bucket_of;
use crate::erlang_text;
use crate::memory::NoMemory;
use bytes::Bytes;
use quoit_core::{Deadline, RequestError};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_wire::messages::{
    RpbListBucketsReq, RpbListBucketsResp, RpbListKeysReq, RpbListKeysResp,
};

const LIST_KEYS_TIMEOUT_MS: u64 = 60_000;
const LIST_BUCKETS_TIMEOUT_MS: u64 = 480_000;

impl PbConnection {
    pub(super) async fn list_keys(&mut self, request: RpbListKeysReq) -> Result<(), Fault> {
        self.allowed(self.context.settings.jobs.stream_list_keys, "stream_list_keys")?;
        self.hold_pieces()?;
        let bucket = bucket_of(&request.bucket_type, &request.bucket);
        let begun =
            async { self.context.store.listings().list_keys(bucket).await.map_err(listing_fault) };
        let mut listing = self.unless_disconnected(Box::pin(begun)).await?;
        let deadline = deadline(request.timeout, LIST_KEYS_TIMEOUT_MS);
        while let Some(keys) = self.next_names(deadline, listing.next()).await? {
            self.send(&RpbListKeysResp { keys, done: None })?;
            self.flush().await?;
        }
        self.send(&RpbListKeysResp { keys: Vec::new(), done: Some(true) })
    }

    pub(super) async fn list_buckets(&mut self, request: RpbListBucketsReq) -> Result<(), Fault> {
        let stream = request.stream == Some(true);
        let jobs = &self.context.settings.jobs;
        if stream {
            self.allowed(jobs.stream_list_buckets, "stream_list_buckets")?;
        } else {
            self.allowed(jobs.list_buckets, "list_buckets")?;
        }
        self.hold_pieces()?;
        let bucket_type = request.bucket_type.as_deref().unwrap_or(DEFAULT_BUCKET_TYPE);
        let store = &self.context.store;
        let begun =
            async { store.listings().list_buckets(bucket_type).await.map_err(listing_fault) };
        let mut listing = self.unless_disconnected(Box::pin(begun)).await?;
        let deadline = deadline(request.timeout, LIST_BUCKETS_TIMEOUT_MS);
        let mut gathered: Vec<Bytes> = Vec::new();
        let mut gathered_bytes = 0;
        while let Some(buckets) = self.next_names(deadline, listing.next()).await? {
            if stream {
                self.send(&RpbListBucketsResp { buckets, done: None })?;
                self.flush().await?;
            } else {
                gathered_bytes +=
                    buckets.iter().map(|name| name.len() + ENTRY_BYTES).sum::<usize>();
                self.check_gathered(gathered_bytes, "ask for a stream")?;
                gathered.extend(buckets);
            }
        }
        let done = stream.then_some(true);
        self.send(&RpbListBucketsResp { buckets: gathered, done })
    }

    /// The next names of a listing, or an error if the client disconnects first.
    async fn next_names(
        &self,
        deadline: Deadline,
        next: impl Future<Output = Result<Option<Vec<Bytes>>, RequestError>>,
    ) -> Result<Option<Vec<Bytes>>, Fault> {
        self.unless_disconnected(Box::pin(async { Ok(deadline.limit(next).await?) })).await
    }

    /// Asks for the memory of a streamed answer. The memory is returned after the request.
    pub(super) fn hold_pieces(&mut self) -> Result<(), Fault> {
        Ok(self.reservation.reserve_minimum(self.context.pieces_bytes())?)
    }

    /// Refuses an unstreamed answer that is too large; `remedy` tells the client what to do instead.
    pub(super) fn check_gathered(
        &mut self,
        gathered_bytes: usize,
        remedy: &'static str,
    ) -> Result<(), Fault> {
        let limit = self.context.settings.whole_answer_bytes_max;
        if gathered_bytes > limit {
            return Err(Fault::Text(format!("the answer has more than {limit} bytes; {remedy}")));
        }
        // The answer is in memory twice: as it is gathered, and as it is encoded.
        self.reservation.hold(self.out.len() + 2 * gathered_bytes).map_err(|fault| match fault {
            NoMemory::Share { .. } => {
                Fault::Text(format!("the answer is not sent: {fault}; {remedy}"))
            }
            NoMemory::Budget { .. } => fault.into(),
        })
    }

    pub(super) fn allowed(&self, enabled: bool, job: &str) -> Result<(), Fault> {
        if enabled {
            return Ok(());
        }
        Err(Fault::Text(format!("Operation '{{riak_kv,{job}}}' is not enabled")))
    }
}

fn deadline(timeout_ms: Option<u32>, default_ms: u64) -> Deadline {
    Deadline::after_ms(timeout_ms.map_or(default_ms, u64::from))
}

/// Converts the fault of a listing or of bucket properties. Those name an unknown bucket type; other faults
/// have their usual text.
pub(super) fn listing_fault(fault: RequestError) -> Fault {
    match &fault {
        RequestError::NoSuchType(name) => {
            Fault::Text(format!("No bucket-type named '{}'", String::from_utf8_lossy(name)))
        }
        _ => Fault::Text(erlang_text::request_error(&fault)),
    }
}
