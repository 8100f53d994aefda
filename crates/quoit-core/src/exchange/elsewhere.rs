//! Copies of records in other clusters, as this cluster asks about them.

use bytes::Bytes;
use std::pin::Pin;

/// A question about ranges of a copy of a large set or map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangesQuestion {
    /// Which ranges differ from those of the copy of the node that asks.
    Compare,
    /// The items of ranges.
    Read,
}

/// The answer to a question: a message and a payload, as members of one cluster send them.
pub type RangesAnswer = Option<(Bytes, Bytes)>;

/// A node of another cluster that may have a copy of a large set or map.
pub trait CopyElsewhere: Send {
    /// Asks about the copy. `None` when the node has none in pages, or does not answer.
    fn ask<'a>(
        &'a mut self,
        question: RangesQuestion,
        asked: Bytes,
    ) -> Pin<Box<dyn Future<Output = RangesAnswer> + Send + 'a>>;
}
