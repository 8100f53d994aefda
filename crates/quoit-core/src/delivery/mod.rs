//! Delivers records to other nodes, and takes the records that other nodes deliver.
//!
//! Transfers and anti-entropy use the same mechanism:
//!
//! 1. The sender *offers* a page of records by name and digest ([`hand`]). The receiver syncs the records
//!    that it has, and answers which it lacks ([`receive`]). Anti-entropy knows which records are
//!    lacking, and does without the offer.
//! 2. The sender *delivers* the lacking records in batches. The receiver merges each like a replicated
//!    write, syncs them and answers.
//! 3. Large sets and maps go page by page ([`paged`]). The receiver stages the pages until the root
//!    arrives ([`staging`]), so that no reader sees a part of the record.
//!
//! When the sender has all answers, all records of the page, or newer versions of them, are on the
//! receiver's disk. If a call fails, the sender offers the page again later.
//!
//! All of this keeps to the operator's limits ([`limits`]), and yields to the requests of clients
//! ([`yielding`]).

pub(crate) mod hand;
pub(crate) mod limits;
mod paged;
mod pressure;
pub(crate) mod progress;
mod reaped;
mod receive;
mod refile;
mod staging;
pub(crate) mod unsettled;
mod yielding;

use crate::hints::Hints;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use crate::suspects::StraySuspects;
use limits::Throttle;
use parking_lot::Mutex;
use progress::RunningTransfers;
use staging::Stagings;
use std::sync::Arc;
use yielding::Yielding;

/// The deliveries of a node to other nodes, and of other nodes to it.
pub(crate) struct RecordDelivery {
    local: Arc<LocalNode>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) hints: Arc<Hints>,
    pub(crate) throttle: Throttle,
    pub(crate) yielding: Yielding,
    pub(crate) active: Arc<RunningTransfers>,
    pub(crate) suspects: Arc<Mutex<StraySuspects>>,
    stagings: Stagings,
}

impl RecordDelivery {
    pub(crate) fn new(
        replica: &Arc<Replica>,
        hints: &Arc<Hints>,
        suspects: Arc<Mutex<StraySuspects>>,
    ) -> Self {
        let local = Arc::clone(&replica.local);
        let settings = &local.settings;
        Self {
            throttle: Throttle::new(settings.transfer_limits),
            yielding: Yielding::new(settings.transfer_share_min.0),
            active: Arc::default(),
            suspects,
            stagings: Stagings::default(),
            replica: Arc::clone(replica),
            hints: Arc::clone(hints),
            local,
        }
    }

    /// Watches how much deliveries slow requests down, and drops staged pages of senders that are gone,
    /// until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let stagings = Arc::clone(&self).run_stagings();
        tokio::join!(biased; self.run_yielding(), stagings);
    }
}
