//! The part of a run that one process does.

/// One of the equal parts that a run is split into. Without agents, one share is the whole run.
///
/// Workers, arrivals of an open loop and operations of a trace are dealt out in turn, so each belongs to
/// exactly one share. An element keeps its number in the whole run whatever the number of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    index: u32,
    count: u32,
}

impl Share {
    /// The share of a run that a single process does.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Share number `index` (from 0) of `count`; `None` if `index` is not below `count`.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// The number of the share, from 0.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of shares.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// True if element `number` (from 0) of the run belongs to the share.
    #[inline]
    #[must_use]
    pub fn takes(self, number: u64) -> bool {
        number % u64::from(self.count) == u64::from(self.index)
    }

    /// The numbers (from 1) of the share's workers in a run of `worker_count` workers.
    pub fn workers(self, worker_count: u32) -> impl Iterator<Item = u32> {
        (1..=worker_count).filter(move |number| self.takes(u64::from(*number - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(count: u32) -> impl Iterator<Item = Share> {
        (0..count).filter_map(move |index| Share::new(index, count))
    }

    proptest! {
        #[test]
        fn each_worker_belongs_to_one_share(count in 1_u32..20, worker_count in 1_u32..200) {
            let mut numbers: Vec<u32> =
                shares(count).flat_map(|share| share.workers(worker_count)).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (1..=worker_count).collect::<Vec<_>>());
            let sizes: Vec<usize> =
                shares(count).map(|share| share.workers(worker_count).count()).collect();
            let (least, most) = (sizes.iter().min(), sizes.iter().max().copied());
            prop_assert!(most <= least.map(|least| least + 1), "shares are equal but for one worker");
        }
    }

    #[test]
    fn there_is_no_share_beyond_the_last() {
        assert_eq!(Share::new(0, 1), Some(Share::WHOLE));
        assert_eq!((Share::new(2, 2), Share::new(0, 0)), (None, None));
    }
}
