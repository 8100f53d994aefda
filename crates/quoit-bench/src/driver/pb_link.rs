//! One worker's connection to one server of the Protocol Buffers API.

use std::pin::Pin;
use std::time::Duration;

use quoit_client::wire::messages::{RpbContent, RpbErrorResp};
use quoit_client::wire::{Body, MessageCode};
use quoit_client::{Connection, Error, Layout};
use tokio::time::{Instant, Sleep};

use super::StartError;
use crate::config::Target;
use crate::login::login;
use crate::sent::note_sent;
use crate::term::Term;

/// First pause between attempts to reconnect. The pause doubles with each attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Maximum pause between attempts to reconnect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Time without any packet after which a peer machine counts as dead. A slow answer is not silence, because
/// the peer's kernel still acknowledges probes.
pub(super) const DEAD_PEER_LIMIT: Duration = Duration::from_secs(1);

/// A connection that can be reopened.
#[derive(Debug)]
pub(super) struct PbLink {
    address: String,
    connection: Option<Connection>,
    /// Time limit for connecting.
    connect_timeout: Duration,
    /// The timer of requests, reset for each. A timer that only moves forward costs almost nothing.
    timer: Pin<Box<Sleep>>,
}

/// The attempts to reconnect after connections were lost during one operation: their pauses, and their
/// deadline.
///
/// Attempts that succeed count as well. A server that accepts connections and drops them at the first
/// request would otherwise be asked again and again without a pause or an end.
#[derive(Debug)]
pub(super) struct Reconnects {
    time_max: Duration,
    /// `None` until the first loss of a connection is noted or the first attempt is made.
    give_up_at: Option<Instant>,
    pause: Duration,
}

impl Reconnects {
    /// Allows attempts for `time_max` after the first one.
    pub(super) fn within(time_max: Duration) -> Self {
        Self { time_max, give_up_at: None, pause: Duration::ZERO }
    }

    /// Notes that a connection was lost, also if the operation continues on another node that is connected.
    /// Fails with `disconnected` when the time is up.
    pub(super) fn note_lost(&mut self) -> Result<(), Term> {
        let now = Instant::now();
        match self.give_up_at {
            None => self.give_up_at = Some(now + self.time_max),
            Some(give_up_at) if now >= give_up_at => return Err(Term::atom("disconnected")),
            Some(_) => {}
        }
        Ok(())
    }

    /// Waits until the next attempt may be made: the first one at once, later ones after growing pauses.
    /// Fails with `disconnected` when the time is up.
    pub(super) async fn next(&mut self) -> Result<(), Term> {
        self.note_lost()?;
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        self.pause = (self.pause * 2).clamp(RECONNECT_PAUSE, RECONNECT_PAUSE_MAX);
        Ok(())
    }
}

/// Reasons why a request got no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server refused the request or did not answer in time. The request is not retried.
    Failed(Term),
    /// The connection is lost. The server may have performed the request.
    Disconnected,
}

impl From<CallError> for Term {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(reason) => reason,
            CallError::Disconnected => Self::atom("disconnected"),
        }
    }
}

impl PbLink {
    /// Connects to `target` within `connect_timeout`, which also limits later attempts.
    pub(super) async fn open(
        target: &Target,
        connect_timeout: Duration,
    ) -> Result<Self, StartError> {
        let mut link = Self::unconnected(&target.to_string(), connect_timeout);
        match link.connect().await {
            Ok(()) => Ok(link),
            Err(reason) => Err(StartError::Connect { target: link.address, reason }),
        }
    }

