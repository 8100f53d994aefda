//! Listeners and the life of a server.

use crate::context::ServerContext;
use crate::memory::{Account, MemoryBudget};
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

/// Wait after an `accept` that failed for lack of resources, or for memory for a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Connections of operators on this machine at once.
const LOCAL_CONNECTION_COUNT_MAX: usize = 16;
/// Connections of operators that may wait to be accepted.
const LOCAL_BACKLOG: u32 = 16;
/// Permissions of the administration socket: its owner's only.
const LOCAL_SOCKET_MODE: u32 = 0o600;

/// Which protocol a listener speaks.
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

/// Opens a listener.
///
/// # Errors
///
/// The system's, for example when the port is in use.
pub fn bind(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted node must not wait until connections of its former life have timed out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Opens the administration socket: a local socket that only the node's own user may connect to. A file that
/// stands in its place is removed: the caller knows that no other node uses the directory.
///
/// # Errors
///
/// The system's, for example where the file system knows no sockets.
pub fn bind_local(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => return Err(fault),
        _ => {}
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Nobody can connect before it listens, and by then only its owner may.
    std::fs::set_permissions(path, Permissions::from_mode(LOCAL_SOCKET_MODE))?;
    socket.listen(LOCAL_BACKLOG)
}

/// A listener of a node.
enum Listener {
    Tcp(TcpListener),
    Local(UnixListener),
}

/// Listeners of a node and the connections that came through them.
pub struct Server {
    context: Arc<ServerContext>,
    signal: Arc<StopSignal>,
    slots: Arc<Semaphore>,
    /// Places of operators on this machine, which clients never take.
    local_slots: Arc<Semaphore>,
    accepting: TaskTracker,
    connections: TaskTracker,
}

impl Server {
    /// A server without listeners.
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

    /// Serves what comes through a listener, in tasks of its own, until [`Server::stop`].
    pub fn serve(&self, listener: TcpListener, protocol: Protocol) {
        self.accept_from(Listener::Tcp(listener), protocol, Arc::clone(&self.slots));
    }

    /// Serves HTTP to operators on this machine, as [`Server::serve`] does; at most 16 connections at once,
    /// which are there whatever clients do.
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
                let (account, stream) = tokio::select! {
                    biased;
                    () = signal.stopped() => return,
                    next = async { (allowance(&context.memory).await, accept(&listener).await) } => next,
                };
                let (context, signal) = (Arc::clone(&context), Arc::clone(&signal));
                // The future of a connection that is served is large: on the heap from its beginning, it is
                // not copied on its way to the runtime, nor made for a client that fails the handshake.
                connections.spawn(async move {
                    match protocol {
                        Protocol::Pb | Protocol::PbTls => {
                            let stream = secured(&context, stream, protocol).await;
                            if let Some(stream) = stream {
                                Box::pin(pb::serve(context, account, stream, signal)).await;
                            }
                        }
                        Protocol::Http | Protocol::Https => {
                            let stream = secured(&context, stream, protocol).await;
                            if let Some(stream) = stream {
                                Box::pin(http::serve(context, account, stream, signal)).await;
                            }
                        }
                    }
                    drop(slot);
                });
            }
        });
    }

    /// Accepts no more, lets connections finish the requests that they have read, and waits for them.
    /// Returns whether all have ended within `limit`.
    pub async fn stop(self, limit: Duration) -> bool {
        self.signal.stop();
        // Listeners wait for a slot when all are taken; closing the semaphore ends that, too.
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

/// The stream of a connection, after the handshake where its listener wants one; `None` if that fails, or if
/// too many have not logged in.
async fn secured(context: &ServerContext, stream: Stream, protocol: Protocol) -> Option<Stream> {
    if matches!(protocol, Protocol::Pb | Protocol::Http) {
        return Some(stream);
    }
    let address = stream.address();
    let _stranger = context.gate.admit_stranger(address)?;
    let Stream::Tcp(stream) = stream else { return Some(stream) };
    let (via, accepted) = match protocol {
        Protocol::PbTls => ("pb", context.gate.accept_pb(stream).await),
        _ => ("http", context.gate.accept_http(stream).await),
    };
    match accepted {
        Ok(stream) => Some(Stream::Tls(stream)),
        Err(fault) => {
            context.audit.record_failed_handshake(via, &fault, address);
            None
        }
    }
}

/// Waits until there is memory for one more connection.
async fn allowance(memory: &Arc<MemoryBudget>) -> Arc<Account> {
    loop {
        if let Some(account) = memory.open() {
            return account;
        }
        // Requests and answers that end make room again.
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
                // Out of descriptors, most likely: connections that end make room again.
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
}
