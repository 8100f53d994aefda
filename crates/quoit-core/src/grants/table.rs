//! The grants that a primary remembers: pure state, in memory only.

use bytes::Bytes;
use quoit_planted::planted;
use std::collections::BTreeMap;

/// How long a grant keeps others waiting that is neither used nor given back, in microseconds of the
/// monotonic clock: its coordinator has died, or has fallen silent. Nothing but waiting depends on it.
pub(crate) const LEASE_US: u64 = 2_000_000;

/// Most grants that a node remembers at once. Beyond it conditional writes wait.
pub(crate) const GRANT_COUNT_MAX: usize = 100_000;

/// A number of a grant. No process of the node gives it out twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct GrantNumber(pub(crate) u64);

/// The latest grant of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Latest {
    /// Its write may come.
    Granted { number: GrantNumber, lease_ends_us: u64 },
    /// Its write is being merged into the record.
    Writing { number: GrantNumber },
}

/// The latest grant of each record that has one.
#[derive(Default)]
pub(crate) struct GrantTable {
    latest: BTreeMap<Bytes, Latest>,
    /// When grants that have run out are forgotten next.
    sweep_at_us: u64,
}

impl GrantTable {
    /// Grants a write of a record. False when another one has a grant that has not run out, or is writing.
    pub(crate) fn grant(&mut self, record: &[u8], number: GrantNumber, now_us: u64) -> bool {
        self.sweep(now_us);
        let is_free = match self.latest.get(record) {
            None => self.latest.len() < GRANT_COUNT_MAX,
            Some(Latest::Granted { lease_ends_us, .. }) => *lease_ends_us <= now_us,
            Some(Latest::Writing { .. }) => planted!(GrantsBesideWrites),
        };
        if is_free {
            let lease_ends_us = now_us + LEASE_US;
            // A copy: the name that came is a part of the buffer of a connection.
            let record = Bytes::copy_from_slice(record);
            self.latest.insert(record, Latest::Granted { number, lease_ends_us });
        }
        is_free
    }

    /// Begins the write of a grant, if no other grant of the record was given since: also after its lease.
    /// Until [`GrantTable::end`] no other write gets a grant.
    pub(crate) fn begin(&mut self, record: &[u8], number: GrantNumber) -> bool {
        match self.latest.get_mut(record) {
            Some(latest @ Latest::Granted { .. })
                if latest.number() == number || planted!(TakesReplacedGrants) =>
            {
                *latest = Latest::Writing { number };
                true
            }
            _ => false,
        }
    }

    /// Ends the write of a grant, and the grant with it.
    pub(crate) fn end(&mut self, record: &[u8], number: GrantNumber) {
        let ended = self.latest.remove(record);
        assert_eq!(ended, Some(Latest::Writing { number }), "only the writer ends its write");
    }

    /// Takes a grant back that is not used.
    pub(crate) fn release(&mut self, record: &[u8], number: GrantNumber) {
        if let Some(Latest::Granted { number: latest, .. }) = self.latest.get(record)
            && *latest == number
        {
            self.latest.remove(record);
        }
    }

    /// Forgets grants whose lease has run out, once a lease: their writes are refused.
    fn sweep(&mut self, now_us: u64) {
        if now_us < self.sweep_at_us {
            return;
        }
        self.sweep_at_us = now_us + LEASE_US;
        self.latest.retain(|_, latest| match latest {
            Latest::Granted { lease_ends_us, .. } => *lease_ends_us > now_us,
            Latest::Writing { .. } => true,
        });
    }
}

impl Latest {
    const fn number(&self) -> GrantNumber {
        match self {
            Self::Granted { number, .. } | Self::Writing { number } => *number,
        }
    }
}
