//! Configuration: `quoit.conf`, `QUOIT_*` variables, `--set`, in rising order of precedence.

mod keys;
mod parse;
mod settings;
mod value;

pub use keys::{IGNORED, KEYS, Key, Meaning, meaning};
pub use parse::{Entry, Origin, ParseError, ReadFile, parse_text};
pub use settings::{ConfigError, Settings, Sources, Storage, load, settings_of};
pub use value::{Kind, size_bytes};