    /// Creates a link without a connection; [`try_connect`](Self::try_connect) opens one.
    pub(super) fn unconnected(address: &str, connect_timeout: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(connect_timeout));
        Self { address: address.to_owned(), connection: None, connect_timeout, timer }
    }

    /// Directs later attempts to connect to another address. A connection to the old address is dropped.
    pub(super) fn turn_to(&mut self, address: &str) {
        if self.address != address {
            address.clone_into(&mut self.address);
            self.connection = None;
        }
    }

    /// Host and port of the server.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Time limit for connecting.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Makes one attempt to connect, within `patience`. Returns true if there is a connection now.
    pub(super) async fn try_connect(&mut self, patience: Duration) -> bool {
        matches!(tokio::time::timeout(patience, self.connect()).await, Ok(Ok(())))
    }

    /// Asks the server for its cluster's layout. Returns `None` if it equals `known`. The connection is
    /// dropped after any error that the server did not send itself.
    pub(super) async fn layout(
        &mut self,
        known: Option<&Layout>,
        patience: Duration,
    ) -> Result<Option<Layout>, Error> {
        let lost = || Error::Timeout { operation: "GetLayoutReq", waited: patience };
        let Some(connection) = &mut self.connection else { return Err(lost()) };
        let told = tokio::time::timeout(patience, connection.layout(known)).await;
        let told = told.unwrap_or_else(|_| Err(lost()));
        if matches!(&told, Err(error) if error.server().is_none()) {
            self.connection = None;
        }
        told
    }

    /// True if there is no connection. Requests then fail until [`reconnect`](Self::reconnect) succeeds.
    pub(super) fn is_down(&self) -> bool {
        self.connection.is_none()
    }

    async fn connect(&mut self) -> Result<(), String> {
        let login = login()?;
        let connecting = async {
            match login {
                Some(login) => Connection::connect_as(&self.address, login).await,
                None => Connection::connect(&self.address).await,
            }
        };
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(Ok(connection)) => {
                // Without this the loss of a machine is only noticed by the time limits of requests.
                let _ = connection.notice_dead_peer(DEAD_PEER_LIMIT);
                self.connection = Some(connection);
                Ok(())
            }
            Ok(Err(Error::Connect { source, .. })) => Err(source.to_string()),
            Ok(Err(other)) => Err(other.to_string()),
            Err(_) => Err("no connection in time".to_owned()),
        }
    }

    /// Reconnects. Fails with `disconnected` if no attempt succeeds.
    pub(super) async fn reconnect(&mut self, attempts: &mut Reconnects) -> Result<(), Term> {
        loop {
            attempts.next().await?;
            if self.connect().await.is_ok() {
                return Ok(());
            }
        }
    }

    /// Sends one request and waits for its answer. A timeout is final, and drops the connection, because
    /// the answer may still arrive on it.
    pub(super) async fn call<Q: Body, A: Body>(
        &mut self,
        request: &Q,
        timeout: Duration,
    ) -> Result<A, CallError> {
        let Some(connection) = &mut self.connection else { return Err(CallError::Disconnected) };
        self.timer.as_mut().reset(Instant::now() + timeout);
        note_sent();
        let answer = tokio::select! {
            biased;
            answer = connection.call::<Q, A>(request) => answer,
            () = self.timer.as_mut() => {
                self.connection = None;
                return Err(CallError::Failed(Term::atom("timeout")));
            }
        };
        answer.map_err(|error| self.failed(error))
    }

    /// Sends a request that is already an encoded frame, and checks that its answer has the code
    /// `expected`. The answer is not decoded. Allocates nothing.
    pub(super) async fn exchange(
        &mut self,
        frame: &[u8],
        expected: MessageCode,
        timeout: Duration,
    ) -> Result<(), CallError> {
        let Some(connection) = &mut self.connection else { return Err(CallError::Disconnected) };
        self.timer.as_mut().reset(Instant::now() + timeout);
        note_sent();
        let exchange = async {
            connection.queue_encoded(frame);
            connection.flush().await?;
            connection.receive().await
        };
        let answer = tokio::select! {
            biased;
            answer = exchange => answer,
            () = self.timer.as_mut() => {
                self.connection = None;
                return Err(CallError::Failed(Term::atom("timeout")));
            }
        };
        match answer {
            Ok(frame) if frame.code == expected as u8 => Ok(()),
            Ok(frame) => match frame.decode::<RpbErrorResp>() {
                Ok(error) => Err(CallError::Failed(Term::Binary(error.errmsg.to_vec()))),
                Err(error) => {
                    self.connection = None;
                    Err(bad_response(error.to_string()))
                }
            },
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Sends a request with several answers, which must arrive within `timeout` altogether. `take` returns
    /// true for the last answer.
    pub(super) async fn call_in_parts<Q: Body, A: Body>(
        &mut self,
        request: &Q,
        timeout: Duration,
        take: impl FnMut(A) -> bool,
    ) -> Result<(), CallError> {
        let Some(connection) = &mut self.connection else { return Err(CallError::Disconnected) };
        note_sent();
        match tokio::time::timeout(timeout, read_parts(connection, request, take)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.failed(error)),
            Err(_) => {
                self.connection = None;
                Err(CallError::Failed(Term::atom("timeout")))
            }
        }
    }

    /// The outcome of a failed request. The connection is dropped after any error that the server did not
    /// send itself.
    fn failed(&mut self, error: Error) -> CallError {
        if let Error::Server(error) = error {
            return CallError::Failed(Term::Binary(error.message.clone().into_bytes()));
        }
        self.connection = None;
        if matches!(error, Error::Lost { .. } | Error::Connect { .. } | Error::OutOfStep { .. }) {
            return CallError::Disconnected;
        }
        bad_response(error.to_string())
    }
}

fn bad_response(problem: String) -> CallError {
    CallError::Failed(Term::Tuple(vec![Term::atom("bad_response"), Term::String(problem)]))
}

/// Sends a request and reads all of its answers.
async fn read_parts<Q: Body, A: Body>(
    connection: &mut Connection,
    request: &Q,
    mut take: impl FnMut(A) -> bool,
) -> Result<(), Error> {
    let mut part: A = connection.call(request).await?;
    while !take(part) {
        part = connection.next_part().await?;
    }
    Ok(())
}

/// The metadata of a sibling that an update writes back: all of it except the fields that the server sets.
pub(super) fn kept_metadata(sibling: RpbContent) -> RpbContent {
    RpbContent { vtag: None, last_mod: None, last_mod_usecs: None, deleted: None, ..sibling }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lost_connections_and_attempts_to_reconnect_share_one_time_limit() {
        let mut reconnects = Reconnects::within(Duration::ZERO);
        reconnects.note_lost().expect("the time begins");
        assert_eq!(reconnects.note_lost(), Err(Term::atom("disconnected")));
        assert_eq!(reconnects.next().await, Err(Term::atom("disconnected")));
    }

    #[tokio::test]
    async fn the_first_attempt_to_reconnect_is_made_in_any_case() {
        let mut reconnects = Reconnects::within(Duration::ZERO);
        reconnects.next().await.expect("an attempt");
        assert!(reconnects.next().await.is_err());
    }
}
