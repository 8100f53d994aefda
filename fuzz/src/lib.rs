//! Fuzz targets: one function for each parser of external bytes.
//!
//! A target takes arbitrary bytes. It panics if the parser breaks a promise: the parser panics itself, or a
//! parsed value does not encode to the same meaning. The runner of this crate ([`smoke`]) runs the targets
//! on kept inputs and on random mutations. It works on stable Rust, as a part of the test command. A
//! coverage-guided fuzzer can use the same functions: `quoit_fuzz::target("pb-frames")` returns one.
//!
//! ```
//! let target = quoit_fuzz::target("pb-frames").expect("it is in the list");
//! (target.run)(b"\x00\x00\x00\x01\x01");
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod mutate;
pub mod smoke;
mod targets;

/// A parser under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name on the command line, and of the folder with its kept inputs in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the parser on the bytes. Panics if the parser breaks a promise.
    pub run: fn(&[u8]),
    /// Returns well-formed inputs for mutation, in addition to the kept ones.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets, in the order of the smoke run.
pub const TARGETS: &[Target] = &[
    targets::pb_frames::TARGET,
    targets::internode_frames::TARGET,
    targets::exchange_messages::TARGET,
    targets::http_requests::TARGET,
    targets::contexts::TARGET,
    targets::data_types::CONTEXTS,
    targets::data_types::STATES,
    targets::data_types::DELTAS,
    targets::data_types::OPERATIONS,
    targets::record_keys::TARGET,
    targets::stored_objects::TARGET,
    targets::compressed_frames::TARGET,
    targets::security::TARGET,
    targets::store_directories::TARGET,
    targets::key_files::TARGET,
    targets::index_queries::TARGET,
    targets::index_snapshots::FILES,
    targets::index_snapshots::RUNS,
    targets::layouts::TARGET,
    targets::mapreduce_jobs::JSON,
    targets::mapreduce_jobs::TERMS,
    targets::hint_files::TARGET,
    targets::source_journals::TARGET,
    targets::reap_records::TARGET,
    targets::riak_objects::TARGET,
    targets::riak_replication::TARGET,
    targets::riak_tree_files::TARGET,
    targets::riak_data_types::TARGET,
    targets::hyperloglogs::TARGET,
    targets::riak_files::BITCASK,
    targets::riak_files::LEVELDB,
    targets::riak_files::LEVELED,
    targets::riak_directories::TARGET,
    targets::riak_keys::TARGET,
    targets::external_terms::TARGET,
    targets::erlang_terms::TARGET,
    targets::bench_configs::TERMS,
    targets::bench_configs::TOML,
    targets::agent_messages::TARGET,
    targets::bench_traces::TARGET,
    targets::configuration::TARGET,
    targets::tls_files::TARGET,
    targets::join_tokens::TARGET,
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
