//! Registers: records that only conditional writes change, and the check of their history.
//!
//! Their bucket has `conditional_put_mode` = `require_token`. A client writes on condition that the
//! register is as the client has read it. So each write names the values that it replaces, and the
//! history gives the order of the acknowledged writes.

pub(crate) mod check;
pub(crate) mod history;
#[cfg(test)]
mod tests;

pub use history::RegisterHistory;

use quoit_model::key::{BucketRef, KeyRef};

/// The bucket type of all registers.
pub(crate) const BUCKET_TYPE: &str = "sim-registers";

/// Number of a register of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(pub(crate) u32);

impl Register {
    /// Number of registers: few, so that clients compete.
    pub(crate) const COUNT: u32 = 3;

    /// Returns all registers of a run.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Returns the key of the register.
    pub(crate) fn name(self) -> String {
        format!("r{}", self.0)
    }

    /// Returns the full name of a register; `name` is [`Register::name`].
    pub(crate) const fn key_ref(name: &str) -> KeyRef<'_> {
        let bucket_type = BUCKET_TYPE.as_bytes();
        BucketRef { bucket_type, bucket: b"bucket" }.key(name.as_bytes())
    }
}
