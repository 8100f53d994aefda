//! The messages of the Protocol Buffers interface, by subject.
//!
//! Each struct and its fields have the names of the protocol, except that `type`, a keyword of
//! Rust, is called `bucket_type` or `kind`. Byte strings are [`Bytes`]: after decoding they are
//! slices of the frame, without a copy, and keep the frame's read buffer alive.

mod declare;

mod access;
mod counters;
mod data_types;
mod folds;
mod index;
mod kv;
mod layout;
mod listing;
mod mapred;
mod preflist;
mod props;
mod replication;
mod riak_queues;

pub use access::*;
pub use counters::*;
pub use data_types::*;
pub use folds::*;
pub use index::*;
pub use kv::*;
pub use layout::*;
pub use listing::*;
pub use mapred::*;
pub use preflist::*;
pub use props::*;
pub use replication::*;
pub use riak_queues::*;

use crate::code::MessageCode;
use crate::error::DecodeError;
use crate::shape::MessageSchema;
use bytes::Bytes;
use std::fmt::Debug;

/// A message, or a part of one, with a known structure.
pub trait HasSchema: prost::Message + Default + Clone + PartialEq + Debug {
    /// The structure of the message.
    fn shape() -> &'static MessageSchema;
}

/// A message that is the body of a frame.
pub trait Body: HasSchema {
    /// The message code of its frames.
    const CODE: MessageCode;

    /// Decodes a frame's body; byte fields become slices of it.
    ///
    /// Stricter than `prost`: required fields must be present, and enumeration values must be
    /// known.
    ///
    /// # Errors
    ///
    /// Returns a [`DecodeError`] for the first fault. Never panics.
    fn decode_body(body: Bytes) -> Result<Self, DecodeError> {
        Self::shape().check(&body)?;
        Self::decode(body)
            .map_err(|source| DecodeError::Malformed { message: Self::shape().name, source })
    }
}
