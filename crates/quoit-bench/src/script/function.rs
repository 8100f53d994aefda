//! The function that a script has made for one worker.

use std::sync::Arc;

use super::engine::{Argument, Given, MadeFunction};
use super::scripts::ScriptProgram;
use super::{FaultSlot, ScriptError, ScriptFault, ScriptReference, Scripts};
use crate::random::Random;
use crate::worker_place::WorkerPlace;

/// A function of a script. Each clone has the script make a function of its own.
#[derive(Debug)]
pub struct ScriptFunction {
    reference: Arc<ScriptReference>,
    program: Option<Arc<ScriptProgram>>,
    faults: FaultSlot,
    place: WorkerPlace,
    made: Option<MadeFunction>,
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
    /// The function of a reference, whose script is not read yet.
    pub(super) fn new(reference: ScriptReference) -> Self {
        Self {
            reference: Arc::new(reference),
            program: None,
            faults: FaultSlot::default(),
            place: WorkerPlace { number: 1, count: 1 },
            made: None,
        }
    }

    /// Reads the script and tries it. Without it every call is a fault.
    ///
    /// # Errors
    ///
    /// When the script cannot be read, or its function makes none.
    pub(super) fn load(
        &mut self,
        scripts: &mut Scripts,
        remedy: &'static str,
    ) -> Result<(), ScriptError> {
        self.program = Some(scripts.program(&self.reference, remedy)?);
        self.faults = scripts.faults();
        Ok(())
    }

    /// Prepares the function for a worker, which begins anew.
    pub(super) fn start(&mut self, place: WorkerPlace) {
        self.place = place;
        self.made = None;
    }

    /// Calls the worker's function; the first call has the script make it. A fault is kept for the end of the
    /// run, too. Costs some hundred nanoseconds beside those of the script.
    ///
    /// # Errors
    ///
    /// When the script fails, or takes too long or too much.
    pub(super) fn call(
        &mut self,
        random: &mut Random,
        argument: Argument,
    ) -> Result<Given, ScriptFault> {
        let Some(program) = &self.program else {
            let text = "the script was not read".to_owned();
            return Err(self.fail(ScriptFault::of_call(self.reference.file_name().as_ref(), text)));
        };
        let called = match &self.made {
            Some(made) => made.call(&program.path, random, self.place, argument),
            None => MadeFunction::make(program, random, self.place).and_then(|made| {
                let called = made.call(&program.path, random, self.place, argument);
                self.made = Some(made);
                called
            }),
        };
        called.map_err(|fault| self.fail(fault))
    }

    /// Keeps a fault of a value that the function gave, which `text` tells.
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
