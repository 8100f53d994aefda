//! The pool of all nodes: routing of requests, attempts at other nodes, and learning of the layout.
//!
//! A request is sent to one node at a time. After a failed attempt the pool decides whether another node may
//! be tried:
//!
//! - The request was not sent: yes. After a failed TLS handshake only if there is a node that was not yet
//!   tried, since that node's certificate may be valid.
//! - The connection broke, or the node exceeded the time of an attempt, after the request may have been sent:
//!   only if the request may be repeated ([`Repeatable::Safe`]), since the first node may have carried it
//!   out.
//! - The node answered with an error: no. The error goes to the caller. So does the refusal of a login, since
//!   all nodes know the same users.
//! - The request does not fit into a frame: no. It fails before it is sent.
//!
//! Every failure that is not an answer marks the layout as possibly outdated. The pool then asks for it again
//! soon, in the background. The layout only improves the choice of nodes: every node serves every key.

use crate::answer::answer;
use crate::connection::Connection;
use crate::error::Error;
use crate::layout::{Layout, LayoutError};
use crate::location::LocationRef;
use crate::node::{LOGIN_TIMEOUT, Node};
use crate::pipeline::Failure;
use crate::routing::{NodeChoice, Nodes};
use crate::settings::{DURATION_MAX, Settings};
use quoit_wire::messages::RpbGetLayoutReq;
use quoit_wire::{Body, Frame, encode_message};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Whether a request may be sent again after its connection broke before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeatable {
    /// The request changes nothing, or changes the same thing in the same way: send it again.
    Safe,
    /// The server may have carried the request out, and a second execution would have another effect.
    Never,
}

impl Repeatable {
    pub(crate) fn if_safe(safe: bool) -> Repeatable {
        if safe { Repeatable::Safe } else { Repeatable::Never }
    }
}

/// Time limit of a request for the layout, without a login. The client learns the layout in the background,
/// except before its first request.
const LAYOUT_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Shortest time between two requests for the layout, used after a node failed or the layout changed: more
/// changes may follow soon.
const LAYOUT_REFRESH_PAUSE_MIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Pool {
    settings: Settings,
    nodes: RwLock<Arc<Nodes>>,
    next: AtomicUsize,
    streams: Arc<Semaphore>,
    /// Held while the client asks for the layout.
    learning: Arc<tokio::sync::Mutex<()>>,
    /// True if a node failed since the last request for the layout, or if that request found a change.
    layout_may_be_outdated: AtomicBool,
}

impl Pool {
    pub(crate) fn new(mut settings: Settings) -> Result<Pool, Error> {
        settings.check()?;
        let nodes = RwLock::new(Arc::new(Nodes::new(&settings)));
        let streams = Arc::new(Semaphore::new(settings.streams_max));
        Ok(Pool {
            settings,
            nodes,
            next: AtomicUsize::new(0),
            streams,
            learning: Arc::default(),
            layout_may_be_outdated: AtomicBool::new(false),
        })
    }

