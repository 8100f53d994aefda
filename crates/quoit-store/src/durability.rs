//! The moment at which a write counts as durable.

/// When an accepted write counts as durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When a sync of the device has covered it: it survives the death of the machine.
    #[default]
    Strict,
    /// At once: it survives the death of the process, and that of the machine after
    /// `sync_interval_us` at the latest.
    Relaxed,
}
