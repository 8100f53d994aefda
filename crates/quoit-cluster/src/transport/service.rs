//! Services for the methods of requests, and admission of nodes.

use super::responder::Responder;
use super::security::PeerProof;
use crate::NodeId;
use bytes::Bytes;
use quoit_wire::internode::VersionRange;
use std::ops::RangeInclusive;
use std::sync::Arc;
use thiserror::Error;

/// A request of another node. Header and payload are slices of the read buffer and keep it alive.
#[derive(Debug, Clone)]
pub struct IncomingRequest {
    /// The node that sent the request.
    pub from: NodeId,
    /// Method of the request.
    pub method: u16,
    /// An encoded message of the kind that the method defines.
    pub header: Bytes,
    /// Bytes that are not a message, usually a value.
    pub payload: Bytes,
    /// True if the node is a guest, whose membership was not checked.
    pub is_guest: bool,
    /// Proof of the connection on which the request came.
    pub proven: PeerProof,
}

/// Serves requests.
pub trait Service: Send + Sync {
    /// Serves a request. Called on the task of the connection, between reading and writing: it must not
    /// block. An answer that is given before it returns costs no system call of its own. The responder may
    /// also be kept and used later, from anywhere.
    fn serve(&self, request: IncomingRequest, reply: Responder);
}

/// A node that asks to be admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoiningNode {
    /// Its identity.
    pub node_id: NodeId,
    /// Its name.
    pub node_name: String,
    /// Boot id: random for each start of its process.
    pub boot_id: u64,
    /// Address at which it says that it can be reached.
    pub address: String,
    /// Versions of the protocol that it speaks.
    pub versions: VersionRange,
    /// True if it comes as a guest.
    pub is_guest: bool,
}

/// Reason why a node is not admitted, for its operator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAdmitted {
    /// It is not known, or not known yet: a node that has just joined learns of the members one by one.
    #[error("{0}")]
    Unknown(String),
    /// It is known and refused.
    #[error("{0}")]
    KeptOut(String),
}

/// Decides which nodes may connect, after the transport has checked version, cluster and identity.
pub trait Admission: Send + Sync {
    /// Called for each inbound connection before it is accepted. Must not block.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] with the text for the node's operator.
    fn admit(&self, newcomer: &JoiningNode) -> Result<(), NotAdmitted>;

    /// Called for each connection, inbound or outbound, guests included: checks that the node at the other
    /// end understands the messages of the cluster. Must not block.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] with the text for the node's operator.
    fn check_versions(&self, _other: &JoiningNode) -> Result<(), NotAdmitted> {
        Ok(())
    }
}

/// Services by range of methods.
#[derive(Clone, Default)]
pub(super) struct Services {
    services: Vec<Registered>,
}

/// Kind of the node that sends requests on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A member.
    Member,
    /// A node that is not a member yet.
    Guest,
    /// A node that has proved that it knows a token or the shared secret. It may only ask for a
    /// certificate.
    Joiner,
}

#[derive(Clone)]
struct Registered {
    methods: RangeInclusive<u16>,
    /// Kind of callers: members only, members and guests, or joiners only.
    takes: Caller,
    service: Arc<dyn Service>,
}

impl Services {
    /// Returns these services with one more. It takes precedence over earlier ones where ranges overlap.
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

    /// Returns the service of `method` for this kind of caller.
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