    /// The nodes and layout that are known now.
    fn nodes(&self) -> Arc<Nodes> {
        // No code that holds the lock can panic half-way through a change, so a poisoned value is still
        // whole.
        Arc::clone(&self.nodes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Time that the client waits for an answer: its own limit, or one second more than the server's time
    /// limit, whichever is longer.
    pub(crate) fn time_limit(&self, server_timeout: Option<Duration>) -> Duration {
        let with_margin = |server: Duration| server.min(DURATION_MAX) + Duration::from_secs(1);
        self.settings.request_timeout.max(server_timeout.map_or(Duration::ZERO, with_margin))
    }

    /// Sends a request on a shared connection and waits for its single answer. If the client is
    /// replica-aware, a request `location_ref` a key goes to one of the key's replicas.
    pub(crate) async fn call<Q: Body, A: Body>(
        self: &Arc<Self>,
        request: &Q,
        repeat: Repeatable,
        server_timeout: Option<Duration>,
        location_ref: Option<LocationRef<'_>>,
    ) -> Result<A, Error> {
        let time_limit = self.time_limit(server_timeout);
        let deadline = Instant::now() + time_limit;
        if self.settings.replica_aware && location_ref.is_some() {
            self.keep_layout().await?;
        }
        self.send(request, repeat, time_limit, deadline, location_ref).await
    }

    async fn send<Q: Body, A: Body>(
        &self,
        request: &Q,
        repeat: Repeatable,
        time_limit: Duration,
        deadline: Instant,
        location_ref: Option<LocationRef<'_>>,
    ) -> Result<A, Error> {
        let (frame, node) =
            self.deliver(request, repeat, time_limit, deadline, location_ref).await?;
        answer(frame, node.address())
    }

    /// Sends a request, and returns the answer with the node that it came from. The answer may be an error.
    /// If this function fails with an error of a server, then that server has refused the login.
    async fn deliver<Q: Body>(
        &self,
        request: &Q,
        repeat: Repeatable,
        time_limit: Duration,
        deadline: Instant,
        location_ref: Option<LocationRef<'_>>,
    ) -> Result<(Frame, Arc<Node>), Error> {
        let late = || Error::Timeout { operation: Q::CODE.name(), waited: time_limit };
        let mut tried = Vec::new();
        let mut attempt = 1;
        loop {
            let node = timeout_at(deadline, self.choose(location_ref, &tried)).await;
            let node = node.map_err(|_| late())?;
            let is_last = attempt >= self.settings.attempts_max;
            let has_other = self.nodes().has_other(slice::from_ref(&node));
            let may_move_on = repeat == Repeatable::Safe && !is_last && has_other;
            let time_limit = if may_move_on { self.settings.attempt_timeout } else { DURATION_MAX };
            let until = deadline.min(Instant::now() + time_limit);
            let frame = encode_message(request).map_err(|source| {
                let address = node.address().to_owned();
                Error::Frame { address, source }
            })?;
            let outcome = match self.attempt(&node, frame, until).await {
                Some(Ok(frame)) => return Ok((frame, node)),
                Some(Err(failure)) => Some(failure),
                None => None,
            };
            tried.push(Arc::clone(&node));
            let (error, again) = match outcome {
                Some(Failure::NotSent(error)) => {
                    let again = self.may_connect_again(&error, &tried);
                    (error, again)
                }
                Some(Failure::Lost(error)) => (error, repeat == Repeatable::Safe),
                None if may_move_on && Instant::now() < deadline => {
                    node.note_stall(&self.settings);
                    (late(), true)
                }
                None => (late(), false),
            };
            if error.server().is_none() {
                self.layout_may_be_outdated.store(true, Ordering::Relaxed);
            }
            if !again || is_last {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// True if a request may be sent on another connection, after no connection to the nodes `tried` could
    /// be made. The error is the last node's.
    fn may_connect_again(&self, error: &Error, tried: &[Arc<Node>]) -> bool {
        match error {
            Error::Server(_) => false,
            Error::Handshake { .. } | Error::Tls { .. } => self.nodes().has_other(tried),
            _ => true,
        }
    }

    /// Keeps the layout up to date: waits for it before the first request, and refreshes it in the
    /// background later. Fails if the first wait ends with a refused login.
    async fn keep_layout(self: &Arc<Self>) -> Result<(), Error> {
        let Some(asked_at) = self.nodes().asked_at else {
            let _learning = self.learning.lock().await;
            if self.nodes().asked_at.is_none() {
                self.learn().await?;
            }
            return Ok(());
        };
        let pause = if self.layout_may_be_outdated.load(Ordering::Relaxed) {
            LAYOUT_REFRESH_PAUSE_MIN.min(self.settings.layout_refresh)
        } else {
            self.settings.layout_refresh
        };
        if asked_at + pause > Instant::now() {
            return Ok(());
        }
        // Another task is already asking.
        let Ok(learning) = Arc::clone(&self.learning).try_lock_owned() else { return Ok(()) };
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let _learning = learning;
            // No error is lost here: a refused login also ends the requests that need a new connection, and
            // they return it.
            let _ = pool.learn().await;
        });
        Ok(())
    }

    /// Asks a node for the layout and installs it. The caller holds `learning`.
    ///
    /// If the server has no layouts or does not answer, the client keeps the layout that it has. Only a
    /// refused login is an error.
    async fn learn(&self) -> Result<(), Error> {
        self.layout_may_be_outdated.store(false, Ordering::Relaxed);
        let login_time = self.settings.login.as_ref().map_or(Duration::ZERO, |_| LOGIN_TIMEOUT);
        let time_limit = (LAYOUT_REQUEST_TIMEOUT + login_time).min(self.settings.request_timeout);
        let (told, learned) = match self.ask_layout(time_limit).await {
            Ok((frame, node)) => (self.read_layout(frame, &node).ok().flatten(), Ok(())),
            Err(refusal) if refusal.server().is_some() => (None, Err(refusal)),
            Err(_) => (None, Ok(())),
        };
        let nodes = self.nodes().with_layout_answer(told, Instant::now(), &self.settings);
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(nodes);
        learned
    }

    /// Asks a node for the layout. Fails as [`deliver`](Self::deliver).
    async fn ask_layout(&self, time_limit: Duration) -> Result<(Frame, Arc<Node>), Error> {
        let known_tag = self.nodes().layout.as_ref().map(|layout| layout.tag().clone());
        let request = RpbGetLayoutReq { known_tag };
        let deadline = Instant::now() + time_limit;
        self.deliver(&request, Repeatable::Safe, time_limit, deadline, None).await
    }

    /// Reads the layout in a node's answer; `None` if the client already has that layout.
    fn read_layout(&self, frame: Frame, node: &Node) -> Result<Option<Layout>, Error> {
        let told = answer(frame, node.address())?;
        let told = Layout::from_wire(told).map_err(|source| Error::Layout { source })?;
        if told.is_some() && self.nodes().layout.is_some() {
            self.layout_may_be_outdated.store(true, Ordering::Relaxed);
        }
        Ok(told)
    }

    /// Asks a node for the layout now, and returns it.
    pub(crate) async fn layout(&self) -> Result<Layout, Error> {
        let _learning = self.learning.lock().await;
        let (frame, node) = self.ask_layout(self.settings.request_timeout).await?;
        let told = self.read_layout(frame, &node)?;
        let nodes = self.nodes().with_layout_answer(told, Instant::now(), &self.settings);
        let layout = nodes.layout.clone();
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(nodes);
        layout.ok_or(Error::Layout { source: LayoutError::Nothing })
    }

    /// Makes one attempt at one node; `None` if the time is up.
    async fn attempt(
        &self,
        node: &Node,
        frame: Vec<u8>,
        deadline: Instant,
    ) -> Option<Result<Frame, Failure>> {
        let (pipeline, slot) = match timeout_at(deadline, node.acquire(&self.settings)).await {
            Ok(Ok(acquired)) => acquired,
            Ok(Err(error)) => return Some(Err(Failure::NotSent(error))),
            Err(_) => return None,
        };
        match timeout_at(deadline, pipeline.call(frame, slot)).await {
            Ok(outcome) => Some(outcome),
            Err(_) => {
                // A later request on this connection would wait behind the one that got no answer.
                node.retire(&pipeline);
                None
            }
        }
    }

    /// Chooses a node for a request that was tried at some nodes already. Waits while no node is reachable.
    async fn choose(
        &self,
        location_ref: Option<LocationRef<'_>>,
        tried: &[Arc<Node>],
    ) -> Arc<Node> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let nodes = self.nodes();
        let replicas = location_ref.map_or(&[][..], |location_ref| nodes.replicas(location_ref));
        match nodes.choose(replicas, tried, turn, Instant::now()) {
            NodeChoice::Now(node) => node,
            NodeChoice::Later(retry_at, node) => {
                sleep_until(retry_at).await;
                node
            }
        }
    }

    /// Opens a connection for the sole use of one stream, since it can carry no other request until the
    /// stream ends. The permit bounds the number of such connections.
    pub(crate) async fn exclusive(
        &self,
        operation: &'static str,
    ) -> Result<(Connection, OwnedSemaphorePermit), Error> {
        let time_limit = self.time_limit(None);
        let deadline = Instant::now() + time_limit;
        let late = |_| Error::Timeout { operation, waited: time_limit };
        let permit = timeout_at(deadline, self.streams.clone().acquire_owned());
        let permit = permit.await.map_err(late)?.expect("the semaphore is never closed");
        let mut tried = Vec::new();
        let mut attempt = 1;
        loop {
            let node = timeout_at(deadline, self.choose(None, &tried)).await.map_err(late)?;
            match timeout_at(deadline, node.connect(&self.settings)).await.map_err(late)? {
                Ok(stream) => {
                    let connection = Connection::from_stream(stream, node.address().to_owned());
                    let limit = self.settings.frame_length_bytes_max;
                    return Ok((connection.with_frame_length_max(limit), permit));
                }
                Err(error) => {
                    tried.push(node);
                    let is_last = attempt >= self.settings.attempts_max;
                    if is_last || !self.may_connect_again(&error, &tried) {
                        return Err(error);
                    }
                    attempt += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quoit_wire::messages::{RpbContent, RpbLink, RpbPutReq, RpbPutResp};

    /// A put with links of more than 4 GiB, all of which share the memory of one tag.
    fn too_large() -> RpbPutReq {
        let link = RpbLink { tag: Some(vec![0; 1 << 24].into()), ..RpbLink::default() };
        let content = RpbContent { links: vec![link; 256], ..RpbContent::default() };
        RpbPutReq { bucket: Bytes::from_static(b"b"), content, ..RpbPutReq::default() }
    }

    #[tokio::test]
    async fn a_request_that_no_frame_holds_says_nothing_about_the_nodes() {
        let nodes = ["127.0.0.1:1", "127.0.0.1:2"].map(str::to_owned).into();
        let pool = Arc::new(Pool::new(Settings { nodes, ..Settings::default() }).unwrap());
        let outcome = pool.call::<_, RpbPutResp>(&too_large(), Repeatable::Safe, None, None).await;
        assert!(matches!(outcome, Err(Error::Frame { .. })), "{outcome:?}");
        assert!(
            !pool.layout_may_be_outdated.load(Ordering::Relaxed),
            "the layout is as good as before"
        );
        assert_eq!(pool.next.load(Ordering::Relaxed), 1, "one node was chosen");
    }
}
