//! The object of a write in the form in which its coordinator holds it.

use super::{Replicated, SentDelta};
use crate::records::{Changed, SentChange};
use quoit_model::object::Object;

/// The object of a write in the form in which its coordinator holds it, so that queues and change feeds need
/// not encode or read it again.
pub(crate) enum WrittenObject<'a> {
    /// Encoded, as the other replicas receive it.
    Encoded(&'a Replicated),
    /// Decoded.
    Decoded(&'a Object),
    /// The delta of an operation on a large set or map.
    Delta(&'a SentDelta),
    /// Not held in memory: the object is only in the store.
    InPlace,
}

impl<'a> WrittenObject<'a> {
    /// The form in which other replicas receive the change if there is one, else the decoded object, else
    /// neither.
    pub(crate) const fn of(changed: &'a Changed) -> Self {
        match (&changed.sent, &changed.object) {
            (Some(SentChange::Object(replicated)), _) => Self::Encoded(replicated),
            (Some(SentChange::Delta(delta)), _) => Self::Delta(delta),
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
