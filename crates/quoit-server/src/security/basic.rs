//! Credentials in HTTP headers: Basic authentication.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// Largest header that is parsed, in bytes.
const HEADER_BYTES_MAX: usize = 4096;

/// A user's name and password. `Debug` does not print the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user as sent.
    pub user: String,
    /// The password.
    pub password: Vec<u8>,
}

impl Credentials {
    /// Parses the value of the header `Authorization`: the word Basic in any case, and base64 of
    /// `USER:PASSWORD`. Only the password may contain colons. `None` for anything else.
    #[must_use]
    pub fn of_header(value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let (scheme, rest) = value.split_at_checked(6)?;
        if value.len() > HEADER_BYTES_MAX || !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
        let mut parts = decoded.splitn(2, |byte| *byte == b':').map(<[u8]>::to_vec);
        let (user, password) = (String::from_utf8(parts.next()?).ok()?, parts.next()?);
        (!user.is_empty()).then_some(Self { user, password })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credentials({})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(scheme: &str, text: &[u8]) -> Option<(String, Vec<u8>)> {
        let header = format!("{scheme} {}", STANDARD.encode(text));
        Credentials::of_header(header.as_bytes()).map(|read| (read.user, read.password))
    }

    #[test]
    fn a_password_may_have_colons_and_the_scheme_any_case() {
        assert_eq!(read("Basic", b"u:p:w"), Some(("u".into(), b"p:w".to_vec())));
        assert_eq!(read("bAsIc", b"u:"), Some(("u".into(), Vec::new())));
        assert_eq!(read("Basic", b"no colon"), None);
        assert_eq!(read("Basic", b":pw"), None);
        assert_eq!(read("Bearer", b"u:p"), None);
        for header in ["", "Basic", "Basic !!!", "Basic dTpwdw", "Basi", "\u{e4}\u{e4}\u{e4}x"] {
            assert_eq!(Credentials::of_header(header.as_bytes()), None, "{header}");
        }
        let shown = format!("{:?}", Credentials::of_header(b"Basic dTpwdw=="));
        assert_eq!(shown, "Some(Credentials(u))");
    }
}
