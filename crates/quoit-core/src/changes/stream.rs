//! The reader's side: merges the logs of all nodes into one stream.
//!
//! ```text
//! each step:  ask the nodes of which no change is waiting (nodes that do not answer are left out)
//!             emit the earliest waiting change, once every node that answered has sent all its changes
//!             up to that time
//! ```
//!
//! Changes are thus emitted in the order of their times. A node that was down sends its changes when it
//! is back. Changes that are earlier than the last one emitted are then emitted as *late*: the record
//! may have been written again since, and that later write may have been emitted already.

use super::ChangeFeeds;
use super::log::LogPosition;
use super::position::{FeedPosition, NodeMark, PositionError, mark_of};
use super::serve::{of_wire, to_wire};
use crate::error::RequestError;
use crate::placement::bucket_props;
use crate::queues::Cursor;
use bytes::Bytes;
use quoit_cluster::{Lane, Replies};
use quoit_model::key::BucketRef;
use quoit_model::node::NodeId;
use quoit_wire::internode::changes::{
    ChangesFrom, ChangesRead, FeedChange, METHOD_ASK_CHANGES, ReadChanges,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Time in which nodes have to answer. After it the stream continues without those that have not answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in milliseconds that this node has to find out which nodes are up.
const SETTLE_TIMEOUT_MS: u32 = 5_000;
/// Interval at which nodes are asked while there is nothing to emit.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which nodes are asked whose clocks are behind a change that waits to be emitted.
const CATCH_UP_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of changes in a batch.
const BATCH_COUNT_MAX: usize = 1000;

/// Beginning of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangesSince {
    /// The oldest changes that are kept.
    Oldest,
    /// Changes from a time on, microseconds since 1970.
    Time(u64),
    /// A position that a feed has returned.
    Position(Bytes),
}

/// The changes that a reader asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeQuery {
    /// Bucket type.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// Prefix of the keys.
    pub prefix: Bytes,
    /// Only changes of this kind, and late ones; `None` for all.
    pub kind: Option<ChangeKind>,
    /// Beginning of the stream.
    pub since: ChangesSince,
}

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// The record was written.
    Put,
    /// The record was deleted.
    Delete,
    /// The record was written or deleted before changes that were emitted already.
    Late,
}

impl ChangeKind {
    /// Name of the kind in the protocols.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Late => "late",
        }
    }
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeEvent {
    /// Key of the record.
    pub key: Bytes,
    /// Its kind.
    pub kind: ChangeKind,
    /// Time of the change, microseconds since 1970.
    pub time_us: u64,
    /// Causal context of the record after the change; empty if clients get none.
    pub context: Bytes,
    /// Position after the change.
    pub position: Vec<u8>,
}

/// Changes that are returned at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeBatch {
    /// In order.
    pub changes: Vec<ChangeEvent>,
    /// True if no changes follow at present, except from nodes that were not reached.
    pub at_end: bool,
    /// Names of the nodes that were not reached.
    pub unreached: Vec<Arc<str>>,
}

/// Reason why a stream ends.
#[derive(Debug, Error)]
pub enum ChangeFeedError {
    /// The bucket has no feed.
    #[error(
        "the bucket has no change feed: `quoit changes enable TYPE/BUCKET` or its property change_feed gives \
         it one"
    )]
    Off,
    /// The position can't be read.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// Changes were lost or are no longer kept.
    #[error("changes between the position and the present are missing: {text}")]
    Gap {
        /// The cause.
        text: String,
        /// Position from which a reader continues if it accepts the gap.
        resume: Vec<u8>,
    },
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// State of a node's log in the stream.
struct NodeFeed {
    id: NodeId,
    name: Arc<str>,
    /// Offset at which the next request for changes begins.
    next: Option<LogPosition>,
    waiting: VecDeque<FeedChange>,
    /// Every later change of the node has a later time than this.
    complete_us: u64,
    at_end: bool,
    is_reached: bool,
}

/// A stream of changes. Dropping it ends it.
pub struct ChangeStream {
    feeds: Arc<ChangeFeeds>,
    query: ChangeQuery,
    position: FeedPosition,
    /// Nodes that the position does not contain are read from this time on; `None` to read them from their
    /// oldest change.
    since_us: Option<u64>,
    nodes: BTreeMap<NodeMark, NodeFeed>,
}

