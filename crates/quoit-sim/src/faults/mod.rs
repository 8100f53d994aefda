//! The faults of a run and their times. The seed decides all of them before the run begins.

mod planner;
mod plans;

pub use plans::{RotChance, plan, plan_in_lull, plan_later, plan_restarts_beside_cuts};

/// A fault, or its repair. Machines are identified by their indexes, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineFault {
    /// The process is killed. Everything that it has written stays.
    Kill(usize),
    /// The machine loses its power without closing its connections. Data that was not synced is lost in
    /// whole or in part.
    PowerLoss(usize),
    /// The process is started again.
    Start(usize),
    /// The process stalls (true), or runs again (false).
    Stall(usize, bool),
    /// Messages of one machine to another are held back, or released.
    Cut {
        /// Machine that sends them.
        from: usize,
        /// Machine for which they are meant.
        to: usize,
        /// True to hold them back.
        is_cut: bool,
    },
    /// Messages take up to this many microseconds from now on.
    Latency(u64),
    /// The wall clock jumps: from now on it is ahead by this many microseconds.
    Clock(usize, i64),
    /// Each piece of the disk's background work, including syncs, takes up to this many microseconds from
    /// now on.
    SlowDisk(usize, u64),
    /// The disk hangs (true): it begins no more background work, including syncs. Or it works again
    /// (false).
    HangDisk(usize, bool),
    /// The process is told to stop and shuts down cleanly; [`MachineFault::Start`] starts it again.
    Stop(usize),
    /// Segments of the log are lost while the machine is off. The number decides which ones.
    LoseFiles(usize, u64),
    /// The operator copies the data directory.
    CopyData(usize),
    /// The last copy replaces the data directory while the machine is off.
    RestoreData(usize),
    /// The disk has this many free bytes from now on; `None` = no limit.
    DiskSpace(usize, Option<u64>),
    /// One in this many reads has to wait for the disk from now on; 0 = no read.
    ColdReads(usize, u64),
    /// The process is killed, and started again with the newest program.
    Upgrade(usize),
    /// A bit in a file of the engine flips. The number decides which one.
    Rot(usize, u64),
}

impl MachineFault {
    /// Returns the machine that the fault concerns; `None` for faults of the network.
    #[must_use]
    pub const fn machine(self) -> Option<usize> {
        match self {
            Self::Kill(place)
            | Self::PowerLoss(place)
            | Self::Start(place)
            | Self::Stall(place, _)
            | Self::Clock(place, _)
            | Self::SlowDisk(place, _)
            | Self::HangDisk(place, _)
            | Self::Stop(place)
            | Self::LoseFiles(place, _)
            | Self::CopyData(place)
            | Self::RestoreData(place)
            | Self::DiskSpace(place, _)
            | Self::ColdReads(place, _)
            | Self::Upgrade(place)
            | Self::Rot(place, _) => Some(place),
            Self::Cut { .. } | Self::Latency(_) => None,
        }
    }

    /// True if the fault leaves the nodes' hints and clocks unchanged.
    #[must_use]
    pub const fn preserves_hints_and_time(self) -> bool {
        matches!(
            self,
            Self::Start(_)
                | Self::Stop(_)
                | Self::Stall(..)
                | Self::Cut { .. }
                | Self::Latency(_)
                | Self::SlowDisk(..)
                | Self::HangDisk(..)
                | Self::ColdReads(..)
        )
    }
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedFault {
    /// Time of the fault, in simulated microseconds after the clients' start.
    pub at_us: u64,
    /// The fault.
    pub fault: MachineFault,
}

/// Maximum delay of a message without faults, in microseconds.
pub const LATENCY_US: u64 = 10_000;
