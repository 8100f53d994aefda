//! Logins: TLS, and who the client says it is.

use crate::answer::answer;
use crate::error::Error;
use bytes::BytesMut;
use quoit_tls::rustls::ClientConfig;
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

/// Longest answer before the login is over, in bytes.
const ANSWER_BYTES_MAX: u32 = 64 << 10;

/// The user of a login, and the files of its proof.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoginSettings {
    /// Name of the user.
    pub user: String,
    /// File whose first line is the user's password; other users of the machine must not be able to read it.
    pub password_file: Option<PathBuf>,
    /// File of the authorities that nodes are held against.
    pub authorities: PathBuf,
    /// Files of a certificate to show, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl LoginSettings {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] for a file that can't be read or has a fault, in words that name it.
    pub fn load(&self) -> Result<Login, Error> {
        let password = self.password_file.as_deref().map(quoit_tls::load_password).transpose();
        let password = password.map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let tls = ClientSettings {
            authorities: self.authorities.clone(),
            identity: self.identity.clone(),
            ..ClientSettings::default()
        };
        Login::new(&self.user, password.as_deref().unwrap_or_default(), &tls)
    }
}

/// A user with its proof, and the authorities that nodes are held against. The password is not shown.
#[derive(Clone)]
pub struct Login {
    user: String,
    password: String,
    config: Arc<ClientConfig>,
    is_tls_at_once: bool,
}

impl Login {
    /// A login as `user`, by TLS with these settings. The password may be empty where the node asks for
    /// none, or for a certificate.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] for a file that can't be read, in words that name it.
    pub fn new(user: &str, password: &str, tls: &ClientSettings) -> Result<Self, Error> {
        let config = client_config(tls, Instant::now());
        let config = config.map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let (user, password) = (user.to_owned(), password.to_owned());
        Ok(Self { user, password, config, is_tls_at_once: false })
    }

    /// The login that the environment tells: `QUOIT_USER` with `QUOIT_PASSWORD`, or with the first line of
    /// the file `QUOIT_PASSWORD_FILE`; `QUOIT_CACERT`, the authorities; `QUOIT_CERT` and `QUOIT_KEY`, a
    /// certificate to show. `None` without `QUOIT_USER`.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] for a file that can't be read or has a fault, in words that name it.
    pub fn from_environment() -> Result<Option<Self>, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(user) = variable("QUOIT_USER") else { return Ok(None) };
        let password = match variable("QUOIT_PASSWORD_FILE") {
            Some(path) => quoit_tls::load_password(Path::new(&path))
                .map_err(|source| Error::Tls { source: Arc::new(source) })?,
            None => variable("QUOIT_PASSWORD").unwrap_or_default(),
        };
        Self::new(&user, &password, &Self::settings_from_environment()).map(Some)
    }

    /// The files of TLS that the environment tells: `QUOIT_CACERT`, and `QUOIT_CERT` with `QUOIT_KEY`.
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

    /// The same for listeners that speak TLS from the first byte (`listener.protobuf_tls`).
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

    /// The configuration of TLS, for other protocols of the same node.
    #[must_use]
    pub const fn tls_config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Logs in on a new connection to `host:port`.
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

    /// Begins TLS on a new connection to `host:port`, and does not log in: for protocols that do so in
    /// their own way.
    ///
    /// # Errors
    ///
    /// [`Error::Handshake`] when the two do not agree, or the node is not trusted.
    pub async fn begin_tls(&self, stream: TcpStream, address: &str) -> Result<ClientStream, Error> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = server_name(host).map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let connected = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await;
        let stream = connected.map_err(|fault| Error::Handshake {
            address: address.to_owned(),
            reason: quoit_tls::failure_words(&fault),
        })?;
        Ok(ClientStream::Tls(Box::new(stream)))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Login({})", self.user)
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
        // Byte by byte: nothing behind the answer may be taken, it belongs to the handshake.
        let missing = decoder.missing_bytes(&read).map_err(framed)?.max(1);
        let mut part = vec![0; missing];
        let count = stream.read(&mut part).await.map_err(lost)?;
        if count == 0 {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        read.extend_from_slice(&part[..count]);
    }
}

/// A connection's stream.
#[derive(Debug)]
pub enum ClientStream {
    /// In clear.
    Plain(TcpStream),
    /// By TLS.
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
