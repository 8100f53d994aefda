//! The targets, one module for each parser.

pub(crate) mod bench_configs;
pub(crate) mod compressed_frames;
pub(crate) mod configuration;
pub(crate) mod contexts;
pub(crate) mod data_types;
pub(crate) mod erlang_terms;
pub(crate) mod exchange_messages;
pub(crate) mod external_terms;
pub(crate) mod hint_files;
pub(crate) mod http_requests;
pub(crate) mod hyperloglogs;
pub(crate) mod index_queries;
pub(crate) mod index_snapshots;
pub(crate) mod internode_frames;
pub(crate) mod key_files;
pub(crate) mod layouts;
pub(crate) mod mapreduce_jobs;
pub(crate) mod pb_frames;
pub(crate) mod reap_records;
pub(crate) mod record_keys;
pub(crate) mod riak_data_types;
pub(crate) mod riak_keys;
pub(crate) mod riak_objects;
pub(crate) mod store_directories;
pub(crate) mod stored_objects;
pub(crate) mod tls_files;
