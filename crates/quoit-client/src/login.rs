//! Logins: TLS and the authentication of the client.

use crate::answer::answer;
use crate::error::Error;
use bytes::BytesMut;
use quoit_tls::rustls::{self, ClientConfig};
use quoit_tls::tokio_rustls::TlsConnector;
use quoit_tls::tokio_rustls::client::TlsStream;
use quoit_tls::{ClientSettings, Instant, client_config, server_name};
use quoit_wire::messages::{RpbAuthReq, RpbAuthResp, RpbStartTls};
use quoit_wire::{Body, Frame, FrameDecoder, append_message};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// Longest answer that is accepted during the login, in bytes.
const ANSWER_BYTES_MAX: u32 = 64 << 10;

/// The user of a login, and the files of its credentials.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoginSettings {
    /// Name of the user.
    pub user: String,
    /// File whose first line is the user's password. Other users of the machine must not be able to read
    /// it.
    pub password_file: Option<PathBuf>,
    /// File of the certificate authorities against which the client checks nodes.
    pub authorities: PathBuf,
    /// Files of the client certificate and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl LoginSettings {
    /// Reads the files and makes a login of them.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] for a file that can't be read or has a fault; the error names the file.
    pub fn load(&self) -> Result<Login, Error> {
        let password = self.password_file.as_deref().map(quoit_tls::load_password).transpose();
        let password = password.map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let tls = ClientSettings {
            authorities: self.authorities.clone(),
            identity: self.identity.clone(),
            ..ClientSettings::default()
        };
        let password = password.as_deref().unwrap_or_default();
        Login::new(Credentials { user: &self.user, password }, &tls)
    }
}

/// A user and a password. The password may be empty if the node asks for no password, or for a
/// certificate.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Password of the user.
    pub password: &'a str,
}

/// A user's credentials, and the certificate authorities against which the client checks nodes. Its debug
/// form does not show the password.
#[derive(Clone)]
pub struct Login {
    user: String,
    password: String,
    config: Arc<ClientConfig>,
    is_tls_at_once: bool,
}

impl Login {
    /// A login with these credentials, over TLS with these settings.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] for a file that can't be read or has a fault; the error names the file.
    pub fn new(credentials: Credentials<'_>, tls: &ClientSettings) -> Result<Self, Error> {
        let Credentials { user, password } = credentials;
        let config = client_config(tls, Instant::now());
        let config = config.map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let (user, password) = (user.to_owned(), password.to_owned());
        Ok(Self { user, password, config, is_tls_at_once: false })
    }

    /// The login in the environment variables, or `None` without `QUOIT_USER`. `QUOIT_USER` names the user.
    /// The password is the first line of the file `QUOIT_PASSWORD_FILE`, or else `QUOIT_PASSWORD`.
    /// `QUOIT_CACERT` is the file of certificate authorities. `QUOIT_CERT` and `QUOIT_KEY` are the client
    /// certificate and its key.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] for a file that can't be read or has a fault; the error names the file.
    pub fn from_environment() -> Result<Option<Self>, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(user) = variable("QUOIT_USER") else { return Ok(None) };
        let password = match variable("QUOIT_PASSWORD_FILE") {
            Some(path) => quoit_tls::load_password(Path::new(&path))
                .map_err(|source| Error::Tls { source: Arc::new(source) })?,
            None => variable("QUOIT_PASSWORD").unwrap_or_default(),
        };
        let credentials = Credentials { user: &user, password: &password };
        Self::new(credentials, &Self::settings_from_environment()).map(Some)
    }

    /// The TLS files in the environment variables: `QUOIT_CACERT`, and `QUOIT_CERT` with `QUOIT_KEY`.
    #[must_use]
    pub fn settings_from_environment() -> ClientSettings {
        let file = |name: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        ClientSettings {
            authorities: file("QUOIT_CACERT").unwrap_or_default(),
            identity: file("QUOIT_CERT").zip(file("QUOIT_KEY")),
            ..ClientSettings::default()
        }
    }

    /// Begins TLS with the first byte, for listeners of `listener.protobuf_tls`, instead of asking for it
    /// first.
    #[must_use]
    pub fn with_tls_at_once(mut self) -> Self {
        self.is_tls_at_once = true;
        self
    }

    /// The name of the user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The password, for other protocols of the same node.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The TLS configuration, for other protocols of the same node.
    #[must_use]
    pub const fn tls_config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Begins TLS and logs in on a new connection to `host:port`.
    pub(crate) async fn begin(
        &self,
        mut stream: TcpStream,
        address: &str,
    ) -> Result<ClientStream, Error> {
        if !self.is_tls_at_once {
            ask::<_, RpbStartTls>(&mut stream, &RpbStartTls::default(), address).await?;
        }
        let mut stream = self.begin_tls(stream, address).await?;
        let claim = RpbAuthReq {
            user: self.user.clone().into_bytes().into(),
            password: self.password.clone().into_bytes().into(),
        };
        ask::<_, RpbAuthResp>(&mut stream, &claim, address).await?;
        Ok(stream)
    }

    /// Begins TLS on a new connection to `host:port` without logging in: for protocols that log in in their
    /// own way.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] if the host is not a valid server name. [`Error::Handshake`] if the handshake fails
    /// or the client does not trust the node. [`Error::Connect`] if the connection breaks meanwhile.
    pub async fn begin_tls(&self, stream: TcpStream, address: &str) -> Result<ClientStream, Error> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = server_name(host).map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let connected = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await;
        let stream = connected.map_err(|fault| handshake_error(address, fault))?;
        Ok(ClientStream::Tls(Box::new(stream)))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Login({})", self.user)
    }
}

/// The error for a handshake that did not complete. A connection that broke says nothing about the
/// certificates: the node may be restarting.
fn handshake_error(address: &str, fault: io::Error) -> Error {
    let address = address.to_owned();
    match fault.get_ref() {
        Some(inner) if inner.is::<rustls::Error>() => {
            Error::Handshake { address, reason: quoit_tls::failure_words(&fault) }
        }
        _ => Error::Connect { address, source: Arc::new(fault) },
    }
}

/// Sends a request and waits for its answer.
async fn ask<S: AsyncRead + AsyncWrite + Unpin, A: Body>(
    stream: &mut S,
    request: &impl Body,
    address: &str,
) -> Result<A, Error> {
    let lost = |source| Error::Lost { address: address.to_owned(), source: Arc::new(source) };
    let framed = |source| Error::Frame { address: address.to_owned(), source };
    let mut sent = Vec::new();
    append_message(&mut sent, request).map_err(framed)?;
    stream.write_all(&sent).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    let (decoder, mut read) = (FrameDecoder::new(ANSWER_BYTES_MAX), BytesMut::new());
    loop {
        let found: Option<Frame> = decoder.next_frame(&mut read).map_err(framed)?;
        if let Some(frame) = found {
            return answer(frame, address);
        }
        // Reads no more than the missing bytes: bytes behind the answer belong to the TLS handshake.
        let missing = decoder.missing_bytes(&read).map_err(framed)?.max(1);
        let mut part = vec![0; missing];
        let count = stream.read(&mut part).await.map_err(lost)?;
        if count == 0 {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        part.truncate(count);
        read.extend_from_slice(&part);
    }
}

/// The stream of a connection, unencrypted or with TLS.
#[derive(Debug)]
pub enum ClientStream {
    /// Unencrypted.
    Plain(TcpStream),
    /// Encrypted by TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
