//! Accounting of the memory and time of scripts: for each job on a node, and for all jobs together.
//!
//! A session reserves memory from its job in steps, so that most allocations only change a counter of the
//! session. The job counts its steps against the memory of all jobs.

use crate::limits::ScriptLimits;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_heap::{MemoryBudget, trim_heap};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Amount of memory that a session reserves at a time, in bytes.
const STEP_BYTES: usize = 256 << 10;

/// Memory of a session from which its end leaves many free pages in the heap, in bytes. They are then
/// returned to the system.
const LARGE_BYTES: usize = 16 << 20;

/// Maximum memory in bytes of a runtime with its context and the built-in functions.
pub(crate) const RUNTIME_BYTES: usize = 768 << 10;

/// Memory limits that a script can exceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemoryLimit {
    OfJob,
    OfAllJobs,
}

/// Resources used by all jobs of a node.
#[derive(Debug)]
pub(crate) struct JobShares {
    limits: ScriptLimits,
    used_bytes: AtomicUsize,
    jobs: Mutex<BTreeMap<Bytes, Weak<JobShare>>>,
}

/// Resources used by one job.
#[derive(Debug)]
pub(crate) struct JobShare {
    all: Arc<JobShares>,
    used_bytes: AtomicUsize,
    /// Time left for all calls of the job together.
    time_left: Mutex<Duration>,
    /// The limit that refused memory last.
    refused_by: Mutex<Option<MemoryLimit>>,
}

impl JobShares {
    pub(crate) fn new(limits: ScriptLimits) -> Arc<Self> {
        Arc::new(Self { limits, used_bytes: AtomicUsize::new(0), jobs: Mutex::default() })
    }

    /// Returns the share of a job; all of its sessions get the same one.
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

    /// Memory reserved by the scripts of all jobs, in bytes.
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

    /// Text about the memory limit that a script has exceeded; that of the job if it is not known.
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
        if !BytesMax(memory_bytes_max).admits(&self.used_bytes, bytes) {
            return Err(MemoryLimit::OfJob);
        }
        if !BytesMax(jobs_memory_bytes_max).admits(&self.all.used_bytes, bytes) {
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

/// Upper bound of a sum of bytes.
struct BytesMax(usize);

impl BytesMax {
    /// Adds to a sum unless the result would exceed the bound; returns true if it was added.
    fn admits(&self, sum: &AtomicUsize, bytes: usize) -> bool {
        let added = |sum: usize| sum.checked_add(bytes).filter(|sum| *sum <= self.0);
        sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
    }
}

/// Memory of a session.
pub(crate) struct SessionMemory {
    job: Arc<JobShare>,
    /// Bytes reserved from the job's share.
    taken_bytes: usize,
    /// Bytes of these that allocations use.
    used_bytes: usize,
    /// Maximum of `taken_bytes` so far.
    taken_bytes_max: usize,
    /// Bytes that stay reserved even if allocations do not use them.
    reserved_bytes: usize,
}

impl SessionMemory {
    pub(crate) const fn new(job: Arc<JobShare>) -> Self {
        Self { job, taken_bytes: 0, used_bytes: 0, taken_bytes_max: 0, reserved_bytes: 0 }
    }

    /// Reserves the memory for creating a session's runtime; `None` if not enough is left. QuickJS is not
    /// reliable when memory runs out while it creates a runtime, so the memory must be certain beforehand.
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
            // If a whole step does not fit, the required amount may still fit.
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
        // This function must not panic: the panic would unwind through QuickJS's C code.
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
        // The runtime has freed its allocations before.
        if self.reserved_bytes > 0 && self.taken_bytes_max >= LARGE_BYTES {
            trim_heap();
        }
    }
}
