//! Tests of the server through real sockets: HTTP, and Protocol Buffers beside it.

#![expect(clippy::unwrap_used, reason = "a fixture that can't be made ends the test")]

mod admin;
mod binary;
mod buffers;
mod connections;
mod data_types;
mod fixture;
mod folds;
mod gone_clients;
mod hooks;
mod indexes;
mod large;
mod lists_and_props;
mod mapreduce;
mod mapreduce_limits;
mod memory;
mod objects;
mod riak_peer;
mod server;
mod slow_clients;
mod turns;
