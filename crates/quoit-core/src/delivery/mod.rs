//! Delivers records to other nodes, and takes what other nodes deliver.
//!
//! One mechanism for all causes: a node that has records that others should have offers them by name and
//! digest ([`hand`]), and delivers those that are lacking, as replicated writes ([`receive`]). Large sets and
//! maps go page by page and are staged until they are whole ([`paged`], [`staging`]). All of it keeps to the
//! operator's limits ([`limits`]), and yields to requests of clients ([`yielding`]).

pub(crate) mod hand;
pub(crate) mod held;
pub(crate) mod limits;
mod paged;
mod pressure;
pub(crate) mod progress;
mod reaped;
mod receive;
mod refile;
mod staging;
mod yielding;

use crate::hints::Hints;
use crate::local_node::LocalNode;
use crate::replica::Replica;
use crate::suspects::Suspects;
use limits::Throttle;
use parking_lot::Mutex;
use progress::RunningTransfers;
use staging::Stagings;
use std::sync::Arc;
use yielding::Yielding;

/// The deliveries of a node to others, and of others to it.
pub(crate) struct Deliveries {
    local: Arc<LocalNode>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) hints: Arc<Hints>,
    pub(crate) throttle: Throttle,
    pub(crate) yielding: Yielding,
    pub(crate) active: Arc<RunningTransfers>,
    pub(crate) suspects: Arc<Mutex<Suspects>>,
    stagings: Stagings,
}

impl Deliveries {
    pub(crate) fn new(
        replica: &Arc<Replica>,
        hints: &Arc<Hints>,
        suspects: Arc<Mutex<Suspects>>,
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

    /// Watches how much deliveries disturb requests, and drops what was staged in vain, until the task is
    /// dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let stagings = Arc::clone(&self).run_stagings();
        tokio::join!(biased; self.run_yielding(), stagings);
    }
}
