//! The coordinator of reads and writes: what a node does for a client's request on one record.

use crate::grants::Grants;
use crate::hints::MissedWrites;
use crate::in_flight::InFlight;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use crate::replication::WriteHook;
use crate::request_log::RequestLog;
use crate::write_clock::WriteClock;
use std::sync::Arc;

/// Coordinates reads and writes of records. Shared; every method takes `&self`.
pub(crate) struct Coordinator {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) hook: Arc<WriteHook>,
    pub(crate) missed: Arc<MissedWrites>,
    /// Rights of conditional writes that this node has given as a primary.
    pub(crate) grants: Arc<Grants>,
    /// Reads and writes under way.
    pub(crate) gets: InFlight,
    pub(crate) puts: InFlight,
    pub(crate) write_clock: WriteClock,
    pub(crate) request_log: RequestLog,
}

impl Coordinator {
    pub(crate) fn new(
        local: Arc<LocalNode>,
        replica: Arc<Replica>,
        hook: Arc<WriteHook>,
        missed: Arc<MissedWrites>,
        grants: Arc<Grants>,
    ) -> Self {
        let request_count_max = local.settings.limits.concurrent_request_count_max;
        Self {
            gets: InFlight::new(request_count_max),
            puts: InFlight::new(request_count_max),
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
