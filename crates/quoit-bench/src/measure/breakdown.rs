//! Distributions of the parts of operations' latencies.

use std::time::Duration;

use super::moments::OperationTimes;
use super::stats::{OperationStats, of_operation};

/// Distributions of the parts of the latencies, and of times that say how far the latencies can be trusted.
#[derive(Debug, Clone)]
pub struct Breakdown {
    canary: OperationStats,
    queueing: OperationStats,
    client_delay: OperationStats,
    service: Vec<OperationStats>,
    failed: Vec<OperationStats>,
}

impl Breakdown {
    pub(super) fn new(operation_count: usize) -> Self {
        let each = || (0..operation_count).map(|_| OperationStats::new()).collect();
        Self {
            canary: OperationStats::new(),
            queueing: OperationStats::new(),
            client_delay: OperationStats::new(),
            service: each(),
            failed: each(),
        }
    }

    /// Assembles a breakdown from its parts: the canary, queueing and client delay of the run, and the
    /// distributions of each operation.
    ///
    /// # Errors
    ///
    /// The first error among the parts.
    pub(super) fn of_parts<E>(
        of_run: [Result<OperationStats, E>; 3],
        service: Vec<OperationStats>,
        failed: Vec<OperationStats>,
    ) -> Result<Self, E> {
        let [canary, queueing, client_delay] = of_run;
        Ok(Self {
            canary: canary?,
            queueing: queueing?,
            client_delay: client_delay?,
            service,
            failed,
        })
    }

    /// Latencies of the canary: operations of the load generator that ask no server. Latencies of this size
    /// say nothing about a server.
    pub fn canary(&self) -> &OperationStats {
        &self.canary
    }

    /// Time for which the arrivals of an open loop waited because all workers were busy; empty in a closed
    /// loop.
    pub fn queueing(&self) -> &OperationStats {
        &self.queueing
    }

    /// Time that the load generator took from the start of an operation to its first request.
    pub fn client_delay(&self) -> &OperationStats {
        &self.client_delay
    }

    /// Time from the first request to the last answer, for each operation of the mix.
    pub fn service(&self) -> &[OperationStats] {
        &self.service
    }

    /// Time until failed operations failed, for each operation of the mix.
    pub fn failed(&self) -> &[OperationStats] {
        &self.failed
    }

    /// Each distribution with the name of its file.
    pub(super) fn by_file<'a>(
        &'a self,
        labels: &'a [String],
    ) -> impl Iterator<Item = (String, &'a OperationStats)> {
        let of_run = [
            ("canary".to_owned(), &self.canary),
            ("queueing".to_owned(), &self.queueing),
            ("client-delay".to_owned(), &self.client_delay),
        ];
        let each = |kind: &'static str, stats: &'a [OperationStats]| {
            labels.iter().zip(stats).map(move |(label, stats)| (format!("{kind}-{label}"), stats))
        };
        let of_operations = each("service", &self.service).chain(each("failed", &self.failed));
        of_run.into_iter().chain(of_operations)
    }

    #[inline]
    pub(super) fn record(&mut self, operation: usize, moments: &OperationTimes) {
        if let Some(queueing) = moments.queueing() {
            self.queueing.record(nanos(queueing));
        }
        self.client_delay.record(nanos(moments.client_delay()));
        of_operation(&mut self.service, operation).record(nanos(moments.service()));
    }

    pub(super) fn record_failed(&mut self, operation: usize, elapsed: Duration) {
        of_operation(&mut self.failed, operation).record(nanos(elapsed));
    }

    pub(super) fn record_canary(&mut self, elapsed: Duration) {
        self.canary.record(nanos(elapsed));
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.canary.add(&other.canary);
        self.queueing.add(&other.queueing);
        self.client_delay.add(&other.client_delay);
        let mine = self.service.iter_mut().chain(&mut self.failed);
        mine.zip(other.service.iter().chain(&other.failed))
            .for_each(|(mine, theirs)| mine.add(theirs));
    }

    pub(super) fn clear(&mut self) {
        self.canary.clear();
        self.queueing.clear();
        self.client_delay.clear();
        self.service.iter_mut().chain(&mut self.failed).for_each(OperationStats::clear);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
