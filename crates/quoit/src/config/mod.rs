//! Configuration: `quoit.conf`, `QUOIT_*` variables, `--set`, in rising order of precedence.

#[cfg(test)]
mod fuzz_tests;
mod keys;
mod parse;
mod settings;
mod value;

pub(crate) use keys::{IGNORED, KEYS, Key, Meaning, meaning};
pub(crate) use parse::Origin;
pub(crate) use settings::{Settings, Sources, Storage, load};
