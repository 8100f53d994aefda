//! Names of plans.

use std::fmt;

/// Names a plan: another plan has another name, but for a chance of 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanId(pub u64);

impl fmt::Display for PlanId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
