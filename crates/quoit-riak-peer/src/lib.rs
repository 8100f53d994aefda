//! A client of Riak's replication protocols: fetches from and pushes to queues of another cluster, asks
//! for its hash trees and clocks, and compares two clusters by them.
//!
//! A peer is a Riak 3 node, or a Quoit node, which answers in the same way. This crate knows both
//! protocols (Protocol Buffers and HTTP) and the order of an exchange. It knows neither the store nor a
//! schedule: `quoit-replication` stores fetched objects and repairs differences.
//!
//! [`RiakPeer`] is a connection. [`exchange()`] compares two [`Side`]s, of which one is a peer and the
//! other the own store.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

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
