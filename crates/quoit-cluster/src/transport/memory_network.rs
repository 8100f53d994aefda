//! A network in memory: many hosts in one process, with delays, silence and cuts between them.
//!
//! For tests, and for clusters inside one process. Time is tokio's, so a paused runtime decides when bytes
//! arrive. Nothing here is random.
//!
//! ```
//! use quoit_cluster::{Network, memory_network::MemoryNetwork};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let network = MemoryNetwork::default();
//! let mut listener = network.host("b").bind("b:1").await?;
//! let mut here = network.host("a").connect("b:1").await?;
//! let (mut there, from) = listener.accept().await?;
//! here.writer.write_all(b"hello").await?;
//! let mut bytes = [0; 5];
//! there.reader.read_exact(&mut bytes).await?;
//! assert_eq!((&bytes, from.starts_with("a:")), (b"hello", true));
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```

use super::network::{BoxFuture, Listener, Network, Stream};
use super::pipe::{self, HostLink};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum number of connections that wait to be accepted at one address.
const BACKLOG_COUNT_MAX: usize = 128;

/// First port for hosts that ask for any.
const FREE_PORT_MIN: u16 = 40_000;

/// Hosts by name and the links between them.
#[derive(Clone, Default)]
pub struct MemoryNetwork {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    listeners: BTreeMap<String, mpsc::Sender<(Stream, String)>>,
    links: BTreeMap<(String, String), Arc<HostLink>>,
    next_port: u16,
}

impl Shared {
    fn link(&mut self, from: &str, to: &str) -> Arc<HostLink> {
        Arc::clone(self.links.entry((from.to_owned(), to.to_owned())).or_default())
    }

    fn free_port(&mut self) -> u16 {
        let port = self.next_port.max(FREE_PORT_MIN);
        self.next_port = port.checked_add(1).unwrap_or(FREE_PORT_MIN);
        port
    }
}

impl MemoryNetwork {
    /// Returns the network as the host `name` sees it. The addresses of the host are `name:port`.
    #[must_use]
    pub fn host(&self, name: &str) -> Arc<dyn Network> {
        Arc::new(Host { name: name.to_owned(), network: self.clone() })
    }

    /// Sets the time that bytes written from now on take from one host to the other.
    pub fn set_delay(&self, from: &str, to: &str, delay: Duration) {
        self.shared.lock().link(from, to).set_delay(delay);
    }

    /// Lets nothing through from one host to the other, as a cut cable does. Connections stay, written
    /// bytes arrive after [`heal`](Self::heal), and new connections hang.
    pub fn silence(&self, from: &str, to: &str) {
        self.shared.lock().link(from, to).set_silent(true);
    }

    /// Ends the silence from one host to the other.
    pub fn heal(&self, from: &str, to: &str) {
        self.shared.lock().link(from, to).set_silent(false);
    }

    /// Resets all connections between two hosts, in both directions. New connections can be made.
    pub fn reset(&self, one: &str, other: &str) {
        let mut shared = self.shared.lock();
        shared.link(one, other).reset();
        shared.link(other, one).reset();
    }

    /// Kills a host: its connections are reset, and it no longer listens.
    pub fn kill(&self, name: &str) {
        let mut shared = self.shared.lock();
        let prefix = format!("{name}:");
        shared.listeners.retain(|address, _| !address.starts_with(&prefix));
        for ((from, to), link) in &shared.links {
            if from == name || to == name {
                link.reset();
            }
        }
    }
}

/// A host of a [`MemoryNetwork`].
struct Host {
    name: String,
    network: MemoryNetwork,
}

impl Network for Host {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move {
            let (to, from) = {
                let mut shared = self.network.shared.lock();
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                (shared.link(&self.name, host), shared.link(host, &self.name))
            };
            to.delivered().await;
            from.delivered().await;
            let (listener, own_port) = {
                let mut shared = self.network.shared.lock();
                (shared.listeners.get(address).cloned(), shared.free_port())
            };
            let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (there_reader, here_writer) = pipe::pipe(&to);
            let (here_reader, there_writer) = pipe::pipe(&from);
            let there = Stream::from_halves(there_reader, there_writer);
            listener
                .try_send((there, format!("{}:{own_port}", self.name)))
                .map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Stream::from_halves(here_reader, here_writer))
        })
    }

    fn bind<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let mut shared = self.network.shared.lock();
            let address = match address.rsplit_once(':') {
                Some((host, "0")) => format!("{host}:{}", shared.free_port()),
                _ => address.to_owned(),
            };
            let taken = shared.listeners.get(&address).is_some_and(|sender| !sender.is_closed());
            if taken {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let (sender, incoming) = mpsc::channel(BACKLOG_COUNT_MAX);
            shared.listeners.insert(address.clone(), sender);
            Ok(Box::new(MemoryListener { address, incoming }) as Box<dyn Listener>)
        })
    }
}

struct MemoryListener {
    address: String,
    incoming: mpsc::Receiver<(Stream, String)>,
}

impl Listener for MemoryListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, String)>> {
        Box::pin(async move {
            self.incoming.recv().await.ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
        })
    }

    fn local_address(&self) -> io::Result<String> {
        Ok(self.address.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, timeout};

    async fn pair(network: &MemoryNetwork) -> (Stream, Stream) {
        let mut listener = network.host("b").bind("b:1").await.unwrap();
        let here = network.host("a").connect("b:1").await.unwrap();
        (here, listener.accept().await.unwrap().0)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_arrive_in_order_after_the_delay() {
        let network = MemoryNetwork::default();
        let (mut here, mut there) = pair(&network).await;
        network.set_delay("a", "b", Duration::from_millis(30));
        let start = Instant::now();
        here.writer.write_all(b"one").await.unwrap();
        network.set_delay("a", "b", Duration::ZERO);
        here.writer.write_all(b"two").await.unwrap();
        let mut bytes = [0; 6];
        there.reader.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"onetwo");
        assert_eq!(start.elapsed(), Duration::from_millis(30));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_holds_bytes_back_until_it_ends() {
        let network = MemoryNetwork::default();
        let (mut here, mut there) = pair(&network).await;
        network.silence("a", "b");
        here.writer.write_all(b"x").await.unwrap();
        let mut byte = [0; 1];
        let read = timeout(Duration::from_secs(60), there.reader.read_exact(&mut byte)).await;
        assert!(read.is_err(), "nothing gets through");
        network.heal("a", "b");
        there.reader.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"x");
    }

    #[tokio::test(start_paused = true)]
    async fn a_killed_host_resets_connections_and_refuses_new_ones() {
        let network = MemoryNetwork::default();
        let (_here, mut there) = pair(&network).await;
        network.kill("b");
        let read = there.reader.read(&mut [0; 1]).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let again = network.host("a").connect("b:1").await;
        assert_eq!(again.err().unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_writer_ends_the_stream_after_its_bytes() {
        let network = MemoryNetwork::default();
        let (mut here, mut there) = pair(&network).await;
        here.writer.write_all(b"last").await.unwrap();
        drop(here.writer);
        let mut bytes = Vec::new();
        there.reader.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"last");
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_waits_for_a_slow_reader() {
        let network = MemoryNetwork::default();
        let (mut here, mut there) = pair(&network).await;
        let much = vec![7; 4 * pipe::CAPACITY_BYTES];
        let sent = much.clone();
        let writing = tokio::spawn(async move {
            here.writer.write_all(&sent).await.unwrap();
        });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        let mut came = Vec::new();
        there.reader.read_to_end(&mut came).await.unwrap();
        assert_eq!(came, much);
        writing.await.unwrap();
    }
}
