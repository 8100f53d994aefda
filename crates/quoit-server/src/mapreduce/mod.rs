//! Execution of MapReduce jobs for this node's clients.
//!
//! Both protocols parse a job, [start it](begin), and ask the [`RunningJob`] for outputs until there are no
//! more. Operators can see the running [`Jobs`](crate::jobs::Jobs) and stop them.

pub(crate) mod rights;
mod running;

pub(crate) use running::{RunningJob, begin, read_job};
