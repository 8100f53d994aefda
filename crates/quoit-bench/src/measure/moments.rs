//! The moments of one operation, and the parts of its latency between them.
//!
//! ```text
//! open loop:    due ......... free ....... started ....... sent ............. ended
//!                  queueing        client delay                  service
//! closed loop:                             started ....... sent ............. ended
//!                                             client delay       service
//! ```
//!
//! The parts of an operation add up to its latency.

use std::time::{Duration, Instant};

/// The times of one operation, in chronological order; only `due` can be after `free`, if a worker was
/// free early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationTimes {
    /// Time at which the schedule of an open loop had the operation due; `None` in a closed loop.
    pub(crate) due: Option<Instant>,
    /// Time at which the worker was free to take it.
    pub(crate) free: Instant,
    /// Time at which the worker began it.
    pub(crate) started: Instant,
    /// Time at which its first request was given to the operating system; for drivers without requests, its
    /// start.
    pub(crate) sent: Instant,
    /// Time at which its last answer had arrived.
    pub(crate) ended: Instant,
}

impl OperationTimes {
    /// Time from the moment at which the operation should have begun to its end.
    #[inline]
    pub(crate) fn latency(&self) -> Duration {
        self.ended.saturating_duration_since(self.due.unwrap_or(self.started))
    }

    /// Time for which an arrival waited because all workers were busy; `None` in a closed loop.
    #[inline]
    pub(crate) fn queueing(&self) -> Option<Duration> {
        self.due.map(|due| self.free.saturating_duration_since(due))
    }

    /// Delay of the load generator itself: waking a free worker at the due time, drawing the key and the
    /// value, and encoding the request.
    #[inline]
    pub(crate) fn client_delay(&self) -> Duration {
        let ready = self.due.map_or(self.started, |due| due.max(self.free));
        self.sent.saturating_duration_since(ready)
    }

    /// Time from the first request to the last answer. It consists of the time of the server, of the
    /// network, and of the load generator until it noticed the answer.
    #[inline]
    pub(crate) fn service(&self) -> Duration {
        self.ended.saturating_duration_since(self.sent)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_add_up_to_the_latency(
            due in proptest::option::of(0_u64..100),
            gaps in proptest::array::uniform4(0_u64..100),
        ) {
            let base = Instant::now();
            let at = |ms: u64| base + Duration::from_millis(ms);
            let free = gaps[0];
            let started = free.max(due.unwrap_or(0)) + gaps[1];
            let (sent, ended) = (started + gaps[2], started + gaps[2] + gaps[3]);
            let moments = OperationTimes {
                due: due.map(at),
                free: if due.is_some() { at(free) } else { at(started) },
                started: at(started),
                sent: at(sent),
                ended: at(ended),
            };
            let queueing = moments.queueing().unwrap_or_default();
            prop_assert_eq!(queueing + moments.client_delay() + moments.service(), moments.latency());
            prop_assert_eq!(moments.queueing().is_some(), due.is_some());
        }
    }
}
