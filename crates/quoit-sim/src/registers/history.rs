//! The history of registers: conditional writes, and reads with the values that they found.

use super::Register;
use crate::history::{Outcome, WriteNumber};
use std::collections::BTreeSet;

/// A conditional write.
#[derive(Debug, Clone)]
pub(crate) struct RegisterWrite {
    /// The register.
    pub(crate) register: Register,
    /// Values that the client had read, on which the write depends; empty if the register did not exist.
    pub(crate) base: BTreeSet<WriteNumber>,
    /// Time at which the client sent the request, in simulated microseconds.
    pub(crate) start_us: u64,
    /// Time of the answer; [`u64::MAX`] if there was no answer.
    pub(crate) end_us: u64,
    /// Outcome of the write.
    pub(crate) outcome: Outcome,
}

/// A read of a majority of the primaries that was answered.
#[derive(Debug, Clone)]
pub(crate) struct RegisterRead {
    /// The register.
    pub(crate) register: Register,
    /// Time at which the client sent the request, in simulated microseconds.
    pub(crate) start_us: u64,
    /// Time of the answer.
    pub(crate) end_us: u64,
    /// Values that the read found.
    pub(crate) found: BTreeSet<WriteNumber>,
    /// Values that no client has written.
    pub(crate) foreign: Vec<String>,
}

/// The history of all registers of a run.
#[derive(Debug, Clone, Default)]
pub struct RegisterHistory {
    /// Writes, by number.
    pub(crate) writes: Vec<RegisterWrite>,
    /// Reads, in the order in which they ended.
    pub(crate) reads: Vec<RegisterRead>,
    /// Times at which machines lost synced data, in simulated microseconds. Of the copies that a majority
    /// had synced, too few may have been left then.
    pub(crate) losses_us: Vec<u64>,
}

impl RegisterHistory {
    /// Number of writes.
    pub(crate) fn write_count(&self) -> u32 {
        u32::try_from(self.writes.len()).expect("a run is a few hundred writes")
    }

    /// Records a write before it is sent. Its outcome is unknown until [`RegisterHistory::end`].
    pub(crate) fn begin(
        &mut self,
        register: Register,
        base: BTreeSet<WriteNumber>,
        start_us: u64,
    ) -> WriteNumber {
        let (number, outcome) = (WriteNumber(self.write_count()), Outcome::Unknown);
        self.writes.push(RegisterWrite { register, base, start_us, end_us: u64::MAX, outcome });
        number
    }

    /// Records the outcome of a write.
    pub(crate) fn end(&mut self, number: WriteNumber, end_us: u64, outcome: Outcome) {
        let write = &mut self.writes[number.0 as usize];
        (write.end_us, write.outcome) = (end_us, outcome);
    }

    /// Returns the acknowledged writes.
    pub(crate) fn acknowledged(&self) -> impl Iterator<Item = (WriteNumber, &RegisterWrite)> {
        let numbered = (0_u32..).map(WriteNumber).zip(&self.writes);
        numbered.filter(|(_, write)| write.outcome == Outcome::Acknowledged)
    }

    /// True if no machine has lost synced data since a time.
    pub(crate) fn is_whole_since(&self, start_us: u64) -> bool {
        self.losses_us.iter().all(|at_us| *at_us < start_us)
    }
}
