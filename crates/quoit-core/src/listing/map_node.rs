//! A map phase at one node: it reads its own copies, maps them and, if the next phase allows it,
//! reduces the outputs.

use super::Listings;
use super::map_outputs::{NodeOutputs, encoded_kind};
use crate::coordinator::get::resolve;
use crate::error::RequestError;
use crate::map_work::{
    NodeWork, ScriptInput, SessionInUse, apply, elements, failure, input_to_wire, list_of,
};
use crate::stored::decode;
use bytes::Bytes;
use quoit_mapreduce::{Input, MapFunction, PhaseFault, PhaseKind, ScriptCall};
use quoit_model::plain::PlainObject;
use quoit_model::props::BucketProps;
use quoit_number::{index, length_u32};
use quoit_store::engine::{InPlaceRead, IoMode, RecordAt, RecordRef};
use quoit_store::error::StoreError;
use quoit_wire::internode::maps::{MapCounts, MapFailure, MapOutputKind};

/// A batch of a map phase.
pub(crate) struct NodeMapper<'w> {
    listings: &'w Listings,
    work: &'w NodeWork,
    counts: MapCounts,
    /// Bytes of the objects that were read.
    read_bytes: usize,
    outputs: NodeOutputs,
    /// Inputs whose objects could not be read here. The coordinator of the job reads them.
    unread: Vec<Input>,
    /// Objects that are to be mapped by a script.
    whole: Vec<ScriptInput>,
    session: Option<SessionInUse<'w>>,
    /// True if the phase needs a script that this node can't run. It then reads nothing.
    leaves_all: bool,
    failed: Option<MapFailure>,
}

impl<'w> NodeMapper<'w> {
    pub(crate) fn open(listings: &'w Listings, work: &'w NodeWork) -> Self {
        let mut mapper = Self {
            listings,
            work,
            counts: MapCounts::default(),
            read_bytes: 0,
            outputs: NodeOutputs::new(work),
            unread: Vec::new(),
            whole: Vec::new(),
            session: None,
            leaves_all: false,
            failed: None,
        };
        if !work.scripts().is_empty() {
            match listings.map_sessions.take(work, &*listings.local.clock) {
                Ok(session) => {
                    let is_script = matches!(work.kind, PhaseKind::Map(MapFunction::Script(_)));
                    mapper.leaves_all = is_script && session.is_none();
                    mapper.session = session;
                }
                Err(fault) => mapper.fail(failure(fault.phase, fault)),
            }
        }
        mapper
    }

    /// Bytes of the objects that were read.
    pub(crate) const fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Number of records that the phase was given.
    pub(crate) const fn input_count(&self) -> usize {
        index(self.counts.inputs)
    }

    /// True if the phase has failed: the rest of the batch does not matter.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Fails the job because of an error of its key filter.
    pub(crate) fn fail_filter(&mut self, error: String) {
        self.failed = Some(MapFailure { error, of_filter: true, ..MapFailure::default() });
    }

    fn fail(&mut self, fault: PhaseFault) {
        let PhaseFault { phase, error, input, stack, .. } = fault;
        let phase = length_u32(phase);
        self.failed = Some(MapFailure { phase, error, input, stack, of_filter: false });
    }

