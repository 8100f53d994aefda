//! The connections to one node.

use crate::error::Error;
use crate::login::ClientStream;
use crate::pipeline::{Pipeline, Slot};
use crate::settings::Settings;
use quoit_wire::FrameDecoder;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Time allowed for the login, in addition to the connect timeout. A node delays the refusal of a login by
/// 5 s.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A node with its connections and its back-off state.
#[derive(Debug)]
pub(crate) struct Node {
    address: Arc<str>,
    /// One permit for each request that may be in flight to this node.
    permits: Arc<Semaphore>,
    in_flight_max: usize,
    /// Held while a connection is made, so that a burst of callers opens one connection and not many.
    connecting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pipelines: Vec<Arc<Pipeline>>,
    failures: u32,
    retry_at: Option<Instant>,
}

impl State {
    fn note_failure(&mut self, settings: &Settings) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(Instant::now() + settings.backoff(self.failures));
    }
}

impl Node {
    pub(crate) fn new(address: &str, settings: &Settings) -> Node {
        let in_flight_max =
            settings.connections_per_node_max * settings.in_flight_per_connection_max;
        Node {
            address: address.into(),
            permits: Arc::new(Semaphore::new(in_flight_max)),
            in_flight_max,
            connecting: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Requests in flight to this node.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight_max - self.permits.available_permits()
    }

    /// Time from which the node may be tried again, if the last attempt failed.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.state().retry_at
    }

    /// Returns a connection that can take one more request: an idle one, else a new one, else the least busy
    /// one. Waits while the node has its maximum of requests in flight.
    pub(crate) async fn acquire(
        &self,
        settings: &Settings,
    ) -> Result<(Arc<Pipeline>, Slot), Error> {
        let permits = self.permits.clone();
        let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
        if let Some(pipeline) = self.choose(settings, false) {
            let slot = pipeline.slot(permit);
            return Ok((pipeline, slot));
        }
        // Another caller is connecting. Meanwhile this request shares a connection that can take one more
        // request.
        let connecting = match self.connecting.try_lock() {
            Ok(connecting) => connecting,
            Err(_) => match self.choose(settings, true) {
                Some(pipeline) => {
                    let slot = pipeline.slot(permit);
                    return Ok((pipeline, slot));
                }
                None => self.connecting.lock().await,
            },
        };
        let pipeline = match self.choose(settings, false) {
            Some(pipeline) => pipeline,
            None => self.open(settings).await?,
        };
        let slot = pipeline.slot(permit);
        drop(connecting);
        Ok((pipeline, slot))
    }

    /// Returns the least busy connection, if it is idle or the node has its maximum of connections. With
    /// `shared`, the result may also be a busy connection that can take one more request.
    fn choose(&self, settings: &Settings, shared: bool) -> Option<Arc<Pipeline>> {
        let mut state = self.state();
        state.pipelines.retain(|pipeline| !pipeline.is_closed());
        let least = state.pipelines.iter().min_by_key(|pipeline| pipeline.in_flight())?;
        let has_room = least.in_flight() < settings.in_flight_per_connection_max;
        let is_full = state.pipelines.len() >= settings.connections_per_node_max;
        let suits = least.in_flight() == 0 || is_full || (shared && has_room);
        suits.then(|| least.clone())
    }

    async fn open(&self, settings: &Settings) -> Result<Arc<Pipeline>, Error> {
        let stream = self.connect(settings).await?;
        let decoder = FrameDecoder::new(settings.frame_length_bytes_max);
        let depth = settings.in_flight_per_connection_max;
        let pipeline = Arc::new(Pipeline::start(stream, self.address.clone(), depth, decoder));
        self.state().pipelines.push(pipeline.clone());
        Ok(pipeline)
    }

    /// Connects, and records success or failure for the back-off.
    pub(crate) async fn connect(&self, settings: &Settings) -> Result<ClientStream, Error> {
        let failed = |source: io::Error| Error::Connect {
            address: self.address.to_string(),
            source: Arc::new(source),
        };
        let login_time = if settings.login.is_some() { LOGIN_TIMEOUT } else { Duration::ZERO };
        let connected = timeout(settings.connect_timeout + login_time, async {
            let stream = TcpStream::connect(&*self.address).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            match &settings.login {
                None => Ok(ClientStream::Plain(stream)),
                Some(login) => login.begin(stream, &self.address).await,
            }
        });
        let timed_out = |_| Err(failed(io::ErrorKind::TimedOut.into()));
        let connected = connected.await.unwrap_or_else(timed_out);
        let mut state = self.state();
        match &connected {
            // A node that refuses a login is up.
            Ok(_) | Err(Error::Server(_)) => {
                state.failures = 0;
                state.retry_at = None;
            }
            Err(_) => state.note_failure(settings),
        }
        drop(state);
        connected
    }

    /// Starts the back-off of a node that did not answer in time.
    pub(crate) fn note_stall(&self, settings: &Settings) {
        self.state().note_failure(settings);
    }

    /// Takes a connection out of the pool. Requests in flight on it may still be answered.
    pub(crate) fn retire(&self, retired: &Arc<Pipeline>) {
        self.state().pipelines.retain(|pipeline| !Arc::ptr_eq(pipeline, retired));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change, so a poisoned state is still
        // whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
