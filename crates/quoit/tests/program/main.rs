//! The program as its users run it: node processes, the client, and the load generator.

#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod compression;
mod engine_convert;
mod load_generator;
mod node;
mod rust_client;
mod rust_client_secured;
mod several_engines;
