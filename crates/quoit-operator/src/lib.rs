//! The commands of operators: their arguments, their calls of a node, and the printing of answers.
//!
//! - [`admin`] administers a running node and its cluster, and the storage engine of a stopped node.
//! - [`repl`] manages replication between clusters.
//! - [`config_command`] describes, checks and shows the configuration of a node, and converts that of a Riak
//!   node.
//! - [`diagnosis`] checks a node's settings and its machine.
//! - [`riak_answers`] answers commands of riak-admin that correspond to no single command of Quoit.
//!
//! The commands reach a running node over HTTP (`quoit_cli::Api`). This crate does not serve a node: it opens
//! no listener, and opens only the stores of stopped nodes.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod admin;
pub mod config_command;
pub mod diagnosis;
mod from_riak;
pub mod repl;
pub mod riak_answers;
