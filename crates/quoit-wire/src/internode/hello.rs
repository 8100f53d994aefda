//! The greeting, which is the first frame of each side of a connection.

use super::frame::{FrameKind, FramePrefix, InternodeFrame, InternodeFrameError, append_frame};
use bytes::Bytes;
use prost::Message;
use thiserror::Error;

/// Oldest version of the protocol that this build speaks.
pub const VERSION_MIN: u32 = 1;
/// Newest version of the protocol that this build speaks.
pub const VERSION_MAX: u32 = 1;

/// The `call` of every greeting. It distinguishes nodes from other programs that connect to the
/// port, and from builds before the first version of the protocol.
pub const HELLO_MAGIC: u32 = u32::from_be_bytes(*b"quo1");

/// Maximum length in bytes of a frame until the greeting is complete.
pub const HELLO_FRAME_BYTES_MAX: u32 = 4096;

/// Lane for small messages.
pub const LANE_SMALL: u32 = 0;
/// Lane for large messages, so that they do not delay small ones.
pub const LANE_LARGE: u32 = 1;

/// Greeting of a node: its identity, the versions that it speaks, and the limits of the connection.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Hello {
    /// Oldest version of the protocol that the sender speaks.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    /// Newest version of the protocol that the sender speaks.
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// Id of the sender's cluster, 16 bytes; empty if the sender does not know one.
    #[prost(bytes = "bytes", tag = "3")]
    pub cluster_id: Bytes,
    /// The sender's node id: 16 bytes.
    #[prost(bytes = "bytes", tag = "4")]
    pub node_id: Bytes,
    /// The sender's name, for messages to operators.
    #[prost(string, tag = "5")]
    pub node_name: String,
    /// Random id of the start of the sender's process.
    #[prost(fixed64, tag = "6")]
    pub boot_id: u64,
    /// Bit set of optional features; none are defined yet.
    #[prost(uint64, tag = "7")]
    pub features: u64,
    /// [`LANE_SMALL`] or [`LANE_LARGE`].
    #[prost(uint32, tag = "8")]
    pub lane: u32,
    /// Address at which other nodes can reach the sender.
    #[prost(string, tag = "9")]
    pub address: String,
    /// True if the requester knows only an address, not the node there. The cluster ids may then
    /// differ, and only a few methods are served.
    #[prost(bool, tag = "10")]
    pub guest: bool,
    /// Id of the node that the requester expects, 16 bytes; empty for a guest.
    #[prost(bytes = "bytes", tag = "11")]
    pub expected_node_id: Bytes,
    /// Maximum size in bytes of unanswered requests that the sender accepts on this connection.
    #[prost(uint64, tag = "12")]
    pub window_bytes: u64,
    /// Maximum number of unanswered requests that the sender accepts on this connection.
    #[prost(uint32, tag = "13")]
    pub window_calls: u32,
    /// Maximum length in bytes of a frame that the sender accepts.
    #[prost(uint32, tag = "14")]
    pub frame_bytes_max: u32,
    /// Maximum size in bytes of a stream's answers that the sender buffers.
    #[prost(uint32, tag = "15")]
    pub stream_window_bytes: u32,
    /// The sender's clock in microseconds since 1970; 0 if the sender does not send it.
    #[prost(uint64, tag = "16")]
    pub unix_us: u64,
}

/// Error of the first frame of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HelloError {
    /// The frame is not a greeting.
    #[error("the first frame is not a greeting of a node (kind {kind}, call {call:#010x})")]
    NotAHello {
        /// The frame's kind.
        kind: u8,
        /// The frame's call.
        call: u32,
    },
    /// The header is not valid Protocol Buffers.
    #[error("the greeting is not valid Protocol Buffers: {0}")]
    Malformed(prost::DecodeError),
    /// An id has a wrong length.
    #[error("{field} of the greeting has {size_bytes} bytes where 16 belong")]
    IdLength {
        /// The field.
        field: &'static str,
        /// Received length in bytes.
        size_bytes: usize,
    },
}

