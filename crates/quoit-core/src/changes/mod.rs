//! Change feeds: the writes of a bucket, told to readers who missed them, were away, or follow.
//!
//! The coordinator of a write appends it to the log of its node right after its local write, before it is
//! acknowledged, if the bucket has a feed (property `change_feed`). The log has the form of the journal of
//! source queues, in a directory of its own, and keeps what it has for a time, whoever reads it. A reader
//! gets the logs of all nodes as one stream, merged by time; its position is a place in each log.
//! `docs/design/change-feed.md` has the design.

mod hook;
mod log;
mod note;
mod position;
mod serve;
mod stream;
#[cfg(test)]
mod tests;

pub use log::{ChangeFeedSettings, ChangeFeedStatus, ChangeLog};
pub use position::PositionError;
pub use stream::{
    ChangeBatch, ChangeEvent, ChangeFeedError, ChangeKind, ChangeQuery, ChangeStream, ChangesSince,
};

use crate::local_node::LocalNode;
use std::sync::Arc;

/// The change feeds of a node. Shared; every method takes `&self`.
pub struct ChangeFeeds {
    local: Arc<LocalNode>,
    /// `None` where records end with the process.
    log: Option<Arc<ChangeLog>>,
}
