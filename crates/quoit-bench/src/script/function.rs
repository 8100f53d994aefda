//! The function that a script has made for one worker.

use std::sync::Arc;

use super::engine::{Argument, FunctionHandle, ScriptReturn};
use super::scripts::ScriptProgram;
use super::{FaultSlot, ScriptError, ScriptFault, ScriptReference, Scripts};
use crate::random::Random;
use crate::worker_place::WorkerPlace;

/// A function of a script. Each clone gets a function of its own from the script.
#[derive(Debug)]
pub struct ScriptFunction {
    reference: Arc<ScriptReference>,
    program: Option<Arc<ScriptProgram>>,
    faults: FaultSlot,
    place: WorkerPlace,
    made: Option<FunctionHandle>,
}

impl Clone for ScriptFunction {
    fn clone(&self) -> Self {
        Self {
            reference: Arc::clone(&self.reference),
            program: self.program.clone(),
            faults: self.faults.clone(),
            place: self.place,
            made: None,
        }
    }
}

impl ScriptFunction {
    /// Creates the function of a reference. Its script is not read yet.
    pub(super) fn new(reference: ScriptReference) -> Self {
        Self {
            reference: Arc::new(reference),
            program: None,
            faults: FaultSlot::default(),
            place: WorkerPlace { number: 1, count: 1 },
            made: None,
        }
    }

    /// Reads the script and tries it. Without this, every call fails.
    ///
    /// # Errors
    ///
    /// When the script cannot be read, or its function does not return a function.
    pub(super) fn load(
        &mut self,
        scripts: &mut Scripts,
        remedy: &'static str,
    ) -> Result<(), ScriptError> {
        self.program = Some(scripts.program(&self.reference, remedy)?);
        self.faults = scripts.faults();
        Ok(())
    }

    /// Prepares the function for a worker. Its state is lost.
    pub(super) fn start(&mut self, place: WorkerPlace) {
        self.place = place;
        self.made = None;
    }

    /// Calls the worker's function. The first call lets the script make it. A fault is also kept for the
    /// end of the run. Costs some hundred nanoseconds in addition to the script itself.
    ///
    /// # Errors
    ///
    /// When the script fails or exceeds a limit.
    pub(super) fn call(
        &mut self,
        random: &mut Random,
        argument: Argument,
    ) -> Result<ScriptReturn, ScriptFault> {
        let Some(program) = &self.program else {
            let text = "the script was not read".to_owned();
            return Err(self.fail(ScriptFault::of_call(self.reference.file_name().as_ref(), text)));
        };
        let called = match &self.made {
            Some(made) => made.call(&program.path, random, self.place, argument),
            None => FunctionHandle::make(program, random, self.place).and_then(|made| {
                let called = made.call(&program.path, random, self.place, argument);
                self.made = Some(made);
                called
            }),
        };
        called.map_err(|fault| self.fail(fault))
    }

    /// Records the fault of a returned value, which `text` describes.
    pub(super) fn refuse(&self, text: String) -> ScriptFault {
        let path = self.program.as_ref().map(|program| program.path.clone());
        let path = path.unwrap_or_else(|| self.reference.file_name().into());
        let text = format!("the function of {} {text}", self.reference.function);
        self.fail(ScriptFault::of_call(&path, text))
    }

    #[cold]
    fn fail(&self, fault: ScriptFault) -> ScriptFault {
        self.faults.put(fault.clone());
        fault
    }
}
