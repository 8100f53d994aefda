//! The administration socket in a node's data directory, and HTTP through it.

use quoit_tls::https::timed_failure;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};

/// File name of the socket in a node's data directory.
pub const SOCKET_FILE: &str = "admin.sock";

/// Longest path in bytes that every system accepts as the address of a socket.
const ADDRESS_BYTES_MAX: usize = 100;

/// Calls `with` with a path to the file that is short enough for a socket address. If `path` is too long, the
/// function passes a path through `/proc/self/fd` instead.
///
/// # Errors
///
/// The errors of `with`, and of opening the directory.
pub fn with_short_path<T>(path: &Path, with: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return with(path);
    };
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return with(path);
    }
    let directory = File::open(directory)?;
    with(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}

/// Connects to one socket, whatever host the URL names.
#[derive(Debug)]
pub(crate) struct LocalConnector {
    path: PathBuf,
}

impl LocalConnector {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Connector for LocalConnector {
    type Out = LocalTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<LocalTransport>, Error> {
        let stream =
            Arc::new(Shared(with_short_path(&self.path, |path| UnixStream::connect(path))?));
        let handle = Arc::downgrade(&stream) as Weak<dyn ShutdownHandle>;
        (details.register_shutdown)(handle)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(LocalTransport { stream, buffers }))
    }
}

/// A stream that another thread can shut down.
#[derive(Debug)]
struct Shared(UnixStream);

impl ShutdownHandle for Shared {
    fn shutdown(&self) {
        // An error means that the stream is closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A connection through the socket.
pub(crate) struct LocalTransport {
    stream: Arc<Shared>,
    buffers: LazyBuffers,
}

impl std::fmt::Debug for LocalTransport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LocalTransport").finish_non_exhaustive()
    }
}

impl Transport for LocalTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    #[expect(clippy::indexing_slicing, reason = "`amount` bytes of this buffer were written")]
    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.0.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let output = &self.buffers.output()[..amount];
        (&self.stream.0).write_all(output).map_err(|fault| timed_failure(fault, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.0.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let input = self.buffers.input_append_buf();
        let read = loop {
            match (&self.stream.0).read(input) {
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = read.map_err(|fault| timed_failure(fault, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        // Connections are not reused: connecting to a local socket is cheap.
        false
    }
}

/// Resolver that resolves no names, because the connector knows the socket.
#[derive(Debug)]
pub(crate) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Ok(addresses)
    }
}
