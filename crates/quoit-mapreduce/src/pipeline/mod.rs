//! State machine of the phases of a job: determines the next step and collects the outputs.
//!
//! The caller asks [`Pipeline::next_step`] for the next step, carries it out, and passes the result back
//! with [`Pipeline::feed`], [`Pipeline::mapped`] or [`Pipeline::reduced`]. Later phases come first: outputs
//! of a phase are consumed before more inputs are requested, so that the memory of a job does not grow with
//! the number of its inputs. Only the state of reduce phases grows. Once the inputs have ended and no work
//! is left, the phases end from the first to the last, and each passes its last outputs on. All memory
//! together has a limit, and a job that exceeds it fails.

use crate::fault::PhaseFault;
use crate::job::{Phase, PhaseKind};
use crate::reduce::{ReduceFunction, Reducer};
use crate::value::datum::Datum;
use crate::value::input::Input;
use std::collections::VecDeque;

/// Maximum number of inputs in one [`PipelineStep::Map`].
pub const MAP_BATCH_COUNT: usize = 256;
/// Maximum number of inputs for a script that reduces all inputs in one call. In practice the memory limit
/// is reached earlier.
const WHOLE_COUNT_MAX: usize = 10_000_000;

/// The next step of a job.
#[derive(Debug)]
pub enum PipelineStep {
    /// Read these objects, apply the function of the phase, and pass the outputs to [`Pipeline::mapped`].
    Map {
        /// Index of the phase.
        phase: usize,
        /// Records to read.
        inputs: Vec<Input>,
    },
    /// Call the script of the phase with these values, and pass its outputs to [`Pipeline::reduced`].
    Reduce {
        /// Index of the phase.
        phase: usize,
        /// The last result of the script and the inputs that have arrived since.
        values: Vec<Datum>,
    },
    /// Pass more inputs to [`Pipeline::feed`], or call [`Pipeline::end_input`].
    Input,
    /// The job has ended; [`Pipeline::take_outputs`] returns the last outputs.
    Done,
}

/// Outputs of a phase that are part of the result.
#[derive(Debug)]
pub struct Outputs {
    /// Index of the phase.
    pub phase: usize,
    /// Outputs; at least one.
    pub data: Vec<Datum>,
}

#[derive(Debug)]
enum Stage {
    /// Map and link phases: inputs that wait to be processed.
    Keys(VecDeque<Input>),
    /// Reduce phases with a built-in function.
    Fold(Reducer),
    /// Reduce phases with a script.
    ScriptCalls(ScriptCalls),
}

#[derive(Debug)]
struct ScriptCalls {
    /// The last result, followed by the inputs that have arrived since.
    values: Vec<Datum>,
    /// Number of values that belong to the last result.
    result_count: usize,
    batch_count: usize,
    has_run: bool,
}

/// Progress of a job through its phases.
#[derive(Debug)]
pub struct Pipeline {
    phases: Vec<Phase>,
    stages: Vec<Stage>,
    /// Number of phases that have ended, counted from the first.
    ended_count: usize,
    input_has_ended: bool,
    ready: Vec<Outputs>,
    held_bytes_max: usize,
    /// Memory in bytes of the inputs and results that wait in map phases and in reduce phases with a
    /// script.
    waiting_bytes: usize,
}

impl Pipeline {
    /// Creates the pipeline of the phases. `held_bytes_max` is the limit for [`Pipeline::held_bytes`].
    #[must_use]
    pub fn new(phases: Vec<Phase>, held_bytes_max: usize) -> Self {
        let stages = phases.iter().map(Stage::of).collect();
        Self {
            phases,
            stages,
            ended_count: 0,
            input_has_ended: false,
            ready: Vec::new(),
            held_bytes_max,
            waiting_bytes: 0,
        }
    }

