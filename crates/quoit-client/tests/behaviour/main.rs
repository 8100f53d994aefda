//! Tests of the client against a server that the test plays.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod connection;
mod data_types;
mod fake;
mod index;
mod listing;
mod login;
mod operations;
mod pool;
mod replicas;
mod resolving;
