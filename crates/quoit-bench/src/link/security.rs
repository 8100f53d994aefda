//! Authentication of both sides of a link, by a shared token or by certificates. Both use TLS, so others
//! can neither read nor change the messages. The token itself is never sent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quoit_tls::nodes::{Authority, LinkTrust, NodeSubject, SharedSecret, node_server_name};
use quoit_tls::rustls::{ClientConfig, ServerConfig};
use quoit_tls::tokio_rustls::{TlsAcceptor, TlsConnector};
use quoit_tls::{ClientCertificates, ClientSettings, Instant, ServerSettings, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::SILENCE_MAX;
use super::error::LinkError;

/// A command that creates a token.
pub const TOKEN_ADVICE: &str = "openssl rand -hex 32 > agents.token && chmod 600 agents.token";

/// ALPN protocol name of a link with certificates.
const ALPN: &[u8] = b"quoit-bench-agent";

/// Prefix of the secret that is derived from a token, so that the same token in another use authenticates
/// nothing here.
const TOKEN_PURPOSE: &str = "quoit bench agent ";

/// A bidirectional connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A connection, with or without TLS.
pub type LinkStream = Box<dyn Duplex>;

impl fmt::Debug for dyn Duplex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkStream")
    }
}

/// The method by which the two sides of a link authenticate each other.
#[derive(Debug, Clone, Default)]
pub enum LinkSecurity {
    /// No authentication: any process that reaches the port is trusted. Only for loopback addresses.
    #[default]
    Open,
    /// A token that both sides know.
    Token(SharedSecret),
    /// Certificates on both sides.
    Certificates {
        /// File of this side's certificate.
        certificate: PathBuf,
        /// File of its private key.
        key: PathBuf,
        /// File of the certificate authorities that the peer's certificate is checked against.
        authorities: PathBuf,
    },
}

impl LinkSecurity {
    /// Reads the token from the first line of a file.
    ///
    /// # Errors
    ///
    /// When the file can't be read, other users may read it too, or the token is too easy to guess.
    pub fn token(path: &Path) -> Result<Self, LinkError> {
        let token = quoit_tls::load_password(path)?;
        let weak = |error| LinkError::Token { path: path.to_owned(), error };
        SharedSecret::of(token.trim()).map_err(weak)?;
        let secret = SharedSecret::of(&format!("{TOKEN_PURPOSE}{}", token.trim())).map_err(weak)?;
        Ok(Self::Token(secret))
    }

    /// True if the peer must authenticate itself.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        !matches!(self, Self::Open)
    }

    /// Prepares for accepting connections.
    ///
    /// # Errors
    ///
    /// When the certificates can't be used.
    pub fn acceptor(&self) -> Result<LinkAcceptor, LinkError> {
        Ok(LinkAcceptor(self.server_config()?.map(TlsAcceptor::from)))
    }

    fn server_config(&self) -> Result<Option<Arc<ServerConfig>>, LinkError> {
        let now = Instant::now();
        Ok(match self {
            Self::Open => None,
            Self::Token(secret) => {
                // A TLS listener must name a certificate authority besides the secret. This one is created
                // here and its key is discarded at once, so nobody can issue certificates with it.
                let authority = Authority::make("quoit bench agent", now)?;
                let own = authority.issue(NodeSubject { node: "agent", name: "agent" }, now)?;
                let authorities = vec![authority.certificate().clone()];
                let secret = Some(secret.clone());
                let trust = LinkTrust { authorities, secret, ..LinkTrust::default() };
                Some(trust.server(&own)?)
            }
            Self::Certificates { certificate, key, authorities } => {
                let settings = ServerSettings {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    authorities: Some(authorities.clone()),
                    clients: ClientCertificates::Required,
                    protocols: vec![ALPN.to_vec()],
                    ..ServerSettings::default()
                };
                Some(ServerTls::open(settings, now)?.config())
            }
        })
    }

    /// Prepares for connecting.
    ///
    /// # Errors
    ///
    /// When the certificates can't be used.
    pub fn connector(&self) -> Result<LinkConnector, LinkError> {
        let config: Option<Arc<ClientConfig>> = match self {
            Self::Open => None,
            Self::Token(secret) => Some(secret.client()?),
            Self::Certificates { certificate, key, authorities } => {
                let settings = ClientSettings {
                    authorities: authorities.clone(),
                    identity: Some((certificate.clone(), key.clone())),
                    protocols: vec![ALPN.to_vec()],
                    ..ClientSettings::default()
                };
                Some(quoit_tls::client_config(&settings, Instant::now())?)
            }
        };
        let is_by_name = matches!(self, Self::Certificates { .. });
        Ok(LinkConnector { tls: config.map(TlsConnector::from), is_by_name })
    }
}

/// Accepts the handshakes of coordinators.
#[derive(Clone)]
pub struct LinkAcceptor(Option<TlsAcceptor>);

impl fmt::Debug for LinkAcceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkAcceptor")
    }
}

impl LinkAcceptor {
    /// Performs the handshake on an accepted connection.
    ///
    /// # Errors
    ///
    /// [`LinkError::Proof`] if the peer does not authenticate itself, [`LinkError::Silent`] if the
    /// handshake takes too long.
    pub async fn accept(&self, stream: TcpStream) -> Result<LinkStream, LinkError> {
        // Send small messages at once. A failure only costs latency.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.0 else { return Ok(Box::new(stream)) };
        let accepted = timeout(SILENCE_MAX, tls.accept(stream)).await;
        let accepted = accepted.map_err(|_| LinkError::Silent(SILENCE_MAX))?;
        let secured =
            accepted.map_err(|fault| LinkError::Proof(quoit_tls::failure_words(&fault)))?;
        Ok(Box::new(secured))
    }
}

/// Connects to agents.
#[derive(Clone)]
pub struct LinkConnector {
    tls: Option<TlsConnector>,
    /// True if the peer's certificate must be for the host that was dialed.
    is_by_name: bool,
}

impl fmt::Debug for LinkConnector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkConnector")
    }
}

impl LinkConnector {
    /// Connects to an agent.
    ///
    /// # Errors
    ///
    /// When the agent can't be reached or does not authenticate itself.
    pub async fn connect(&self, host: &str, port: u16) -> Result<LinkStream, LinkError> {
        let dialed = timeout(SILENCE_MAX, TcpStream::connect((host, port))).await;
        let stream = dialed.map_err(|_| LinkError::Silent(SILENCE_MAX))?;
        let stream = stream.map_err(LinkError::Connect)?;
        // As in `accept`.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = match self.is_by_name {
            true => quoit_tls::server_name(host)?,
            false => node_server_name(),
        };
        let secured = timeout(SILENCE_MAX, tls.connect(name, stream)).await;
        let secured = secured.map_err(|_| LinkError::Silent(SILENCE_MAX))?;
        let secured =
            secured.map_err(|fault| LinkError::Proof(quoit_tls::failure_words(&fault)))?;
        Ok(Box::new(secured))
    }
}