    /// The phases.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Approximate memory in bytes of the waiting inputs and of the state of the reduce phases.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let kept = self.stages.iter().map(|stage| match stage {
            Stage::Fold(reducer) => reducer.held_bytes(),
            _ => 0,
        });
        self.waiting_bytes + kept.sum::<usize>()
    }

    /// Takes inputs of the first phase.
    ///
    /// # Errors
    ///
    /// Like [`Pipeline::next_step`].
    ///
    /// # Panics
    ///
    /// [`Pipeline::end_input`] has been called.
    pub fn feed(&mut self, inputs: Vec<Input>) -> Result<(), PhaseFault> {
        assert!(!self.input_has_ended, "inputs come before their end");
        let data = inputs.into_iter().map(|input| Datum::Key(Box::new(input)));
        if self.phases.is_empty() {
            // The inputs of a job without phases are its result.
            self.put_out(0, data.collect());
            return Ok(());
        }
        self.deliver(0, data)
    }

    /// Marks the end of the inputs.
    pub const fn end_input(&mut self) {
        self.input_has_ended = true;
    }

    /// Determines the next step.
    ///
    /// # Errors
    ///
    /// Outputs of a phase are not valid inputs of the next phase, a function fails, or the memory limit is
    /// exceeded.
    pub fn next_step(&mut self) -> Result<PipelineStep, PhaseFault> {
        loop {
            if let Some(work) = self.waiting_work() {
                return Ok(work);
            }
            if !self.input_has_ended {
                return Ok(PipelineStep::Input);
            }
            if self.ended_count == self.stages.len() {
                return Ok(PipelineStep::Done);
            }
            if let Some(work) = self.end_stage()? {
                return Ok(work);
            }
        }
    }

    /// Returns work of the last stage that has enough inputs.
    #[expect(clippy::indexing_slicing, reason = "a phase has a number below the number of stages")]
    fn waiting_work(&mut self) -> Option<PipelineStep> {
        for place in (self.ended_count..self.stages.len()).rev() {
            match &mut self.stages[place] {
                Stage::Keys(waiting) if !waiting.is_empty() => {
                    let count = waiting.len().min(MAP_BATCH_COUNT);
                    let inputs: Vec<Input> = waiting.drain(..count).collect();
                    self.waiting_bytes -= inputs.iter().map(Input::size_bytes).sum::<usize>();
                    return Some(PipelineStep::Map { phase: place, inputs });
                }
                Stage::ScriptCalls(calls) if calls.new_count() >= calls.batch_count => {
                    return Some(self.call(place));
                }
                _ => {}
            }
        }
        None
    }

    #[expect(clippy::indexing_slicing, reason = "a phase has a number below the number of stages")]
    fn call(&mut self, place: usize) -> PipelineStep {
        let Stage::ScriptCalls(calls) = &mut self.stages[place] else {
            unreachable!("only scripts are called")
        };
        let values = std::mem::take(&mut calls.values);
        calls.result_count = 0;
        self.waiting_bytes -= values.iter().map(Datum::size_bytes).sum::<usize>();
        PipelineStep::Reduce { phase: place, values }
    }

    /// Ends the first stage that has not ended. It has no waiting work, and no further inputs reach it.
    #[expect(clippy::indexing_slicing, reason = "a phase has a number below the number of stages")]
    fn end_stage(&mut self) -> Result<Option<PipelineStep>, PhaseFault> {
        let place = self.ended_count;
        let last = match &mut self.stages[place] {
            Stage::Keys(_) => Vec::new(),
            Stage::Fold(reducer) => reducer.finish(),
            Stage::ScriptCalls(calls) if calls.new_count() > 0 || !calls.has_run => {
                return Ok(Some(self.call(place)));
            }
            Stage::ScriptCalls(calls) => {
                let result = std::mem::take(&mut calls.values);
                self.waiting_bytes -= result.iter().map(Datum::size_bytes).sum::<usize>();
                result
            }
        };
        self.ended_count += 1;
        self.emit(place, last)?;
        Ok(None)
    }

    /// Takes the outputs of a map or link phase for some of its inputs.
    ///
    /// # Errors
    ///
    /// Like [`Pipeline::next_step`].
    pub fn mapped(&mut self, phase: usize, outputs: Vec<Datum>) -> Result<(), PhaseFault> {
        self.emit(phase, outputs)
    }

    /// Takes the outputs of the script of a reduce phase.
    ///
    /// # Errors
    ///
    /// Like [`Pipeline::next_step`].
    ///
    /// # Panics
    ///
    /// The phase does not reduce with a script, or inputs have been fed since its [`PipelineStep::Reduce`].
    pub fn reduced(&mut self, phase: usize, outputs: Vec<Datum>) -> Result<(), PhaseFault> {
        let Some(Stage::ScriptCalls(calls)) = self.stages.get_mut(phase) else {
            unreachable!("only scripts are called")
        };
        assert!(calls.values.is_empty(), "a result comes before further inputs");
        calls.has_run = true;
        calls.result_count = outputs.len();
        self.waiting_bytes += outputs.iter().map(Datum::size_bytes).sum::<usize>();
        calls.values = outputs;
        self.check_held(phase)
    }

    /// Takes the outputs that are part of the result and have not been taken yet, by phase.
    pub fn take_outputs(&mut self) -> Vec<Outputs> {
        std::mem::take(&mut self.ready)
    }

    #[expect(clippy::indexing_slicing, reason = "a phase has a number below the number of stages")]
    fn emit(&mut self, place: usize, outputs: Vec<Datum>) -> Result<(), PhaseFault> {
        let has_next = place + 1 < self.stages.len();
        match (self.phases[place].keep, has_next) {
            (true, true) => {
                self.put_out(place, outputs.clone());
                self.deliver(place + 1, outputs.into_iter())
            }
            (true, false) => {
                self.put_out(place, outputs);
                Ok(())
            }
            (false, true) => self.deliver(place + 1, outputs.into_iter()),
            (false, false) => Ok(()),
        }
    }

    fn put_out(&mut self, phase: usize, data: Vec<Datum>) {
        if data.is_empty() {
            return;
        }
        match self.ready.iter_mut().find(|outputs| outputs.phase == phase) {
            Some(outputs) => outputs.data.extend(data),
            None => self.ready.push(Outputs { phase, data }),
        }
    }

    /// Passes data to a phase.
    #[expect(clippy::indexing_slicing, reason = "a phase has a number below the number of stages")]
    fn deliver(
        &mut self,
        place: usize,
        data: impl Iterator<Item = Datum>,
    ) -> Result<(), PhaseFault> {
        let mut at_once = Vec::new();
        for datum in data {
            match &mut self.stages[place] {
                Stage::Keys(waiting) => {
                    let printed = (!matches!(datum, Datum::Key(_))).then(|| datum.clone());
                    let input = Input::from_datum(datum).ok_or_else(|| {
                        let term = printed.map(|datum| datum.to_term());
                        let error = "bad_input: an output of the phase before is not a key; a map phase \
                                     takes [bucket, key], [bucket, key, data] or [bucket, key, data, type]";
                        PhaseFault::new(place, error, term.as_ref())
                    })?;
                    self.waiting_bytes += input.size_bytes();
                    waiting.push_back(input);
                }
                Stage::Fold(reducer) => {
                    let output = reducer.push(datum);
                    at_once.extend(output.map_err(|error| PhaseFault::new(place, error, None))?);
                }
                Stage::ScriptCalls(calls) => {
                    self.waiting_bytes += datum.size_bytes();
                    calls.values.push(datum);
                }
            }
        }
        self.check_held(place)?;
        if at_once.is_empty() { Ok(()) } else { self.emit(place, at_once) }
    }

    fn check_held(&self, place: usize) -> Result<(), PhaseFault> {
        let (held_bytes, limit) = (self.held_bytes(), self.held_bytes_max);
        if held_bytes <= limit {
            return Ok(());
        }
        let error = format!(
            "the job keeps more than {limit} bytes (mapreduce.job.maximum_memory): begin with fewer inputs, \
             or reduce them earlier"
        );
        Err(PhaseFault::new(place, error, None))
    }
}

impl Stage {
    fn of(phase: &Phase) -> Self {
        match &phase.kind {
            PhaseKind::Map(_) | PhaseKind::Link { .. } => Self::Keys(VecDeque::new()),
            PhaseKind::Reduce(ReduceFunction::Script { batch_count, .. }) => {
                Self::ScriptCalls(ScriptCalls {
                    values: Vec::new(),
                    result_count: 0,
                    batch_count: batch_count.unwrap_or(WHOLE_COUNT_MAX),
                    has_run: false,
                })
            }
            PhaseKind::Reduce(function) => {
                Self::Fold(Reducer::of(function).expect("scripts are called"))
            }
        }
    }
}

impl ScriptCalls {
    fn new_count(&self) -> usize {
        self.values.len() - self.result_count
    }
}

#[cfg(test)]
mod tests;
