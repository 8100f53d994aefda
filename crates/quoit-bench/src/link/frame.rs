//! Frames: a length of four bytes in big-endian order, followed by a message in JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::error::LinkError;
use super::security::LinkStream;
use super::{BEAT, SILENCE_MAX};

/// Maximum length of a message in bytes.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Size of the length field in bytes.
const LENGTH_BYTES: usize = 4;

/// Encodes a message as a frame.
///
/// # Errors
///
/// [`LinkError::TooLong`].
pub fn encode_frame<M: Serialize>(message: &M) -> Result<Vec<u8>, LinkError> {
    let message =
        serde_json::to_vec(message).map_err(|error| LinkError::Malformed(error.to_string()))?;
    let length = message.len();
    let too_long = LinkError::TooLong { bytes: length as u64, max: FRAME_BYTES_MAX };
    let prefix =
        u32::try_from(length).ok().filter(|_| length <= FRAME_BYTES_MAX).ok_or(too_long)?;
    Ok([&prefix.to_be_bytes()[..], &message].concat())
}

/// Decodes the first frame of `bytes`. Returns the message and the length of its frame, or `None` while the
/// frame is incomplete.
///
/// # Errors
///
/// [`LinkError::TooLong`] as soon as the length is known, and [`LinkError::Malformed`].
pub fn decode_frame<M: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(M, usize)>, LinkError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(LinkError::TooLong { bytes: length as u64, max: FRAME_BYTES_MAX });
    }
    let Some(content) = rest.get(..length) else { return Ok(None) };
    let message =
        serde_json::from_slice(content).map_err(|error| LinkError::Malformed(error.to_string()))?;
    Ok(Some((message, LENGTH_BYTES + length)))
}

/// Splits a connection into its two directions.
#[must_use]
pub fn halves(stream: LinkStream) -> (LinkReader, LinkWriter) {
    let (reader, writer) = tokio::io::split(stream);
    (LinkReader { half: reader, buffer: Vec::new() }, LinkWriter { half: writer })
}

/// Reads messages.
#[derive(Debug)]
pub struct LinkReader {
    half: ReadHalf<LinkStream>,
    buffer: Vec<u8>,
}

impl LinkReader {
    /// Waits for the next message, at most [`SILENCE_MAX`]. Cancellation safe: no bytes are lost if the
    /// caller stops waiting.
    ///
    /// # Errors
    ///
    /// When the connection ends or breaks, the peer is silent, or its bytes are not a message.
    pub async fn next<M: DeserializeOwned>(&mut self) -> Result<M, LinkError> {
        loop {
            if let Some((message, length)) = decode_frame(&self.buffer)? {
                self.buffer.drain(..length);
                return Ok(message);
            }
            let read = timeout(SILENCE_MAX, self.half.read_buf(&mut self.buffer)).await;
            let count = read
                .map_err(|_| LinkError::Silent(SILENCE_MAX))?
                .map_err(|fault| broken(&fault, fault.kind()))?;
            if count == 0 {
                return Err(LinkError::Closed);
            }
        }
    }
}

/// Writes messages.
#[derive(Debug)]
pub struct LinkWriter {
    half: WriteHalf<LinkStream>,
}

impl LinkWriter {
    /// Sends a message. Not cancellation safe: a caller that stops waiting must not send another message,
    /// because part of this one may have been sent.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or the peer accepts nothing for [`SILENCE_MAX`].
    pub async fn send<M: Serialize>(&mut self, message: &M) -> Result<(), LinkError> {
        let frame = encode_frame(message)?;
        let sent = timeout(SILENCE_MAX, async {
            self.half.write_all(&frame).await?;
            self.half.flush().await
        });
        sent.await
            .map_err(|_| LinkError::Silent(SILENCE_MAX))?
            .map_err(|fault| broken(&fault, fault.kind()))
    }

    /// Closes this direction. The peer can still read everything that was sent before.
    pub async fn close(&mut self) {
        // Fails if the peer is gone, which is harmless.
        let _ = timeout(BEAT, self.half.shutdown()).await;
    }
}

/// The error for a fault of the stream. A certificate that the peer rejects only shows up with the first
/// message.
fn broken(fault: &std::io::Error, kind: std::io::ErrorKind) -> LinkError {
    if quoit_tls::is_alert(fault) {
        return LinkError::Proof(quoit_tls::failure_words(fault));
    }
    match kind {
        std::io::ErrorKind::UnexpectedEof => LinkError::Closed,
        _ => LinkError::Broken(std::io::Error::new(kind, fault.to_string())),
    }
}
