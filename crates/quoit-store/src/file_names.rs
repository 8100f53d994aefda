//! Names of the files of a Bitcask store.

use crate::index::Location;

/// Name of the file with the store's identity.
pub(crate) const META_NAME: &str = "STORE";

const LOG_SUFFIX: &str = ".log";
const KEYS_SUFFIX: &str = ".keys";
const NAME_DIGITS: usize = 7;

/// File name of a segment.
#[must_use]
pub fn log_name(number: u32) -> String {
    format!("{number:0NAME_DIGITS$}{LOG_SUFFIX}")
}

/// File name of a segment's key file.
#[must_use]
pub fn keys_name(number: u32) -> String {
    format!("{number:0NAME_DIGITS$}{KEYS_SUFFIX}")
}

/// The number in a segment's file name; `None` for other files.
#[must_use]
pub fn number_of_log(name: &str) -> Option<u32> {
    number_before(name, LOG_SUFFIX)
}

/// The number in a key file's name; `None` for other files.
#[must_use]
pub fn number_of_keys(name: &str) -> Option<u32> {
    number_before(name, KEYS_SUFFIX)
}

fn number_before(name: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_suffix(suffix)?;
    let is_number = digits.len() == NAME_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u32 = is_number.then(|| digits.parse().ok())??;
    (number <= Location::SEGMENT_MAX).then_some(number)
}

/// True if files of these names belong to a Bitcask store, or did.
pub(crate) fn are_of_bitcask(names: &[String]) -> bool {
    let is_of_store = |name: &String| {
        name == META_NAME || number_of_log(name).is_some() || number_of_keys(name).is_some()
    };
    names.iter().any(is_of_store)
}
