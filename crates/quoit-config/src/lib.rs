//! The configuration of a node: its keys, the syntax of `quoit.conf`, and the effective settings.
//!
//! Settings come from `quoit.conf`, `QUOIT_*` variables, and `--set`, in increasing order of precedence
//! ([`load`]). [`Settings`] has a method for each part of a node that has settings of its own.
//!
//! ```
//! use quoit_config::{Origin, parse_text, settings_of};
//!
//! let text = "ring_size = 128\n";
//! let entries = parse_text("quoit.conf".as_ref(), text.as_bytes(), &mut |_| unreachable!()).expect("good");
//! let settings = settings_of(entries).expect("good values");
//! assert_eq!(settings.get("ring_size"), Some("128"));
//! assert_eq!(settings.origin("ring_size"), Some(&Origin::Line("quoit.conf".into(), 1)));
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod commented;
mod keys;
mod parse;
mod settings;
mod value;
mod variables;

pub use commented::commented;
pub use keys::key_match::{KeyMatch, key_match};
pub use keys::riak_keys::{KeyValue, riak_keys, unsupported_effect};
pub use keys::{Key, keys};
pub use parse::{Entry, Origin, ParseError, ReadFile, parse_text};
pub use settings::{
    ConfigError, NamedStorage, Settings, Sources, Storage, UnmetSecuritySetting, load, settings_of,
};
pub use value::{ValueType, size_bytes};
