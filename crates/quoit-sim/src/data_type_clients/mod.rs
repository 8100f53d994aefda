//! Clients of data types, and the reads of all records at the end of a run.

mod client;
pub(crate) mod finish;
mod form;

pub use client::DataTypeClient;
pub use finish::read_back;
pub use form::create_types;
