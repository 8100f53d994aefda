//! Objects of writes, as far as their coordinator has them at hand.

use super::{Replicated, SentDelta};
use quoit_model::object::Object;

/// The object of a write, as far as the coordinator has it at hand.
pub(crate) enum WrittenObject<'a> {
    /// As the other replicas are sent it.
    Encoded(&'a Replicated),
    /// As it was decided.
    Decoded(&'a Object),
    /// The change that was made where the object lies.
    Delta(&'a SentDelta),
    /// It was changed where it lies.
    InPlace,
}

impl<'a> WrittenObject<'a> {
    /// The best of what a change came to.
    pub(crate) fn of(replicated: Option<&'a Replicated>, object: Option<&'a Object>) -> Self {
        match (replicated, object) {
            (Some(replicated), _) => Self::Encoded(replicated),
            (None, Some(object)) => Self::Decoded(object),
            (None, None) => Self::InPlace,
        }
    }

    pub(crate) fn is_delete(&self) -> bool {
        match self {
            Self::Encoded(written) => written.meta.tombstone,
            Self::Decoded(object) => object.is_tombstone(),
            Self::Delta(_) | Self::InPlace => false,
        }
    }
}
