//! The grants that a primary remembers: pure state, in memory only.

use bytes::Bytes;
use quoit_planted::planted;
use std::collections::BTreeMap;

/// Time for which an unused grant keeps other writes waiting, in microseconds of the monotonic clock. It
/// bounds the delay if a coordinator dies; the protocol's safety does not depend on it.
pub(crate) const LEASE_US: u64 = 2_000_000;

/// Most grants that a node remembers at once. A node that has so many gives no grants for further
/// records.
pub(crate) const GRANT_COUNT_MAX: usize = 100_000;

/// Number of a grant. A node never gives a number twice, not even after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct GrantNumber(pub(crate) u64);

/// The latest grant of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LatestGrant {
    /// The write may arrive.
    Granted { number: GrantNumber, lease_ends_us: u64 },
    /// The write is being merged into the record.
    Writing { number: GrantNumber },
}

/// The latest grant of each record that has one.
#[derive(Default)]
pub(crate) struct GrantTable {
    latest: BTreeMap<Bytes, LatestGrant>,
    /// Time at which grants that have run out are removed next.
    sweep_at_us: u64,
}

impl GrantTable {
    /// Grants a write of a record. False if another write holds a grant that has not run out, if one is
    /// being merged, or if the table is full.
    pub(crate) fn grant(&mut self, record: &[u8], number: GrantNumber, now_us: u64) -> bool {
        self.sweep(now_us);
        let is_free = match self.latest.get(record) {
            None => self.latest.len() < GRANT_COUNT_MAX,
            Some(LatestGrant::Granted { lease_ends_us, .. }) => *lease_ends_us <= now_us,
            Some(LatestGrant::Writing { .. }) => planted!(GrantsBesideWrites),
        };
        if is_free {
            let lease_ends_us = now_us + LEASE_US;
            // Copied, because the name is a slice of a connection's buffer and would keep all of it in
            // memory.
            let record = Bytes::copy_from_slice(record);
            let former = self.latest.insert(record, LatestGrant::Granted { number, lease_ends_us });
            debug_assert!(
                former.is_none_or(|former| former.number() != number),
                "no two grants have the same number"
            );
            debug_assert!(self.latest.len() <= GRANT_COUNT_MAX, "the table keeps to its bound");
        }
        is_free
    }

    /// Begins the write under a grant if it is still the latest one of the record, even after its lease.
    /// No other write gets a grant until [`GrantTable::end`].
    pub(crate) fn begin(&mut self, record: &[u8], number: GrantNumber) -> bool {
        match self.latest.get_mut(record) {
            Some(latest @ LatestGrant::Granted { .. }) if latest.number() == number => {
                *latest = LatestGrant::Writing { number };
                true
            }
            Some(LatestGrant::Granted { .. }) => planted!(TakesReplacedGrants),
            _ => false,
        }
    }

    /// Ends the write under a grant, and the grant with it.
    pub(crate) fn end(&mut self, record: &[u8], number: GrantNumber) {
        let writing = LatestGrant::Writing { number };
        if planted!(TakesReplacedGrants) && self.latest.get(record) != Some(&writing) {
            return;
        }
        let ended = self.latest.remove(record);
        assert_eq!(ended, Some(writing), "only the writer ends its write");
    }

    /// Takes back an unused grant.
    pub(crate) fn release(&mut self, record: &[u8], number: GrantNumber) {
        if let Some(LatestGrant::Granted { number: latest, .. }) = self.latest.get(record)
            && *latest == number
        {
            self.latest.remove(record);
        }
    }

    /// Removes grants whose lease has run out; writes under them are refused. Runs at most once in
    /// [`LEASE_US`].
    fn sweep(&mut self, now_us: u64) {
        if now_us < self.sweep_at_us {
            return;
        }
        self.sweep_at_us = now_us + LEASE_US;
        self.latest.retain(|_, latest| match latest {
            LatestGrant::Granted { lease_ends_us, .. } => *lease_ends_us > now_us,
            LatestGrant::Writing { .. } => true,
        });
    }
}

impl LatestGrant {
    const fn number(&self) -> GrantNumber {
        match self {
            Self::Granted { number, .. } | Self::Writing { number } => *number,
        }
    }
}
