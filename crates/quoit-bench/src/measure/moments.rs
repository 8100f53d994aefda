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

/// The moments of one operation, in the order of time; only an arrival may have been due earlier or later
/// than a worker was free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments {
    /// When the schedule of an open loop had it due; nothing in a closed loop.
    pub(crate) due: Option<Instant>,
    /// When the worker was free to take it.
    pub(crate) free: Instant,
    /// When the worker began it.
    pub(crate) started: Instant,
    /// When its first request was given to the system; when it began, for drivers without requests.
    pub(crate) sent: Instant,
    /// When its last answer was there.
    pub(crate) ended: Instant,
}

impl Moments {
    /// From the moment when the operation should have begun to its end.
    #[inline]
    pub(crate) fn latency(&self) -> Duration {
        self.ended.saturating_duration_since(self.due.unwrap_or(self.started))
    }

    /// How long an arrival waited because all workers were busy; nothing in a closed loop.
    #[inline]
    pub(crate) fn queueing(&self) -> Option<Duration> {
        self.due.map(|due| self.free.saturating_duration_since(due))
    }

    /// How long the load generator itself took: to wake a free worker at the due time, to draw the key and
    /// the value, and to encode the request.
    #[inline]
    pub(crate) fn client_delay(&self) -> Duration {
        let ready = self.due.map_or(self.started, |due| due.max(self.free));
        self.sent.saturating_duration_since(ready)
    }

    /// From the first request to the last answer: the server, the network, and the load generator's own time
    /// to notice the answer.
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
            let moments = Moments {
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
