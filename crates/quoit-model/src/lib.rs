//! The data model of Quoit as pure values: keys, hashes, partitions, layouts, causality, objects,
//! data types and bucket properties.
//!
//! Nothing in this crate does I/O, blocks, or reads a clock or a source of randomness. Functions
//! that need the time or a random number take it as an argument.
//!
//! Entry points:
//!
//! - [`key`] and [`hash`]: the name of a record and the partition that it belongs to.
//! - [`clock`] and [`object`]: dots, version vectors, and objects with their siblings.
//! - [`merge`]: the rules by which writes and merges change an object.
//! - [`data_type`]: counters, sets, maps and HyperLogLogs, which merge by rules of their own.
//! - [`layout`]: the assignment of partitions to nodes.
//! - [`codec`]: the stored form of objects. [`riak_object`] and [`riak_data_type`] read and write
//!   Riak's forms.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

pub mod bitcask_key;
pub mod clock;
pub mod codec;
pub mod context;
mod cursor;
pub mod data_type;
mod digest;
pub mod etf;
mod field_name;
pub mod hash;
pub mod hll;
pub mod index_integer;
pub mod key;
pub mod key_bounds;
pub mod layout;
pub mod merge;
pub mod node;
pub mod object;
pub mod ordered_bytes;
pub mod plain;
pub mod props;
pub mod prune;
pub mod record_batch;
pub mod riak_clock;
pub mod riak_data_type;
pub mod riak_object;
pub mod secondary_index;
pub mod segments;
pub mod sibling_order;
pub mod store_opening;
pub mod vtag;

#[cfg(test)]
mod test_objects;
