//! The process of a node.
//!
//! [`run`] is `quoit serve`: it starts logs, listeners and the stores of the data directory according to the
//! settings, announces the node, and stops it in order. The crate `quoit-node` assembles the node itself.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod certificates;
mod descriptors;
mod listeners;
mod local_socket;
mod logs;
mod readiness;
mod reload;
mod serve;

pub use serve::{ServeArgs, run};
