//! The phases of a job as a state machine: what has to be done next, and what has come out.
//!
//! Later phases come first: what a phase has put out is used up before more inputs are asked for, so that
//! the memory of a job does not grow with its inputs. Only what reduce phases have to keep grows, and it
//! has a limit.

use crate::fault::PhaseFault;
use crate::job::{Phase, PhaseKind};
use crate::reduce::{ReduceFunction, Reducer};
use crate::value::datum::Datum;
use crate::value::input::Input;
use std::collections::VecDeque;

/// Objects that a map phase is given at once, at most.
pub const MAP_BATCH_COUNT: usize = 256;
/// Inputs of a script that reduces all at once, at most: the limit of memory ends it earlier, as a rule.
const WHOLE_COUNT_MAX: usize = 10_000_000;

/// Next step of a job.
#[derive(Debug)]
pub enum Work {
    /// Read these objects, apply the function of the phase, and give its outputs to [`Pipeline::mapped`].
    Map {
        /// Place of the phase.
        phase: usize,
        /// The records.
        inputs: Vec<Input>,
    },
    /// Call the script of the phase with these values, and give its outputs to [`Pipeline::reduced`].
    Reduce {
        /// Place of the phase.
        phase: usize,
        /// The last result and new inputs.
        values: Vec<Datum>,
    },
    /// Give more inputs to [`Pipeline::feed`], or say [`Pipeline::end_input`].
    Input,
    /// All is done; [`Pipeline::take_outputs`] has the last outputs.
    Done,
}

/// Outputs of a phase that belong to the result.
#[derive(Debug)]
pub struct Outputs {
    /// Place of the phase.
    pub phase: usize,
    /// Outputs, at least one.
    pub data: Vec<Datum>,
}

#[derive(Debug)]
enum Stage {
    /// Map and link phases: inputs that wait.
    Keys(VecDeque<Input>),
    /// Built-in reduce functions.
    Fold(Reducer),
    /// Scripts that reduce.
    Calls(Calls),
}

#[derive(Debug)]
struct Calls {
    /// The last result, and inputs that have come since.
    values: Vec<Datum>,
    /// How many of them are the last result.
    result_count: usize,
    batch_count: usize,
    has_run: bool,
}

/// The phases of a job under way.
#[derive(Debug)]
pub struct Pipeline {
    phases: Vec<Phase>,
    stages: Vec<Stage>,
    /// Phases that have ended, from the first on.
    ended_count: usize,
    input_has_ended: bool,
    ready: Vec<Outputs>,
    held_bytes_max: usize,
    /// Memory of what waits in stages of keys and of scripts.
    waiting_bytes: usize,
}

impl Pipeline {
    /// Phases before their first input; what they keep may take `held_bytes_max` bytes.
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

