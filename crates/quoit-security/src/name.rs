//! Names of users and groups.

use thiserror::Error;

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Names that mean something else in commands.
const RESERVED: [&str; 5] = ["all", "on", "to", "from", "any"];

/// Why a name is refused. Displayed in Riak's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    /// The name is empty, or has a comma, a colon or a control character.
    #[error("Illegal character(s) in name")]
    Illegal,
    /// The name is a word of the commands.
    #[error("This name is reserved for system use")]
    Reserved,
    /// The name is too long.
    #[error("The name has more than {NAME_BYTES_MAX} bytes; choose a shorter one")]
    TooLong,
}

/// The name as it is stored, in lower case.
///
/// # Errors
///
/// A name that can't be one, or is reserved.
pub fn checked_name(name: &str) -> Result<String, NameError> {
    if name.is_empty() || name.contains([',', ':']) || name.chars().any(char::is_control) {
        return Err(NameError::Illegal);
    }
    let name = stored(name);
    if RESERVED.contains(&name.as_str()) {
        return Err(NameError::Reserved);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    Ok(name)
}

/// A name of a command as it would be stored, whether it exists or not.
pub(crate) fn stored(name: &str) -> String {
    name.to_lowercase()
}
