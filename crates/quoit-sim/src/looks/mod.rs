//! Looks into the stores of all nodes in the middle of a run, at what the store itself relies on: majorities
//! know what was acknowledged, acknowledged values stay on enough disks, primaries keep what they have, a copy
//! that counts as complete is complete, and no node stores what it has reaped.
//!
//! Few runs come to harm where one of these promises is broken: several machines would have to lose their
//! power within moments, or a copy would have to come at the right time.

mod disks;
mod kept;
mod layouts;
mod reaped;

use crate::ground::Ground;
use crate::machine::Machine;
use crate::majorities::check_majorities;
use crate::stores_now::StoresNow;
use crate::violation::{Fault, Violation};
use disks::ValuesOnDisks;
use kept::KnownCopies;
use reaped::ReapedTombstones;
use std::ops::Range;
use std::time::Duration;

/// Times between two looks, in simulated microseconds.
pub const LOOKS_US: Range<u64> = 100_000..600_000;
/// Of so many looks one is at the disks, too: it is dearer.
const LOOKS_AT_DISKS: u64 = 4;
/// Checks that a machine's engine has kept its promises so far.
///
/// # Errors
///
/// The first promise that is broken.
pub fn check_engine(machine: &Machine) -> Result<(), Violation> {
    match machine.engine_model().lock().take_violation() {
        None => Ok(()),
        Some(text) => Err(Violation::new(Fault::WrongRecords, text).of(&machine.name)),
    }
}

/// The looks of a run, with the findings of former looks.
pub struct Looks {
    count: u64,
    on_disks: ValuesOnDisks,
    copies: KnownCopies,
    reaped: ReapedTombstones,
}

impl Looks {
    /// No look so far. Connections between nodes may be silent for `idle_timeout`.
    #[must_use]
    pub fn new(idle_timeout: Duration) -> Self {
        Self {
            count: 0,
            on_disks: ValuesOnDisks::default(),
            copies: KnownCopies::default(),
            reaped: ReapedTombstones::new(idle_timeout),
        }
    }

    /// Looks into the stores of all nodes that run; at the disks only where engines write what they acknowledge
    /// to files in one piece.
    ///
    /// # Errors
    ///
    /// The first promise that is broken.
    pub fn look(&mut self, ground: &Ground, with_disks: bool) -> Result<(), Violation> {
        self.count += 1;
        // What can't be read now is no matter of these promises.
        let Some(stores) = StoresNow::at(ground) else { return Ok(()) };
        check_majorities(ground, &stores)?;
        layouts::check_layouts(ground, &stores)?;
        layouts::check_moved(ground, &stores)?;
        self.copies.check(ground, &stores)?;
        if with_disks && self.count.is_multiple_of(LOOKS_AT_DISKS) {
            self.on_disks.check(ground, &stores)?;
            reaped::check_on_disks(ground, &stores)?;
        }
        reaped::check_stored(ground, &stores)?;
        self.reaped.check(ground, &stores)
    }
}
