//! The scripts of a configuration, which are read and tried before the run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::engine::{FunctionHandle, forget};
use super::{FaultSlot, ScriptError, ScriptReference};
use crate::random::{Random, RandomKind, Seed};
use crate::worker_place::WorkerPlace;

/// Maximum length of a script, in bytes.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;

/// The next number of a program. Threads identify programs by their numbers.
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Reads the scripts that a key of the configuration refers to.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// Directory that relative paths start from.
    base: PathBuf,
    paths: Vec<PathBuf>,
    faults: FaultSlot,
}

/// A function of a script, with its arguments.
#[derive(Debug)]
pub(super) struct ScriptProgram {
    pub(super) number: usize,
    pub(super) path: PathBuf,
    pub(super) function: String,
    /// The script, wrapped as a function of the worker's number and the arguments. Each call declares its
    /// variables anew.
    pub(super) text: String,
    /// The arguments, as a list in JSON.
    pub(super) arguments: String,
}

impl Scripts {
    /// Creates an empty collection. Relative paths start from `base`. Faults during a run go to `faults`.
    pub(crate) fn new(base: PathBuf, faults: FaultSlot) -> Self {
        Self { base, paths: Vec::new(), faults }
    }

    /// Paths of the files that were read.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(super) fn faults(&self) -> FaultSlot {
        self.faults.clone()
    }

    /// Reads the program of a reference and tries it by one call, as for a first worker. `remedy` is the
    /// generator to suggest if an Erlang module has no script.
    pub(super) fn program(
        &mut self,
        reference: &ScriptReference,
        remedy: &'static str,
    ) -> Result<Arc<ScriptProgram>, ScriptError> {
        let path = self.base.join(reference.file_name());
        let text = read(&path).map_err(|error| match error {
            ScriptError::Read { path, error }
                if reference.is_module && error.kind() == ErrorKind::NotFound =>
            {
                let (module, function) = (reference.file.clone(), reference.function.clone());
                ScriptError::Module { module, function, path, remedy }
            }
            error => error,
        })?;
        let function = &reference.function;
        // The wrapper puts the script on its first line, so that line numbers of faults are those of the
        // file.
        let text = format!(
            "(function (worker, given) {{ \"use strict\"; {text}\n;\
             if (typeof {function} !== \"function\")\
             {{ throw new TypeError(\"there is no function {function}\"); }}\
             return {function}(worker, ...given); }})"
        );
        let program = Arc::new(ScriptProgram {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            path: path.clone(),
            function: function.clone(),
            text,
            arguments: reference.arguments.clone(),
        });
        let mut random = Random::new(RandomKind::default(), Seed::default(), 1);
        let tried =
            FunctionHandle::make(&program, &mut random, WorkerPlace { number: 1, count: 1 });
        tried.map(drop).map_err(ScriptError::Fault)?;
        forget(&program);
        self.paths.push(path);
        Ok(program)
    }
}

fn read(path: &Path) -> Result<String, ScriptError> {
    let unread = |error| ScriptError::Read { path: path.to_owned(), error };
    let size_bytes = fs::metadata(path).map_err(unread)?.len();
    if size_bytes > SCRIPT_BYTES_MAX {
        let (path, limit_bytes) = (path.to_owned(), SCRIPT_BYTES_MAX);
        return Err(ScriptError::Size { path, size_bytes, limit_bytes });
    }
    fs::read_to_string(path).map_err(unread)
}
