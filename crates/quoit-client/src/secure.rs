//! Logins: TLS, and who the client says it is.

use crate::connection::answer;
use crate::error::Error;
use bytes::BytesMut;
use quoit_tls::rustls::ClientConfig;
use quoit_tls::tokio_rustls::TlsConnector;
use quoit_tls::tokio_rustls::client::TlsStream;
use quoit_tls::{ClientSettings, Instant, client_config, server_name};
use quoit_wire::messages::{RpbAuthReq, RpbAuthResp, RpbStartTls};
use quoit_wire::{Body, Frame, FrameDecoder, append_message};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// Longest answer before the login is over, in bytes.
const ANSWER_BYTES_MAX: u32 = 64 << 10;

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
    /// [`Error::Tls`] or [`Error::Password`] for a file that can't be read.
    pub fn from_environment() -> Result<Option<Self>, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(user) = variable("QUOIT_USER") else { return Ok(None) };
        let password = match variable("QUOIT_PASSWORD_FILE") {
            Some(path) => match std::fs::read_to_string(&path) {
                Ok(text) => text.lines().next().unwrap_or_default().to_owned(),
                Err(source) => return Err(Error::Password { path, source: Arc::new(source) }),
            },
            None => variable("QUOIT_PASSWORD").unwrap_or_default(),
        };
        let file = |name: &str| variable(name).map(std::path::PathBuf::from);
        let tls = ClientSettings {
            authorities: file("QUOIT_CACERT").unwrap_or_default(),
            identity: file("QUOIT_CERT").zip(file("QUOIT_KEY")),
            ..ClientSettings::default()
        };
        Self::new(&user, &password, &tls).map(Some)
    }

    /// The same for listeners that speak TLS from the first byte (`listener.protobuf_tls`).
    #[must_use]
    pub fn with_tls_at_once(mut self) -> Self {
        self.is_tls_at_once = true;
        self
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
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = server_name(host).map_err(|source| Error::Tls { source: Arc::new(source) })?;
        let connected = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await;
        let mut stream = connected.map_err(|fault| Error::Handshake {
            address: address.to_owned(),
            reason: quoit_tls::failure_words(&fault),
        })?;
        let claim = RpbAuthReq {
            user: self.user.clone().into_bytes().into(),
            password: self.password.clone().into_bytes().into(),
        };
        ask::<_, RpbAuthResp>(&mut stream, &claim, address).await?;
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
pub(crate) enum ClientStream {
    Plain(TcpStream),
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
