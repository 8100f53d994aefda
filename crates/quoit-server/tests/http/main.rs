//! What a client sees over HTTP, on a real socket.

mod admin;
mod connections;
mod fixture;
mod lists_and_props;
mod objects;
mod server;
