//! Versions of the protocol.

use crate::error::TlsError;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// Which versions of TLS are spoken. Older ones than 1.2 do not exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// TLS 1.2 (RFC 5246).
    pub tls12: bool,
    /// TLS 1.3 (RFC 8446).
    pub tls13: bool,
}

impl Default for Versions {
    /// Both.
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
