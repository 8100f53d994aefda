//! A client of Riak's replication: fetches from and pushes to queues of another cluster, asks for its trees
//! and clocks, and compares two clusters by them.
//!
//! A peer is a Riak 3 node, or a Quoit node, which answers the same. `quoit-replication` stores fetched
//! objects and repairs differences; this crate knows both protocols and the order of an exchange, and neither
//! the store nor a schedule.
//!
//! [`RiakPeer`] is a connection, [`exchange()`] compares two [`Side`]s: the peer is one, the own store
//! another.

mod error;
mod exchange;
mod http;
mod pb;
mod peer;
mod queue_lengths;
mod side;

pub use error::PeerError;
pub use exchange::{Differences, ExchangePlan, ExchangeScope, SyncState, exchange};
pub use peer::{RiakPeer, RiakProtocol};
pub use queue_lengths::QueueLengths;
pub use side::{BucketName, RecordClock, Side};
