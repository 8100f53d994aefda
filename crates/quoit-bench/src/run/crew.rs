//! Those who do the work of a run, as the one sees them who conducts it: workers on threads of this process,
//! or agents.

use std::time::{Duration, Instant};

use super::control::Control;
use super::replaying::Replaying;
use super::worker::Shared;
use crate::driver::Driver;
use crate::measure::{Collector, Gaps, ThreadLoad, process_cpu_time};

/// Workers or agents.
pub(super) trait RunCrew {
    /// Release and stop.
    fn control(&self) -> &Control;

    /// Where their seconds come together.
    fn collector(&self) -> &Collector;

    /// How many have to be connected before the release.
    fn member_count(&self) -> u32;

    /// How long before the start they have to know its time.
    fn notice_before_start(&self) -> Duration;

    /// Arrivals of an open loop that were due before `end`, from the release on, and never started. Uses the
    /// schedule up.
    fn unstarted(&self, end: Duration) -> u64;

    /// How much of a trace has been taken, from 0 to 1, where that is known.
    fn replayed(&self) -> Option<f64>;

    /// Processor time that the load generator has used so far.
    fn process_cpu(&self) -> Duration;

    /// From the start of the measurement to the end of the last operation, when all have ended.
    fn elapsed(&self, measured_from: Instant) -> Duration;

    /// How each thread has spent its time.
    fn loads(&self) -> Vec<ThreadLoad>;

    /// The times without a success of each member.
    fn gaps(&self) -> Vec<Gaps>;

    /// Faults of a trace or a script that have ended the run. Agents report theirs themselves.
    fn faults(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<D: Driver> RunCrew for Shared<D> {
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
        self.replaying.as_ref().and_then(Replaying::progress)
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
        let of_trace = self.replaying.as_ref().and_then(Replaying::fault);
        let of_script = self.script_faults.get().map(|fault| fault.to_string());
        of_trace.into_iter().chain(of_script).collect()
    }
}
