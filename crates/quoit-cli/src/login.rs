//! HTTPS with the certificate authorities and the login given on the command line.

use anyhow::{Result, bail};
use base64::Engine as _;
use clap::Args;
use quoit_tls::rustls::ClientConfig;
use quoit_tls::{ClientSettings, Instant, client_config};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A login over HTTPS.
#[derive(Args, Clone, Default)]
pub struct LoginArgs {
    /// User to log in as, over HTTPS. The password is read from --password-file or the variable
    /// QUOIT_PASSWORD.
    #[arg(long, global = true, env = "QUOIT_USER", value_name = "NAME")]
    user: Option<String>,
    /// File whose first line is the password of --user. Other users of the machine must not be able to read
    /// it.
    #[arg(long, global = true, env = "QUOIT_PASSWORD_FILE", value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File with the certificate authorities that verify the node's certificate.
    #[arg(long, global = true, env = "QUOIT_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// File of a client certificate; requires --key.
    #[arg(long, global = true, env = "QUOIT_CERT", value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// File of the key of --cert.
    #[arg(long, global = true, env = "QUOIT_KEY", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl fmt::Debug for LoginArgs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LoginArgs").field("user", &self.user).finish_non_exhaustive()
    }
}

impl LoginArgs {
    /// Value of the `Authorization` header; `None` without a user.
    ///
    /// # Errors
    ///
    /// The password file cannot be read, or other users of the machine can read it.
    pub(crate) fn authorization(&self) -> Result<Option<String>> {
        let Some(user) = &self.user else { return Ok(None) };
        let password = match &self.password_file {
            Some(path) => quoit_tls::load_password(path)?,
            None => std::env::var("QUOIT_PASSWORD").unwrap_or_default(),
        };
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Ok(Some(format!("Basic {pair}")))
    }

    /// TLS configuration.
    ///
    /// # Errors
    ///
    /// No certificate authorities are given, or a file is missing or invalid.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>> {
        let Some(authorities) = self.cacert.clone() else {
            bail!(
                "https needs the authorities that the node's certificate is held against: name their file \
                 with --cacert FILE"
            );
        };
        let identity = self.cert.clone().zip(self.key.clone());
        let settings = ClientSettings { authorities, identity, ..ClientSettings::default() };
        Ok(client_config(&settings, Instant::now())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_password_comes_from_a_file_and_https_needs_authorities() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "p:w\nmore\n").unwrap();
        let login = LoginArgs {
            user: Some("u".into()),
            password_file: Some(file.path().to_owned()),
            ..LoginArgs::default()
        };
        assert_eq!(login.authorization().unwrap().unwrap(), "Basic dTpwOnc=");
        assert_eq!(LoginArgs::default().authorization().unwrap(), None);
        assert!(login.config().unwrap_err().to_string().contains("--cacert"));
        assert!(!format!("{login:?}").contains("p:w"));
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(login.authorization().unwrap_err().to_string().contains("chmod o-rwx"));
    }
}
