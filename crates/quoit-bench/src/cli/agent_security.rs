//! The options by which a coordinator and its agents know each other.

use std::path::PathBuf;

use crate::link::{LinkError, LinkSecurity};

/// A file with a token, or files of certificates; nothing for agents on loopback addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentSecurity {
    /// The file whose first line is the token.
    pub token_file: Option<PathBuf>,
    /// The files of the own certificate, of its key, and of the authorities that the other side's certificate
    /// is held against.
    pub tls_files: Option<[PathBuf; 3]>,
}

impl AgentSecurity {
    /// Reads the token. The certificates are read when they are used.
    ///
    /// # Errors
    ///
    /// When the token can't be used.
    pub fn load(&self) -> Result<LinkSecurity, LinkError> {
        Ok(match (&self.tls_files, &self.token_file) {
            (Some([certificate, key, authorities]), _) => LinkSecurity::Certificates {
                certificate: certificate.clone(),
                key: key.clone(),
                authorities: authorities.clone(),
            },
            (None, Some(path)) => LinkSecurity::token(path)?,
            (None, None) => LinkSecurity::Open,
        })
    }
}
