//! The seams through which a node meets its machine: disk, clock, and threads.
//!
//! Production passes the real ones; tests and the simulator pass a faulty disk in memory, a clock that
//! they turn by hand, and run background work inline.

mod clock;
mod disk;
mod error;
mod execution;
mod faulty;
mod real;
pub mod rented;

pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{Disk, DiskFile, DiskLock, ReadAt, replace_file};
pub use error::DiskError;
pub use execution::{
    Execution, ManualExecution, Meanwhile, Next, Pace, Threads, Unpaced, Worker, WorkerHandle,
    give_way,
};
pub use faulty::{Faults, FaultyDisk, Random};
pub use real::RealDisk;
