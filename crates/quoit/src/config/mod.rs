//! Configuration: `quoit.conf`, `QUOIT_*` variables, `--set`, in rising order of precedence.

mod keys;
mod meaning;
mod parse;
mod settings;
mod several;
mod value;

pub use keys::{Key, keys};
pub use meaning::{IGNORED, Meaning, meaning};
pub use parse::{Entry, Origin, ParseError, ReadFile, parse_text};
pub use settings::{ConfigError, Settings, Sources, Storage, load, settings_of};
pub use several::NamedStorage;
pub use value::{Kind, size_bytes};
