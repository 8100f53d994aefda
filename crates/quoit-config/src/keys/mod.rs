//! The configuration keys: names, value types, defaults, descriptions.
//!
//! A key has Riak's name if it has Riak's meaning. `$name` stands for one part that the user chooses. A key
//! that is neither here nor among the keys of Riak in `riak_keys` stops the start.

mod engines;
pub(crate) mod key_match;
mod node;
mod replication;
pub(crate) mod riak_keys;
mod security;
mod service;

use crate::value::ValueType;

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// A key that has an effect.
#[derive(Debug)]
pub struct Key {
    /// Dotted name; a part `$name` can be any text.
    pub name: &'static str,
    /// Type of its values.
    pub kind: ValueType,
    /// Default as it would be written in a file; empty = not set.
    pub default: &'static str,
    /// Description in a sentence or two.
    pub about: &'static str,
}

/// Default of a key, as it would be written in a file; empty = not set.
struct KeyDefault(&'static str);

const fn key(name: &'static str, kind: ValueType, default: KeyDefault, about: &'static str) -> Key {
    Key { name, kind, default: default.0, about }
}

/// Every key that has an effect, by subject.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    let subjects = [node::KEYS, security::KEYS, engines::KEYS, service::KEYS, replication::KEYS];
    subjects.into_iter().flatten()
}
