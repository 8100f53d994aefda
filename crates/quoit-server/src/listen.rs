//! Listeners, and the life of a server: accepting connections and stopping gracefully.

use crate::audit::AuditedInterface;
use crate::context::ServerContext;
use crate::memory::{ConnectionMemory, MemoryBudget};
use crate::socket::StopSignal;
use crate::stream::Stream;
use crate::{http, pb};
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Wait after an `accept` that failed for lack of resources, and between attempts to get memory for a
/// connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Number of connections through the administration socket that are served at once.
const LOCAL_CONNECTION_COUNT_MAX: usize = 16;
/// Number of connections to the administration socket that may wait to be accepted.
const LOCAL_BACKLOG: u32 = 16;
/// Permissions of the administration socket: only its owner may connect.
const LOCAL_SOCKET_MODE: u32 = 0o600;

/// The protocol of a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Protocol Buffers.
    Pb,
    /// Protocol Buffers over TLS from the first byte.
    PbTls,
    /// HTTP.
    Http,
    /// HTTPS.
    Https,
}

/// Opens a TCP listener.
///
/// # Errors
///
/// Errors of the system, for example when the port is in use.
pub fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted node must not wait until connections of the previous process have timed out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Opens the administration socket: a local socket that only the user of the node may connect to. An
/// existing file at `path` is removed; the caller guarantees that no other node uses the directory.
///
/// # Errors
///
/// Errors of the system, for example when the file system does not support sockets.
pub fn bind_local(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
        _ => {}
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // No client can connect before `listen`, and by then the permissions are set.
    std::fs::set_permissions(path, Permissions::from_mode(LOCAL_SOCKET_MODE))?;
    socket.listen(LOCAL_BACKLOG)
}

/// A listener of a node.
enum Listener {
    Tcp(TcpListener),
    Local(UnixListener),
}

/// The listeners of a node, and the connections that were accepted from them.
pub struct Server {
    context: Arc<ServerContext>,
    signal: Arc<StopSignal>,
    slots: Arc<Semaphore>,
    /// Slots for connections of the administration socket, which other clients cannot take.
    local_slots: Arc<Semaphore>,
    accepting: TaskTracker,
    connections: TaskTracker,
}

impl Server {
    /// Creates a server without listeners.
    #[must_use]
    pub fn new(context: Arc<ServerContext>) -> Self {
        let settings = &context.settings;
        let allowances = settings.memory.connection_count_max();
        let allowances = allowances.saturating_sub(LOCAL_CONNECTION_COUNT_MAX).max(1);
        let limit = settings.connection_count_max.min(allowances).min(Semaphore::MAX_PERMITS);
        Self {
            context,
            signal: Arc::default(),
            slots: Arc::new(Semaphore::new(limit)),
            local_slots: Arc::new(Semaphore::new(LOCAL_CONNECTION_COUNT_MAX)),
            accepting: TaskTracker::new(),
            connections: TaskTracker::new(),
        }
    }

    /// Accepts and serves connections of a listener, in tasks of their own, until [`Server::stop`].
    pub fn serve(&self, listener: TcpListener, protocol: Protocol) {
        self.accept_from(Listener::Tcp(listener), protocol, Arc::clone(&self.slots));
    }

    /// Serves HTTP on the administration socket, as [`Server::serve`] does. It has 16 connection slots of
    /// its own, which other clients cannot exhaust.
    pub fn serve_local(&self, listener: UnixListener) {
        self.accept_from(Listener::Local(listener), Protocol::Http, Arc::clone(&self.local_slots));
    }

