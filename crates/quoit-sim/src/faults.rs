//! Faults of a run, and their times: all of it is decided by the seed before the run begins.

mod planner;
mod plans;

pub use plans::{plan, plan_later};

/// Something that goes wrong, or is mended. Machines are told by their places, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineFault {
    /// The process is killed; what it has written stays.
    Kill(usize),
    /// The machine falls silent without its power; what was not synced is lost, in whole or in part.
    PowerLoss(usize),
    /// The process is started again.
    Start(usize),
    /// The process does not get to run any more; or it does again.
    Stall(usize, bool),
    /// Holds back the messages of the first machine to the second; or releases them.
    Cut(usize, usize, bool),
    /// Messages take up to so many microseconds from now on.
    Latency(u64),
    /// The wall clock jumps: from now on it shows so many microseconds too much.
    Clock(usize, i64),
    /// Each piece of the disk's background work takes up to so many microseconds from now on.
    SlowDisk(usize, u64),
    /// The disk begins no more background work, syncs among it; or it goes on.
    HangDisk(usize, bool),
    /// The process is told to stop, and does so in good order; [`MachineFault::Start`] starts it again.
    Stop(usize),
    /// Segments of the log are lost while the machine is off: which ones, follows from the number.
    LoseFiles(usize, u64),
    /// The operator copies the data directory.
    CopyData(usize),
    /// The last copy is put in the place of what clients have stored, while the machine is off.
    RestoreData(usize),
    /// The disk has room for so many more bytes from now on; `None` = for all.
    DiskRoom(usize, Option<u64>),
    /// Of so many reads one has to wait for the disk from now on; 0 = none.
    ColdReads(usize, u64),
    /// The process is ended, and started again as that of the newest program.
    Upgrade(usize),
    /// A bit of what clients have stored flips: which one, follows from the number.
    Rot(usize, u64),
}

impl MachineFault {
    /// The machine that it concerns, of those that concern one.
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
            | Self::DiskRoom(place, _)
            | Self::ColdReads(place, _)
            | Self::Upgrade(place)
            | Self::Rot(place, _) => Some(place),
            Self::Cut(..) | Self::Latency(_) => None,
        }
    }

    /// Whether nodes keep what they know of each other's absence, and agree on the time.
    #[must_use]
    pub const fn keeps_what_is_known(self) -> bool {
        matches!(
            self,
            Self::Start(_)
                | Self::Stop(_)
                | Self::Stall(..)
                | Self::Cut(..)
                | Self::Latency(_)
                | Self::SlowDisk(..)
                | Self::HangDisk(..)
                | Self::ColdReads(..)
        )
    }
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When, in simulated microseconds.
    pub at_us: u64,
    /// The fault.
    pub fault: MachineFault,
}

/// Messages take up to so many microseconds where nothing is wrong.
pub const LATENCY_US: u64 = 10_000;
