//! Configuration: `quoit.conf`, `QUOIT_*` variables, and `--set`, in increasing order of precedence.

mod commented;
mod keys;
mod meaning;
mod parse;
mod replication;
mod riak_keys;
mod security;
mod server;
mod settings;
mod several;
mod store;
mod value;
mod variables;

pub use commented::commented;
pub use keys::{Key, keys};
pub use meaning::{Meaning, meaning};
pub use parse::{Entry, Origin, ParseError, ReadFile, parse_text};
pub use riak_keys::{broken_promise, riak_keys};
pub use security::BrokenPromise;
pub use settings::{ConfigError, Settings, Sources, Storage, load, settings_of};
pub use several::NamedStorage;
pub use value::{Kind, size_bytes};
