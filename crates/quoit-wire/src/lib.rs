//! Messages of the client and internode protocols: encoding, decoding and framing, without
//! behaviour.
//!
//! - [`frame`] splits a stream of bytes into frames, and appends messages to a write buffer.
//! - [`messages`] has the messages of Riak KV's Protocol Buffers interface, [`code`] their codes,
//!   and [`quorum`] the special values of quorum fields.
//! - [`plain`] reads the most frequent requests without allocation; [`answer`] encodes answers from
//!   borrowed objects; [`shared`] keeps large values out of write buffers.
//! - [`internode`] has the frames and messages between nodes.
//!
//! This crate is neither a client nor a server: nothing here reads a socket or interprets a
//! request. `quoit-server`, `quoit-client` and `quoit-cluster` use it.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use quoit_wire::frame::{FrameDecoder, append_message};
//! use quoit_wire::messages::RpbGetReq;
//!
//! let request = RpbGetReq {
//!     bucket: Bytes::from_static(b"cities"),
//!     key: Bytes::from_static(b"Nara"),
//!     ..Default::default()
//! };
//! let mut buffer = BytesMut::new();
//! append_message(&mut buffer, &request).expect("a small message fits in a frame");
//!
//! let frame = FrameDecoder::default().next_frame(&mut buffer)?.expect("the frame is whole");
//! assert_eq!(frame.decode::<RpbGetReq>()?, request);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod answer;
pub mod code;
pub mod error;
mod foreign;
pub mod frame;
pub mod internode;
pub mod messages;
pub mod plain;
pub mod quorum;
pub mod shape;
pub mod shared;

pub use answer::{
    AnswerFields, ContentRef, append_get_resp, append_get_resp_shared, append_put_resp,
    append_put_resp_shared,
};
pub use code::MessageCode;
pub use error::{DecodeError, FrameError};
pub use frame::{Frame, FrameDecoder, append_empty, append_message, encode_message};
pub use messages::Body;
pub use plain::{FrameRef, PlainGet, PlainPut};
pub use quorum::Quorum;
pub use shared::{SHARED_BYTES_MIN, SharedParts};
