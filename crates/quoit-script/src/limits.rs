//! How much a script may take.

use std::time::Duration;

/// Limits of scripts at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptLimits {
    /// Time of one call (`mapreduce.javascript.call_timeout`).
    pub call_time_max: Duration,
    /// Time of all calls of a job together, in all of its sessions (`mapreduce.javascript.job_timeout`).
    pub job_time_max: Duration,
    /// Memory in bytes of all that the scripts of a job have, in all of its sessions
    /// (`mapreduce.javascript.maximum_memory`).
    pub memory_bytes_max: usize,
    /// Memory in bytes of all that the scripts of all jobs have (`mapreduce.javascript.jobs.maximum_memory`).
    pub jobs_memory_bytes_max: usize,
    /// Bytes of the outputs of one batch of calls (`mapreduce.javascript.maximum_output`).
    pub output_bytes_max: usize,
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self {
            call_time_max: Duration::from_secs(5),
            job_time_max: Duration::from_secs(60),
            memory_bytes_max: 64 << 20,
            jobs_memory_bytes_max: 256 << 20,
            output_bytes_max: 16 << 20,
        }
    }
}
