//! Shares of the sessions of a job at a node, and of all jobs: their memory and their time.
//!
//! A session takes memory from its job's share in steps, so that most blocks cost a sum of its own. A job's
//! share takes from that of all jobs.

use crate::limits::ScriptLimits;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_heap::{MemoryBudget, give_back_free};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Memory that a session takes at once.
const STEP_BYTES: usize = 256 << 10;

/// A session that had so much memory leaves heaps full of free pages.
const LARGE_BYTES: usize = 16 << 20;

/// Memory that a runtime takes with its context and the built-in functions, at most.
pub(crate) const RUNTIME_BYTES: usize = 768 << 10;

/// Limits of memory that may have ended a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemoryLimit {
    OfJob,
    OfAllJobs,
}

/// The shares of all jobs of a node.
#[derive(Debug)]
pub(crate) struct JobShares {
    limits: ScriptLimits,
    used_bytes: AtomicUsize,
    jobs: Mutex<BTreeMap<Bytes, Weak<JobShare>>>,
}

/// The share of one job.
#[derive(Debug)]
pub(crate) struct JobShare {
    all: Arc<JobShares>,
    used_bytes: AtomicUsize,
    /// Time that its calls may still take together.
    time_left: Mutex<Duration>,
    /// The limit that has refused memory last.
    refused_by: Mutex<Option<MemoryLimit>>,
}

impl JobShares {
    pub(crate) fn new(limits: ScriptLimits) -> Arc<Self> {
        Arc::new(Self { limits, used_bytes: AtomicUsize::new(0), jobs: Mutex::default() })
    }

    /// The share of a job: the one that its other sessions have, if there are any.
    pub(crate) fn of(self: &Arc<Self>, job: &Bytes) -> Arc<JobShare> {
        let mut jobs = self.jobs.lock();
        if let Some(share) = jobs.get(job).and_then(Weak::upgrade) {
            return share;
        }
        jobs.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(JobShare {
            all: Arc::clone(self),
            used_bytes: AtomicUsize::new(0),
            time_left: Mutex::new(self.limits.job_time_max),
            refused_by: Mutex::default(),
        });
        jobs.insert(job.clone(), Arc::downgrade(&share));
        share
    }

    /// Memory of the scripts of all jobs.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

impl JobShare {
    pub(crate) fn limits(&self) -> &ScriptLimits {
        &self.all.limits
    }

    pub(crate) fn time_left(&self) -> Duration {
        *self.time_left.lock()
    }

    /// Counts the time of a call.
    pub(crate) fn use_time(&self, time: Duration) {
        let mut left = self.time_left.lock();
        *left = left.saturating_sub(time);
    }

    /// The limit of memory that a script has run into, in words; that of the job if none is known.
    pub(crate) fn memory_limit(&self) -> String {
        let ScriptLimits { memory_bytes_max, jobs_memory_bytes_max, .. } = self.limits();
        match *self.refused_by.lock() {
            Some(MemoryLimit::OfAllJobs) => format!(
                "the functions of all jobs of the node have {jobs_memory_bytes_max} bytes together, \
                 mapreduce.javascript.jobs.maximum_memory; try again later"
            ),
            Some(MemoryLimit::OfJob) | None => {
                format!("mapreduce.javascript.maximum_memory is {memory_bytes_max} bytes")
            }
        }
    }

    fn take(&self, bytes: usize) -> Result<(), MemoryLimit> {
        let ScriptLimits { memory_bytes_max, jobs_memory_bytes_max, .. } = *self.limits();
        if !add_within(&self.used_bytes, bytes, memory_bytes_max) {
            return Err(MemoryLimit::OfJob);
        }
        if !add_within(&self.all.used_bytes, bytes, jobs_memory_bytes_max) {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(MemoryLimit::OfAllJobs);
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.all.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Adds to a sum, unless it would be more than `max` then.
fn add_within(sum: &AtomicUsize, bytes: usize, max: usize) -> bool {
    let added = |sum: usize| sum.checked_add(bytes).filter(|sum| *sum <= max);
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
}

/// Memory of a session.
pub(crate) struct SessionMemory {
    job: Arc<JobShare>,
    /// Bytes that it has taken from its job's share.
    taken_bytes: usize,
    /// Bytes of them that blocks have.
    used_bytes: usize,
    /// The most that it had.
    taken_bytes_max: usize,
    /// Bytes that it keeps, whether blocks have them or not.
    reserved_bytes: usize,
}

impl SessionMemory {
    pub(crate) const fn new(job: Arc<JobShare>) -> Self {
        Self { job, taken_bytes: 0, used_bytes: 0, taken_bytes_max: 0, reserved_bytes: 0 }
    }

    /// Memory of a session whose runtime is still to be made; `None` if there is none for that. A runtime
    /// that runs out of memory while it is made may do anything.
    pub(crate) fn for_runtime(job: &Arc<JobShare>) -> Option<Self> {
        let mut memory = Self::new(Arc::clone(job));
        if !memory.take(RUNTIME_BYTES) {
            return None;
        }
        memory.reserved_bytes = RUNTIME_BYTES;
        memory.give_back(RUNTIME_BYTES);
        Some(memory)
    }

    pub(crate) fn give_all_back(&mut self) {
        self.job.give_back(std::mem::take(&mut self.taken_bytes));
        self.used_bytes = 0;
    }
}

impl MemoryBudget for SessionMemory {
    fn take(&mut self, bytes: usize) -> bool {
        let Some(used_bytes) = self.used_bytes.checked_add(bytes) else { return false };
        if used_bytes > self.taken_bytes {
            let least = used_bytes - self.taken_bytes;
            // Where a whole step is too much, what is needed may not be.
            let taken = match self.job.take(least.max(STEP_BYTES)) {
                Ok(()) => Ok(least.max(STEP_BYTES)),
                Err(_) => self.job.take(least).map(|()| least),
            };
            match taken {
                Ok(taken) => {
                    self.taken_bytes += taken;
                    self.taken_bytes_max = self.taken_bytes_max.max(self.taken_bytes);
                }
                Err(limit) => {
                    *self.job.refused_by.lock() = Some(limit);
                    return false;
                }
            }
        }
        self.used_bytes = used_bytes;
        true
    }

    fn give_back(&mut self, bytes: usize) {
        // No panic may leave this call: it would go through the runtime's code.
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
        let spare = self.taken_bytes.saturating_sub(self.used_bytes.max(self.reserved_bytes));
        if spare > 2 * STEP_BYTES {
            self.job.give_back(spare - STEP_BYTES);
            self.taken_bytes -= spare - STEP_BYTES;
        }
    }
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        self.give_all_back();
        // The runtime has freed its blocks before.
        if self.reserved_bytes > 0 && self.taken_bytes_max >= LARGE_BYTES {
            give_back_free();
        }
    }
}
