//! Messages between nodes: framing, greeting, and the messages of each service.
//!
//! As in the rest of the crate, this is encoding and decoding alone. `quoit-cluster` and the crates
//! above it decide which nodes may talk to each other, and what a request does.
//! `docs/design/internode.md` specifies the format byte by byte.
//!
//! ```
//! use bytes::BytesMut;
//! use quoit_wire::internode::{FrameKind, FramePrefix, InternodeDecoder, append_frame};
//!
//! let mut buffer = Vec::new();
//! let prefix = FramePrefix { kind: FrameKind::Request as u8, flags: 0, method: 0x0100, call: 7 };
//! append_frame(&mut buffer, prefix, &(), b"value").expect("it is small");
//!
//! let mut buffer = BytesMut::from(&buffer[..]);
//! let frame = InternodeDecoder::new(1024).next_frame(&mut buffer)?.expect("it is whole");
//! assert_eq!((frame.prefix.call, &frame.payload[..]), (7, &b"value"[..]));
//! # Ok::<(), quoit_wire::internode::InternodeFrameError>(())
//! ```

pub mod changes;
pub mod control;
pub mod data;
pub mod exchange;
mod frame;
pub mod grants;
mod hello;
pub mod maps;
pub mod operators;
pub mod ranges;
pub mod reap;
mod refusal;
pub mod replication;
pub mod staging;
pub mod transfer;
pub mod trees;

pub use frame::{
    FLAG_LAST, FLAG_STREAM, FRAME_OVERHEAD_BYTES, FrameKind, FramePrefix, InternodeDecoder,
    InternodeFrame, InternodeFrameError, Payload, append_frame, append_frame_shared,
    append_or_share,
};
pub use hello::{
    HELLO_FRAME_BYTES_MAX, HELLO_MAGIC, Hello, HelloError, LANE_LARGE, LANE_SMALL, VERSION_MAX,
    VERSION_MIN, VersionRange, append_hello,
};
pub use refusal::{Refusal, code};
