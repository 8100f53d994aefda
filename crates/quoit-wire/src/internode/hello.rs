//! The greeting: the first frame of each side of a connection.

use super::frame::{FrameKind, FramePrefix, InternodeFrame, InternodeFrameError, append_frame};
use bytes::Bytes;
use prost::Message;
use thiserror::Error;

/// The oldest version of the protocol that this build speaks.
pub const VERSION_MIN: u32 = 1;
/// The newest version of the protocol that this build speaks.
pub const VERSION_MAX: u32 = 1;

/// The `call` of every greeting: tells a node from other things that connect to the port, builds from before
/// the first version among them.
pub const HELLO_MAGIC: u32 = u32::from_be_bytes(*b"quo1");

/// The longest frame accepted until the greeting is over.
pub const HELLO_FRAME_BYTES_MAX: u32 = 4096;

/// Lane of small messages.
pub const LANE_SMALL: u32 = 0;
/// Lane of large messages, which must not delay small ones.
pub const LANE_LARGE: u32 = 1;

/// Greeting: identity of a node and the versions that it speaks.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Hello {
    /// The oldest version of the protocol that the sender speaks.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    /// The newest version of the protocol that the sender speaks.
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// The cluster that the sender belongs to: 16 bytes, or none if it does not know one.
    #[prost(bytes = "bytes", tag = "3")]
    pub cluster_id: Bytes,
    /// The sender's node id: 16 bytes.
    #[prost(bytes = "bytes", tag = "4")]
    pub node_id: Bytes,
    /// The sender's name, for people.
    #[prost(string, tag = "5")]
    pub node_name: String,
    /// Random for each start of a process.
    #[prost(fixed64, tag = "6")]
    pub boot_id: u64,
    /// Optional abilities, a bit each. None is defined yet.
    #[prost(uint64, tag = "7")]
    pub features: u64,
    /// [`LANE_SMALL`] or [`LANE_LARGE`].
    #[prost(uint32, tag = "8")]
    pub lane: u32,
    /// Where the sender can be reached by other nodes.
    #[prost(string, tag = "9")]
    pub address: String,
    /// The requester knows an address and not who is there: clusters need not be the same, and few
    /// methods are served.
    #[prost(bool, tag = "10")]
    pub guest: bool,
    /// The node that the requester believes to be there: 16 bytes, none for a guest.
    #[prost(bytes = "bytes", tag = "11")]
    pub expected_node_id: Bytes,
    /// How many bytes of requests without an answer the sender takes on this connection.
    #[prost(uint64, tag = "12")]
    pub window_bytes: u64,
    /// How many requests without an answer the sender takes on this connection.
    #[prost(uint32, tag = "13")]
    pub window_calls: u32,
    /// The longest frame that the sender accepts.
    #[prost(uint32, tag = "14")]
    pub frame_bytes_max: u32,
    /// How many bytes of a stream's answers the sender takes ahead of using them.
    #[prost(uint32, tag = "15")]
    pub stream_window_bytes: u32,
    /// The sender's clock, microseconds since 1970; 0 = it does not tell.
    #[prost(uint64, tag = "16")]
    pub unix_us: u64,
}

/// Fault of a connection's first frame that is no greeting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HelloError {
    /// The frame is something else.
    #[error("the first frame is no greeting of a node (kind {kind}, call {call:#010x})")]
    NotAHello {
        /// The frame's kind.
        kind: u8,
        /// The frame's call.
        call: u32,
    },
    /// The header is not the message.
    #[error("the greeting is not valid Protocol Buffers: {0}")]
    Malformed(prost::DecodeError),
    /// An identifier has another length.
    #[error("{field} of the greeting has {size_bytes} bytes where 16 belong")]
    IdLength {
        /// The field.
        field: &'static str,
        /// The length that came.
        size_bytes: usize,
    },
}

impl Hello {
    /// The greeting in a frame, its identifiers checked for their lengths.
    ///
    /// # Errors
    ///
    /// When the frame is something else.
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

    /// The versions that the sender speaks.
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

/// Versions of the protocol, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl VersionRange {
    /// The versions that this build speaks.
    pub const CURRENT: VersionRange = VersionRange { min: VERSION_MIN, max: VERSION_MAX };

    /// The versions that this build speaks up to `newest`.
    #[must_use]
    pub const fn up_to(newest: u32) -> VersionRange {
        VersionRange { min: VERSION_MIN, max: newest }
    }

    /// The newest version that both speak.
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

    /// A field that a newer node has, and we do not.
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
