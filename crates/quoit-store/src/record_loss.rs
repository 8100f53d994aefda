//! Loss of records.

/// Durable records are gone. They may belong to any partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordLoss {
    /// Explanation for operators of how the store noticed the loss.
    pub reason: String,
}

impl RecordLoss {
    /// A loss that an earlier start found.
    pub(crate) fn known() -> Self {
        Self { reason: "an earlier start found that records are gone".to_owned() }
    }
}
