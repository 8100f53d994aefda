//! Admission of requests: a node has at most a given number of reads, and of writes, under way.
//!
//! A request above the limit is refused at once with `overload`. In a queue it would only wait for the
//! slow disk or peer together with all others. Requests that are answered without waiting are not
//! counted; there are never more of them than threads.

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::stats::Counter;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts requests of one kind.
#[derive(Debug)]
pub(crate) struct RequestLimiter {
    count: AtomicU32,
    limit: u32,
}

/// Guard of a counted request. The request is counted until the guard is dropped.
#[must_use = "the request counts only as long as this lives"]
#[derive(Debug)]
pub(crate) struct RequestPermit<'a>(&'a RequestLimiter);

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RequestLimiter {
    pub(crate) const fn new(limit: u32) -> Self {
        Self { count: AtomicU32::new(0), limit }
    }

    /// Counts a request, whatever the limit.
    fn enter(&self) -> (RequestPermit<'_>, u32) {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        (RequestPermit(self), before)
    }

    /// Counts a request if the limit allows one more.
    fn try_enter(&self) -> Option<RequestPermit<'_>> {
        let (entered, before) = self.enter();
        (before < self.limit).then_some(entered)
    }

    fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.limit
    }

    /// Number of requests counted now.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Numbers of requests that were admitted to this node and have not been answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmittedRequests {
    /// Reads.
    pub gets: u32,
    /// Writes and deletes.
    pub puts: u32,
}

impl Coordinator {
    /// As [`ReplicatedStore::active`](crate::ReplicatedStore::active).
    pub(crate) fn active(&self) -> AdmittedRequests {
        AdmittedRequests { gets: self.gets.count(), puts: self.puts.count() }
    }

    /// Admits a read.
    ///
    /// # Errors
    ///
    /// [`RequestError::Overload`] if as many reads as this node admits are under way.
    pub(crate) fn admit_get(&self) -> Result<RequestPermit<'_>, RequestError> {
        self.gets.try_enter().ok_or_else(|| self.overload(Counter::GetsRejected))
    }

    /// Admits a write.
    ///
    /// # Errors
    ///
    /// As for [`Coordinator::admit_get`].
    pub(crate) fn admit_put(&self) -> Result<RequestPermit<'_>, RequestError> {
        self.puts.try_enter().ok_or_else(|| self.overload(Counter::PutsRejected))
    }

    /// Checks that a read may begin, without counting it; [`Coordinator::waiting_get`] counts it if it
    /// has to wait. Threads that check at the same moment may exceed the limit by one each.
    ///
    /// # Errors
    ///
    /// As for [`Coordinator::admit_get`].
    pub(crate) fn check_gets(&self) -> Result<(), RequestError> {
        if self.gets.is_full() { Err(self.overload(Counter::GetsRejected)) } else { Ok(()) }
    }

    /// As [`Coordinator::check_gets`], for a write.
    ///
    /// # Errors
    ///
    /// As for [`Coordinator::admit_get`].
    pub(crate) fn check_puts(&self) -> Result<(), RequestError> {
        if self.puts.is_full() { Err(self.overload(Counter::PutsRejected)) } else { Ok(()) }
    }

    /// Counts a read that has begun and now has to wait.
    pub(crate) fn waiting_get(&self) -> RequestPermit<'_> {
        self.gets.enter().0
    }

    /// Counts a write that is in the log and now has to wait.
    pub(crate) fn waiting_put(&self) -> RequestPermit<'_> {
        self.puts.enter().0
    }

    fn overload(&self, counter: Counter) -> RequestError {
        self.local.stats.count(counter);
        RequestError::Overload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_admitted_up_to_the_limit_and_again_after_one_ends() {
        let gets = RequestLimiter::new(2);
        let first = gets.try_enter().expect("nobody is there");
        let second = gets.try_enter();
        assert!(second.is_some() && gets.try_enter().is_none() && gets.is_full());
        drop(first);
        assert_eq!(gets.count(), 1);
        assert!(gets.try_enter().is_some());
        assert_eq!(gets.count(), 1, "who is turned away, or has gone, is not counted");
    }
}
