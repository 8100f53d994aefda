//! A TCP connection for drivers that send a request and then read its answer.

use std::io::Result as IoResult;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::{sleep, timeout};

use super::{Outcome, StartError};
use crate::config::Target;
use crate::sent::note_sent;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Pause before the next operation, when a lost connection can't be reopened.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// A connection to one target. It is reopened after an answer that is late or malformed.
pub(super) struct RequestStream {
    stream: BufReader<TcpStream>,
    /// Address of the target.
    address: SocketAddr,
    /// Time limit for connecting and for each request.
    limit: Duration,
}

impl RequestStream {
    /// Connects to the target of a worker. Workers are spread evenly over the targets.
    pub(super) async fn connect(
        targets: &[Target],
        place: WorkerPlace,
        limit: Duration,
    ) -> Result<Self, StartError> {
        let target = place.choose(targets);
        let opened = open((target.host.as_str(), target.port), limit).await;
        let opened = opened.and_then(|stream| {
            let address = stream.get_ref().peer_addr()?;
            Ok(Self { stream, address, limit })
        });
        let failed = |error: std::io::Error| StartError::Connect {
            target: target.to_string(),
            reason: error.to_string(),
        };
        opened.map_err(failed)
    }

    /// Sends a request and reads its answer with `read_answer`. An I/O error fails with `disconnected`, an
    /// answer that takes too long with `timeout`.
    pub(super) async fn ask(
        &mut self,
        request: &[u8],
        read_answer: impl AsyncFnOnce(&mut BufReader<TcpStream>) -> IoResult<Outcome>,
    ) -> Outcome {
        note_sent();
        let exchange = async {
            self.stream.get_mut().write_all(request).await?;
            read_answer(&mut self.stream).await
        };
        match timeout(self.limit, exchange).await {
            Ok(Ok(outcome)) => outcome,
            // A late answer must not be mistaken for the answer of the next request, so the connection is
            // replaced.
            Ok(Err(_)) => self.reconnect("disconnected").await,
            Err(_) => self.reconnect("timeout").await,
        }
    }

    async fn reconnect(&mut self, reason: &str) -> Outcome {
        match open(self.address, self.limit).await {
            Ok(stream) => self.stream = stream,
            Err(_) => sleep(RECONNECT_PAUSE).await,
        }
        Outcome::Failure(Term::atom(reason))
    }
}

async fn open(address: impl ToSocketAddrs, limit: Duration) -> IoResult<BufReader<TcpStream>> {
    let stream = timeout(limit, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}
