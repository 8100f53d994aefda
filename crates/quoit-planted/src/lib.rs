//! Faults that are planted in the code of the store, to measure what the simulator finds.
//!
//! Each is one wrong decision. It stands beside the right one, in the crate that takes the decision, as
//! [`planted!`] with its name, and [`PlantedFault`] lists them all. In a build with
//! `--cfg planted_faults`, which only the simulator's builds have, [`plant`] switches one of them on for the
//! process; in every other build [`is_planted`] is the constant `false`, and the compiler leaves nothing of
//! it behind.
//!
//! The switch is a static of the process: decisions are taken in pure functions of the lowest floors, which
//! have no context that it could come with, and a simulated run has a process of its own. It is set once,
//! before a run begins.
//!
//! To plant a further fault, give it a line in `faults.rs` and put [`planted!`] beside the decision:
//! `cargo xtask tidy` refuses a fault that stands nowhere, `cargo xtask sensitivity` measures it.
//!
//! Not here: faults of the world outside, such as disks that fail and messages that are late. Those are the
//! simulator's own.

mod faults;

pub use faults::{Area, PlantedFault};

use std::fmt;

/// Whether a fault of [`PlantedFault`] is planted, by the name of its variant.
///
/// ```
/// use quoit_planted::planted;
///
/// let (votes, wanted) = (1, 2);
/// let is_met = votes >= wanted || planted!(CountsReadsShort);
/// assert!(!is_met, "no fault is planted in this build");
/// ```
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {
        $crate::is_planted($crate::PlantedFault::$fault)
    };
}

/// Why a fault could not be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantError {
    /// The build has no faults.
    NotBuilt,
    /// A fault is planted in this process already.
    Planted,
}

impl fmt::Display for PlantError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotBuilt => {
                "this build has no planted faults; `cargo xtask soak` and `cargo xtask sensitivity` make \
                 one that has them"
            }
            Self::Planted => "a fault is planted in this process already; begin another process",
        })
    }
}

impl std::error::Error for PlantError {}

/// Whether a fault is planted. See [`planted!`].
#[cfg(not(planted_faults))]
#[inline(always)]
#[must_use]
pub const fn is_planted(_fault: PlantedFault) -> bool {
    false
}

/// Plants a fault in this process, for good.
///
/// # Errors
///
/// Always: this build has no faults.
#[cfg(not(planted_faults))]
pub const fn plant(_fault: PlantedFault) -> Result<(), PlantError> {
    Err(PlantError::NotBuilt)
}

#[cfg(planted_faults)]
static PLANTED: std::sync::OnceLock<PlantedFault> = std::sync::OnceLock::new();

/// Whether a fault is planted. See [`planted!`].
#[cfg(planted_faults)]
#[must_use]
pub fn is_planted(fault: PlantedFault) -> bool {
    PLANTED.get() == Some(&fault)
}

/// Plants a fault in this process, for good.
///
/// # Errors
///
/// When there is one already.
#[cfg(planted_faults)]
pub fn plant(fault: PlantedFault) -> Result<(), PlantError> {
    PLANTED.set(fault).map_err(|_| PlantError::Planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_found_by_its_name_and_no_other() {
        for fault in PlantedFault::ALL {
            assert_eq!(fault.name().parse(), Ok(*fault));
        }
        let unknown = "no-such-fault".parse::<PlantedFault>();
        assert!(unknown.is_err_and(|error| error.contains(PlantedFault::ALL[0].name())));
    }

    #[cfg(not(planted_faults))]
    #[test]
    fn a_build_of_its_own_is_needed_to_plant_one() {
        for fault in PlantedFault::ALL {
            assert_eq!(plant(*fault), Err(PlantError::NotBuilt));
            assert!(!is_planted(*fault));
        }
    }
}
