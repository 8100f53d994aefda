//! Change feeds: the writes of a bucket as a stream, for readers that follow it or come back after a
//! time.
//!
//! If the bucket has a feed (property `change_feed`), the coordinator of a write appends it to the log
//! of its own node, right after its local write and before it acknowledges. The log has the format of
//! the source queues' journal, in a directory of its own. It keeps entries for a configured time,
//! whether they are read or not. A reader gets the logs of all nodes as one stream, merged by time. Its
//! position is a place in each node's log. `docs/design/change-feed.md` has the design.

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
    /// `None` if the node keeps its records in memory only.
    log: Option<Arc<ChangeLog>>,
}
