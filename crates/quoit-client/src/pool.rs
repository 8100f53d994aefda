//! All nodes, and how a request finds its way to one of them.

use crate::connection::{Connection, answer};
use crate::error::Error;
use crate::node::Node;
use crate::pipeline::Failure;
use crate::settings::{DURATION_MAX, Settings};
use quoit_wire::{Body, Frame, append_message};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Whether a request is sent again when its connection broke before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or the same thing: send it again.
    Safe,
    /// It may have been carried out, and once more would be another thing.
    Never,
}

#[derive(Debug)]
pub(crate) struct Pool {
    settings: Settings,
    nodes: Vec<Node>,
    next: AtomicUsize,
    streams: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(mut settings: Settings) -> Result<Pool, Error> {
        settings.check()?;
        let nodes = settings.nodes.iter().map(|address| Node::new(address, &settings)).collect();
        let streams = Arc::new(Semaphore::new(settings.streams_max));
        Ok(Pool { settings, nodes, next: AtomicUsize::new(0), streams })
    }

    /// How long the client waits for an answer: its own limit, or a second more than the server
    /// was given, whichever is longer.
    pub(crate) fn patience(&self, server_timeout: Option<Duration>) -> Duration {
        let with_margin = |server: Duration| server.min(DURATION_MAX) + Duration::from_secs(1);
        self.settings.request_timeout.max(server_timeout.map_or(Duration::ZERO, with_margin))
    }

    /// Sends a request on a shared connection and waits for its one answer.
    pub(crate) async fn call<Q: Body, A: Body>(
        &self,
        request: &Q,
        repeat: Repeat,
        server_timeout: Option<Duration>,
    ) -> Result<A, Error> {
        let patience = self.patience(server_timeout);
        let deadline = Instant::now() + patience;
        let late = || Error::Timeout { operation: Q::CODE.name(), waited: patience };
        let mut attempt = 1;
        loop {
            let node = timeout_at(deadline, self.choose()).await.map_err(|_| late())?;
            let failure = match self.attempt::<Q>(node, request, deadline).await {
                None => return Err(late()),
                Some(Ok(frame)) => return answer(frame, node.address()),
                Some(Err(failure)) => failure,
            };
            let (error, again) = match failure {
                Failure::NotSent(error) => (error, true),
                Failure::Lost(error) => (error, repeat == Repeat::Safe),
            };
            if !again || attempt >= self.settings.attempts_max {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// One attempt at one node; `None` when time is up.
    async fn attempt<Q: Body>(
        &self,
        node: &Node,
        request: &Q,
        deadline: Instant,
    ) -> Option<Result<Frame, Failure>> {
        let mut frame = Vec::with_capacity(request.encoded_len() + 5);
        if let Err(source) = append_message(&mut frame, request) {
            let address = node.address().to_owned();
            return Some(Err(Failure::Lost(Error::Frame { address, source })));
        }
        let (pipeline, slot) = match timeout_at(deadline, node.acquire(&self.settings)).await {
            Ok(Ok(acquired)) => acquired,
            Ok(Err(error)) => return Some(Err(Failure::NotSent(error))),
            Err(_) => return None,
        };
        match timeout_at(deadline, pipeline.call(frame, slot)).await {
            Ok(outcome) => Some(outcome),
            Err(_) => {
                // Whoever came next on this connection would wait behind the same request.
                node.retire(&pipeline);
                None
            }
        }
    }

    /// The next node in turn, those that can't be reached left out. If none can, the one whose
    /// turn to be tried again comes first, when it comes.
    async fn choose(&self) -> &Node {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut first: Option<(Instant, &Node)> = None;
        for step in 0..self.nodes.len() {
            let node = &self.nodes[(start.wrapping_add(step)) % self.nodes.len()];
            match node.retry_at() {
                Some(retry_at) if retry_at > now => {
                    if first.is_none_or(|(soonest, _)| retry_at < soonest) {
                        first = Some((retry_at, node));
                    }
                }
                _ => return node,
            }
        }
        let (retry_at, node) = first.expect("settings without nodes are refused");
        sleep_until(retry_at).await;
        node
    }

    /// A connection for one stream alone, since nothing can be asked on it meanwhile. The permit
    /// bounds how many there are.
    pub(crate) async fn exclusive(
        &self,
        operation: &'static str,
    ) -> Result<(Connection, OwnedSemaphorePermit), Error> {
        let patience = self.patience(None);
        let deadline = Instant::now() + patience;
        let late = |_| Error::Timeout { operation, waited: patience };
        let permit = timeout_at(deadline, self.streams.clone().acquire_owned());
        let permit = permit.await.map_err(late)?.expect("the semaphore is never closed");
        let mut attempt = 1;
        loop {
            let node = timeout_at(deadline, self.choose()).await.map_err(late)?;
            match timeout_at(deadline, node.connect(&self.settings)).await.map_err(late)? {
                Ok(stream) => {
                    let connection = Connection::new(stream, node.address().to_owned());
                    let limit = self.settings.frame_length_bytes_max;
                    return Ok((connection.with_frame_length_max(limit), permit));
                }
                Err(error) if attempt >= self.settings.attempts_max => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }
}
