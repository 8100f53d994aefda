//! Listeners and the life of a server.

use crate::context::ServerContext;
use crate::memory::{Account, MemoryBudget};
use crate::socket::StopSignal;
use crate::{http, pb};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// Wait after an `accept` that failed for lack of resources, or for memory for a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Which protocol a listener speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Protocol Buffers.
    Pb,
    /// HTTP.
    Http,
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

/// Listeners of a node and the connections that came through them.
pub struct Server {
    context: Arc<ServerContext>,
    signal: Arc<StopSignal>,
    slots: Arc<Semaphore>,
    accepting: TaskTracker,
    connections: TaskTracker,
}

impl Server {
    /// A server without listeners.
    #[must_use]
    pub fn new(context: Arc<ServerContext>) -> Self {
        let settings = &context.settings;
        let allowances = settings.memory.connection_count_max();
        let limit = settings.connection_count_max.min(allowances).min(Semaphore::MAX_PERMITS);
        Self {
            context,
            signal: Arc::default(),
            slots: Arc::new(Semaphore::new(limit)),
            accepting: TaskTracker::new(),
            connections: TaskTracker::new(),
        }
    }

    /// Serves what comes through a listener, in tasks of its own, until [`Server::stop`].
    pub fn serve(&self, listener: TcpListener, protocol: Protocol) {
        let context = Arc::clone(&self.context);
        let signal = Arc::clone(&self.signal);
        let slots = Arc::clone(&self.slots);
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
                connections.spawn(async move {
                    match protocol {
                        Protocol::Pb => pb::serve(context, account, stream, signal).await,
                        Protocol::Http => http::serve(context, account, stream, signal).await,
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

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(fault) => {
                // Out of descriptors, most likely: connections that end make room again.
                tracing::warn!(%fault, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}
