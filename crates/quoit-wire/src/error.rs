//! Errors of outside bytes.

use crate::code::MessageCode;
use thiserror::Error;

/// A body that is not the message that its code promised.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DecodeError {
    /// A required field is absent.
    #[error("{message} lacks its required field {field} (tag {tag}); send it")]
    MissingField {
        /// The message, or the nested message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The field's number.
        tag: u32,
    },
    /// A field has another wire type than the protocol gives it.
    #[error(
        "{message}.{field} (tag {tag}) has wire type {got} where {expected} belongs; \
         check the message definitions of the client"
    )]
    WrongWireType {
        /// The message, or the nested message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The field's number.
        tag: u32,
        /// The wire type that the field has in the protocol.
        expected: u8,
        /// The wire type that was sent.
        got: u8,
    },
    /// An enumeration has no such value.
    #[error("{message}.{field} is {value}, which that enumeration does not have")]
    UnknownEnumerationValue {
        /// The message, or the nested message.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The value sent.
        value: u64,
    },
    /// A field's length or number goes beyond the end of the message, or is no number at all.
    #[error("{message} of {size_bytes} bytes breaks off at byte {at_byte}; send it whole")]
    Truncated {
        /// The message, or the nested message.
        message: &'static str,
        /// Where in the message.
        at_byte: usize,
        /// The size of the message.
        size_bytes: usize,
    },
    /// A field key with tag 0, a tag that is too large, or a wire type that does not exist.
    #[error("{message} has the field key {key:#x}, which names no field")]
    InvalidKey {
        /// The message, or the nested message.
        message: &'static str,
        /// The key: tag * 8 + wire type.
        key: u64,
    },
    /// Messages nest too deeply.
    #[error("{message} nests deeper than {depth_max} messages; flatten it")]
    TooDeep {
        /// The message at the limit.
        message: &'static str,
        /// The limit.
        depth_max: u32,
    },
    /// The frame is of another message than the one expected.
    #[error("expected the message {expected}, got message code {got}")]
    UnexpectedCode {
        /// The message expected.
        expected: MessageCode,
        /// The code that came.
        got: u8,
    },
    /// Anything else that is not Protocol Buffers.
    #[error("{message} is not valid Protocol Buffers: {source}")]
    Malformed {
        /// The message, or the nested message.
        message: &'static str,
        /// Error of the decoder.
        source: prost::DecodeError,
    },
}

/// A stream of bytes that is not a stream of frames, or a message that fits in none.
///
/// Where a frame begins is not known after it: the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A frame with length 0, which has no room for its message code.
    #[error("frame of length 0; a frame is at least its message code, 1 byte")]
    ZeroLength,
    /// A frame above the limit.
    #[error(
        "{}",
        crate::foreign::too_large(
            (*length_bytes, *length_bytes_max),
            "Protocol Buffers",
            "listener.protobuf (port 8087 by default)",
            "send a smaller one or raise the limit",
        )
    )]
    TooLarge {
        /// The frame's length: message code and body.
        length_bytes: u64,
        /// The limit.
        length_bytes_max: u32,
    },
}
