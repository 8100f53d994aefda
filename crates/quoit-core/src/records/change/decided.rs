//! Changes as the coordinator has decided them, and how they apply to a whole object.

use super::steps::ChangeSteps;
use crate::error::{DataTypeError, RequestError};
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::data_type::{CausalClock, EventOrigin, Operation};
use quoit_model::hll::Precision;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::Object;
use quoit_model::props::Datatype;
use quoit_model::prune::PruneLimits;
use quoit_wire::internode::data::MergeRule;
use std::borrow::Cow;

/// State that a change finds under the record's name.
pub(crate) enum RecordState<'o> {
    /// An object. A large set or map has its clock and all values, but items only if it was assembled.
    Stored(Cow<'o, Object>),
    /// No object, but the reap record of this tombstone.
    Reaped {
        tombstone: Object,
        /// The object whose causal history the new object takes over.
        history: Box<Object>,
    },
    /// Nothing.
    Nothing,
}

impl RecordState<'_> {
    /// The stored object.
    pub(crate) fn stored(&self) -> Option<&Object> {
        match self {
            Self::Stored(object) => Some(object),
            Self::Reaped { .. } | Self::Nothing => None,
        }
    }

    /// Base of the new object: the stored object, or an object with a reaped tombstone's version vector.
    pub(crate) fn base(&self) -> Option<&Object> {
        match self {
            Self::Stored(object) => Some(object),
            Self::Reaped { history, .. } => Some(history),
            Self::Nothing => None,
        }
    }

    /// As [`RecordState::base`].
    fn into_base(self) -> Option<Object> {
        match self {
            Self::Stored(object) => Some(object.into_owned()),
            Self::Reaped { history, .. } => Some(*history),
            Self::Nothing => None,
        }
    }

    /// Last-write time that the new object must exceed, in microseconds since 1970; 0 if there is none.
    pub(crate) fn last_modified_us(&self) -> u64 {
        match self {
            Self::Stored(object) => object.last_modified_us(),
            Self::Reaped { tombstone, .. } => tombstone.last_modified_us(),
            Self::Nothing => 0,
        }
    }
}

/// A change that was decided from the state under the record's name. [`Records::change`] applies it, in
/// whichever form the record is stored.
///
/// [`Records::change`]: crate::records::Records::change
pub(crate) struct DecidedChange<'c> {
    pub(super) action: ChangeAction<'c>,
    pub(super) pruning: Option<Pruning>,
}

pub(super) enum ChangeAction<'c> {
    /// An object from elsewhere is merged by this rule.
    Merge(Cow<'c, Object>, MergeRule),
    /// A value or a tombstone is written.
    Write(ValueWrite),
    /// An operation on a data type runs.
    Update(DataTypeUpdate<'c>),
}

/// A value or a tombstone that a client writes.
pub(crate) struct ValueWrite {
    /// Causal context of the writer.
    pub(crate) context: VersionVector,
    pub(crate) new: NewValue,
    /// The write's event.
    pub(crate) dot: Dot,
    pub(crate) policy: WritePolicy,
    /// Data type of the bucket. A value that is one in Riak's form becomes a state.
    pub(crate) datatype: Option<Datatype>,
}

/// An operation on a data type.
pub(crate) struct DataTypeUpdate<'c> {
    pub(crate) operation: &'c Operation,
    /// Causal context of the client, for removes.
    pub(crate) context: Option<&'c CausalClock>,
    pub(crate) origin: OperationOrigin,
    /// Second since 1970 at which the data type expires.
    pub(crate) expires_at_secs: Option<u32>,
}

/// Actor, time and settings of an operation.
pub(crate) struct OperationOrigin {
    pub(crate) actor: Actor,
    pub(crate) time_secs: u64,
    pub(crate) now_us: u64,
    pub(crate) hll_precision: Precision,
}

impl OperationOrigin {
    pub(super) const fn event_origin(&self) -> EventOrigin<'_> {
        let Self { actor, time_secs, now_us, hll_precision } = self;
        let (time_secs, now_us, hll_precision) = (*time_secs, *now_us, *hll_precision);
        EventOrigin { actor, time_secs, now_us, hll_precision }
    }
}

/// Limits of the version vector after a change, and the time by which its entries are old, in seconds since
/// year 0.
pub(crate) struct Pruning {
    pub(crate) limits: PruneLimits,
    pub(crate) now_secs: u64,
}

impl<'c> DecidedChange<'c> {
    /// Merges an object from elsewhere with the stored one.
    pub(crate) const fn merge(given: Cow<'c, Object>, rule: MergeRule) -> Self {
        Self { action: ChangeAction::Merge(given, rule), pruning: None }
    }

    /// Writes a value or a tombstone.
    pub(crate) const fn write(write: ValueWrite) -> Self {
        Self { action: ChangeAction::Write(write), pruning: None }
    }

    /// Runs an operation on a data type.
    pub(crate) const fn update(update: DataTypeUpdate<'c>) -> Self {
        Self { action: ChangeAction::Update(update), pruning: None }
    }

    /// Prunes the version vector of the result, unless that is a data type.
    pub(crate) fn pruned(self, pruning: Pruning) -> Self {
        Self { pruning: Some(pruning), ..self }
    }

    /// The object after the change; `None` if a reaped tombstone has seen all of the given object.
    pub(super) fn applied(
        self,
        present: RecordState<'_>,
        steps: &impl ChangeSteps,
    ) -> Result<Option<Object>, RequestError> {
        let object = match self.action {
            ChangeAction::Merge(given, rule) => match steps.merged(present, given, rule) {
                Some(object) => object,
                None => return Ok(None),
            },
            ChangeAction::Write(write) => write.applied(present.base()),
            ChangeAction::Update(update) => return update.applied(present, steps).map(Some),
        };
        finished(object, self.pruning.as_ref(), steps).map(Some)
    }
}

impl ValueWrite {
    fn applied(self, base: Option<&Object>) -> Object {
        let Self { context, new, dot, policy, datatype } = self;
        let state = match policy == WritePolicy::Siblings && !new.deleted {
            true => Object::write_riak_data_type(base, &context, &new, &dot, datatype),
            false => None,
        };
        state.unwrap_or_else(|| Object::write(base, &context, new, dot, policy))
    }
}

impl DataTypeUpdate<'_> {
    fn applied(
        self,
        present: RecordState<'_>,
        steps: &impl ChangeSteps,
    ) -> Result<Object, RequestError> {
        let Self { operation, context, origin, expires_at_secs } = self;
        let (base, events) = (present.into_base(), origin.event_origin());
        let began_us = steps.monotonic_us();
        let updated = Object::update_data_type(base, operation, context, events, expires_at_secs)
            .map_err(DataTypeError::from)?;
        steps.note_update(operation, began_us, &updated);
        Ok(updated)
    }
}

/// Prunes the version vector of an object after a write or a merge, and refuses an object with too many
/// siblings.
pub(super) fn finished(
    mut object: Object,
    pruning: Option<&Pruning>,
    steps: &impl ChangeSteps,
) -> Result<Object, RequestError> {
    if let Some(Pruning { limits, now_secs }) = pruning
        && !object.has_data_type()
    {
        object.prune_clock(limits, *now_secs);
    }
    steps.check_siblings(&object)?;
    Ok(object)
}
