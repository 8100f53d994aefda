//! Interfaces between a node and its machine: disk, clock and threads.
//!
//! Production code uses the real ones. Tests and the simulator use a disk in memory that injects
//! faults, a clock that they advance, and an execution whose steps they call. These are compiled only
//! with the feature `testing`, so the released program does not contain them.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod clock;
mod disk;
mod error;
mod execution;
#[cfg(any(test, feature = "testing"))]
mod faulty;
#[cfg(any(test, feature = "testing"))]
mod manual;
mod mounts;
mod real;
pub mod third_party;

pub use clock::{Clock, SystemClock};
pub use disk::{Disk, DiskFile, DiskLock, ReadAt, replace_file};
pub use error::DiskError;
pub use execution::{
    Execution, NeverPauses, NextStep, Pace, Threads, Worker, WorkerHandle, yield_to_requests,
};
#[cfg(any(test, feature = "testing"))]
pub use faulty::{Faults, FaultyDisk, Random};
#[cfg(any(test, feature = "testing"))]
pub use manual::{ManualClock, ManualExecution, PauseHook};
pub use mounts::Mount;
pub use real::RealDisk;
