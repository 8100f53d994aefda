//! Messages of the client protocols and their framing: byte-exact encode and decode, no behaviour.
//!
//! This is Riak KV's Protocol Buffers interface as bytes: [`frame`] cuts a stream of bytes into
//! frames and appends messages to a write buffer, [`messages`] has the messages, [`code`] their
//! codes, [`plain`] and [`answer`] the shortest ways from a request's bytes to its fields and from an
//! object to its answer, and [`quorum`] the words that stand in for counts. Between nodes other frames
//! are used: [`internode`]. It is not a client and not a server: nothing here reads a socket or knows
//! what a request means. `quoit-server`, `quoit-client` and `quoit-cluster` are built on it.
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

pub use answer::{ContentRef, append_get_resp, append_put_resp};
pub use code::MessageCode;
pub use error::{DecodeError, FrameError};
pub use frame::{Frame, FrameDecoder, append_empty, append_message};
pub use messages::Body;
pub use plain::{FrameRef, PlainGet, PlainPut};
pub use quorum::Quorum;
