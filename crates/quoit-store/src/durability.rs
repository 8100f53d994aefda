//! The moment at which a write counts as durable.

/// Moment at which an accepted write counts as durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// After a sync of the device: the write survives the death of the machine.
    #[default]
    Strict,
    /// At once: the write survives the death of the process. It survives the death of the machine after at
    /// most `sync_interval_us`.
    Relaxed,
}
