//! A long-running process and the program that started it.
//!
//! [`StopRequest`] waits for a reason to stop. [`ready_file`] tells the starting program that a node or
//! cluster serves, and at which addresses.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod ready_file;
mod stop;

pub use stop::StopRequest;
