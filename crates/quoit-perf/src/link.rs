//! A client's connection, unencrypted or over TLS.

use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use quoit_tls::rustls::{ClientConnection, HandshakeKind};
use quoit_tls::{rustls, server_name};
use quoit_wire::MessageCode;
use quoit_wire::frame::append_message;
use quoit_wire::messages::RpbAuthReq;
use rustls::ClientConfig;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Time without an answer during connection setup after which the server counts as failed.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);

/// The way in which connections to a server are made.
#[derive(Clone, Debug, Default)]
pub(crate) enum Transport {
    /// Unencrypted.
    #[default]
    Plain,
    /// TLS from the first byte, and a login if given.
    Tls(Arc<ClientConfig>, Option<Login>),
}

/// A user and a password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Login {
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
}

/// A connection that is ready for requests. Reads and writes do not block.
#[derive(Debug)]
pub(crate) struct DriverConnection {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl DriverConnection {
    /// Connects. Does the TLS handshake and the login if the transport asks for them.
    pub(crate) fn connect(address: SocketAddr, transport: &Transport) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connecting")?;
        stream.set_nodelay(true)?;
        let mut link = Self { stream, tls: None };
        if let Transport::Tls(config, login) = transport {
            link.begin_tls(config, address)?;
            if let Some(login) = login {
                link.log_in(login)?;
            }
        }
        link.stream.set_nonblocking(true)?;
        Ok(link)
    }

    fn begin_tls(&mut self, config: &Arc<ClientConfig>, address: SocketAddr) -> Result<()> {
        self.stream.set_read_timeout(Some(BEGIN_LIMIT))?;
        let name = server_name(&address.ip().to_string())?;
        let mut tls = Box::new(ClientConnection::new(Arc::clone(config), name)?);
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream).context("the handshake")?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    fn log_in(&mut self, login: &Login) -> Result<()> {
        let request = RpbAuthReq {
            user: Bytes::from_static(login.user.as_bytes()),
            password: Bytes::from_static(login.password.as_bytes()),
        };
        let mut out = BytesMut::new();
        append_message(&mut out, &request)?;
        self.send(&out)?;
        let tls = self.tls.as_mut().context("a login needs TLS")?;
        let mut answer = [0; 5];
        let mut stream = rustls::Stream::new(&mut **tls, &mut self.stream);
        stream.read_exact(&mut answer).context("the answer to the login")?;
        ensure!(answer[4] == MessageCode::AuthResp as u8, "the login was refused");
        Ok(())
    }

    /// The socket, for epoll.
    pub(crate) const fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a request, which must fit into the socket's buffer.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.stream.write_all(bytes) };
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    /// Reads the bytes that have arrived; 0 at the end of the stream. Over TLS they must all fit into the
    /// buffer, since epoll would not report the decrypted rest.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.read(buffer) };
        if tls.read_tls(&mut self.stream)? == 0 {
            return Ok(0);
        }
        tls.process_new_packets().map_err(io::Error::other)?;
        let mut filled = 0;
        loop {
            match tls.reader().read(&mut buffer[filled..]) {
                Err(fault) if fault.kind() == ErrorKind::WouldBlock && filled > 0 => {
                    return Ok(filled);
                }
                Ok(0) if filled == buffer.len() => {
                    return Err(io::Error::other("an answer over TLS is too large"));
                }
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// Does one handshake, receives the tickets for resumption, and closes. Returns true if the session was
/// resumed.
pub(crate) fn shake_hands(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<bool> {
    let mut link =
        DriverConnection { stream: TcpStream::connect(address).context("connecting")?, tls: None };
    link.stream.set_nodelay(true)?;
    link.begin_tls(config, address)?;
    let Some(tls) = &mut link.tls else { bail!("there is no TLS") };
    // With TLS 1.3 the server sends its tickets after the client's last handshake message.
    tls.read_tls(&mut link.stream).context("the tickets")?;
    tls.process_new_packets().context("the tickets")?;
    tls.send_close_notify();
    tls.write_tls(&mut link.stream).context("closing")?;
    Ok(tls.handshake_kind() == Some(HandshakeKind::Resumed))
}
