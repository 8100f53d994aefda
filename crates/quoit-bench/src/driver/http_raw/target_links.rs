//! The connections of a worker to all targets, which take turns.

use std::time::{Duration, Instant};

use crate::driver::http_link::HttpLink;

/// Time for which an unreachable target is skipped while others are available.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// A connection to each target, by the number of the target in the configuration.
#[derive(Debug)]
pub(super) struct TargetLinks {
    links: Vec<TargetLink>,
    /// Number of the target of the next operation.
    next: usize,
}

#[derive(Debug)]
struct TargetLink {
    link: HttpLink,
    /// Time from which the target may be used again.
    retry_at: Instant,
}

#[expect(clippy::indexing_slicing, reason = "numbers of targets are remainders by their count")]
impl TargetLinks {
    /// The connections to all targets, of which there must be one. `first` is the number of the target of
    /// the first operation.
    pub(super) fn new(links: Vec<HttpLink>, first: usize) -> Self {
        let retry_at = Instant::now();
        let links = links.into_iter().map(|link| TargetLink { link, retry_at }).collect();
        Self { links, next: first }
    }

    pub(super) fn count(&self) -> usize {
        self.links.len()
    }

    /// The connection to the target with a number that [`take_turn`](Self::take_turn) has returned.
    pub(super) fn link(&self, target: usize) -> &HttpLink {
        &self.links[target].link
    }

    pub(super) fn link_mut(&mut self, target: usize) -> &mut HttpLink {
        &mut self.links[target].link
    }

    /// Closes all connections. Requests open them again.
    pub(super) fn close(&mut self) {
        self.links.iter_mut().for_each(|each| each.link.close());
    }

    /// The number of the next target in turn. A target that was unreachable a moment ago is skipped, unless
    /// all are.
    pub(super) fn take_turn(&mut self) -> usize {
        let (count, now) = (self.links.len(), Instant::now());
        let last = &mut self.links[(self.next + count - 1) % count];
        if last.link.is_unreachable() && last.retry_at <= now {
            last.retry_at = now + FAILURE_PAUSE;
        }
        let mut rotated = (0..count).map(|step| (self.next + step) % count);
        let target = rotated.find(|target| self.links[*target].retry_at <= now);
        let target = target.unwrap_or(self.next);
        self.next = (target + 1) % count;
        target
    }
}
