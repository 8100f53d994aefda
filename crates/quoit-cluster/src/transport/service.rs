//! Services for the methods of requests, and admission of nodes.

use super::responder::Responder;
use super::security::Proven;
use crate::NodeId;
use bytes::Bytes;
use quoit_wire::internode::VersionRange;
use std::ops::RangeInclusive;
use std::sync::Arc;
use thiserror::Error;

/// A request of another node. Header and payload are slices of the read buffer and keep it alive.
#[derive(Debug, Clone)]
pub struct IncomingRequest {
    /// Node that asks.
    pub from: NodeId,
    /// Method of the request.
    pub method: u16,
    /// An encoded message; which one is up to the method.
    pub header: Bytes,
    /// Bytes that are no message: a value, mostly.
    pub payload: Bytes,
    /// Whether the node is a guest: it was not checked that it belongs to the cluster.
    pub is_guest: bool,
    /// The proof of the connection that it came on.
    pub proven: Proven,
}

/// Serves requests.
pub trait Service: Send + Sync {
    /// Takes a request. Called on the task of the connection, between reading and writing: it must not
    /// block. An answer that is given before it returns costs no system call of its own; the responder may
    /// be kept and used later, from anywhere.
    fn serve(&self, request: IncomingRequest, reply: Responder);
}

/// A node that asks to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// Its identity.
    pub node_id: NodeId,
    /// Its name.
    pub node_name: String,
    /// Random for each start of its process.
    pub boot_id: u64,
    /// Where it says that it can be reached.
    pub address: String,
    /// The versions of the protocol that it speaks.
    pub versions: VersionRange,
    /// Whether it comes as a guest.
    pub is_guest: bool,
}

/// Why a node is not let in: words for its operator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAdmitted {
    /// It is not known, or not yet: a member that has just joined learns of the others one by one.
    #[error("{0}")]
    Unknown(String),
    /// It is known, and is kept out.
    #[error("{0}")]
    KeptOut(String),
}

/// Decides who may connect, beyond what the transport checks itself (versions, cluster, identities).
pub trait Admission: Send + Sync {
    /// Called for each connection before it is taken; must not block.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] with the words that the node's operator reads.
    fn admit(&self, newcomer: &Newcomer) -> Result<(), NotAdmitted>;

    /// Called for each connection, whoever has dialed and guests included, with who is at the other end:
    /// whether it understands what the cluster has to say. Must not block.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] with the words that the node's operator reads.
    fn check_versions(&self, _other: &Newcomer) -> Result<(), NotAdmitted> {
        Ok(())
    }
}

/// Services by range of methods.
#[derive(Clone, Default)]
pub(super) struct Services {
    services: Vec<Registered>,
}

/// The side of a connection that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A member.
    Member,
    /// A node that is none yet.
    Guest,
    /// A node that has proved a token or the shared secret, and may ask for a certificate alone.
    Joiner,
}

#[derive(Clone)]
struct Registered {
    methods: RangeInclusive<u16>,
    /// For members, for guests as well, or for joiners alone.
    takes: Caller,
    service: Arc<dyn Service>,
}

impl Services {
    /// Adds a service; it comes before earlier ones where ranges overlap.
    pub(super) fn with(
        &self,
        methods: RangeInclusive<u16>,
        takes: Caller,
        service: Arc<dyn Service>,
    ) -> Services {
        let mut services = vec![Registered { methods, takes, service }];
        services.extend(self.services.iter().cloned());
        Services { services }
    }

    /// Finds the service of `method` for this caller.
    pub(super) fn find(&self, method: u16, caller: Caller) -> Option<&Arc<dyn Service>> {
        let mut services = self.services.iter();
        let registered = services.find(|registered| {
            let is_for = match registered.takes {
                Caller::Member => caller == Caller::Member,
                Caller::Guest => caller != Caller::Joiner,
                Caller::Joiner => caller == Caller::Joiner,
            };
            registered.methods.contains(&method) && is_for
        });
        registered.map(|registered| &registered.service)
    }
}
