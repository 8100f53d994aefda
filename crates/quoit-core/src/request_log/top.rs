//! Lists of the highest-ranking items of the present window of time and the one before.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounded lists of the highest-ranking items.
pub(super) struct TopWindow<T> {
    count_max: usize,
    rank_min: u64,
    length: Duration,
    /// Lowest rank that is admitted now.
    floor: AtomicU64,
    kept: Mutex<TopItems<T>>,
}

/// An item with its rank.
#[derive(Clone)]
pub(super) struct Ranked<T> {
    pub(super) rank: u64,
    pub(super) item: T,
}

/// The items of the present window and of the one before it, highest rank first.
struct TopItems<T> {
    began_us: Option<u64>,
    now: Vec<Ranked<T>>,
    before: Vec<Ranked<T>>,
}

impl<T> TopItems<T> {
    fn drop_if(&mut self, is_dropped: impl Fn(&T) -> bool) {
        for items in [&mut self.now, &mut self.before] {
            items.retain(|ranked| !is_dropped(&ranked.item));
        }
    }
}

impl<T: Clone> TopWindow<T> {
    pub(super) const fn new(count_max: usize, rank_min: u64, length: Duration) -> Self {
        let floor = if count_max == 0 { u64::MAX } else { rank_min };
        Self {
            count_max,
            rank_min,
            length,
            floor: AtomicU64::new(floor),
            kept: Mutex::new(TopItems { began_us: None, now: Vec::new(), before: Vec::new() }),
        }
    }

    /// True if an item of this rank would be kept. Costs a load.
    pub(super) fn admits(&self, rank: u64) -> bool {
        rank >= self.floor.load(Ordering::Relaxed)
    }

    /// Begins a new window if the present one is over.
    pub(super) fn begin_window_if_over(&self, now_us: u64) {
        self.turned(&mut self.kept.lock(), now_us);
    }

    fn turned(&self, kept: &mut TopItems<T>, now_us: u64) {
        let began_us = *kept.began_us.get_or_insert(now_us);
        let age = Duration::from_micros(now_us.saturating_sub(began_us));
        if age < self.length || self.count_max == 0 {
            return;
        }
        let ended = std::mem::take(&mut kept.now);
        kept.before = if age < 2 * self.length { ended } else { Vec::new() };
        kept.began_us = Some(now_us);
        self.floor.store(self.rank_min, Ordering::Relaxed);
    }

    /// Keeps an item. It replaces items of both windows for which `replaces` is true, or the lowest one
    /// of this window if there are too many.
    pub(super) fn keep(&self, now_us: u64, ranked: Ranked<T>, replaces: impl Fn(&T) -> bool) {
        if self.count_max == 0 {
            return;
        }
        let mut kept = self.kept.lock();
        self.turned(&mut kept, now_us);
        kept.drop_if(replaces);
        let place = kept.now.partition_point(|other| other.rank >= ranked.rank);
        kept.now.insert(place, ranked);
        kept.now.truncate(self.count_max);
        if let Some(lowest) = kept.now.get(self.count_max - 1) {
            self.floor.store((lowest.rank + 1).max(self.rank_min), Ordering::Relaxed);
        }
    }

    /// Drops items of both windows. If this window has room then, it admits lower items again.
    pub(super) fn drop_if(&self, is_dropped: impl Fn(&T) -> bool) {
        let mut kept = self.kept.lock();
        kept.drop_if(is_dropped);
        if kept.now.len() < self.count_max {
            self.floor.store(self.rank_min, Ordering::Relaxed);
        }
    }

    /// All items of both windows, highest rank first.
    pub(super) fn all(&self, now_us: u64) -> Vec<T> {
        let mut kept = self.kept.lock();
        self.turned(&mut kept, now_us);
        let mut all: Vec<Ranked<T>> = kept.now.iter().chain(&kept.before).cloned().collect();
        drop(kept);
        all.sort_by_key(|ranked| std::cmp::Reverse(ranked.rank));
        all.into_iter().map(|ranked| ranked.item).collect()
    }
}
