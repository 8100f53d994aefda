//! HTTPS connections for clients that use `ureq`.

use crate::{failure_words, server_name};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Maximum time for connecting to one address of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens TLS connections.
pub struct SecureConnector {
    config: Arc<ClientConfig>,
}

impl SecureConnector {
    /// Creates a connector with this configuration.
    #[must_use]
    pub const fn new(config: Arc<ClientConfig>) -> Self {
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
                .map_err(|fault| io::Error::other(failure_words(&fault)))?;
        }
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(SecureTransport { stream: StreamOwned::new(connection, stream), buffers })
    }
}

/// A TLS connection.
pub struct SecureTransport {
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

    #[expect(clippy::indexing_slicing, reason = "`amount` bytes of this buffer were written")]
    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let output = &self.buffers.output()[..amount];
        let sent = self.stream.write_all(output).and_then(|()| self.stream.flush());
        sent.map_err(|fault| timed_failure(fault, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let input = self.buffers.input_append_buf();
        let read = loop {
            match self.stream.read(input) {
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                // A server that closes without a closing message of TLS has sent all its data.
                Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => break Ok(0),
                read => break read,
            }
        };
        let count = read.map_err(|fault| timed_failure(fault, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        is_quiet(&self.stream.sock).unwrap_or(false)
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Converts a failed read or write that had a time limit.
#[must_use]
pub fn timed_failure(fault: io::Error, timeout: NextTimeout) -> Error {
    match fault.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => fault.into(),
    }
}

/// Returns true if a kept connection has nothing to read. Bytes after a complete answer, or the end of the
/// stream, make the connection unusable.
fn is_quiet(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let waiting = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    Ok(waiting.is_err_and(|fault| fault.kind() == io::ErrorKind::WouldBlock))
}