impl ChangeFeeds {
    /// Begins to read the change feed of a bucket.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, buckets without a feed, and positions that can't be read or are of an
    /// earlier period.
    pub fn begin(self: &Arc<Self>, query: ChangeQuery) -> Result<ChangeStream, ChangeFeedError> {
        let period = self.feed_period(&query)?;
        let (position, since_us) = match &query.since {
            ChangesSince::Oldest => (FeedPosition::default(), None),
            ChangesSince::Time(us) => (FeedPosition::default(), Some(*us)),
            // A node that the position does not contain was not reached, or has joined since. Its log
            // is read from time 0, so that a log whose beginning is gone gives a gap.
            ChangesSince::Position(text) => (FeedPosition::decode(text)?, Some(0)),
        };
        let is_new = !matches!(query.since, ChangesSince::Position(_));
        let mut stream = ChangeStream {
            feeds: Arc::clone(self),
            query,
            position,
            since_us,
            nodes: BTreeMap::new(),
        };
        let former = std::mem::replace(&mut stream.position.period, period);
        if former != period && !is_new {
            return Err(stream.gap("the feed of the bucket was off in between"));
        }
        Ok(stream)
    }

    fn feed_period(&self, query: &ChangeQuery) -> Result<u32, ChangeFeedError> {
        let state = self.local.control.read();
        let bucket = BucketRef { bucket_type: &query.bucket_type, bucket: &query.bucket };
        let period = bucket_props(&state, bucket)?.change_feed.unwrap_or(0);
        if period == 0 { Err(ChangeFeedError::Off) } else { Ok(period) }
    }
}

impl ChangeStream {
    /// Position after all changes that were emitted.
    #[must_use]
    pub fn position(&self) -> Vec<u8> {
        self.position.encode()
    }

    /// Waits until there may be a new change, but at most 100 ms.
    pub async fn rest(&self) {
        let Some(log) = self.feeds.log() else {
            return tokio::time::sleep(POLL_INTERVAL).await;
        };
        // A write at this node ends the wait early; a write at another node does not.
        let _ = timeout(POLL_INTERVAL, log.filled().notified()).await;
    }

    /// The next changes; none at the present end of the feed, after which the stream can be read again.
    ///
    /// # Errors
    ///
    /// If changes are missing, the feed was switched off, or this node's log can't be read.
    pub async fn next(&mut self) -> Result<ChangeBatch, ChangeFeedError> {
        // Right after its start a node considers all peers down.
        let _ = self.feeds.local.settled_topology(Some(SETTLE_TIMEOUT_MS)).await;
        loop {
            let period = self.feeds.feed_period(&self.query)?;
            if std::mem::replace(&mut self.position.period, period) != period {
                return Err(self.gap("the feed of the bucket was off in between"));
            }
            self.follow_members()?;
            self.ask().await?;
            let mut batch = ChangeBatch::default();
            while batch.changes.len() < BATCH_COUNT_MAX
                && let Some(mark) = self.next_node()
            {
                batch.changes.extend(self.tell(mark));
            }
            self.pass_empty();
            let reached = || self.nodes.values().filter(|node| node.is_reached);
            batch.at_end = reached().all(|node| node.waiting.is_empty() && node.at_end);
            let unreached = self.nodes.values().filter(|node| !node.is_reached);
            batch.unreached = unreached.map(|node| Arc::clone(&node.name)).collect();
            if !batch.changes.is_empty() || batch.at_end {
                if let Some(log) = self.feeds.log() {
                    log.count_sent(batch.changes.len());
                }
                return Ok(batch);
            }
            if self.nodes.values().any(|node| !node.waiting.is_empty()) {
                tokio::time::sleep(CATCH_UP_INTERVAL).await;
            }
        }
    }

    fn gap(&self, text: &str) -> ChangeFeedError {
        ChangeFeedError::Gap { text: text.to_owned(), resume: self.position.encode() }
    }

    /// Adds new members. Fails for members that have left, because their remaining changes are gone.
    fn follow_members(&mut self) -> Result<(), ChangeFeedError> {
        let state = self.feeds.local.state();
        let mut members = BTreeMap::new();
        for member in state.members().iter() {
            members.insert(mark_of(member.id), (member.id, Arc::clone(&member.name)));
        }
        let is_gone = |mark: &&NodeMark| !members.contains_key(*mark);
        if let Some(gone) = self.position.places.keys().find(is_gone).copied() {
            let name = self.nodes.remove(&gone).map(|node| node.name);
            self.position.places.remove(&gone);
            let name = name.as_deref().unwrap_or("a node");
            return Err(self.gap(&format!(
                "{name} has left the cluster, and changes that it had not reported are lost"
            )));
        }
        for (mark, (id, name)) in members {
            let next = self.position.places.get(&mark).copied();
            let new = || NodeFeed {
                id,
                name,
                next,
                waiting: VecDeque::new(),
                complete_us: 0,
                at_end: false,
                is_reached: false,
            };
            self.nodes.entry(mark).or_insert_with(new);
        }
        Ok(())
    }

