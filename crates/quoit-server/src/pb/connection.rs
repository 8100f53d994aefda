//! One client connection of the Protocol Buffers interface.
//!
//! The loop of a connection reads, answers every complete request in the input in order, and writes the
//! answers. A request is first tried in place (`in_place`), directly from the read buffer. Otherwise its
//! frame is decoded and dispatched by its code. While security is on, a connection without a login only
//! gets STARTTLS and the login itself (`login`).

use super::codes::weight_of;
use super::fault::Fault;
use super::in_place::{InPlaceOutcome, StartedGet, UnconfirmedAnswer};
use super::input::{Input, RequestArrival};
use super::login::LoginProgress;
use crate::context::ServerContext;
use crate::memory::{ANSWERS_BYTES_FREE, ConnectionMemory, MemoryReservation};
use crate::security::{AccessState, Session, UnauthenticatedConnection};
use crate::socket::{Socket, StopSignal};
use crate::stream::Stream;
use crate::turn::{TurnBudget, Weight};
use bytes::{Buf, Bytes};
use quoit_core::{Lease, Pending};
use quoit_wire::frame::{Frame, append_empty, append_message};
use quoit_wire::messages::{Body, RpbErrorResp};
use quoit_wire::{FrameError, FrameRef, MessageCode, SHARED_BYTES_MIN, SharedParts};
use std::io;
use std::mem;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Size of gathered answers, in bytes, at which they are written even if more requests wait in the input.
const FLUSH_BYTES: usize = 32 * 1024;

/// Size of a frame's length field, in bytes. The message code follows it.
const LENGTH_BYTES: usize = 4;
/// Size of length field and message code, in bytes.
const FRAME_HEAD_BYTES: usize = LENGTH_BYTES + 1;

/// State of a connection.
pub(super) struct PbConnection {
    pub(super) context: Arc<ServerContext>,
    pub(super) socket: Socket,
    /// Address of the client.
    pub(super) address: IpAddr,
    /// The client's login, and the permissions decided for it.
    pub(super) session: Session,
    /// Counts the connection as one that has not logged in. While it is set, the deadline of the socket is
    /// that of the login.
    pub(super) unauthenticated: Option<UnauthenticatedConnection>,
    pub(super) failed_logins: u32,
    /// True if the connection was counted as one without TLS while security is on.
    is_noted_plaintext: bool,
    pub(super) memory: Arc<ConnectionMemory>,
    /// Answers that are not written yet.
    pub(super) out: Vec<u8>,
    /// Large values of the last answer in `out`, which are sent from their own buffers. Empty between
    /// requests.
    pub(super) shared: SharedParts,
    /// Memory of `out`, `shared` and of the request that is being answered.
    pub(super) reservation: MemoryReservation,
    /// True if the client may still be sending when the connection is closed.
    lingers: bool,
    /// Buffer for the encoded version vector of an answer.
    pub(super) clock_bytes: Vec<u8>,
    pub(super) client_id: Bytes,
    /// Entries of a replication queue that the client has not confirmed.
    pub(super) lease: Option<Lease>,
}

/// Serves a client until it disconnects, breaks the protocol, or the server stops.
pub async fn serve(
    context: Arc<ServerContext>,
    memory: Arc<ConnectionMemory>,
    stream: Stream,
    signal: Arc<StopSignal>,
) {
    let counts = Arc::clone(&context);
    let _open = counts.pb_connections.open();
    let mut connection = PbConnection {
        address: stream.address(),
        session: Session::new(context.store.control(), &context.security, &stream),
        unauthenticated: None,
        failed_logins: 0,
        is_noted_plaintext: false,
        context,
        socket: Socket::new(stream, signal),
        reservation: memory.reservation(ANSWERS_BYTES_FREE),
        memory,
        out: Vec::new(),
        shared: SharedParts::new(),
        lingers: false,
        clock_bytes: Vec::new(),
        client_id: Bytes::from_static(&[0; 4]),
        lease: None,
    };
    // A disconnected client needs no answer, and a log line for each would only help an attacker.
    let _ = connection.run().await;
}

/// True if the next message asks for TLS.
fn starts_tls(input: &Input) -> bool {
    input.bytes.get(LENGTH_BYTES) == Some(&(MessageCode::StartTls as u8))
}

