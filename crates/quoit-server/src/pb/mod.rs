//! The Protocol Buffers interface: wire in, one call of the store, wire out.
//!
//! A connection is a task. It decodes every complete frame that it has, answers in order, and writes once.

mod codes;
mod connection;
mod content;
mod coverage;
mod data_type_query;
mod data_types;
mod decoded;
mod fault;
mod folds;
mod in_place;
mod index;
mod input;
mod kv;
mod layout;
mod listing;
mod mapred;
mod needs;
mod props;
mod queue;
mod riak_queues;
mod server_info;
mod strangers;
mod streamed_answer;
mod trees;

pub use connection::serve;
