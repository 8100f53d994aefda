//! The state of a run as the view shows it.

use std::collections::VecDeque;
use std::time::Duration;

use super::Spectrum;

/// Number of seconds that are kept for the plots of rate and latencies: as many as the widest terminals
/// have columns.
const HISTORY_MAX: usize = 600;

/// Number of messages that are kept.
const MESSAGES_MAX: usize = 100;

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ViewPhase {
    /// Workers connect.
    #[default]
    Connecting,
    /// Operations run and are not counted yet.
    WarmingUp,
    /// Operations are measured.
    Measuring,
    /// The run waits for the operations in flight and writes its results.
    Ending,
}

impl ViewPhase {
    /// The name of the phase.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Ending => "ending",
        }
    }
}

/// One operation in the last second.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationLine {
    /// Name of the operation.
    pub name: String,
    /// Successful operations per second.
    pub rate_per_s: f64,
    /// Number of failed operations since the start.
    pub error_count: u64,
    /// Median, 95th, 99th and 99.9th percentile and maximum of the latencies, in microseconds; `None` if no
    /// operation succeeded.
    pub latencies_us: Option<[u64; 5]>,
}

/// A watched server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerLine {
    /// Host and port.
    pub server: String,
    /// Its figures, each with a heading.
    pub figures: Vec<(String, String)>,
}

/// One second of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewSecond {
    /// Time since the start of the measurement.
    pub elapsed: Duration,
    /// The operations of the mix.
    pub operations: Vec<OperationLine>,
    /// Latencies of all operations.
    pub spectrum: Spectrum,
    /// Reasons of failures since the start with their counts, the most frequent first.
    pub errors: Vec<(String, u64)>,
    /// The watched servers.
    pub servers: Vec<ServerLine>,
    /// Share of the trace that has been replayed, from 0 to 1; `None` if no trace is replayed or the share
    /// is unknown.
    pub replayed: Option<f64>,
}

/// The content of the view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ViewState {
    /// Description of the load in one line.
    pub title: String,
    /// The phase of the run.
    pub phase: ViewPhase,
    /// The planned length of the run, if it has one.
    pub length: Option<Duration>,
    pub(super) last: Option<ViewSecond>,
    /// Rates of all operations together, oldest first.
    pub(super) rates_per_s: VecDeque<u64>,
    pub(super) spectra: VecDeque<Spectrum>,
    /// Messages of the run, oldest first.
    pub(super) messages: VecDeque<String>,
}

impl ViewState {
    /// The state of a run that has not begun.
    pub fn new(title: String) -> Self {
        Self { title, ..Self::default() }
    }

    /// Adds a second.
    pub fn take(&mut self, second: ViewSecond) {
        let rate_per_s: f64 = second.operations.iter().map(|operation| operation.rate_per_s).sum();
        push(&mut self.rates_per_s, quoit_number::rounded(rate_per_s), HISTORY_MAX);
        push(&mut self.spectra, second.spectrum, HISTORY_MAX);
        self.last = Some(second);
    }

    /// Adds messages of the run.
    pub fn tell(&mut self, text: &str) {
        for line in text.lines() {
            push(&mut self.messages, line.to_owned(), MESSAGES_MAX);
        }
    }

    /// Time since the start of the measurement.
    pub(super) fn elapsed(&self) -> Duration {
        self.last.as_ref().map_or(Duration::ZERO, |second| second.elapsed)
    }

    /// Progress of the run from 0 to 1, by its length or else by its trace; `None` if it is unknown.
    pub(super) fn progress(&self) -> Option<f64> {
        let by_trace = self.last.as_ref().and_then(|second| second.replayed);
        let by_length = self
            .length
            .filter(|length| !length.is_zero())
            .map(|length| self.elapsed().as_secs_f64() / length.as_secs_f64());
        by_length.or(by_trace).map(|share| share.clamp(0.0, 1.0))
    }
}

fn push<T>(list: &mut VecDeque<T>, element: T, count_max: usize) {
    if list.len() == count_max {
        list.pop_front();
    }
    list.push_back(element);
}
