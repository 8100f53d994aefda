//! Tests of the storage engines: the contract of each engine, faults and recovery.
//!
//! All tests are in one program, because linking one program per topic takes longer than running the tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod bitcask_basics;
mod bitcask_conformance;
mod bitcask_faults;
mod bitcask_index_faults;
mod bitcask_life;
mod bitcask_replay;
mod bitcask_shared_tags;
mod bitcask_verify;
mod bitcask_visits;
mod compressed_conformance;
mod compressed_engine;
mod conformance;
mod convert;
mod emptied_store;
mod engine_kills;
mod interrupted_creation;
mod lost_files;
mod lsm_behind;
mod lsm_merge_damage;
mod lsm_power_cuts;
mod memory_engine;
mod multi_engine;
mod ordered_cache;
mod ordered_conformance;
mod ordered_damage;
mod ordered_faults;
mod ordered_flips;
mod ordered_full_disk;
mod ordered_upkeep;
mod salvage;
mod support;
mod tree_damage;
