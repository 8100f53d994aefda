//! Identification of the boot of a machine.

/// A number that differs after each boot of the machine; 0 if it is not known. Writes that were not synced
/// are still there after the death of the process, but may be gone if the machine has booted since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MachineBoot(pub u64);
