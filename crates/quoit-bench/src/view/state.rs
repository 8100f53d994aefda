//! The state of a run as it is shown.

use std::collections::VecDeque;
use std::time::Duration;

use super::Spectrum;

/// Seconds that are kept for the courses of rate and latencies: as many as the widest terminals have columns.
const HISTORY_MAX: usize = 600;

/// Messages that are kept.
const MESSAGES_MAX: usize = 100;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ViewPhase {
    /// Workers connect.
    #[default]
    Connecting,
    /// Operations run and are not counted yet.
    WarmingUp,
    /// Operations are measured.
    Measuring,
    /// The operations in flight are waited for, and results are written.
    Ending,
}

impl ViewPhase {
    /// The phase, in a word.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Ending => "ending",
        }
    }
}

/// An operation in the last second.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationLine {
    /// Its name.
    pub name: String,
    /// Successful ones in a second.
    pub rate_per_s: f64,
    /// Failed ones since the start.
    pub error_count: u64,
    /// Median, 95th, 99th and 99.9th percentile and greatest latency in microseconds; nothing if none
    /// succeeded.
    pub latencies_us: Option<[u64; 5]>,
}

/// A server that is watched.
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
    /// Since the start of the measurement.
    pub elapsed: Duration,
    /// The operations of the mix.
    pub operations: Vec<OperationLine>,
    /// The latencies of all operations.
    pub spectrum: Spectrum,
    /// Reasons of failures since the start, the most frequent first.
    pub errors: Vec<(String, u64)>,
    /// The servers that are watched.
    pub servers: Vec<ServerLine>,
    /// How much of a trace has been replayed, from 0 to 1, if one is and that is known.
    pub replayed: Option<f64>,
}

/// The state of the view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ViewState {
    /// The load in one line.
    pub title: String,
    /// Where the run is.
    pub phase: ViewPhase,
    /// The planned length of the run, if it has one.
    pub length: Option<Duration>,
    pub(super) last: Option<ViewSecond>,
    /// Rates of all operations, oldest first.
    pub(super) rates_per_s: VecDeque<u64>,
    pub(super) spectra: VecDeque<Spectrum>,
    /// Lines that the run has told, oldest first.
    pub(super) messages: VecDeque<String>,
}

impl ViewState {
    /// A run of this load that has not begun.
    pub fn new(title: String) -> Self {
        Self { title, ..Self::default() }
    }

    /// Takes in a second.
    pub fn take(&mut self, second: ViewSecond) {
        let rate_per_s: f64 = second.operations.iter().map(|operation| operation.rate_per_s).sum();
        push(&mut self.rates_per_s, rate_per_s.round() as u64, HISTORY_MAX);
        push(&mut self.spectra, second.spectrum, HISTORY_MAX);
        self.last = Some(second);
    }

    /// Takes in lines that the run tells.
    pub fn tell(&mut self, text: &str) {
        for line in text.lines() {
            push(&mut self.messages, line.to_owned(), MESSAGES_MAX);
        }
    }

    /// Since the start of the measurement.
    pub(super) fn elapsed(&self) -> Duration {
        self.last.as_ref().map_or(Duration::ZERO, |second| second.elapsed)
    }

    /// How far the run is, from 0 to 1: by its length, or by its trace.
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
