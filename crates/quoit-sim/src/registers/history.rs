//! Requests for registers, and the values that reads have shown.

use super::Register;
use crate::history::{Outcome, WriteNumber};
use std::collections::BTreeSet;

/// A conditional write.
#[derive(Debug, Clone)]
pub(crate) struct RegisterWrite {
    /// Which register.
    pub(crate) register: Register,
    /// The values that its writer was shown, on which the write depends; empty = none.
    pub(crate) base: BTreeSet<WriteNumber>,
    /// When it was asked for, in simulated microseconds.
    pub(crate) start_us: u64,
    /// When the answer came; [`u64::MAX`] when none did.
    pub(crate) end_us: u64,
    /// How it ended.
    pub(crate) outcome: Outcome,
}

/// A read of a majority of the primaries that was answered.
#[derive(Debug, Clone)]
pub(crate) struct RegisterRead {
    /// Which register.
    pub(crate) register: Register,
    /// When it was asked for, in simulated microseconds.
    pub(crate) start_us: u64,
    /// When the answer came.
    pub(crate) end_us: u64,
    /// The values.
    pub(crate) found: BTreeSet<WriteNumber>,
    /// Values that no client has written.
    pub(crate) foreign: Vec<String>,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct RegisterHistory {
    /// Writes by number.
    pub(crate) writes: Vec<RegisterWrite>,
    /// Reads in the order of their ends.
    pub(crate) reads: Vec<RegisterRead>,
    /// When machines lost what their disks had promised to keep, in simulated microseconds: of what a
    /// majority had synced, too few may have been left.
    pub(crate) losses_us: Vec<u64>,
}

impl RegisterHistory {
    /// Notes a write before it is sent; its outcome is unknown until [`RegisterHistory::end`].
    pub(crate) fn begin(
        &mut self,
        register: Register,
        base: BTreeSet<WriteNumber>,
        start_us: u64,
    ) -> WriteNumber {
        let outcome = Outcome::Unknown;
        self.writes.push(RegisterWrite { register, base, start_us, end_us: u64::MAX, outcome });
        WriteNumber(self.writes.len() as u32 - 1)
    }

    /// Notes how a write ended.
    pub(crate) fn end(&mut self, number: WriteNumber, end_us: u64, outcome: Outcome) {
        let write = &mut self.writes[number.0 as usize];
        (write.end_us, write.outcome) = (end_us, outcome);
    }

    /// Writes that were acknowledged.
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = (WriteNumber, &RegisterWrite)> {
        let numbered = (0_u32..).map(WriteNumber).zip(&self.writes);
        numbered.filter(|(_, write)| write.outcome == Outcome::Acknowledged)
    }

    /// Whether nothing that a disk had promised to keep was lost since a time.
    pub(crate) fn is_whole_since(&self, start_us: u64) -> bool {
        self.losses_us.iter().all(|at_us| *at_us < start_us)
    }
}