/// State of the next request of the input, after the part that needs no waiting.
enum RequestProgress {
    /// It is answered, or has failed.
    Ended(Result<(), Fault>),
    /// It is written. The answer has to wait for replicas or for durability.
    Written(Pending),
    /// Its answer is encoded. It may be sent if other replicas confirm it.
    UnconfirmedAnswer(UnconfirmedAnswer),
    /// It is a get that has begun and has to wait.
    Started(StartedGet),
    /// It was not handled in place, and has to be dispatched from its frame.
    Whole(Frame),
    /// The input has no complete request.
    Missing,
    /// The connection has to be closed.
    Last,
}

impl RequestProgress {
    /// True if the request has begun in place and has to wait.
    const fn has_to_wait(&self) -> bool {
        matches!(self, Self::Written(_) | Self::UnconfirmedAnswer(_) | Self::Started(_))
    }
}

/// True if a frame is so large that its value is stored from the buffer that it is in.
const fn is_large(frame: &FrameRef<'_>) -> bool {
    frame.size_bytes >= SHARED_BYTES_MIN + FRAME_HEAD_BYTES
}

/// The state of a request after an attempt to answer it in place; `None` if it was declined.
#[inline]
fn begun_of(attempt: Result<InPlaceOutcome, Fault>) -> Option<RequestProgress> {
    match attempt {
        Ok(InPlaceOutcome::Declined) => None,
        Ok(InPlaceOutcome::UnconfirmedAnswer(answer)) => {
            Some(RequestProgress::UnconfirmedAnswer(answer))
        }
        Ok(InPlaceOutcome::Started(get)) => Some(RequestProgress::Started(get)),
        Ok(InPlaceOutcome::Answered) => Some(RequestProgress::Ended(Ok(()))),
        Ok(InPlaceOutcome::Written(pending)) => Some(RequestProgress::Written(pending)),
        Err(fault) => Some(RequestProgress::Ended(Err(fault))),
    }
}

impl PbConnection {
    async fn run(&mut self) -> io::Result<()> {
        let mut input = Input::new(&self.context, &self.memory);
        let mut turn = TurnBudget::new();
        if !self.keep_out(&mut input) {
            return self.close().await;
        }
        loop {
            match input.read_more(&mut self.socket, &mut self.out).await? {
                RequestArrival::Arrived => {}
                RequestArrival::End => return self.socket.shutdown().await,
                // A client that does not log in in time gets no answer.
                RequestArrival::TooSlow if self.unauthenticated.is_some() => {
                    return self.socket.shutdown().await;
                }
                RequestArrival::TooSlow => {
                    self.error("the request did not arrive in time");
                    return self.close().await;
                }
                RequestArrival::NoMemory(fault) => {
                    self.error(&format!("the request is not taken: {fault}"));
                    self.flush().await?;
                    // The next request may already be in the buffer behind the refused one.
                    input.skip_frame(&mut self.socket).await?;
                }
            }
            // A client that waits for each answer before it sends its next request begins a turn with each
            // request.
            turn.go_on(&mut self.socket).await;
            if let Some(reason) = self.context.readiness.refusal()
                && self.is_known()
            {
                if !self.refuse_all(&mut input, &reason, &mut turn).await? {
                    return self.close().await;
                }
                continue;
            }
            if !self.answer_arrived(&mut input, &mut turn).await? {
                return self.close().await;
            }
            if !self.socket.write_now(&mut self.out, &mut self.reservation)? {
                self.flush().await?;
            }
        }
    }

