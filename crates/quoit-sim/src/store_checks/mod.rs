//! Checks of the stores of all nodes during a run.
//!
//! They check the invariants on which the store itself relies. Majorities know what was
//! acknowledged. Acknowledged values stay on enough disks. Primaries keep what they have. A copy that
//! counts as complete is complete. No node stores an object that it has reaped.
//!
//! Few runs would lose data if one of these promises were broken: several machines would have to lose
//! their power within moments, or an old copy would have to arrive at just the right time.

mod after_loss;
mod data_types;
mod disks;
mod kept;
mod layouts;
mod leaving;
mod reaped;
mod retired;

use crate::machine::Machine;
use crate::majorities::check_majorities;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::violation::{Violation, ViolationKind};
use after_loss::LostCopies;
use disks::ValuesOnDisks;
use kept::KnownCopies;
use leaving::HeldValues;
use reaped::ReapedTombstones;
use retired::RetiredRecords;
use std::ops::Range;
use std::time::Duration;

/// Range of the times between two checks, in simulated microseconds.
pub const CHECK_INTERVAL_US: Range<u64> = 100_000..600_000;
/// One in this many checks also reads the disks, which takes more CPU time.
const CHECKS_PER_DISK_CHECK: u64 = 4;

/// Checks that a machine's engine has agreed with its model so far.
///
/// # Errors
///
/// The first promise that is broken.
pub fn check_engine(machine: &Machine) -> Result<(), Violation> {
    match machine.engine_model().lock().take_violation() {
        None => Ok(()),
        Some(text) => Err(Violation::new(ViolationKind::WrongRecords, text).of(&machine.name)),
    }
}

/// The checks of the stores of a run, with the results of earlier checks.
pub struct StoreChecks {
    count: u64,
    on_disks: ValuesOnDisks,
    copies: KnownCopies,
    held: HeldValues,
    lost: LostCopies,
    reaped: ReapedTombstones,
    retired: RetiredRecords,
}

impl StoreChecks {
    /// Creates the state before the first check. `idle_timeout` is the time after which nodes close a
    /// silent connection.
    #[must_use]
    pub fn new(idle_timeout: Duration) -> Self {
        Self {
            count: 0,
            on_disks: ValuesOnDisks::default(),
            copies: KnownCopies::default(),
            held: HeldValues::default(),
            lost: LostCopies::default(),
            reaped: ReapedTombstones::new(idle_timeout),
            retired: RetiredRecords::new(idle_timeout),
        }
    }

    /// Checks the stores of all running nodes. `with_disks` allows checks of disks: it requires an
    /// engine that writes each acknowledged value to a file in one piece.
    ///
    /// # Errors
    ///
    /// The first promise that is broken.
    pub fn check(&mut self, run_context: &RunContext, with_disks: bool) -> Result<(), Violation> {
        self.count += 1;
        // If a store can't be read, this check is left out.
        let Some(stores) = StoreSnapshot::at(run_context) else { return Ok(()) };
        check_majorities(run_context, &stores)?;
        layouts::check_layouts(run_context, &stores)?;
        layouts::check_moved(run_context, &stores)?;
        self.copies.check(run_context, &stores)?;
        if with_disks {
            self.held.check(run_context, &stores)?;
        }
        self.lost.check(run_context, &stores)?;
        if with_disks && self.count.is_multiple_of(CHECKS_PER_DISK_CHECK) {
            self.on_disks.check(run_context, &stores)?;
            reaped::check_on_disks(run_context, &stores)?;
        }
        reaped::check_stored(run_context, &stores)?;
        data_types::check_merges(run_context, &stores)?;
        self.reaped.check(run_context, &stores)?;
        self.retired.check(run_context, &stores)
    }
}
