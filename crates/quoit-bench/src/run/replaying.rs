//! The trace that a run replays, from which workers take their operations.

use super::mix::{Mix, MixEntry};
use crate::reported_operation::ReportedOperation;
use crate::share::Share;
use crate::trace::{Replay, TraceError, TraceReader, TracedKind, TracedOperation};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The operations of a trace. Each is taken by one worker.
#[derive(Debug)]
pub(super) struct TraceReplay {
    reader: Mutex<Result<ShareReader, TraceError>>,
    speed: Option<f64>,
    /// The driver's operation for each of [`TracedKind::ALL`], if the configuration has one.
    entries: [Option<MixEntry>; 3],
}

/// Reads the operations of one share from the trace.
#[derive(Debug)]
struct ShareReader {
    reader: TraceReader,
    share: Share,
    /// Number of the next operation in the whole trace.
    next_number: u64,
}

impl ShareReader {
    /// The next operation of the share, with its line number.
    fn next_operation(&mut self) -> Result<Option<(u64, TracedOperation)>, TraceError> {
        while let Some(next) = self.reader.next_operation()? {
            let number = self.next_number;
            self.next_number += 1;
            if self.share.takes(number) {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }
}

/// An operation that a worker has taken from the trace.
pub(super) struct TakenOperation {
    /// Time from the release until the operation is due; `None` if it is due at once.
    pub(super) due: Option<Duration>,
    pub(super) entry: MixEntry,
    pub(super) traced: TracedOperation,
}

impl TraceReplay {
    /// Opens the trace, of which this process replays one share.
    ///
    /// # Errors
    ///
    /// As [`TraceReader::open`].
    pub(super) fn open(
        replay: &Replay,
        share: Share,
        mix: &Mix,
        reported: &[ReportedOperation],
    ) -> Result<Self, TraceError> {
        let reader =
            ShareReader { reader: TraceReader::open(&replay.path)?, share, next_number: 0 };
        let entry_of = |kind: TracedKind| {
            let is_of_kind = |entry: &MixEntry| {
                let name = reported.get(entry.reported).and_then(|it| it.operation.as_atom());
                name.is_some_and(|name| kind.operation_names().contains(&name))
            };
            mix.entries().copied().find(is_of_kind)
        };
        let entries = TracedKind::ALL.map(entry_of);
        Ok(Self { reader: Mutex::new(Ok(reader)), speed: replay.speed, entries })
    }

    fn entry_of(&self, kind: TracedKind) -> Option<MixEntry> {
        let [get, put, delete] = self.entries;
        match kind {
            TracedKind::Get => get,
            TracedKind::Put => put,
            TracedKind::Delete => delete,
        }
    }

    /// Takes the next operation. Returns `None` at the end of the trace and after a fault.
    pub(super) fn take(&self) -> Option<TakenOperation> {
        let mut guard = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = guard.as_mut().ok()?;
        let taken = match reader.next_operation() {
            Ok(None) => return None,
            Ok(Some((line, traced))) => match self.entry_of(traced.kind) {
                Some(entry) => Ok((entry, traced)),
                None => Err(TraceError::NoOperation {
                    path: reader.reader.path().to_owned(),
                    line,
                    kind: traced.kind.operation_names()[0],
                    names: traced.kind.operation_names().join(", "),
                }),
            },
            Err(fault) => Err(fault),
        };
        match taken {
            Ok((entry, traced)) => {
                let due = self.speed.map(|speed| traced.at.div_f64(speed));
                Some(TakenOperation { due, entry, traced })
            }
            Err(fault) => {
                *guard = Err(fault);
                None
            }
        }
    }

    /// Share of the trace that has been taken, from 0 to 1; `None` if the length is unknown.
    pub(super) fn progress(&self) -> Option<f64> {
        let guard = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().ok()?.reader.progress()
    }

    /// The fault that ended the replay, as text.
    pub(super) fn fault(&self) -> Option<String> {
        let guard = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().err().map(ToString::to_string)
    }
}
