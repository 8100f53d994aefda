//! Pure values of the store: keys, hashes, partitions, layouts, causality, objects, data types and
//! bucket properties.
//!
//! Nothing here does I/O, waits, or reads a clock or a source of randomness that is not an
//! argument.

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
