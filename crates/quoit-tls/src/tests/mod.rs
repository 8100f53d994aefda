//! Valid and faulty files, and handshakes over pipes in memory.

mod der;
mod fields;
mod fixture;
mod formats;
mod handshakes;
mod malformed;
mod nodes;
mod refusals;
