//! MapReduce jobs of this node's clients: how many there may be, how far they are, and what ends them.
//!
//! Both protocols read a job, have it [begun](begin), and ask the [`RunningJob`] for outputs until there are
//! no more. Operators see the [`Jobs`](crate::jobs::Jobs) and may stop one.

pub(crate) mod rights;
mod running;

pub(crate) use running::{RunningJob, begin, read_job};
