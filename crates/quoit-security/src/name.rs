//! Names of users and groups.

use thiserror::Error;

/// Maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Names with a special meaning in commands.
const RESERVED: [&str; 5] = ["all", "on", "to", "from", "any"];

/// Reason why a name is refused. Displayed in Riak's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    /// The name is empty, or has a comma, a colon or a control character.
    #[error("Illegal character(s) in name")]
    Illegal,
    /// The name is a keyword of the commands.
    #[error("This name is reserved for system use")]
    Reserved,
    /// The name is too long.
    #[error("The name has more than {NAME_BYTES_MAX} bytes; choose a shorter one")]
    TooLong,
}

/// Checks a name, and returns it in the form in which it is stored: in lower case.
///
/// # Errors
///
/// [`NameError`] if the name is not valid or is reserved.
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

/// Returns a name in the form in which it would be stored. The name need not exist.
pub(crate) fn stored(name: &str) -> String {
    name.to_lowercase()
}
