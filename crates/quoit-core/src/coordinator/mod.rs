//! The coordinator of reads and writes: what a node does for a client's request on one record.

pub(crate) mod change;
pub(crate) mod confirm;
pub(crate) mod data_type;
pub(crate) mod fence;
pub(crate) mod first_asked;
pub(crate) mod forward;
pub(crate) mod get;
pub(crate) mod given;
pub(crate) mod in_flight;
pub(crate) mod in_place;
pub(crate) mod precommit;
pub(crate) mod put;
pub(crate) mod read_replicas;
pub(crate) mod readers;
pub(crate) mod write_replicas;

use crate::grants::Grants;
use crate::hints::MissedWrites;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use crate::request_log::RequestLog;
use crate::write_clock::WriteClock;
use crate::write_hook::WriteHook;
use in_flight::InFlight;
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
