//! The coordinator: runs a client's request for one record on the record's replicas.
//!
//! - A read ([`get`]) takes the object from one replica and digests from as many others as its quorums
//!   need ([`first_round`]). If they differ, it fetches all versions, merges them, and repairs the
//!   replicas ([`read_replicas`]). A read that began without waiting continues with everything that it has
//!   learned ([`started`]).
//! - A write ([`put`], [`data_type`]) runs on a node that has a vote for the record; another node
//!   forwards it ([`forward`]). The coordinator applies the write to its own copy under the record's lock
//!   ([`change`]), sends the result to the other replicas, and answers when the quorums are met in every
//!   live layout ([`write_replicas`]).
//! - Conditional writes may be fenced from each other by grants of the primaries ([`fence`]).
//! - Plain objects take a shorter path that avoids decoding and allocation ([`in_place`]).
//!
//! Votes and quorums are counted by the pure functions of `votes`.

pub(crate) mod change;
pub(crate) mod confirm;
pub(crate) mod data_type;
pub(crate) mod fence;
pub(crate) mod first_round;
pub(crate) mod forward;
pub(crate) mod get;
pub(crate) mod imported;
pub(crate) mod in_flight;
pub(crate) mod in_place;
pub(crate) mod precommit;
pub(crate) mod put;
pub(crate) mod read_replicas;
pub(crate) mod readers;
pub(crate) mod started;
pub(crate) mod write_replicas;

use crate::grants::Grants;
use crate::hints::HintRecorder;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use crate::request_log::RequestLog;
use crate::write_clock::WriteClock;
use crate::write_hook::WriteHook;
use in_flight::RequestLimiter;
use std::sync::Arc;

/// Coordinates reads and writes of records. Shared; every method takes `&self`.
pub(crate) struct Coordinator {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) hook: Arc<WriteHook>,
    pub(crate) missed: Arc<HintRecorder>,
    /// Grants for conditional writes that this node gives as a primary.
    pub(crate) grants: Arc<Grants>,
    /// Reads under way; `puts` has the writes.
    pub(crate) gets: RequestLimiter,
    pub(crate) puts: RequestLimiter,
    pub(crate) write_clock: WriteClock,
    pub(crate) request_log: RequestLog,
}

impl Coordinator {
    pub(crate) fn new(
        local: Arc<LocalNode>,
        replica: Arc<Replica>,
        hook: Arc<WriteHook>,
        missed: Arc<HintRecorder>,
        grants: Arc<Grants>,
    ) -> Self {
        let request_count_max = local.settings.limits.concurrent_request_count_max;
        Self {
            gets: RequestLimiter::new(request_count_max),
            puts: RequestLimiter::new(request_count_max),
            write_clock: WriteClock::default(),
            request_log: RequestLog::new(local.settings.request_log),
            local,
            replica,
            hook,
            missed,
            grants,
        }
    }
}
