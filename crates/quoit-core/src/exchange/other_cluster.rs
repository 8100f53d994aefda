//! Questions to another cluster about its copies of large sets and maps.

use bytes::Bytes;
use std::pin::Pin;

/// A question about ranges of a copy of a large set or map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangesQuestion {
    /// Asks which ranges differ from those of the asking node's copy.
    Compare,
    /// Asks for the items of ranges.
    Read,
}

/// The answer to a question: a message and its payload, in the form that members of one cluster send;
/// `None` if there is no copy in pages, or no answer.
pub type RangesAnswer = Option<(Bytes, Bytes)>;

/// A node of another cluster that may have a copy of a large set or map.
pub trait OtherClusterCopy: Send {
    /// Asks about the copy. Returns `None` if the node has no copy in pages, or does not answer.
    fn ask<'a>(
        &'a mut self,
        question: RangesQuestion,
        asked: Bytes,
    ) -> Pin<Box<dyn Future<Output = RangesAnswer> + Send + 'a>>;
}