    /// Memory that it takes for what waits and what is kept, about, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let kept = self.stages.iter().map(|stage| match stage {
            Stage::Fold(reducer) => reducer.held_bytes(),
            _ => 0,
        });
        self.waiting_bytes + kept.sum::<usize>()
    }

    /// Takes inputs for the first phase.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::next_work`].
    pub fn feed(&mut self, inputs: Vec<Input>) -> Result<(), PhaseFault> {
        assert!(!self.input_has_ended, "inputs come before their end");
        let data = inputs.into_iter().map(|input| Datum::Key(Box::new(input)));
        if self.phases.is_empty() {
            // The inputs are the result.
            self.put_out(0, data.collect());
            return Ok(());
        }
        self.deliver(0, data)
    }

    /// Says that there are no more inputs.
    pub const fn end_input(&mut self) {
        self.input_has_ended = true;
    }

    /// The next step.
    ///
    /// # Errors
    ///
    /// Outputs that the next phase can't use, functions that fail, and the limit of memory.
    pub fn next_work(&mut self) -> Result<Work, PhaseFault> {
        loop {
            if let Some(work) = self.waiting_work() {
                return Ok(work);
            }
            if !self.input_has_ended {
                return Ok(Work::Input);
            }
            if self.ended_count == self.stages.len() {
                return Ok(Work::Done);
            }
            if let Some(work) = self.end_stage()? {
                return Ok(work);
            }
        }
    }

    /// Work that a stage has enough inputs for, of the last such stage.
    fn waiting_work(&mut self) -> Option<Work> {
        for place in (self.ended_count..self.stages.len()).rev() {
            match &mut self.stages[place] {
                Stage::Keys(waiting) if !waiting.is_empty() => {
                    let count = waiting.len().min(MAP_BATCH_COUNT);
                    let inputs: Vec<Input> = waiting.drain(..count).collect();
                    self.waiting_bytes -= inputs.iter().map(Input::size_bytes).sum::<usize>();
                    return Some(Work::Map { phase: place, inputs });
                }
                Stage::Calls(calls) if calls.new_count() >= calls.batch_count => {
                    return Some(self.call(place));
                }
                _ => {}
            }
        }
        None
    }

    fn call(&mut self, place: usize) -> Work {
        let Stage::Calls(calls) = &mut self.stages[place] else {
            unreachable!("only scripts are called")
        };
        let values = std::mem::take(&mut calls.values);
        calls.result_count = 0;
        self.waiting_bytes -= values.iter().map(Datum::size_bytes).sum::<usize>();
        Work::Reduce { phase: place, values }
    }

    /// Ends the first stage that has not ended: nothing waits there, and nothing comes any more.
    fn end_stage(&mut self) -> Result<Option<Work>, PhaseFault> {
        let place = self.ended_count;
        let last = match &mut self.stages[place] {
            Stage::Keys(_) => Vec::new(),
            Stage::Fold(reducer) => reducer.finish(),
            Stage::Calls(calls) if calls.new_count() > 0 || !calls.has_run => {
                return Ok(Some(self.call(place)));
            }
            Stage::Calls(calls) => {
                let result = std::mem::take(&mut calls.values);
                self.waiting_bytes -= result.iter().map(Datum::size_bytes).sum::<usize>();
                result
            }
        };
        self.ended_count += 1;
        self.emit(place, last)?;
        Ok(None)
    }

    /// Takes what the function of a map or link phase has made of some inputs.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::next_work`].
    pub fn mapped(&mut self, phase: usize, outputs: Vec<Datum>) -> Result<(), PhaseFault> {
        self.emit(phase, outputs)
    }

    /// Takes what the script of a reduce phase has returned.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::next_work`].
    pub fn reduced(&mut self, phase: usize, outputs: Vec<Datum>) -> Result<(), PhaseFault> {
        let Some(Stage::Calls(calls)) = self.stages.get_mut(phase) else {
            unreachable!("only scripts are called")
        };
        assert!(calls.values.is_empty(), "a result comes before further inputs");
        calls.has_run = true;
        calls.result_count = outputs.len();
        self.waiting_bytes += outputs.iter().map(Datum::size_bytes).sum::<usize>();
        calls.values = outputs;
        self.check_held(phase)
    }

    /// Outputs that belong to the result and were not taken yet, by phase.
    pub fn take_outputs(&mut self) -> Vec<Outputs> {
        std::mem::take(&mut self.ready)
    }

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

    /// Gives data to a phase.
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
                        let error = "bad_input: what the phase before put out is no key; a map phase takes \
                                     [bucket, key], [bucket, key, data] or [bucket, key, data, type]";
                        PhaseFault::new(place, error, term.as_ref())
                    })?;
                    self.waiting_bytes += input.size_bytes();
                    waiting.push_back(input);
                }
                Stage::Fold(reducer) => {
                    let output = reducer.push(datum);
                    at_once.extend(output.map_err(|error| PhaseFault::new(place, error, None))?);
                }
                Stage::Calls(calls) => {
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
            PhaseKind::Reduce(ReduceFunction::Script { batch_count, .. }) => Self::Calls(Calls {
                values: Vec::new(),
                result_count: 0,
                batch_count: batch_count.unwrap_or(WHOLE_COUNT_MAX),
                has_run: false,
            }),
            PhaseKind::Reduce(function) => {
                Self::Fold(Reducer::of(function).expect("scripts are called"))
            }
        }
    }
}

impl Calls {
    fn new_count(&self) -> usize {
        self.values.len() - self.result_count
    }
}

#[cfg(test)]
mod tests;
