//! Sequences of integers, which a later run can continue.

use std::path::{Path, PathBuf};

use super::{Exhausted, position_file};
use crate::log_level::LogLevel;
use crate::notices::Notices;
use crate::worker_place::WorkerPlace;

/// Number of positions from one save to the next.
const SAVE_INTERVAL: u64 = 500;

/// Position, within an interval, at which the position is saved; as in basho_bench.
const SAVE_OFFSET: u64 = 400;

/// Number of positions from one progress report to the next.
const REPORT_INTERVAL: u64 = 5000;

/// Settings of all sequences.
#[derive(Debug, Clone, Default)]
pub struct SequenceSettings {
    /// Directory in which positions are saved between runs; `None` to save nothing.
    pub state_dir: Option<PathBuf>,
    /// True to suppress progress reports.
    pub is_quiet: bool,
    /// Receives progress reports and warnings.
    pub notices: Notices,
}

/// The integers `start`, `start + 1`, ... up to an end.
#[derive(Debug, Clone)]
pub struct Sequence {
    start: i64,
    count: u64,
    /// True if each worker takes its own part instead of the whole.
    is_partitioned: bool,
    /// Name that distinguishes the saved positions from those of other sequences.
    name: Option<String>,
    settings: SequenceSettings,
    /// Offset of the next integer from `start`.
    position: u64,
    /// File in which this worker's position is saved.
    file: Option<PathBuf>,
    worker: u32,
}

impl Sequence {
    /// The sequence `start..start + count`, all of which must be in the range of an `i64`.
    pub(super) fn new(start: i64, count: u64, is_partitioned: bool) -> Self {
        debug_assert!(start.checked_add_unsigned(count).is_some(), "the range must fit");
        Self {
            start,
            count,
            is_partitioned,
            name: None,
            settings: SequenceSettings::default(),
            position: 0,
            file: None,
            worker: 0,
        }
    }

    /// The same sequence with a name.
    pub(super) fn named(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Number of integers in the sequence; in the worker's part, once it has started.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Applies the settings of all sequences.
    pub(super) fn configure(&mut self, settings: &SequenceSettings) {
        self.settings = settings.clone();
    }

    /// Sets the receiver of notices.
    pub(super) fn set_notices(&mut self, notices: &Notices) {
        self.settings.notices = notices.clone();
    }

    /// Reduces a partitioned sequence to the part of one worker, and continues at the position that the
    /// worker saved in an earlier run. The parts are equal; the last worker also gets the remainder.
    pub(super) fn start(&mut self, place: WorkerPlace) {
        self.worker = place.number;
        if self.is_partitioned {
            let part = self.count / u64::from(place.count);
            let before = part * u64::from(place.number - 1);
            self.start = self.start.wrapping_add_unsigned(before);
            self.count = if place.number < place.count { part } else { self.count - before };
        }
        self.file = self.settings.state_dir.as_deref().map(|dir| self.file_in(dir));
        self.position = self.file.as_deref().map_or(0, |file| self.saved_position(file));
    }

    fn file_in(&self, dir: &Path) -> PathBuf {
        match &self.name {
            Some(name) => dir.join(format!("{name}-{}", self.worker)),
            None => dir.join(self.worker.to_string()),
        }
    }

    fn saved_position(&self, file: &Path) -> u64 {
        let warn = |text: String| {
            self.settings.notices.notify(LogLevel::Warning, || {
                format!("worker {}: {text}; it begins anew", self.worker)
            });
            0
        };
        match position_file::read(file) {
            Ok(None) => 0,
            Ok(Some(position)) if position <= self.count => position,
            Ok(Some(position)) => warn(format!(
                "the saved position {position} is beyond the end {} of the sequence",
                self.count
            )),
            Err(error) => warn(format!("the saved position cannot be read: {error}")),
        }
    }

    /// The next integer.
    #[inline]
    pub(super) fn next(&mut self) -> Result<i64, Exhausted> {
        if self.position >= self.count {
            return Err(Exhausted);
        }
        if self.position % SAVE_INTERVAL == SAVE_OFFSET {
            self.save();
        }
        if self.position.is_multiple_of(REPORT_INTERVAL) && !self.settings.is_quiet {
            self.report();
        }
        let integer = self.start.wrapping_add_unsigned(self.position);
        self.position += 1;
        Ok(integer)
    }

    /// Saves the position. A failure is reported and does not stop the run.
    #[cold]
    fn save(&self) {
        let Some(file) = &self.file else { return };
        if let Err(error) = position_file::write(file, self.position) {
            self.settings.notices.notify(LogLevel::Warning, || {
                format!(
                    "worker {}: the position of its sequence is not saved: {error}",
                    self.worker
                )
            });
        }
    }

    #[cold]
    fn report(&self) {
        self.settings.notices.notify(LogLevel::Debug, || {
            let (position, count) = (self.position, self.count);
            let percent = position as f64 * 100.0 / count as f64;
            format!(
                "worker {}: {position} of {count} keys of the sequence ({percent:.1} %)",
                self.worker
            )
        });
    }
}
