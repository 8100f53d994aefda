//! A map phase at a node: its own copies are read, mapped, and maybe reduced.

use crate::error::RequestError;
use crate::get::resolve;
use crate::map_work::{
    ForScript, NodeWork, SessionInUse, apply, datum_to_wire, elements, failure, input_to_wire,
    list_of,
};
use crate::store::{ReplicatedStore, decode};
use bytes::Bytes;
use prost::Message;
use quoit_mapreduce::{
    Datum, Input, MapFunction, PhaseFault, PhaseKind, ReduceFunction, ScriptCall,
};
use quoit_model::plain::PlainObject;
use quoit_model::props::BucketProps;
use quoit_store::engine::{Access, RecordAt, Shown};
use quoit_store::error::StoreError;
use quoit_wire::internode::maps::{MapCounts, MapFailure, MapOutput, MapOutputKind};

/// One batch of a phase.
pub(crate) struct NodeMapper<'w> {
    store: &'w ReplicatedStore,
    work: &'w NodeWork,
    counts: MapCounts,
    /// Bytes of the objects that were read.
    read_bytes: usize,
    outputs: Vec<Datum>,
    /// Inputs whose objects could not be read here.
    unread: Vec<Input>,
    /// Objects for a script.
    whole: Vec<ForScript>,
    session: Option<SessionInUse<'w>>,
    /// Whether scripts can't be run here: nothing is read then.
    leaves_all: bool,
    failed: Option<MapFailure>,
}

/// A copy that was found.
enum FoundCopy {
    /// The value of a plain object, where that is enough.
    Value(Bytes),
    /// The stored form.
    Stored(Bytes),
}

impl<'w> NodeMapper<'w> {
    pub(crate) fn open(store: &'w ReplicatedStore, work: &'w NodeWork) -> Self {
        let mut mapper = Self {
            store,
            work,
            counts: MapCounts::default(),
            read_bytes: 0,
            outputs: Vec::new(),
            unread: Vec::new(),
            whole: Vec::new(),
            session: None,
            leaves_all: false,
            failed: None,
        };
        if !work.scripts().is_empty() {
            match store.map_sessions.take(work, &*store.clock) {
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

    /// Whether the phase has failed: what else there is does not matter.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the job by a fault of its key filter.
    pub(crate) fn fail_filter(&mut self, error: String) {
        self.failed = Some(MapFailure { error, of_filter: true, ..MapFailure::default() });
    }

    fn fail(&mut self, fault: PhaseFault) {
        let PhaseFault { phase, error, input, stack, .. } = fault;
        let phase = phase as u32;
        self.failed = Some(MapFailure { phase, error, input, stack, of_filter: false });
    }

    /// Reads this node's copy of a record and maps it. What is not here, or can't be read, is left to the
    /// node that runs the job.
    ///
    /// # Errors
    ///
    /// Engine faults that are no damage of the record.
    pub(crate) fn map(
        &mut self,
        props: &BucketProps,
        at: &RecordAt<'_>,
        input: impl Fn() -> Input,
    ) -> Result<(), RequestError> {
        self.counts.inputs += 1;
        let found = match self.leaves_all {
            true => None,
            false => self.read(at)?,
        };
        let kind = &self.work.kind;
        let applied = match found {
            None => {
                self.unread.push(input());
                return Ok(());
            }
            Some(FoundCopy::Value(value)) => {
                self.counts.reads += 1;
                self.read_bytes += value.len();
                match kind {
                    PhaseKind::Map(function) => function
                        .apply_to_value(value)
                        .map(|made| self.outputs.extend(made))
                        .map_err(|error| {
                            PhaseFault::new(self.work.phase, error, Some(&input().to_term()))
                        }),
                    // A plain object has no links.
                    _ => Ok(()),
                }
            }
            Some(FoundCopy::Stored(stored)) => {
                self.counts.reads += 1;
                self.read_bytes += stored.len();
                let object = resolve(decode(&stored)?, props);
                let (outputs, whole) = (&mut self.outputs, &mut self.whole);
                apply(kind, self.work.phase, input(), Some(object), outputs, whole)
            }
        };
        if let Err(fault) = applied {
            self.fail(fault);
        }
        Ok(())
    }

    fn read(&self, at: &RecordAt<'_>) -> Result<Option<FoundCopy>, RequestError> {
        let takes_value = match &self.work.kind {
            PhaseKind::Map(function) => !function.needs_object(),
            _ => true,
        };
        let mut found = None;
        let shown = self.store.records.show(at, Access::Wait, &mut |record| {
            let plain = takes_value.then(|| PlainObject::read(record.value)).flatten();
            found = Some(match plain {
                Some(plain) => FoundCopy::Value(Bytes::copy_from_slice(plain.value)),
                None => FoundCopy::Stored(record.to_bytes()),
            });
        });
        match shown {
            Ok(Shown::Found) => Ok(found),
            Ok(Shown::Missing | Shown::WouldBlock) => Ok(None),
            Err(StoreError::Corrupt { .. }) => {
                self.store.note_damaged(&Bytes::copy_from_slice(at.encoded));
                Ok(None)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Runs scripts, reduces, and tells what came of it all.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        let mut lists = Vec::new();
        if self.failed.is_none() && !self.whole.is_empty() {
            let call = ScriptCall::Map(std::mem::take(&mut self.whole));
            lists = self.called(self.work.phase, call).unwrap_or_default();
        }
        if self.failed.is_none() && self.work.reduce.is_some() {
            lists = self.reduced(lists);
        }
        let counts = MapOutputKind::Counts(self.counts);
        let outputs = self.outputs.into_iter().map(datum_to_wire);
        let lists = lists.into_iter().map(MapOutputKind::List);
        let unread = self.unread.iter().map(|input| MapOutputKind::Unread(input_to_wire(input)));
        let failed = self.failed.map(MapOutputKind::Failed);
        let all = std::iter::once(counts).chain(outputs).chain(lists).chain(unread).chain(failed);
        all.map(|kind| MapOutput { kind: Some(kind) }.encode_to_vec().into()).collect()
    }

    /// The lists that a call of scripts gives; `None` when it has failed.
    fn called(&mut self, phase: usize, call: ScriptCall) -> Option<Vec<Bytes>> {
        let called = self.session.as_mut()?.call(phase, call);
        called.map_err(|fault| self.fail(failure(phase, fault))).ok()
    }

    /// Reduces the outputs and lists: what is left are outputs, or the list of a script.
    fn reduced(&mut self, lists: Vec<Bytes>) -> Vec<Bytes> {
        let Some(function) = &self.work.reduce else { return lists };
        let phase = self.work.phase + 1;
        let is_script = matches!(function, ReduceFunction::Script { .. });
        if is_script && self.session.is_none() {
            return lists;
        }
        for list in lists {
            match elements(self.work.phase, &list) {
                Ok(elements) => self.outputs.extend(elements),
                Err(fault) => {
                    self.fail(fault);
                    return Vec::new();
                }
            }
        }
        if self.outputs.is_empty() {
            return Vec::new();
        }
        let outputs = std::mem::take(&mut self.outputs);
        if is_script {
            return match list_of(phase, &outputs) {
                Ok(list) => self.called(phase, ScriptCall::Reduce(list)).unwrap_or_default(),
                Err(fault) => {
                    self.fail(fault);
                    Vec::new()
                }
            };
        }
        match function.reduced(outputs) {
            Some(Ok(reduced)) => self.outputs = reduced,
            Some(Err(error)) => self.fail(PhaseFault::new(phase, error, None)),
            None => unreachable!("scripts are called"),
        }
        Vec::new()
    }
}