    /// Reads this node's copy of a record and maps it. A record that is not here, or is damaged, is
    /// left to the coordinator of the job.
    ///
    /// # Errors
    ///
    /// Faults of the engine other than damage of the record.
    pub(crate) fn map(
        &mut self,
        props: &BucketProps,
        at: &RecordAt<'_>,
        input: impl Fn() -> Input,
    ) -> Result<(), RequestError> {
        if self.leaves_all {
            self.leave(input());
            return Ok(());
        }
        let listings = self.listings;
        let mut taken = Ok(());
        let shown = listings.local.records.show(at, IoMode::Wait, &mut |record| {
            taken = self.take(props, record, &input);
        });
        match shown {
            Ok(InPlaceRead::Found) => taken,
            Ok(InPlaceRead::Missing | InPlaceRead::WouldBlock) => {
                self.leave(input());
                Ok(())
            }
            Err(StoreError::Corrupt { .. }) => {
                listings.healing.note(Bytes::copy_from_slice(at.encoded));
                self.leave(input());
                Ok(())
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// True if this node reads nothing and leaves every input to the coordinator.
    pub(crate) const fn leaves_all(&self) -> bool {
        self.leaves_all
    }

    /// Leaves an input to the coordinator of the job.
    pub(crate) fn leave(&mut self, input: Input) {
        self.counts.inputs += 1;
        self.unread.push(input);
    }

    /// Maps a record that is not in pages.
    ///
    /// # Errors
    ///
    /// Objects whose stored form can't be read.
    pub(crate) fn take(
        &mut self,
        props: &BucketProps,
        record: &RecordRef<'_>,
        input: impl Fn() -> Input,
    ) -> Result<(), RequestError> {
        self.counts.inputs += 1;
        self.counts.reads += 1;
        let kind = &self.work.kind;
        let takes_value = match kind {
            PhaseKind::Map(function) => !function.needs_object(),
            _ => true,
        };
        let plain = takes_value.then(|| PlainObject::read(record.value)).flatten();
        let applied = match (plain, kind) {
            (Some(plain), PhaseKind::Map(MapFunction::ObjectValue(_))) => {
                self.read_bytes += plain.value.len();
                self.outputs.add_value(plain.value)
            }
            (Some(plain), PhaseKind::Map(function)) => {
                self.read_bytes += plain.value.len();
                let made = function.apply_to_value(Bytes::copy_from_slice(plain.value));
                let made = made.map_err(|error| {
                    PhaseFault::new(self.work.phase, error, Some(&input().to_term()))
                });
                made.and_then(|made| self.outputs.add(made))
            }
            // A plain object has no links.
            (Some(plain), _) => {
                self.read_bytes += plain.value.len();
                Ok(())
            }
            (None, kind) => {
                self.read_bytes += record.value.len();
                let object = resolve(decode(&record.to_bytes())?, props);
                let (mut made, whole) = (Vec::new(), &mut self.whole);
                apply(kind, self.work.phase, input(), Some(object), &mut made, whole)
                    .and_then(|()| self.outputs.add(made))
            }
        };
        if let Err(fault) = applied {
            self.fail(fault);
        }
        Ok(())
    }

    /// Runs the scripts, reduces, and returns the encoded outputs of the batch: counts, results, unread
    /// inputs, a failure.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        debug_assert_eq!(
            self.counts.inputs,
            self.counts.reads + self.unread.len() as u64,
            "each input was read here or is left to the coordinator"
        );
        let mut lists = Vec::new();
        if self.failed.is_none() && !self.whole.is_empty() {
            let call = ScriptCall::Map(std::mem::take(&mut self.whole));
            lists = self.called(self.work.phase, call).unwrap_or_default();
        }
        if self.failed.is_none() {
            lists = self.reduced(lists);
        }
        let lists = lists.into_iter().map(MapOutputKind::List);
        let unread = self.unread.iter().map(|input| MapOutputKind::Unread(input_to_wire(input)));
        let failed = self.failed.map(MapOutputKind::Failed);
        let others = std::iter::once(MapOutputKind::Counts(self.counts));
        let others = others.chain(lists).chain(unread).chain(failed).map(encoded_kind);
        self.outputs.finish().into_iter().chain(others).collect()
    }

    /// Lists that a call of a script returned; `None` if it failed.
    fn called(&mut self, phase: usize, call: ScriptCall) -> Option<Vec<Bytes>> {
        let called = self.session.as_mut()?.call(phase, call);
        called.map_err(|fault| self.fail(failure(phase, fault))).ok()
    }

    /// Feeds lists that a script returned to the reduction, if there is one, and runs a script that
    /// reduces over all outputs. Returns the lists that remain as they are.
    fn reduced(&mut self, lists: Vec<Bytes>) -> Vec<Bytes> {
        let reduces = match &self.outputs {
            NodeOutputs::Encoded(_) => false,
            NodeOutputs::Reduced(..) => true,
            NodeOutputs::ForScript(_) => self.session.is_some(),
        };
        if !reduces {
            return lists;
        }
        for list in lists {
            let added = elements(self.work.phase, &list).and_then(|list| self.outputs.add(list));
            if let Err(fault) = added {
                self.fail(fault);
                return Vec::new();
            }
        }
        let phase = self.work.phase + 1;
        let NodeOutputs::ForScript(outputs) = &mut self.outputs else { return Vec::new() };
        let outputs = std::mem::take(outputs);
        if outputs.is_empty() {
            return Vec::new();
        }
        match list_of(phase, &outputs) {
            Ok(list) => self.called(phase, ScriptCall::Reduce(list)).unwrap_or_default(),
            Err(fault) => {
                self.fail(fault);
                Vec::new()
            }
        }
    }
}
