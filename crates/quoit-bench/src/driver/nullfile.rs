//! The driver that writes keys to files. It measures the load generator with a little work of the disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::null::{NullOperation, failure};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, key_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::KeyKind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// One worker and its file.
#[derive(Debug)]
pub(super) struct NullFile {
    file: BufWriter<File>,
}

/// State that all workers share.
#[derive(Debug)]
pub(super) struct NullFilePlan {
    /// Directory of the workers' files.
    directory: PathBuf,
    key_kind: KeyKind,
}

/// An operation on the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullFileOperation {
    WriteKey,
    Fail(NullOperation),
}

impl Driver for NullFile {
    const NAME: &'static str = "nullfile";
    const OPERATIONS: &'static str = "get, put, delete, an_error, another_error";

    type Operation = NullFileOperation;
    type Plan = NullFilePlan;

    fn plan(config: &Config) -> Result<NullFilePlan, ConfigError> {
        let directory = config.run_directory.join("null");
        Ok(NullFilePlan { directory, key_kind: config.key_generator.kind() })
    }

    fn system_requirements(_: &NullFilePlan) -> SystemRequirements {
        let durability = "keys are written to files that are never synced".to_owned();
        SystemRequirements { targets: Vec::new(), additional_lists: Vec::new(), durability }
    }

    fn operation(_: &NullFilePlan, term: &Term) -> Option<NullFileOperation> {
        Some(match term.as_atom()? {
            "get" | "put" | "delete" => NullFileOperation::WriteKey,
            "an_error" => NullFileOperation::Fail(NullOperation::Error),
            "another_error" => NullFileOperation::Fail(NullOperation::AnotherError),
            _ => return None,
        })
    }

    fn draws_values(_: NullFileOperation) -> bool {
        false
    }

    async fn connect(plan: &NullFilePlan, place: WorkerPlace) -> Result<Self, StartError> {
        let path = plan.directory.join(place.number.to_string());
        match plan.open_in_directory(&path) {
            Ok(file) => Ok(Self { file: BufWriter::new(file) }),
            Err(error) => Err(StartError::Store { path, reason: error.to_string() }),
        }
    }

    async fn perform(
        &mut self,
        plan: &NullFilePlan,
        operation: NullFileOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        match operation {
            NullFileOperation::Fail(operation) => failure(operation),
            NullFileOperation::WriteKey => match inputs.next_key() {
                Err(_) => Outcome::Stop,
                Ok(key) => match self.write(&key_bytes(plan.key_kind, key)) {
                    Ok(()) => Outcome::Success,
                    Err(error) => {
                        let reason = [Term::atom("write"), Term::String(error.to_string())];
                        Outcome::Failure(Term::Tuple(reason.into()))
                    }
                },
            },
        }
    }
}

impl NullFile {
    /// Writes a key and a line break.
    fn write(&mut self, key: &[u8]) -> io::Result<()> {
        self.file.write_all(key)?;
        self.file.write_all(b"\n")
    }
}

impl NullFilePlan {
    /// Opens the file of a worker, and creates the directory and the file if they do not exist.
    fn open_in_directory(&self, path: &Path) -> io::Result<File> {
        fs::create_dir_all(&self.directory)?;
        // A worker that restarts after a crash appends to its file.
        File::options().append(true).create(true).open(path)
    }
}
