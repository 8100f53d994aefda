//! The link between a coordinator and an agent: messages, frames, authentication, and the difference of the
//! clocks. `docs/design/bench-agents.md` describes the protocol.
//!
//! This module only has data and encodings. The course of a run is in [`run`](crate::run), and the agent in
//! [`agent`](crate::agent).

mod clock;
mod error;
mod form;
mod frame;
mod message;
mod security;
#[cfg(test)]
mod tests;

pub use clock::{ClockReading, LinkClock, RoundTrip, best_reading};
pub use error::LinkError;
pub use form::{ErrorForm, GapsForm, LoadForm, StatsForm, WindowForm};
pub use frame::{FRAME_BYTES_MAX, LinkReader, LinkWriter, decode_frame, encode_frame, halves};
pub use message::{FromAgent, FromCoordinator, PROTOCOL, RunOrder, ShareEnd, ShareResult};
pub use security::{LinkAcceptor, LinkConnector, LinkSecurity, LinkStream, TOKEN_ADVICE};

/// Port of an agent whose address has no port.
pub const DEFAULT_PORT: u16 = 8077;

/// Time without any message after which a side considers the other dead.
pub const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// Interval of the messages that show that a side is alive.
pub const BEAT: std::time::Duration = std::time::Duration::from_secs(1);

/// Maximum number of bytes of a file in one message.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Maximum total size of the files that a configuration refers to, in bytes.
pub const FILES_BYTES_MAX: u64 = 512 << 20;

/// Checks the size of the files that a configuration refers to, as far as it is known.
///
/// # Errors
///
/// When it exceeds [`FILES_BYTES_MAX`].
pub(crate) fn check_files_size(bytes: u64) -> Result<(), LinkError> {
    match bytes <= FILES_BYTES_MAX {
        true => Ok(()),
        false => Err(LinkError::Files { bytes, max: FILES_BYTES_MAX }),
    }
}
