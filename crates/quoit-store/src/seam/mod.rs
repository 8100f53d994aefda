//! The seams through which an engine meets the world: disk, clock, and threads.
//!
//! Production passes the real ones; tests and the simulator pass a faulty disk in memory, a clock that
//! they turn by hand, and run background work inline.

mod clock;
mod disk;
mod execution;
mod faulty;
mod real;

pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{Disk, DiskFile, DiskLock, ReadAt, replace_file};
pub use execution::{
    Execution, ManualExecution, Meanwhile, Next, Pace, Threads, Unpaced, Worker, WorkerHandle,
    give_way,
};
pub use faulty::{Faults, FaultyDisk};
pub use real::RealDisk;

#[cfg(test)]
pub(crate) use faulty::Random;