    fn question(&self, node: &NodeFeed) -> ReadChanges {
        let (from, since_us) = match (node.next, self.since_us) {
            (Some(_), _) => (ChangesFrom::Place, 0),
            (None, Some(us)) => (ChangesFrom::Time, us),
            (None, None) => (ChangesFrom::Oldest, 0),
        };
        ReadChanges {
            bucket_type: self.query.bucket_type.clone(),
            bucket: self.query.bucket.clone(),
            prefix: self.query.prefix.clone(),
            from: from as i32,
            place: node.next.map(to_wire),
            since_us,
        }
    }

    /// Requests changes from each node of which no change is waiting to be emitted.
    async fn ask(&mut self) -> Result<(), ChangeFeedError> {
        let own = self.feeds.local.state().node_id();
        let (mut replies, mut asked, mut of_own) = (Replies::new(), Vec::new(), None);
        for (mark, node) in &self.nodes {
            if !node.waiting.is_empty() {
                continue;
            }
            if node.id == own {
                of_own = Some((*mark, self.question(node)));
            } else if let Some(peer) = self.feeds.local.reachable(node.id)
                && let Ok(slot) = u16::try_from(asked.len())
            {
                let question = self.question(node);
                if peer
                    .send(METHOD_ASK_CHANGES, &question, b"", Lane::Small, &replies, slot)
                    .is_ok()
                {
                    asked.push(*mark);
                    continue;
                }
            }
        }
        let mut answers = Vec::new();
        if let Some((mark, question)) = of_own {
            answers.push((mark, self.feeds.own_changes(question).await?));
        }
        let gather = async {
            while let Some((slot, answer)) = replies.next().await {
                let told = answer
                    .ok()
                    .and_then(|reply| <ChangesRead as prost::Message>::decode(reply.header).ok());
                if let (Some(told), Some(mark)) = (told, asked.get(usize::from(slot))) {
                    answers.push((*mark, told));
                }
            }
        };
        let _ = timeout(ANSWER_TIMEOUT, gather).await;
        for node in self.nodes.values_mut().filter(|node| node.waiting.is_empty()) {
            node.is_reached = false;
        }
        for (mark, told) in answers {
            self.take(mark, told)?;
        }
        Ok(())
    }

    fn take(&mut self, mark: NodeMark, told: ChangesRead) -> Result<(), ChangeFeedError> {
        let Some(node) = self.nodes.get_mut(&mark) else { return Ok(()) };
        let next = told.next.map(of_wire);
        if !told.gap.is_empty() {
            let text = format!("{}: {}", node.name, told.gap);
            match next {
                Some(next) => _ = self.position.places.insert(mark, next),
                None => _ = self.position.places.remove(&mark),
            }
            return Err(self.gap(&text));
        }
        if let Some(begin) = told.begin.map(of_wire) {
            // The position contains the offset at which reading of this node's log began, even before a
            // change from that log is emitted.
            self.position.places.entry(mark).or_insert(begin);
        }
        node.is_reached = true;
        node.waiting.extend(told.changes);
        node.complete_us = told.complete_us;
        node.at_end = told.at_end;
        node.next = next.or(node.next);
        Ok(())
    }

    /// The node whose change is emitted next; `None` while another node may still send an earlier one.
    fn next_node(&self) -> Option<NodeMark> {
        let front = |(mark, node): (&NodeMark, &NodeFeed)| {
            node.waiting.front().map(|change| (change.time_us, *mark))
        };
        let (time_us, mark) = self.nodes.iter().filter_map(front).min()?;
        let is_complete = |node: &NodeFeed| {
            !node.is_reached || !node.waiting.is_empty() || node.complete_us >= time_us
        };
        self.nodes.values().all(is_complete).then_some(mark)
    }

    /// Takes the next change of a node; `None` if the reader did not ask for its kind.
    fn tell(&mut self, mark: NodeMark) -> Option<ChangeEvent> {
        let node = self.nodes.get_mut(&mark)?;
        let log = node.next?.log;
        let FeedChange { key, is_delete, context, time_us, file, offset } =
            node.waiting.pop_front()?;
        self.position.places.insert(mark, LogPosition { log, cursor: Cursor { file, offset } });
        let kind = match is_delete {
            _ if time_us < self.position.reported_us => ChangeKind::Late,
            true => ChangeKind::Delete,
            false => ChangeKind::Put,
        };
        self.position.reported_us = self.position.reported_us.max(time_us);
        let is_wanted =
            kind == ChangeKind::Late || self.query.kind.is_none_or(|wanted| wanted == kind);
        is_wanted.then(|| ChangeEvent {
            key,
            kind,
            time_us,
            context,
            position: self.position.encode(),
        })
    }

    /// Advances the position past entries of other buckets, in the logs of nodes of which no change is
    /// waiting.
    fn pass_empty(&mut self) {
        for (mark, node) in &self.nodes {
            if let (true, true, Some(next)) = (node.is_reached, node.waiting.is_empty(), node.next)
            {
                self.position.places.insert(*mark, next);
            }
        }
    }
}
