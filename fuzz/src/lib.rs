//! Fuzz targets: one function for every parser of bytes that come from outside.
//!
//! A target takes any bytes and returns; it panics when the parser broke a promise: it panicked
//! itself, or what it read does not encode to what it says. The runner beside this library
//! ([`smoke`]) feeds targets with kept inputs and random mutations on stable Rust, as a part of
//! the test command. A coverage-guided fuzzer needs no more than a function, either:
//! `quoit_fuzz::target("pb-frames")` gives it.
//!
//! ```
//! let target = quoit_fuzz::target("pb-frames").expect("it is in the list");
//! (target.run)(b"\x00\x00\x00\x01\x01");
//! ```

pub mod mutate;
pub mod smoke;
mod targets;

/// A parser under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line, and of its folder of kept inputs in `fuzz/corpus`.
    pub name: &'static str,
    /// Feeds the parser with the bytes. Panics if it breaks a promise.
    pub run: fn(&[u8]),
    /// Well-formed inputs that mutations start from, beside the kept ones.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target, in the order of the smoke run.
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

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