    /// Answers the complete requests in the input. Returns false if the connection has to be closed.
    async fn answer_arrived(
        &mut self,
        input: &mut Input,
        turn: &mut TurnBudget,
    ) -> io::Result<bool> {
        loop {
            if !self.session.is_open() {
                match self.access_state(input) {
                    AccessState::Open | AccessState::User => {}
                    AccessState::Unauthenticated => match self.answer_login(input, turn).await? {
                        LoginProgress::Answered => continue,
                        LoginProgress::Missing => return Ok(true),
                        LoginProgress::Last => return Ok(false),
                    },
                    AccessState::UserDeleted => {
                        self.settle(Err(self.user_deleted()))?;
                        return Ok(false);
                    }
                }
            }
            if self.session.is_served_without_tls() {
                if starts_tls(input) {
                    match self.answer_login(input, turn).await? {
                        LoginProgress::Answered => continue,
                        LoginProgress::Missing => return Ok(true),
                        LoginProgress::Last => return Ok(false),
                    }
                }
                self.note_plaintext(input);
            }
            let (start_bytes, left_bytes) = (self.answers_bytes(), input.bytes.len());
            let mut weight = Weight::Plain;
            let progress = self.begin_next(input);
            if progress.has_to_wait() {
                input.lend_buffer();
            }
            let result = match progress {
                RequestProgress::Ended(result) => result,
                RequestProgress::Written(pending) => self.finish_put(pending).await,
                RequestProgress::UnconfirmedAnswer(answer) => self.confirm(answer).await,
                RequestProgress::Started(get) => {
                    weight = Weight::General;
                    self.finish_get(get).await
                }
                RequestProgress::Whole(frame) => {
                    weight = weight_of(frame.code);
                    self.dispatch(frame).await
                }
                RequestProgress::Missing => return Ok(true),
                RequestProgress::Last => return Ok(false),
            };
            input.transfer = None;
            let moved_bytes =
                left_bytes - input.bytes.len() + self.answers_bytes().saturating_sub(start_bytes);
            if !self.settle(result)? {
                return Ok(false);
            }
            if self.out.len() >= FLUSH_BYTES || !self.shared.is_empty() {
                self.flush().await?;
            }
            self.reservation.release_minimum(self.out.len());
            let is_over = turn.spend(weight, moved_bytes);
            if input.bytes.is_empty() {
                return Ok(true);
            }
            if is_over {
                turn.pass(&self.socket).await;
            }
        }
    }

    /// Size of the answers that are not written yet.
    fn answers_bytes(&self) -> usize {
        self.out.len() + self.shared.size_bytes()
    }

    /// Answers the next message of a client that has not logged in, and yields when the turn is over.
    async fn answer_login(
        &mut self,
        input: &mut Input,
        turn: &mut TurnBudget,
    ) -> io::Result<LoginProgress> {
        let progress = self.answer_unauthenticated(input).await?;
        if matches!(progress, LoginProgress::Answered) && turn.spend(Weight::General, 0) {
            self.flush().await?;
            turn.pass(&self.socket).await;
        }
        Ok(progress)
    }

    /// Counts a connection without TLS when it sends its first request.
    fn note_plaintext(&mut self, input: &Input) {
        if !self.is_noted_plaintext && !input.bytes.is_empty() {
            self.is_noted_plaintext = true;
            self.context.security.note_plaintext(self.address);
        }
    }

    /// True if the client's requests are answered: security is off, or the client has logged in.
    fn is_known(&mut self) -> bool {
        self.session.is_open()
            || matches!(
                self.session.access_state(self.context.store.control()),
                AccessState::Open | AccessState::User
            )
    }

    /// Counts a new connection as one that has not logged in if security is on. Returns false if there are
    /// too many such connections.
    fn keep_out(&mut self, input: &mut Input) -> bool {
        self.is_known() || self.count_as_unauthenticated(input)
    }

    /// The state of the connection by the current security settings, which may have changed since its last
    /// request.
    fn access_state(&mut self, input: &mut Input) -> AccessState {
        let access_state = self.session.access_state(self.context.store.control());
        if access_state == AccessState::Open {
            self.count_as_known(input);
        }
        access_state
    }

    /// Begins the next request of the input. Most requests are answered by this alone.
    fn begin_next(&mut self, input: &mut Input) -> RequestProgress {
        let Input { decoder, bytes, .. } = input;
        if let Some(frame) = decoder.peek_frame(bytes).filter(|frame| !is_large(frame)) {
            let request_bytes = frame.size_bytes;
            if let Some(begun) = begun_of(self.answer_in_place(frame, None)) {
                bytes.advance(request_bytes);
                return begun;
            }
        }
        match decoder.next_frame(bytes) {
            Ok(Some(frame)) if frame.body.len() >= SHARED_BYTES_MIN => self.begin_large(frame),
            Ok(Some(frame)) => RequestProgress::Whole(frame),
            Ok(None) => RequestProgress::Missing,
            // As in Riak: a frame without a message code gets no answer.
            Err(FrameError::ZeroLength) => RequestProgress::Last,
            Err(fault) => {
                self.context.memory.note_too_large();
                self.error(&format!("Invalid message packet, reason: {fault}"));
                self.lingers = true;
                RequestProgress::Last
            }
        }
    }

