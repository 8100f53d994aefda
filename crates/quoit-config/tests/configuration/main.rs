//! The keys as the documentation lists them, and the files that Riak installs.

#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod configuration_page;
mod riak_conf;
