//! The link between a coordinator and an agent: messages, their frames, the proof of both sides, and the
//! difference of their clocks. `docs/design/bench-agents.md` describes the protocol.
//!
//! This part is data and bytes. The course of a run is in [`run`](crate::run), and the agent itself in
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

/// Port of an agent whose address names none.
pub const DEFAULT_PORT: u16 = 8077;

/// A side that hears nothing of the other for so long takes it for dead.
pub const SILENCE_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// Time between two signs of life.
pub const BEAT: std::time::Duration = std::time::Duration::from_secs(1);

/// Bytes of a file in one message.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of all files that a configuration may name.
pub const FILES_BYTES_MAX: u64 = 512 << 20;
