//! Identities of plans.

use std::fmt;

/// Identity of a plan: a 64-bit hash of its layout and its staged changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanId(pub u64);

impl fmt::Display for PlanId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}
