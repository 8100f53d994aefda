//! The interface between the conductor of a run and the workers: threads of this process, or agents.

use std::time::{Duration, Instant};

use super::control::Control;
use super::replaying::TraceReplay;
use super::shared::Shared;
use crate::measure::{Collector, Gaps, ThreadLoad, process_cpu_time};

/// The workers of this process, or agents with workers of their own.
pub(super) trait RunMembers {
    /// Start and stop signals.
    fn control(&self) -> &Control;

    /// Collects the seconds of all members.
    fn collector(&self) -> &Collector;

    /// Number of members that must be connected before the release.
    fn member_count(&self) -> u32;

    /// Time between sending the start time to the members and the start.
    fn notice_before_start(&self) -> Duration;

    /// Number of arrivals of an open loop that were due before `end` (since the release) and never started.
    /// Consumes the schedule.
    fn unstarted(&self, end: Duration) -> u64;

    /// Share of the trace that has been taken, from 0 to 1, if it is known.
    fn replayed(&self) -> Option<f64>;

    /// Processor time that the load generator has used so far.
    fn process_cpu(&self) -> Duration;

    /// Time from the start of the measurement to the end of the last operation. Called when all have ended.
    fn elapsed(&self, measured_from: Instant) -> Duration;

    /// Use of time of each thread.
    fn loads(&self) -> Vec<ThreadLoad>;

    /// Times without a success, of each member.
    fn gaps(&self) -> Vec<Gaps>;

    /// Faults of a trace or a script that ended the run. Agents report their faults over their connection.
    fn faults(&self) -> Vec<String> {
        Vec::new()
    }
}

impl RunMembers for Shared {
    fn control(&self) -> &Control {
        &self.control
    }

    fn collector(&self) -> &Collector {
        &self.collector
    }

    fn member_count(&self) -> u32 {
        u32::try_from(self.share.workers(self.worker_count).count()).unwrap_or(u32::MAX)
    }

    fn notice_before_start(&self) -> Duration {
        Duration::ZERO
    }

    fn unstarted(&self, end: Duration) -> u64 {
        self.schedule.as_ref().map_or(0, |schedule| schedule.unstarted(end))
    }

    fn replayed(&self) -> Option<f64> {
        self.replaying.as_ref().and_then(TraceReplay::progress)
    }

    fn process_cpu(&self) -> Duration {
        process_cpu_time()
    }

    fn elapsed(&self, measured_from: Instant) -> Duration {
        measured_from.elapsed()
    }

    fn loads(&self) -> Vec<ThreadLoad> {
        self.collector.loads()
    }

    fn gaps(&self) -> Vec<Gaps> {
        self.collector.gaps()
    }

    fn faults(&self) -> Vec<String> {
        let of_trace = self.replaying.as_ref().and_then(TraceReplay::fault);
        let of_script = self.script_faults.get().map(|fault| fault.to_string());
        of_trace.into_iter().chain(of_script).collect()
    }
}
