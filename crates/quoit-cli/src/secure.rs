//! HTTPS with the authorities and the login that a person names.

use crate::local::failed;
use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use clap::Args;
use quoit_tls::rustls::{ClientConfig, ClientConnection, StreamOwned};
use quoit_tls::{ClientSettings, Instant, client_config, server_name};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Longest wait for one address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A login over HTTPS.
#[derive(Args, Clone, Default)]
pub struct LoginArgs {
    /// User to log in as, over HTTPS. Its password is read from --password-file or the variable
    /// QUOIT_PASSWORD.
    #[arg(long, global = true, env = "QUOIT_USER", value_name = "NAME")]
    user: Option<String>,
    /// File whose first line is the password of --user.
    #[arg(long, global = true, env = "QUOIT_PASSWORD_FILE", value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File of the authorities that the node's certificate is held against.
    #[arg(long, global = true, env = "QUOIT_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// File of a certificate to show to the node; with --key.
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
    /// The value of the header `Authorization`, if there is a user.
    ///
    /// # Errors
    ///
    /// A password that can't be read.
    pub(crate) fn authorization(&self) -> Result<Option<String>> {
        let Some(user) = &self.user else { return Ok(None) };
        let password = match &self.password_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text
                    .with_context(|| format!("can't read the password from {}", path.display()))?;
                text.lines().next().unwrap_or_default().to_owned()
            }
            None => std::env::var("QUOIT_PASSWORD").unwrap_or_default(),
        };
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Ok(Some(format!("Basic {pair}")))
    }

    /// The configuration of TLS.
    ///
    /// # Errors
    ///
    /// Files that are missing or have a fault.
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

/// Opens TLS connections.
pub(crate) struct SecureConnector {
    config: Arc<ClientConfig>,
}

impl SecureConnector {
    pub(crate) const fn new(config: Arc<ClientConfig>) -> Self {
        Self { config }
    }
}

impl fmt::Debug for SecureConnector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SecureConnector").finish_non_exhaustive()
    }
}

impl Connector for SecureConnector {
    type Out = SecureTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<SecureTransport>, Error> {
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for address in details.addrs.iter() {
            match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
                Ok(stream) => return self.secure(stream, details).map(Some),
                Err(fault) => failure = fault,
            }
        }
        Err(failure.into())
    }
}

impl SecureConnector {
    fn secure(
        &self,
        mut stream: TcpStream,
        details: &ConnectionDetails<'_>,
    ) -> Result<SecureTransport, Error> {
        let host = details.uri.host().unwrap_or_default();
        let name = server_name(host).map_err(io::Error::other)?;
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        while connection.is_handshaking() {
            connection
                .complete_io(&mut stream)
                .map_err(|fault| io::Error::other(quoit_tls::failure_words(&fault)))?;
        }
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(SecureTransport { stream: StreamOwned::new(connection, stream), buffers })
    }
}

/// A TLS connection.
pub(crate) struct SecureTransport {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffers: LazyBuffers,
}

impl fmt::Debug for SecureTransport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SecureTransport").finish_non_exhaustive()
    }
}

impl Transport for SecureTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let output = &self.buffers.output()[..amount];
        let sent = self.stream.write_all(output).and_then(|()| self.stream.flush());
        sent.map_err(|fault| failed(fault, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let input = self.buffers.input_append_buf();
        let read = loop {
            match self.stream.read(input) {
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                // A node that closes without a farewell has sent all it has.
                Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => break Ok(0),
                read => break read,
            }
        };
        let count = read.map_err(|fault| failed(fault, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // Each request has a connection of its own.
        false
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
