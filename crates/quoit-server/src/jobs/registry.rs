//! The jobs of a node.

use super::JobEnd;
use parking_lot::Mutex;
use quoit_core::JobProgress;
use quoit_mapreduce::Job;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Jobs that run, and how many have.
#[derive(Debug, Default)]
pub struct Jobs {
    last_id: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<JobEntry>>>,
    begun_count: AtomicU64,
    failed_count: AtomicU64,
    refused_count: AtomicU64,
}

/// A job that runs.
#[derive(Debug)]
pub(crate) struct JobEntry {
    pub(crate) id: u64,
    /// Its inputs, in words.
    pub(crate) inputs: String,
    /// Its phases, in words.
    pub(crate) phases: Vec<&'static str>,
    pub(crate) begun: Instant,
    /// How far it is, once it has begun.
    progress: Mutex<Arc<JobProgress>>,
    is_stopped: Notify,
}

/// The place of a job among those that run; it is given up when this is dropped.
pub(crate) struct Place {
    jobs: Arc<Jobs>,
    pub(crate) entry: Arc<JobEntry>,
}

impl Jobs {
    /// Jobs that were begun, that ended before they were done, and that were refused because too many ran.
    #[must_use]
    pub fn counts(&self) -> (u64, u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.begun_count), of(&self.failed_count), of(&self.refused_count))
    }

    /// Jobs that run now.
    #[must_use]
    pub fn active_count(&self) -> usize {
        self.running.lock().len()
    }

    /// Jobs that run now, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<JobEntry>> {
        self.running.lock().values().cloned().collect()
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<JobEntry>> {
        self.running.lock().get(&id).cloned()
    }

    pub(crate) fn note_failed(&self) {
        self.failed_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a place for a job.
    pub(crate) fn enter(self: &Arc<Self>, job: &Job, count_max: usize) -> Result<Place, JobEnd> {
        let mut running = self.running.lock();
        if running.len() >= count_max {
            self.refused_count.fetch_add(1, Ordering::Relaxed);
            return Err(JobEnd::TooMany(running.len()));
        }
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
        running.insert(id, Arc::clone(&entry));
        Ok(Place { jobs: Arc::clone(self), entry })
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
        // One job waits for it, now or later.
        self.is_stopped.notify_one();
    }

    pub(crate) async fn stopped(&self) {
        self.is_stopped.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.jobs.running.lock().remove(&self.entry.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_given_up_with_its_job_and_too_many_jobs_are_refused() {
        let jobs = Arc::new(Jobs::default());
        let job = Job::from_json(b"{\"inputs\":\"b\",\"query\":[]}").expect("a job");
        let first = jobs.enter(&job, 2).expect("there is room");
        let second = jobs.enter(&job, 2).expect("there is room");
        assert!(matches!(jobs.enter(&job, 2), Err(JobEnd::TooMany(2))));
        assert_eq!(jobs.all().iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 2]);
        drop(first);
        assert!(jobs.get(1).is_none());
        jobs.get(2).expect("it runs").stop();
        second.entry.stopped().await;
        assert_eq!(jobs.counts(), (2, 0, 1));
    }
}
