//! State that all connections of a node share.

use super::inbounds::Inbounds;
use super::log_limiter::LogLimiter;
use super::network::Network;
use super::redial::Jitter;
use super::service::{Admission, Services};
use super::settings::InternodeSettings;
use super::statistics::PeerStatistics;
use super::suspension::SuspensionDetector;
use crate::{ClusterId, NodeId};
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use quoit_wire::internode::Hello;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::peer::Peer;

/// Shared by [`Internode`](super::Internode) and the tasks of its connections.
pub(super) struct Context {
    pub(super) settings: InternodeSettings,
    pub(super) network: Arc<dyn Network>,
    pub(super) services: ArcSwap<Services>,
    pub(super) admission: RwLock<Option<Arc<dyn Admission>>>,
    pub(super) identity: RwLock<NodeIdentity>,
    pub(super) peers: ArcSwap<BTreeMap<NodeId, Arc<Peer>>>,
    pub(super) jitter: Mutex<Jitter>,
    pub(super) inbounds: Inbounds,
    /// Counts of this node's requests to former peers.
    pub(super) retired_statistics: Mutex<PeerStatistics>,
    pub(super) log_limiter: LogLimiter,
    pub(super) suspension: SuspensionDetector,
    /// Silence, in microseconds, after which a node counts as dead if no intervals between its signs of life
    /// are known.
    pub(super) suspect_after_us: u64,
}

/// Facts about this node that may change while it runs.
#[derive(Clone, Default)]
pub(super) struct NodeIdentity {
    pub(super) cluster_id: Option<ClusterId>,
    /// Address at which other nodes reach this one.
    pub(super) address: String,
}

impl Context {
    /// Returns the node's greeting on a connection of `lane`.
    pub(super) fn hello(&self, lane: super::Lane) -> Hello {
        let identity = self.identity.read().clone();
        let window = lane.window(&self.settings.limits);
        Hello {
            version_min: self.settings.versions.min,
            version_max: self.settings.versions.max,
            cluster_id: identity
                .cluster_id
                .map_or_else(Bytes::new, |id| Bytes::copy_from_slice(&id.0)),
            node_id: Bytes::copy_from_slice(&self.settings.node_id.0),
            node_name: self.settings.node_name.clone(),
            boot_id: self.settings.boot_id,
            features: 0,
            lane: lane.number(),
            address: identity.address,
            guest: false,
            expected_node_id: Bytes::new(),
            window_bytes: window.bytes,
            window_calls: window.calls,
            frame_bytes_max: self.settings.limits.frame_bytes_max,
            stream_window_bytes: self.settings.limits.stream_window_bytes,
            unix_us: self.settings.clock.as_ref().map_or(0, |clock| clock.0.unix_us()),
        }
    }
}
