//! Frames and messages of the Protocol Buffers API.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod frames;
mod garbage;
mod plain;
mod round_trips;
mod vectors;
