//! Faults that are planted in the code of the store, to measure which faults the simulator finds.
//!
//! Each fault is one wrong decision. It stands beside the right one, in the crate that makes the decision,
//! as [`planted!`] with its name. [`PlantedFault`] lists all faults. Builds with `--cfg planted_faults`,
//! which the test command and `cargo xtask soak` make, contain them: there [`plant`] switches one fault on
//! for the process, as the simulator does, and the environment variable [`VARIABLE`] does so for test
//! programs. In every other build [`is_planted`] is always `false`, and the compiler removes the checks.
//!
//! The switch is a static of the process. The decisions are made in pure functions of the lowest layers,
//! which have no context that could carry it, and each simulated run has a process of its own. The switch
//! is set once, before the first decision.
//!
//! To plant another fault, add a line to `faults.rs` and put [`planted!`] beside the decision. `cargo
//! xtask tidy` refuses a fault that is not used anywhere, and `cargo xtask sensitivity` measures whether
//! the simulator finds it.
//!
//! Not here: external faults, such as failing disks and late messages. The simulator injects those.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod faults;

pub use faults::{PlantedFault, StorePart};

use std::fmt;
use std::sync::OnceLock;

/// True if a fault of [`PlantedFault`] is planted, named by its variant.
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

/// Reason why a fault could not be planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantError {
    /// The build contains no faults.
    NotBuilt,
    /// A fault is planted in this process already, or a decision was made without one.
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

/// Environment variable that plants a fault in programs which do not call [`plant`], such as tests.
pub const VARIABLE: &str = "QUOIT_PLANTED_FAULT";

/// The fault of this process, if it has one.
static PLANTED: OnceLock<Option<PlantedFault>> = OnceLock::new();

/// Returns true if a fault is planted. See [`planted!`].
///
/// # Panics
///
/// In a build with faults, if [`VARIABLE`] names a fault that does not exist.
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

/// Plants a fault in this process, for the rest of its life.
///
/// # Errors
///
/// [`PlantError`] if the build contains no faults, if a fault is planted already, or if a
/// decision was made without one.
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
