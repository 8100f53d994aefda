//! Faults that are planted in the code of the store, to measure what the simulator finds.
//!
//! Each is one wrong decision. It stands beside the right one, in the crate that takes the decision, as
//! [`planted!`] with its name, and [`PlantedFault`] lists them all. In a build with
//! `--cfg planted_faults`, which the test command and `cargo xtask soak` make, [`plant`] switches one of them
//! on for the process, as the simulator does, and the variable [`VARIABLE`] does so for test programs; in
//! every other build [`is_planted`] is always `false`, and the compiler leaves nothing of it behind.
//!
//! The switch is a static of the process: decisions are taken in pure functions of the lowest floors, which
//! have no context that it could come with, and a simulated run has a process of its own. It is set once,
//! before the first decision.
//!
//! To plant a further fault, give it a line in `faults.rs` and put [`planted!`] beside the decision:
//! `cargo xtask tidy` refuses a fault that stands nowhere, `cargo xtask sensitivity` measures it.
//!
//! Not here: faults of the world outside, such as disks that fail and messages that are late. Those are the
//! simulator's own.

mod faults;

pub use faults::{Area, PlantedFault};

use std::fmt;
use std::sync::OnceLock;

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
    /// A fault is planted in this process already, or a decision was taken without one.
    Planted,
}

impl fmt::Display for PlantError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotBuilt => {
                "this build has no planted faults; `cargo xtask soak` and `cargo xtask sensitivity` make \
                 one that has them"
            }
            Self::Planted => "this process has its fault, or none, already; begin another process",
        })
    }
}

impl std::error::Error for PlantError {}

/// The environment variable that plants a fault in programs which plant none themselves, such as tests.
pub const VARIABLE: &str = "QUOIT_PLANTED_FAULT";

/// The fault of this process, if it has one.
static PLANTED: OnceLock<Option<PlantedFault>> = OnceLock::new();

/// Whether a fault is planted. See [`planted!`].
///
/// # Panics
///
/// When [`VARIABLE`] names a fault that there is not, in a build that has faults.
#[inline(always)]
#[must_use]
pub fn is_planted(fault: PlantedFault) -> bool {
    cfg!(planted_faults) && *PLANTED.get_or_init(of_environment) == Some(fault)
}

#[cold]
fn of_environment() -> Option<PlantedFault> {
    let name = std::env::var(VARIABLE).ok()?;
    Some(name.parse().unwrap_or_else(|fault| panic!("{VARIABLE}: {fault}")))
}

/// Plants a fault in this process, for good.
///
/// # Errors
///
/// When the build has no faults, when one is planted already, or when a decision was taken without one.
pub fn plant(fault: PlantedFault) -> Result<(), PlantError> {
    if !cfg!(planted_faults) {
        return Err(PlantError::NotBuilt);
    }
    PLANTED.set(Some(fault)).map_err(|_| PlantError::Planted)
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

    #[test]
    fn one_is_planted_once_and_only_in_a_build_that_has_them() {
        let [first, second, ..] = PlantedFault::ALL else { panic!("there are several") };
        if cfg!(planted_faults) {
            assert_eq!(plant(*first), Ok(()));
            assert_eq!(plant(*second), Err(PlantError::Planted));
        } else {
            assert_eq!(plant(*first), Err(PlantError::NotBuilt));
        }
        assert_eq!(is_planted(*first), cfg!(planted_faults));
        assert!(!is_planted(*second));
    }
}
