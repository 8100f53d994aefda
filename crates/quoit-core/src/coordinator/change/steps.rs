//! Steps of a change that depend on the bucket or on other parts of the node.

use super::Decide;
use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::records::{ChangeSteps, DecidedChange, RecordState};
use crate::replica::{Reaped, clock_of, written_over};
use crate::settings::DeleteMode;
use quoit_model::data_type::Operation;
use quoit_model::object::Object;
use quoit_store::engine::{IoMode, RecordAt};
use quoit_wire::internode::data::MergeRule;
use std::borrow::Cow;

/// A change of one record that a coordinator makes.
pub(super) struct CoordinatedChange<'a> {
    coordinator: &'a Coordinator,
    at: &'a RecordAt<'a>,
    /// True if other replicas are sent the change.
    replicates: bool,
    decide: &'a Decide<'a>,
}

impl<'a> CoordinatedChange<'a> {
    pub(super) const fn new(
        coordinator: &'a Coordinator,
        at: &'a RecordAt<'a>,
        replicates: bool,
        decide: &'a Decide<'a>,
    ) -> Self {
        Self { coordinator, at, replicates, decide }
    }
}

impl ChangeSteps for CoordinatedChange<'_> {
    #[inline]
    fn absent(&self, access: IoMode) -> Result<Option<RecordState<'static>>, RequestError> {
        Ok(match self.coordinator.replica.reaped_at(self.at, access)? {
            Reaped::Nothing => Some(RecordState::Nothing),
            Reaped::Tombstone(tombstone) => {
                let history = Box::new(clock_of(&tombstone));
                Some(RecordState::Reaped { tombstone: *tombstone, history })
            }
            Reaped::WouldBlock => None,
        })
    }

    fn decide(&self, present: &RecordState<'_>) -> Result<Option<DecidedChange<'_>>, RequestError> {
        (self.decide)(present)
    }

    /// An object that the stored one includes is written and sent again: the first write may not be synced
    /// yet or may not have reached the other replicas, and this one is acknowledged when it has.
    fn merged(
        &self,
        present: RecordState<'_>,
        given: Cow<'_, Object>,
        rule: MergeRule,
    ) -> Option<Object> {
        match present {
            RecordState::Nothing => Some(given.into_owned()),
            RecordState::Stored(stored) => {
                Some(self.coordinator.replica.merged(&stored, &given, rule))
            }
            RecordState::Reaped { tombstone, .. } => written_over(&tombstone, &given, rule),
        }
    }

    fn check_siblings(&self, object: &Object) -> Result<(), RequestError> {
        self.coordinator.check_siblings(object)
    }

    fn check_size(&self, object: &Object, size_bytes: u64) -> Result<(), RequestError> {
        self.coordinator.check_size(self.at.key, size_bytes)?;
        self.coordinator.warn_if_many(self.at.key, object);
        Ok(())
    }

    fn keeps_tombstone(&self, digest: u64) -> bool {
        let Coordinator { local, replica, hook, .. } = self.coordinator;
        if !self.replicates
            && local.settings.delete_mode == DeleteMode::Immediate
            && !hook.may_receive_older()
        {
            return false;
        }
        replica.note_tombstone(self.at, digest);
        true
    }

    fn is_held(&self, size_bytes: usize) -> bool {
        self.coordinator.hook.is_held(size_bytes)
    }

    fn monotonic_us(&self) -> u64 {
        self.coordinator.local.clock.monotonic_us()
    }

    fn note_update(&self, operation: &Operation, began_us: u64, object: &Object) {
        let local = &self.coordinator.local;
        let time_us = local.clock.monotonic_us() - began_us;
        local.stats.data_types().record_update(operation.datatype(), time_us, object);
    }
}
