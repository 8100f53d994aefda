//! The network between simulated machines: `turmoil`'s streams, with directions that can be blocked.
//!
//! A blocked direction holds bytes back, as TCP does while its segments are lost. When the direction is
//! free again, the bytes arrive in order. `turmoil` itself can only hold back both directions of a link
//! at once.

use parking_lot::Mutex;
use quoit_cluster::{BoxFuture, Listener, Network, Stream};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::AsyncWrite;
use turmoil::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use turmoil::net::{TcpListener, TcpStream};

/// One direction of the link between two machines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkDirection {
    /// Name of the machine that sends.
    pub from: String,
    /// Name of the machine that receives.
    pub to: String,
}

impl LinkDirection {
    fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// The blocked directions of the network. Clones share them.
#[derive(Clone, Default)]
pub struct BlockedLinks(Arc<Mutex<Blocked>>);

#[derive(Default)]
struct Blocked {
    directions: BTreeSet<LinkDirection>,
    waiting: Vec<Waker>,
    /// True if the simulation is being dropped.
    has_ended: bool,
}

impl BlockedLinks {
    /// Blocks a direction, or frees it.
    pub fn set_blocked(&self, direction: LinkDirection, is_blocked: bool) {
        let mut blocked = self.0.lock();
        if is_blocked {
            blocked.directions.insert(direction);
            return;
        }
        blocked.directions.remove(&direction);
        let waiting = std::mem::take(&mut blocked.waiting);
        drop(blocked);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Has all further writes fail. Called before the simulation is dropped: tasks of its machines send
    /// messages when they are dropped with it, and `turmoil`'s streams panic outside of a simulation.
    pub(crate) fn end(&self) {
        self.0.lock().has_ended = true;
    }

    /// Waits until the direction is free, for a write.
    fn poll_writable(
        &self,
        direction: &LinkDirection,
        context: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.lock().has_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.poll_free(direction, context).map(Ok)
    }

    fn poll_free(&self, direction: &LinkDirection, context: &Context<'_>) -> Poll<()> {
        let mut blocked = self.0.lock();
        if !blocked.directions.contains(direction) {
            return Poll::Ready(());
        }
        blocked.waiting.push(context.waker().clone());
        Poll::Pending
    }

    async fn free(&self, direction: &LinkDirection) {
        poll_fn(|context| self.poll_free(direction, context)).await;
    }
}

/// The network as seen from one machine. It must be used on that machine's host.
pub struct MachineNetwork {
    /// The machine's name.
    pub machine: String,
    /// The blocked directions of the network.
    pub blocked_links: BlockedLinks,
}

impl MachineNetwork {
    /// Wraps a stream on which the machine sends in this direction.
    fn stream(direction: LinkDirection, blocked_links: &BlockedLinks, stream: TcpStream) -> Stream {
        let (reader, writer): (OwnedReadHalf, OwnedWriteHalf) = stream.into_split();
        let writer = HeldWriter { writer, direction, blocked_links: blocked_links.clone() };
        Stream::from_halves(reader, writer)
    }
}

impl Network for MachineNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move {
            let other = address.split(':').next().unwrap_or_default().to_owned();
            let there = LinkDirection { from: self.machine.clone(), to: other };
            self.blocked_links.free(&there).await;
            self.blocked_links.free(&there.clone().reversed()).await;
            let stream = TcpStream::connect(address).await?;
            Ok(Self::stream(there, &self.blocked_links, stream))
        })
    }

    fn bind<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
            let port: u16 = port.ok_or_else(|| io::Error::other("an address has a port"))?;
            let listener = TcpListener::bind(("0.0.0.0", port)).await?;
            let (machine, blocked_links) = (self.machine.clone(), self.blocked_links.clone());
            Ok(Box::new(MachineListener { machine, port, blocked_links, listener })
                as Box<dyn Listener>)
        })
    }
}

struct MachineListener {
    machine: String,
    port: u16,
    blocked_links: BlockedLinks,
    listener: TcpListener,
}

impl Listener for MachineListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, String)>> {
        Box::pin(async move {
            let (stream, remote) = self.listener.accept().await?;
            let to = turmoil::reverse_lookup(remote.ip()).unwrap_or_default();
            let direction = LinkDirection { from: self.machine.clone(), to };
            let stream = MachineNetwork::stream(direction, &self.blocked_links, stream);
            Ok((stream, remote.to_string()))
        })
    }

    fn local_address(&self) -> io::Result<String> {
        Ok(format!("{}:{}", self.machine, self.port))
    }
}

/// A writer that waits while its direction is blocked.
struct HeldWriter {
    writer: OwnedWriteHalf,
    direction: LinkDirection,
    blocked_links: BlockedLinks,
}

impl AsyncWrite for HeldWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.blocked_links.poll_writable(&self.direction, context))?;
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.blocked_links.poll_writable(&self.direction, context))?;
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, sleep};

    /// A simulation in which machine `n2` sends each received byte back.
    fn echo(blocked_links: &BlockedLinks) -> turmoil::Sim<'static> {
        let mut sim = turmoil::Builder::new().rng_seed(1).build();
        let blocked_links = blocked_links.clone();
        sim.host("n2", move || {
            let network =
                MachineNetwork { machine: "n2".to_owned(), blocked_links: blocked_links.clone() };
            async move {
                let mut listener = network.bind("n2:8099").await?;
                loop {
                    let (mut stream, _) = listener.accept().await?;
                    tokio::spawn(async move {
                        while let Ok(byte) = stream.reader.read_u8().await {
                            stream.writer.write_u8(byte).await.expect("the other end is there");
                        }
                    });
                }
            }
        });
        sim
    }

    fn direction(from: &str, to: &str) -> LinkDirection {
        LinkDirection { from: from.to_owned(), to: to.to_owned() }
    }

    fn blocked_for_a_second(blocked: LinkDirection) -> Duration {
        let blocked_links = BlockedLinks::default();
        let mut sim = echo(&blocked_links);
        let took = Arc::new(Mutex::new(Duration::ZERO));
        let measured = Arc::clone(&took);
        sim.client("n1", async move {
            let network =
                MachineNetwork { machine: "n1".to_owned(), blocked_links: blocked_links.clone() };
            let mut stream = network.connect("n2:8099").await?;
            blocked_links.set_blocked(blocked.clone(), true);
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                blocked_links.set_blocked(blocked, false);
            });
            let began = Instant::now();
            stream.writer.write_u8(7).await?;
            assert_eq!(stream.reader.read_u8().await?, 7);
            *measured.lock() = began.elapsed();
            Ok(())
        });
        sim.run().expect("the client succeeds");
        *took.lock()
    }

    #[test]
    fn what_is_sent_over_a_blocked_direction_arrives_when_it_is_free_again() {
        let second = Duration::from_secs(1);
        assert!(blocked_for_a_second(direction("n1", "n2")) >= second, "there");
        assert!(blocked_for_a_second(direction("n2", "n1")) >= second, "and back");
        assert!(blocked_for_a_second(direction("n2", "n3")) < second, "elsewhere");
    }

    #[test]
    fn nobody_connects_over_a_blocked_direction() {
        let blocked_links = BlockedLinks::default();
        let mut sim = echo(&blocked_links);
        blocked_links.set_blocked(direction("n2", "n1"), true);
        sim.client("n1", async move {
            let network = MachineNetwork { machine: "n1".to_owned(), blocked_links };
            let connecting = network.connect("n2:8099");
            let result = tokio::time::timeout(Duration::from_secs(1), connecting).await;
            assert!(result.is_err(), "connected");
            Ok(())
        });
        sim.run().expect("the client succeeds");
    }
}
