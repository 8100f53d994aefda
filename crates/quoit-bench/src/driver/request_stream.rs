//! The connection of a driver that sends requests over TCP and reads their answers in turn.

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

/// Before the next operation, when a connection that was lost can't be made anew.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// A connection to one target, which is made anew after an answer that is late or broken.
pub(super) struct RequestStream {
    stream: BufReader<TcpStream>,
    /// Of the target.
    address: SocketAddr,
    /// Bounds connecting and each request.
    limit: Duration,
}

impl RequestStream {
    /// Connects to the target of a worker: workers spread evenly over them.
    pub(super) async fn connect(
        targets: &[Target],
        place: WorkerPlace,
        limit: Duration,
    ) -> Result<Self, StartError> {
        let target = &targets[place.number as usize % targets.len()];
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

    /// Sends a request and has its answer read. An error of reading, and an answer that takes too long, are
    /// failures: `disconnected`, `timeout`.
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
            // A late answer must not be taken for the next one.
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