impl Hello {
    /// Decodes a greeting from a frame, and checks the lengths of its ids.
    ///
    /// # Errors
    ///
    /// Returns an error if the frame is not a valid greeting.
    pub fn from_frame(frame: InternodeFrame) -> Result<Hello, HelloError> {
        let FramePrefix { kind, call, .. } = frame.prefix;
        if kind != FrameKind::Hello as u8 || call != HELLO_MAGIC {
            return Err(HelloError::NotAHello { kind, call });
        }
        let hello = Hello::decode(frame.header).map_err(HelloError::Malformed)?;
        let ids = [
            ("node_id", &hello.node_id, false),
            ("cluster_id", &hello.cluster_id, true),
            ("expected_node_id", &hello.expected_node_id, true),
        ];
        for (field, id, may_be_absent) in ids {
            if id.len() != 16 && !(may_be_absent && id.is_empty()) {
                return Err(HelloError::IdLength { field, size_bytes: id.len() });
            }
        }
        Ok(hello)
    }

    /// Range of versions that the sender speaks.
    #[must_use]
    pub const fn versions(&self) -> VersionRange {
        VersionRange { min: self.version_min, max: self.version_max }
    }
}

/// Appends a greeting as a frame.
///
/// # Errors
///
/// As [`append_frame`].
pub fn append_hello(buffer: &mut Vec<u8>, hello: &Hello) -> Result<(), InternodeFrameError> {
    append_frame(buffer, FramePrefix::new(FrameKind::Hello, HELLO_MAGIC), hello, b"")
}

/// A range of protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// Oldest version.
    pub min: u32,
    /// Newest version.
    pub max: u32,
}

impl VersionRange {
    /// The versions that this build speaks.
    pub const CURRENT: VersionRange = VersionRange { min: VERSION_MIN, max: VERSION_MAX };

    /// The versions that this build speaks, up to `newest`.
    #[must_use]
    pub const fn up_to(newest: u32) -> VersionRange {
        VersionRange { min: VERSION_MIN, max: newest }
    }

    /// The newest version in both ranges; `None` if they have no version in common.
    #[must_use]
    pub fn common(self, other: VersionRange) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min && newest >= other.min).then_some(newest)
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} to {}", self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::InternodeDecoder;
    use super::*;
    use bytes::BytesMut;

    fn hello() -> Hello {
        Hello {
            version_min: 1,
            version_max: 3,
            node_id: Bytes::from_static(&[7; 16]),
            node_name: "quoit@a".to_owned(),
            boot_id: 99,
            ..Hello::default()
        }
    }

    fn read(bytes: &[u8]) -> Result<Hello, HelloError> {
        let frame = InternodeDecoder::new(HELLO_FRAME_BYTES_MAX)
            .next_frame(&mut BytesMut::from(bytes))
            .unwrap()
            .unwrap();
        Hello::from_frame(frame)
    }

    #[test]
    fn a_greeting_comes_back_as_sent() {
        let mut buffer = Vec::new();
        append_hello(&mut buffer, &hello()).unwrap();
        assert_eq!(read(&buffer), Ok(hello()));
    }

    /// A greeting with a field that this build does not know.
    #[derive(Clone, PartialEq, Message)]
    struct NewerHello {
        #[prost(bytes = "bytes", tag = "4")]
        node_id: Bytes,
        #[prost(string, tag = "900")]
        mood: String,
    }

    #[test]
    fn fields_of_newer_nodes_are_skipped() {
        let newer = NewerHello { node_id: hello().node_id, mood: "good".to_owned() };
        let mut buffer = Vec::new();
        let prefix = FramePrefix::new(FrameKind::Hello, HELLO_MAGIC);
        append_frame(&mut buffer, prefix, &newer, b"").unwrap();
        assert_eq!(read(&buffer).unwrap().node_id, hello().node_id);
    }

    #[test]
    fn what_is_no_greeting_is_told_from_one() {
        let mut request = Vec::new();
        append_frame(&mut request, FramePrefix::new(FrameKind::Request, 1), &(), b"").unwrap();
        assert_eq!(read(&request), Err(HelloError::NotAHello { kind: 2, call: 1 }));
        let mut short = Vec::new();
        let short_id = Hello { node_id: Bytes::from_static(b"short"), ..hello() };
        append_hello(&mut short, &short_id).unwrap();
        assert_eq!(read(&short), Err(HelloError::IdLength { field: "node_id", size_bytes: 5 }));
    }

    #[test]
    fn two_ranges_agree_on_the_newest_version_of_both() {
        let range = |min, max| VersionRange { min, max };
        assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
        assert_eq!(range(2, 5).common(range(1, 3)), Some(3));
        assert_eq!(range(1, 1).common(range(1, 1)), Some(1));
        assert_eq!(range(1, 2).common(range(3, 4)), None);
        assert_eq!(range(3, 4).common(range(1, 2)), None);
    }
}
