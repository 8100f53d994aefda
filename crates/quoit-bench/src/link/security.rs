//! The proof of both sides of a link: a token that both know, or certificates. Either is TLS, so that what
//! passes can't be read or changed by others; a token itself is never sent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quoit_tls::nodes::{Authority, LinkTrust, SharedSecret, node_server_name};
use quoit_tls::rustls::{ClientConfig, ServerConfig};
use quoit_tls::tokio_rustls::{TlsAcceptor, TlsConnector};
use quoit_tls::{ClientCertificates, ClientSettings, Instant, ServerSettings, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::SILENCE_MAX;
use super::error::LinkError;

/// How a token is made.
pub const TOKEN_ADVICE: &str = "openssl rand -hex 32 > agents.token && chmod 600 agents.token";

/// Protocol of a link by certificates, as ALPN names it.
const ALPN: &[u8] = b"quoit-bench-agent";

/// The start of the secret that a token stands for: the same token in another place proves nothing here.
const TOKEN_PURPOSE: &str = "quoit bench agent ";

/// A connection in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A connection, with or without TLS.
pub type LinkStream = Box<dyn Duplex>;

impl fmt::Debug for dyn Duplex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkStream")
    }
}

/// By what the two sides of a link know each other.
#[derive(Debug, Clone, Default)]
pub enum LinkSecurity {
    /// Any process that reaches the port is trusted: for loopback only.
    #[default]
    Open,
    /// A token that both sides know.
    Token(SharedSecret),
    /// Certificates on both sides.
    Certificates {
        /// File of the own certificate.
        certificate: PathBuf,
        /// File of its key.
        key: PathBuf,
        /// File of the authorities that the other side's certificate is held against.
        authorities: PathBuf,
    },
}

impl LinkSecurity {
    /// Takes the token from the first line of a file.
    ///
    /// # Errors
    ///
    /// When the file can't be read, others may read it too, or the token can be guessed.
    pub fn token(path: &Path) -> Result<Self, LinkError> {
        let token = quoit_tls::load_password(path)?;
        let weak = |error| LinkError::Token { path: path.to_owned(), error };
        SharedSecret::of(token.trim()).map_err(weak)?;
        let secret = SharedSecret::of(&format!("{TOKEN_PURPOSE}{}", token.trim())).map_err(weak)?;
        Ok(Self::Token(secret))
    }

    /// Whether the other side has to prove itself.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        !matches!(self, Self::Open)
    }

    /// Prepares to be dialed.
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
                // The authority is of no use to anybody: its key is forgotten at once. A listener has to
                // name one beside the secret.
                let authority = Authority::make("quoit bench agent", now)?;
                let own = authority.issue("agent", "agent", now)?;
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

    /// Prepares to dial.
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

/// Takes the handshakes of coordinators.
#[derive(Clone)]
pub struct LinkAcceptor(Option<TlsAcceptor>);

impl fmt::Debug for LinkAcceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkAcceptor")
    }
}

impl LinkAcceptor {
    /// Makes a link of a connection.
    ///
    /// # Errors
    ///
    /// [`LinkError::Proof`] when the other side proves nothing, or takes too long to.
    pub async fn accept(&self, stream: TcpStream) -> Result<LinkStream, LinkError> {
        // Small messages are not held back for more of them; a system that refuses this has its reasons.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.0 else { return Ok(Box::new(stream)) };
        let accepted = timeout(SILENCE_MAX, tls.accept(stream)).await;
        let accepted = accepted.map_err(|_| LinkError::Silent(SILENCE_MAX))?;
        let secured =
            accepted.map_err(|fault| LinkError::Proof(quoit_tls::failure_words(&fault)))?;
        Ok(Box::new(secured))
    }
}

/// Dials agents.
#[derive(Clone)]
pub struct LinkConnector {
    tls: Option<TlsConnector>,
    /// The certificate has to be for the host that was dialed.
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
    /// When it can't be reached, or does not prove itself.
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