    fn accept_from(&self, listener: Listener, protocol: Protocol, slots: Arc<Semaphore>) {
        let context = Arc::clone(&self.context);
        let signal = Arc::clone(&self.signal);
        let connections = self.connections.clone();
        self.accepting.spawn(async move {
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
                let (memory, stream) = tokio::select! {
                    biased;
                    () = signal.stopped() => return,
                    next = async { (allowance(&context.memory).await, accept(&listener).await) } => next,
                };
                let (context, signal) = (Arc::clone(&context), Arc::clone(&signal));
                // The future of a connection is large. Boxing it avoids copies on its way to the runtime,
                // and clients that fail the handshake never pay for it.
                connections.spawn(async move {
                    match protocol {
                        Protocol::Pb | Protocol::PbTls => {
                            let stream = secured(&context, stream, protocol).await;
                            if let Some(stream) = stream {
                                Box::pin(pb::serve(context, memory, stream, signal)).await;
                            }
                        }
                        Protocol::Http | Protocol::Https => {
                            let stream = secured(&context, stream, protocol).await;
                            if let Some(stream) = stream {
                                Box::pin(http::serve(context, memory, stream, signal)).await;
                            }
                        }
                    }
                    drop(slot);
                });
            }
        });
    }

    /// Stops accepting, lets connections finish the requests that they have read, and waits for them.
    /// Returns true if all have ended within `limit`.
    pub async fn stop(self, limit: Duration) -> bool {
        self.signal.stop();
        // A listener without a free slot waits for the semaphore; closing the semaphore ends that wait,
        // too.
        self.slots.close();
        self.local_slots.close();
        self.accepting.close();
        self.connections.close();
        tokio::time::timeout(limit, async {
            self.accepting.wait().await;
            self.connections.wait().await;
        })
        .await
        .is_ok()
    }
}

/// Performs the TLS handshake if the protocol of the listener needs one, and returns the stream. `None` if
/// the handshake fails, or if too many clients have not logged in.
async fn secured(context: &ServerContext, stream: Stream, protocol: Protocol) -> Option<Stream> {
    if matches!(protocol, Protocol::Pb | Protocol::Http) {
        return Some(stream);
    }
    let address = stream.address();
    let _unauthenticated = context.security.admit_unauthenticated(address)?;
    let Stream::Tcp(stream) = stream else { return Some(stream) };
    // Boxed, because the task of every connection would reserve space for a handshake otherwise.
    let (via, accepted) = match protocol {
        Protocol::PbTls => {
            (AuditedInterface::Pb, Box::pin(context.security.accept_pb(stream)).await)
        }
        _ => (AuditedInterface::Http, Box::pin(context.security.accept_http(stream)).await),
    };
    match accepted {
        Ok(stream) => Some(Stream::Tls(stream)),
        Err(fault) => {
            context.audit.record_failed_handshake(via, &fault, address);
            None
        }
    }
}

/// Waits until the budget has an allowance for one more connection.
async fn allowance(budget: &Arc<MemoryBudget>) -> Arc<ConnectionMemory> {
    loop {
        if let Some(memory) = budget.open() {
            return memory;
        }
        // Requests, answers and connections that end return memory to the budget.
        tokio::time::sleep(ACCEPT_RETRY).await;
    }
}

async fn accept(listener: &Listener) -> Stream {
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
            Listener::Local(listener) => listener.accept().await.map(|(stream, _)| stream.into()),
        };
        match accepted {
            Ok(stream) => return stream,
            Err(fault) => {
                // The usual cause is a lack of file descriptors, which connections that end return.
                tracing::warn!(%fault, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_administration_socket_is_its_owners_and_takes_the_place_of_an_old_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("admin.sock");
        for _ in 0..2 {
            let listener = bind_local(&path).expect("it listens");
            let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let client = tokio::net::UnixStream::connect(&path).await.expect("its owner may");
            let stream = accept(&Listener::Local(listener)).await;
            assert!(stream.is_local() && stream.is_operator());
            drop(client);
        }
    }

    const fn future_bytes<C, M, S, G, F>(_: fn(C, M, S, G) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_needs_no_more_than_two_pages_for_its_future() {
        const BYTES_MAX: usize = 8 * 1024;
        let (of_pb, of_http) = (future_bytes(pb::serve), future_bytes(http::serve));
        // If this fails, box the futures that have grown, unless they are part of most requests.
        assert!(of_pb <= BYTES_MAX && of_http <= BYTES_MAX, "{of_pb}, {of_http} bytes");
    }
}
