//! Clients in clear while security is on: the step between an open cluster and one that is closed.

use crate::stream::Stream;
use quoit_cluster::{PlainLink, PlainLinks};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether clients in clear are served without a login (`listener.tls` = `both`), and who they are.
#[derive(Debug, Default)]
pub(super) struct ClearClients {
    are_served: Arc<AtomicBool>,
    links: PlainLinks,
}

impl ClearClients {
    pub(super) fn new(are_served: bool) -> Self {
        Self { are_served: Arc::new(are_served.into()), links: PlainLinks::default() }
    }

    /// The switch, for a connection that it concerns: one over TLS, or of the operator of the machine, is not
    /// in clear.
    pub(super) fn switch_for(&self, stream: &Stream) -> Option<Arc<AtomicBool>> {
        matches!(stream, Stream::Tcp(_)).then(|| Arc::clone(&self.are_served))
    }

    pub(super) fn are_served(&self) -> bool {
        self.are_served.load(Ordering::Acquire)
    }

    /// Whether that is another mode than before.
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
