//! The logs of a run. `console.log` has the messages from the configured level on, `error.log` the errors,
//! and `crash.log` the crashes of workers. `log.sasl.txt` stays empty and exists for Erlang's tools, which
//! look for it.

mod file;

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use file::LogFile;
use jiff::civil::DateTime;

use super::OutputError;
use crate::log_level::LogLevel;

/// The open log files. Every line is written at once, so that the logs can be followed.
#[derive(Debug)]
pub(crate) struct RunLog {
    level: LogLevel,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    console: LogFile,
    error: LogFile,
    crash: LogFile,
}

impl RunLog {
    /// Creates the log files in the directory of a run.
    pub(crate) fn create(directory: &Path, level: LogLevel) -> Result<Self, OutputError> {
        let now = local_time();
        let create = |name: &str| LogFile::create(directory.join(name), &now);
        let files = Files {
            console: create("console.log")?.rotating(),
            error: create("error.log")?.rotating(),
            crash: create("crash.log")?,
        };
        let sasl = directory.join("log.sasl.txt");
        File::create(&sasl).map_err(OutputError::write(sasl))?;
        Ok(Self { level, files: Mutex::new(files) })
    }

    /// Writes a line. A failure to write does not stop the run, whose tables matter more.
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
        let now = local_time();
        let line = format!("{} [{name}] {message}\n", time_text(&now));
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.console.append(&line, &now);
        if level >= LogLevel::Error {
            files.error.append(&line, &now);
        }
    }

    /// Writes a message of the level info.
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

    /// Writes the crash of a worker as an error, and to `crash.log`.
    pub(crate) fn crash(&self, message: &str) {
        self.write(LogLevel::Error, message);
        let now = local_time();
        let line = format!("{} {message}\n", time_text(&now));
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.crash.append(&line, &now);
    }

    /// Descriptions, for people, of lines that could not be written, as in `console.log (2 lines)`.
    pub(crate) fn lost(&self) -> Vec<String> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        [&files.console, &files.error, &files.crash].into_iter().filter_map(LogFile::lost).collect()
    }
}

fn time_text(now: &DateTime) -> String {
    now.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

fn local_time() -> DateTime {
    jiff::Zoned::now().datetime()
}
