//! Records that a store has lost.

/// Records that were durable and are gone. They may have been of any partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordLoss {
    /// How that was found out, for operators.
    pub reason: String,
}

impl RecordLoss {
    /// A loss that an earlier start has found.
    pub(crate) fn known() -> Self {
        Self { reason: "an earlier start found that records are gone".to_owned() }
    }
}
