//! The running jobs of a node.

use super::JobEnd;
use parking_lot::Mutex;
use quoit_core::{Deadline, JobProgress, RequestError};
use quoit_mapreduce::Job;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The running jobs, and counts of all jobs.
#[derive(Debug, Default)]
pub struct Jobs {
    last_id: AtomicU64,
    /// Permits for running jobs; created for the first job.
    permits: OnceLock<Arc<Semaphore>>,
    running: Mutex<BTreeMap<u64, Arc<JobEntry>>>,
    begun_count: AtomicU64,
    failed_count: AtomicU64,
    refused_count: AtomicU64,
}

/// A running job.
#[derive(Debug)]
pub(crate) struct JobEntry {
    pub(crate) id: u64,
    /// Description of its inputs.
    pub(crate) inputs: String,
    /// Descriptions of its phases.
    pub(crate) phases: Vec<&'static str>,
    pub(crate) begun: Instant,
    /// Progress of the job, once it has begun.
    progress: Mutex<Arc<JobProgress>>,
    is_stopped: Notify,
}

/// The slot of a running job. Dropping it releases the slot.
pub(crate) struct JobSlot {
    jobs: Arc<Jobs>,
    pub(crate) entry: Arc<JobEntry>,
    _permit: OwnedSemaphorePermit,
}

impl Jobs {
    /// Number of jobs that were started, that ended early, and that waited for a slot until their timeout.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.begun_count), of(&self.failed_count), of(&self.refused_count))
    }

    /// Number of running jobs.
    #[must_use]
    pub fn active_count(&self) -> usize {
        self.running.lock().len()
    }

    /// Running jobs, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<JobEntry>> {
        self.running.lock().values().cloned().collect()
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<JobEntry>> {
        self.running.lock().get(&id).cloned()
    }

    pub(crate) fn note_failed(&self) {
        self.failed_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a slot for a job. If all slots are taken, jobs wait in the order in which they came, each until
    /// its own timeout.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        job: &Job,
        count_max: usize,
        deadline: Deadline,
    ) -> Result<JobSlot, JobEnd> {
        let permits = self.permits.get_or_init(|| Arc::new(Semaphore::new(count_max)));
        let permit = Arc::clone(permits).acquire_owned();
        let entered =
            deadline.limit(async { permit.await.map_err(|_| RequestError::Timeout) }).await;
        let Ok(permit) = entered else {
            self.refused_count.fetch_add(1, Ordering::Relaxed);
            return Err(JobEnd::TooMany(self.active_count()));
        };
        self.begun_count.fetch_add(1, Ordering::Relaxed);
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Arc::new(JobEntry {
            id,
            inputs: job.inputs.describe(),
            phases: job.phases.iter().map(quoit_mapreduce::Phase::describe).collect(),
            begun: Instant::now(),
            progress: Mutex::default(),
            is_stopped: Notify::new(),
        });
        self.running.lock().insert(id, Arc::clone(&entry));
        Ok(JobSlot { jobs: Arc::clone(self), entry, _permit: permit })
    }
}

impl JobEntry {
    pub(crate) fn progress(&self) -> Arc<JobProgress> {
        Arc::clone(&self.progress.lock())
    }

    pub(crate) fn set_progress(&self, progress: &Arc<JobProgress>) {
        *self.progress.lock() = Arc::clone(progress);
    }

    /// Stops the job before its next step.
    pub(crate) fn stop(&self) {
        // Exactly one task waits for this, now or later.
        self.is_stopped.notify_one();
    }

    pub(crate) async fn stopped(&self) {
        self.is_stopped.notified().await;
    }
}

impl Drop for JobSlot {
    fn drop(&mut self) {
        self.jobs.running.lock().remove(&self.entry.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_job_waits_until_another_one_gives_up_its_place_or_its_own_time_is_over() {
        let jobs = Arc::new(Jobs::default());
        let job = Job::from_json(b"{\"inputs\":\"b\",\"query\":[]}").expect("a job");
        let enter = |timeout_ms| jobs.enter(&job, 2, Deadline::after_ms(timeout_ms));
        let first = enter(1_000).await.expect("there is room");
        let second = enter(1_000).await.expect("there is room");
        assert!(matches!(enter(1_000).await, Err(JobEnd::TooMany(2))));
        assert_eq!(jobs.all().iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 2]);
        let leave = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (third, ()) = tokio::join!(enter(1_000), leave);
        assert_eq!(third.expect("a place was given up").entry.id, 3);
        assert!(jobs.get(1).is_none());
        jobs.get(2).expect("it runs").stop();
        second.entry.stopped().await;
        assert_eq!(jobs.counts(), (3, 0, 1));
    }
}
