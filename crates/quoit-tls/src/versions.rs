//! Versions of TLS.

use crate::error::TlsError;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// Enabled versions of TLS. Versions before 1.2 are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// TLS 1.2 (RFC 5246).
    pub tls12: bool,
    /// TLS 1.3 (RFC 8446).
    pub tls13: bool,
}

impl Default for Versions {
    /// Both versions.
    fn default() -> Versions {
        Versions { tls12: true, tls13: true }
    }
}

impl Versions {
    pub(crate) fn list(self) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
        let pairs = [(self.tls13, &TLS13), (self.tls12, &TLS12)];
        let list: Vec<_> =
            pairs.iter().filter(|(allowed, _)| *allowed).map(|(_, version)| *version).collect();
        if list.is_empty() { Err(TlsError::NoVersion) } else { Ok(list) }
    }
}
