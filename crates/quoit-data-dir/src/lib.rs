//! The data directory of a node.
//!
//! [`open()`] opens or creates the stores of a node by its settings: the storage engine, the control plane,
//! hints, queues, change feeds and reap records. [`engines`] has the operations on the engine of a stopped
//! node: conversion to another engine, and the salvage of damaged data. [`Reserve`] keeps disk space for a
//! start.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod engines;
mod open;
mod reserve;

pub use open::{OpenedNode, existing_control, open, open_replication};
pub use reserve::Reserve;
