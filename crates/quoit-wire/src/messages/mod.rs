//! The messages of the Protocol Buffers interface, by subject.
//!
//! Each struct has the message's name in the protocol and its fields' names, except that `type`,
//! a word of Rust, is called `bucket_type` where it means one and `kind` elsewhere. Byte strings
//! are [`Bytes`]: decoded ones are slices of the frame they came in, with no copy made, and keep
//! the read buffer of that frame alive as long as they live.

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
use crate::shape::Shape;
use bytes::Bytes;
use std::fmt::Debug;

/// A message, or a part of one, whose structure is known.
pub trait Shaped: prost::Message + Default + Clone + PartialEq + Debug {
    /// The structure.
    fn shape() -> &'static Shape;
}

/// A message that is the body of a frame.
pub trait Body: Shaped {
    /// The code of its frames.
    const CODE: MessageCode;

    /// Decodes a frame's body, whose byte fields become slices of it.
    ///
    /// Stricter than `prost` alone: required fields must be there and enumeration values known.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] with the first fault found. Never panics, whatever the bytes.
    fn decode_body(body: Bytes) -> Result<Self, DecodeError> {
        Self::shape().check(&body)?;
        Self::decode(body)
            .map_err(|source| DecodeError::Malformed { message: Self::shape().name, source })
    }
}
