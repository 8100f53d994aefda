//! Registers: records that only conditional writes change, and what must come of it.
//!
//! Their bucket has `conditional_put_mode` = `require_token`. A client writes on condition that the register
//! is as it has read it, so each write names the values that it replaces, and the order of the acknowledged
//! ones is known from the history.

pub(crate) mod check;
pub(crate) mod history;
#[cfg(test)]
mod tests;

pub use history::RegisterHistory;

use quoit_model::key::{BucketRef, KeyRef};

/// The bucket type of all registers.
pub(crate) const BUCKET_TYPE: &str = "sim-registers";

/// A register of the run, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(pub(crate) u32);

impl Register {
    /// Registers of a run: few, so that clients meet.
    pub(crate) const COUNT: u32 = 3;

    /// All registers of a run.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Its key.
    pub(crate) fn name(self) -> String {
        format!("r{}", self.0)
    }

    /// Its full name; `name` is [`Register::name`].
    pub(crate) const fn key_ref(name: &str) -> KeyRef<'_> {
        let bucket_type = BUCKET_TYPE.as_bytes();
        BucketRef { bucket_type, bucket: b"bucket" }.key(name.as_bytes())
    }
}
