//! Clients without TLS while security is on. Serving them is a step in securing a running cluster.

use crate::stream::Stream;
use quoit_cluster::{PlainLink, PlainLinks};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The switch that lets clients without TLS in without a login (`listener.tls` = `both`), and the addresses
/// of such clients.
#[derive(Debug, Default)]
pub(super) struct PlaintextClients {
    are_served: Arc<AtomicBool>,
    links: PlainLinks,
}

impl PlaintextClients {
    pub(super) fn new(are_served: bool) -> Self {
        Self { are_served: Arc::new(are_served.into()), links: PlainLinks::default() }
    }

    /// The switch, for a connection that it applies to. It does not apply to TLS and to the administration
    /// socket.
    pub(super) fn switch_for(&self, stream: &Stream) -> Option<Arc<AtomicBool>> {
        matches!(stream, Stream::Tcp(_)).then(|| Arc::clone(&self.are_served))
    }

    pub(super) fn are_served(&self) -> bool {
        self.are_served.load(Ordering::Acquire)
    }

    /// Sets the switch. Returns true if that changed it.
    pub(super) fn serve(&self, are_served: bool) -> bool {
        self.are_served.swap(are_served, Ordering::AcqRel) != are_served
    }

    pub(super) fn note(&self, address: IpAddr) {
        self.links.note(&address.to_string(), None);
    }

    pub(super) fn by_host(&self) -> BTreeMap<String, PlainLink> {
        self.links.by_host()
    }
}
