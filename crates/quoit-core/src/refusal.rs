//! Refusals of other nodes' requests, and the answers that carry them.

use crate::error::RequestError;
use quoit_cluster::Responder;
use quoit_wire::internode::data;

/// Reason for which a request is refused.
pub(crate) enum Refusal {
    Malformed(String),
    StaleLayout,
    /// The delta can't be joined; the sender has to send the whole object.
    NeedsWhole,
    /// An operator has switched off inbound transfers on this node.
    SwitchedOff,
    Storage(RequestError),
}

impl From<RequestError> for Refusal {
    fn from(fault: RequestError) -> Self {
        Self::Storage(fault)
    }
}

/// Answers a request with a refusal, and logs it if it points to a fault.
pub(crate) fn refuse(reply: Responder, refusal: &Refusal) {
    match refusal {
        Refusal::Malformed(reason) => {
            tracing::warn!(%reason, "request of another node refused");
            reply.refuse(data::REFUSED_MALFORMED, reason.as_str());
        }
        Refusal::StaleLayout => {
            reply.refuse(data::REFUSED_STALE_LAYOUT, "the layout is no longer live");
        }
        Refusal::SwitchedOff => {
            reply.refuse(data::REFUSED_SWITCHED_OFF, "taking records is off (handoff.inbound)");
        }
        Refusal::NeedsWhole => {
            reply.refuse(data::REFUSED_NEEDS_WHOLE, "the whole object is needed");
        }
        Refusal::Storage(RequestError::Overload) => {
            reply.refuse(data::REFUSED_OVERLOAD, "overload");
        }
        Refusal::Storage(fault) => {
            tracing::error!(%fault, "request of another node failed");
            reply.refuse(data::REFUSED_STORAGE, fault.to_string());
        }
    }
}
