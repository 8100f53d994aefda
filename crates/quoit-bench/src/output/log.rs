//! The logs of a run: `console.log` with everything from the configured level on, `error.log`
//! with errors, `crash.log` with crashed workers.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::OutputError;
use crate::config::LogLevel;

/// The open log files. Lines are written at once, so that the logs can be followed.
#[derive(Debug)]
pub(crate) struct RunLog {
    level: LogLevel,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    console: File,
    error: File,
    crash: File,
}

impl RunLog {
    /// Makes the log files in the directory of a run.
    pub(crate) fn create(directory: &Path, level: LogLevel) -> Result<Self, OutputError> {
        let create = |name: &str| {
            let path = directory.join(name);
            File::create(&path).map_err(OutputError::write(path))
        };
        let files = Files {
            console: create("console.log")?,
            error: create("error.log")?,
            crash: create("crash.log")?,
        };
        Ok(Self { level, files: Mutex::new(files) })
    }

    /// Writes a line. A log that cannot be written does not stop a run: its tables matter more.
    pub(crate) fn write(&self, level: LogLevel, message: &str) {
        if level < self.level {
            return;
        }
        let name = match level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
        };
        let line = format!("{} [{name}] {message}\n", now());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = files.console.write_all(line.as_bytes());
        if level >= LogLevel::Error {
            let _ = files.error.write_all(line.as_bytes());
        }
    }

    /// Writes an information.
    pub(crate) fn info(&self, message: &str) {
        self.write(LogLevel::Info, message);
    }

    /// Writes a warning.
    pub(crate) fn warning(&self, message: &str) {
        self.write(LogLevel::Warning, message);
    }

    /// Writes an error.
    pub(crate) fn error(&self, message: &str) {
        self.write(LogLevel::Error, message);
    }

    /// Writes the crash of a worker, in `crash.log` too.
    pub(crate) fn crash(&self, message: &str) {
        self.write(LogLevel::Error, message);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(files.crash, "{} {message}", now());
    }
}

fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}
