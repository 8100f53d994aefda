//! Reads of the objects of a batch of inputs, each from one replica.

use super::JobError;
use super::Jobs;
use crate::coordinator::in_place::{ReadInPlace, ShownObject};
use crate::coordinator::started::StartedRead;
use crate::error::RequestError;
use crate::map_work::{ScriptInput, apply};
use crate::options::ReadOptions;
use bytes::Bytes;
use quoit_mapreduce::{Datum, Input, MapFunction, PhaseFault, PhaseKind};
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Number of bytes after which a batch ends, so that its objects are used before more are read.
const BATCH_BYTES: usize = 1 << 20;
/// Number of objects that are read in one go before other tasks of the thread get a turn.
const IN_PLACE_COUNT: usize = 64;
/// Number of objects that are read from other nodes or from disk at the same time.
const CONCURRENT_COUNT: usize = 32;

/// Inputs whose objects are being read.
pub(super) struct Fetching {
    inputs: VecDeque<Input>,
    read_count: u64,
}

impl Fetching {
    pub(super) fn new(inputs: Vec<Input>) -> Self {
        Self { inputs: inputs.into(), read_count: 0 }
    }

    /// Adds an input.
    pub(super) fn add(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    pub(super) fn is_done(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Number of objects that were read since the last call.
    pub(super) const fn take_read_count(&mut self) -> u64 {
        std::mem::replace(&mut self.read_count, 0)
    }

    /// Reads some of the objects and applies the function of the phase. Objects for a script are put
    /// into `for_script`.
    pub(super) async fn read(
        &mut self,
        jobs: &Arc<Jobs>,
        phase: usize,
        kind: &PhaseKind,
        outputs: &mut Vec<Datum>,
        for_script: &mut Vec<ScriptInput>,
    ) -> Result<(), JobError> {
        let mut elsewhere = Vec::new();
        let (mut read_bytes, mut looked_at_count) = (0, 0);
        while let Some(input) = self.inputs.pop_front() {
            looked_at_count += 1;
            match read_in_place(jobs, kind, &input) {
                Some(InPlace::Value(value)) => {
                    read_bytes += value.len();
                    self.read_count += 1;
                    if let PhaseKind::Map(function) = kind {
                        let made = function.apply_to_value(value);
                        let failed = |error| PhaseFault::new(phase, error, Some(&input.to_term()));
                        outputs.extend(made.map_err(failed)?);
                    }
                }
                Some(InPlace::Whole(object)) => {
                    read_bytes += object_bytes(&object);
                    self.read_count += 1;
                    apply(kind, phase, input, Some(*object), outputs, for_script)?;
                }
                Some(InPlace::Started(started)) => elsewhere.push((input, Some(started))),
                None => elsewhere.push((input, None)),
            }
            let is_enough = read_bytes >= BATCH_BYTES || elsewhere.len() >= CONCURRENT_COUNT;
            if is_enough || looked_at_count >= IN_PLACE_COUNT {
                break;
            }
        }
        self.read_elsewhere(jobs, phase, kind, elsewhere, outputs, for_script).await
    }

    /// Reads objects from other nodes or from disk, several at a time.
    async fn read_elsewhere(
        &mut self,
        jobs: &Arc<Jobs>,
        phase: usize,
        kind: &PhaseKind,
        inputs: Vec<(Input, Option<Box<StartedRead>>)>,
        outputs: &mut Vec<Datum>,
        for_script: &mut Vec<ScriptInput>,
    ) -> Result<(), JobError> {
        let mut waiting = inputs.into_iter();
        let mut reads = JoinSet::new();
        let mut read_bytes = 0;
        loop {
            while reads.len() < CONCURRENT_COUNT && read_bytes < BATCH_BYTES {
                let Some((input, started)) = waiting.next() else { break };
                let jobs = Arc::clone(jobs);
                reads.spawn(async move { (read_one(&jobs, &input, started).await, input) });
            }
            let Some(read) = reads.join_next().await else { break };
            let (found, input) = match read {
                Ok(read) => read,
                Err(stopped) if stopped.is_panic() => {
                    std::panic::resume_unwind(stopped.into_panic())
                }
                Err(_) => return Err(RequestError::Overload.into()),
            };
            let failed = |fault: RequestError| {
                PhaseFault::new(phase, fault.to_string(), Some(&input.to_term()))
            };
            let object = found.map_err(failed)?;
            self.read_count += 1;
            read_bytes += object.as_ref().map_or(0, object_bytes);
            apply(kind, phase, input, object, outputs, for_script)?;
        }
        // The next batch reads inputs whose read was not begun.
        waiting.rev().for_each(|(input, _)| self.inputs.push_front(input));
        Ok(())
    }
}

/// This node's copy of an object.
enum InPlace {
    Value(Bytes),
    Whole(Box<Object>),
    /// It has to be read from disk.
    Started(Box<StartedRead>),
}

/// This node's copy, if it can be read without waiting and the phase does not need more.
fn read_in_place(jobs: &Jobs, kind: &PhaseKind, input: &Input) -> Option<InPlace> {
    let takes_value = match kind {
        PhaseKind::Map(function) => {
            matches!(function, MapFunction::ObjectValue(_) | MapFunction::ObjectValueList(_))
        }
        // A plain object has no links.
        _ => true,
    };
    if !takes_value {
        return None;
    }
    let options = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
    let show = |found: Option<ShownObject<'_>>| match found? {
        ShownObject::Plain(plain) => Some(InPlace::Value(Bytes::copy_from_slice(plain.value))),
        ShownObject::Large(plain, owner) => Some(InPlace::Value(owner.slice_ref(plain.value))),
        ShownObject::Whole(object) => Some(InPlace::Whole(Box::new(object))),
    };
    // Errors are ignored here. The later read fails with the same error and reports it.
    match jobs.coordinator.get_in_place(input.key_ref(), &options, show) {
        Ok(Some(ReadInPlace::Answer(found))) => found,
        Ok(Some(ReadInPlace::Started(started))) => Some(InPlace::Started(started)),
        _ => None,
    }
}

/// Reads the object of an input from one replica, in its stored form, including tombstones. Asks
/// further replicas as long as none has the object. `started` is a read of one replica that has begun.
///
/// # Errors
///
/// If no replica has the object and no primary confirms that: an object may exist only on nodes that
/// are down.
async fn read_one(
    jobs: &Jobs,
    input: &Input,
    started: Option<Box<StartedRead>>,
) -> Result<Option<Object>, RequestError> {
    if let Some(started) = started {
        match jobs.coordinator.finish_get(*started).await {
            Ok(None) | Err(RequestError::Unsatisfied { .. }) => {}
            found => return found,
        }
    }
    let notfound_ok = Some(false);
    let from_any = ReadOptions { r: Some(Quorum::One), notfound_ok, ..ReadOptions::default() };
    match jobs.coordinator.get(input.key_ref(), &from_any).await {
        Ok(None) | Err(RequestError::Unsatisfied { .. }) => {}
        found => return found,
    }
    let from_primary = ReadOptions {
        r: Some(Quorum::One),
        pr: Some(Quorum::One),
        notfound_ok: Some(true),
        ..ReadOptions::default()
    };
    jobs.coordinator.get(input.key_ref(), &from_primary).await
}

fn object_bytes(object: &Object) -> usize {
    let values = object.siblings.iter().map(|sibling| {
        let links = sibling.meta.links.iter().map(|link| link.bucket.len() + link.key.len());
        sibling.value.len() + links.sum::<usize>()
    });
    values.sum()
}
