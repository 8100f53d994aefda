//! Errors of decoding bytes from outside.

use crate::code::MessageCode;
use thiserror::Error;

/// Error of decoding a body as the message of its code.
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
    /// A length or number in the message exceeds the message's end, or is not valid.
    #[error("{message} of {size_bytes} bytes breaks off at byte {at_byte}; send it whole")]
    Truncated {
        /// The message, or the nested message.
        message: &'static str,
        /// Offset in bytes within the message.
        at_byte: usize,
        /// Size of the message in bytes.
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
    /// The frame has another message code than expected.
    #[error("expected the message {expected}, got message code {got}")]
    UnexpectedCode {
        /// The expected message.
        expected: MessageCode,
        /// The received code.
        got: u8,
    },
    /// The body is not Protocol Buffers for another reason.
    #[error("{message} is not valid Protocol Buffers: {source}")]
    Malformed {
        /// The message, or the nested message.
        message: &'static str,
        /// Error of the decoder.
        source: prost::DecodeError,
    },
}

/// Error of splitting a stream of bytes into frames, or of a message that is too large for a frame.
///
/// The start of the next frame is then unknown, so the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame has length 0, and no message code.
    #[error("frame of length 0; a frame is at least its message code, 1 byte")]
    ZeroLength,
    /// The frame exceeds the limit.
    #[error(
        "{}",
        crate::foreign::too_large(
            (*length_bytes, *length_bytes_max),
            &crate::foreign::ExpectedProtocol {
                name: "Protocol Buffers",
                port: "listener.protobuf (port 8087 by default)",
            },
            "send a smaller one or raise the limit",
        )
    )]
    TooLarge {
        /// Length of the frame in bytes: message code and body.
        length_bytes: u64,
        /// The limit in bytes.
        length_bytes_max: u32,
    },
}
