//! The seams through which a node meets its machine: disk, clock, and threads.
//!
//! Production passes the real ones; tests and the simulator pass a faulty disk in memory, a clock that
//! they turn by hand, and run background work inline. Those are compiled with the feature `testing` only: the
//! released program has none of them.

mod clock;
mod disk;
mod error;
mod execution;
#[cfg(any(test, feature = "testing"))]
mod faulty;
#[cfg(any(test, feature = "testing"))]
mod manual;
mod real;
pub mod rented;

pub use clock::{Clock, SystemClock};
pub use disk::{Disk, DiskFile, DiskLock, ReadAt, replace_file};
pub use error::DiskError;
pub use execution::{Execution, Next, Pace, Threads, Unpaced, Worker, WorkerHandle, give_way};
#[cfg(any(test, feature = "testing"))]
pub use faulty::{Faults, FaultyDisk, Random};
#[cfg(any(test, feature = "testing"))]
pub use manual::{ManualClock, ManualExecution, Meanwhile};
pub use real::RealDisk;