    /// As [`PbConnection::begin_next`], for a large request: it is taken out of the read buffer, so that its
    /// value can be stored from where it is.
    #[cold]
    fn begin_large(&mut self, frame: Frame) -> RequestProgress {
        let Frame { code, body } = &frame;
        let size_bytes = FRAME_HEAD_BYTES + body.len();
        let in_place = FrameRef { code: *code, body, size_bytes };
        let begun = begun_of(self.answer_in_place(in_place, Some(body)));
        begun.unwrap_or(RequestProgress::Whole(frame))
    }

    /// Answers all complete requests of the input with an error. Returns true if the connection continues.
    async fn refuse_all(
        &mut self,
        input: &mut Input,
        reason: &str,
        turn: &mut TurnBudget,
    ) -> io::Result<bool> {
        let Input { decoder, bytes, .. } = input;
        while let Ok(Some(_)) = decoder.next_frame(bytes) {
            self.error(reason);
            if turn.spend(Weight::Plain, 0) {
                self.flush().await?;
                turn.pass(&self.socket).await;
            }
        }
        self.flush().await?;
        Ok(decoder.missing_bytes(bytes).is_ok())
    }

    /// Ends a request, and sends an error if it failed. Returns false if the connection has to be closed.
    fn settle(&mut self, result: Result<(), Fault>) -> io::Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(Fault::Text(text)) => {
                self.error(&text);
                Ok(true)
            }
            Err(Fault::Closing(text)) => {
                self.error(&text);
                Ok(false)
            }
            Err(Fault::Socket(fault)) => Err(fault),
        }
    }

    /// Appends an answer, if there is memory for it.
    pub(super) fn send(&mut self, message: &impl Body) -> Result<(), Fault> {
        self.reservation.hold_answer(&mut self.out, message.encoded_len())?;
        Ok(append_message(&mut self.out, message)?)
    }

    /// Like `send`, on a thread of low priority.
    pub(super) async fn send_low_priority(
        &mut self,
        message: impl Body + Send + 'static,
    ) -> Result<(), Fault> {
        self.reservation.hold_answer(&mut self.out, message.encoded_len())?;
        let mut out = mem::take(&mut self.out);
        let append = async move {
            let appended = append_message(&mut out, &message);
            (out, appended)
        };
        let (out, appended) = self.context.run_at_low_priority(append).await?;
        self.out = out;
        Ok(appended?)
    }

    /// Appends an answer without fields.
    pub(super) fn send_empty(&mut self, code: MessageCode) {
        append_empty(&mut self.out, code);
    }

    pub(super) fn error(&mut self, text: &str) {
        let message = RpbErrorResp { errmsg: Bytes::copy_from_slice(text.as_bytes()), errcode: 0 };
        if append_message(&mut self.out, &message).is_err() {
            tracing::error!(size_bytes = text.len(), "error text does not fit a frame");
        }
    }

    /// Like [`Socket::unless_disconnected`].
    pub(super) async fn unless_disconnected<T>(
        &self,
        work: Pin<Box<impl Future<Output = Result<T, Fault>>>>,
    ) -> Result<T, Fault> {
        self.socket.unless_disconnected(work).await?
    }

    /// Writes the answers that have gathered. A streamed answer calls it after each frame, so that a slow
    /// reader slows the listing down instead of filling memory.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let pace = self.context.settings.pace;
        let Self { out, shared, reservation, socket, .. } = self;
        let written = match shared.is_empty() {
            true => socket.write_out(out, reservation, pace).await,
            false => socket.write_large(out, shared, reservation, pace).await,
        };
        if written.as_ref().is_err_and(|fault| fault.kind() == io::ErrorKind::TimedOut) {
            self.context.memory.note_slow_answer();
        }
        written
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        if self.lingers { self.socket.linger().await } else { self.socket.shutdown().await }
    }
}
