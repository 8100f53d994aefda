//! The program as its users run it: node processes, the client, the load generator, and configuration.

#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod compression;
mod configuration_page;
mod engine_convert;
mod load_generator;
mod node;
mod riak_conf;
mod rust_client;
mod rust_client_secured;
mod several_engines;
