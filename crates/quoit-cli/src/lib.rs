//! Quoit's command line: how it reaches a node, how records are named, and how answers are shown.
//!
//! The program `quoit` defines the tree of commands; this crate contains their building blocks. Commands talk
//! to a node over HTTP, either through the network or through the administration socket in the node's data
//! directory. The crate does not depend on the server's code.
//!
//! ```
//! use quoit_cli::names::RecordName;
//!
//! let name: RecordName = "carts/de/4%2F2".parse().expect("a name");
//! assert_eq!(name.path(), "types/carts/buckets/de/keys/4%2F2");
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod api;
pub mod bundle;
pub mod changes;
pub mod columns;
pub mod data;
pub mod doctor;
mod document;
pub mod figures;
pub mod format;
pub mod local;
pub mod login;
pub mod names;
pub mod output;
mod remedy;
pub mod requests;
pub mod status;
pub mod target;

pub use api::{Answer, Api};
pub use document::value_at;
pub use format::Format;
