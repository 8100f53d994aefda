//! The Protocol Buffers interface: it decodes a request, makes one call of the store, and encodes the
//! answer.
//!
//! A connection is a task. It decodes all complete frames that it has received, answers them in order, and
//! writes the answers together.

mod codes;
mod connection;
mod content;
mod coverage;
mod data_type_query;
mod data_types;
mod decoded;
mod dispatch;
mod fault;
mod folds;
mod in_place;
mod index;
mod input;
mod kv;
mod layout;
mod listing;
mod login;
mod mapred;
mod props;
mod queue;
mod required_permissions;
mod riak_queues;
mod server_info;
mod streamed_answer;
mod trees;

pub use connection::serve;
