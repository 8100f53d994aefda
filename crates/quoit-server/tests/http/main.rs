//! What a client sees over HTTP, on a real socket.

#![expect(clippy::unwrap_used, reason = "a fixture that can't be made ends the test")]

mod admin;
mod connections;
mod fixture;
mod lists_and_props;
mod objects;
mod server;
mod slow_clients;
