//! One client connection of the HTTP interface.
//!
//! The loop of a connection reads a request (`input`), checks that its client may send it (`admission`),
//! finds its resource (`route`), and answers it. Answers gather in a buffer, which is written before the
//! connection waits for the client.

use super::admission::KnownProof;
use super::csrf::Scheme;
use super::head::{Head, HeadFault, Method};
use super::refusal::Refusal;
use super::request_properties::{check_md5, shows_all_statistics, takes_documents, weight_of};
use super::response::{ReplyForm, append_chunk, append_last_chunk};
use super::route::{RecordName, Route, route};
use super::{csrf, uri};
use crate::context::ServerContext;
use crate::memory::{
    ANSWERS_BYTES_FREE, ConnectionMemory, MemoryReservation, NoMemory, REQUEST_COPIES,
    REQUESTS_BYTES_FREE,
};
use crate::pace::PacedTransfer;
use crate::security::{Session, UnauthenticatedConnection};
use crate::socket::{Socket, StopSignal};
use crate::stream::Stream;
use crate::turn::{TurnBudget, Weight};
use bytes::{Bytes, BytesMut};
use quoit_mapreduce::Job;
use quoit_wire::SharedParts;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Size of gathered answers, in bytes, at which they are written even if more requests wait in the input.
const FLUSH_BYTES: usize = 32 * 1024;

/// Largest ratio of the memory of a parsed JSON document to its size. Documents of many short items reach
/// it.
const DOCUMENT_COPIES: usize = 32;
/// Documents up to this size, in bytes, are covered by the allowance of the connection.
const SMALL_DOCUMENT_BYTES: usize = 1024;

/// A request as it arrived.
pub(crate) struct Request {
    /// Request line and headers.
    pub(crate) head: Head,
    /// The complete body.
    pub(crate) body: Bytes,
}

/// Reasons why a connection ends.
pub(super) enum ConnectionEnd {
    Closed,
    Refused(HeadFault),
    /// There is no memory for the request that is arriving.
    NoMemory(NoMemory),
    /// The client waits for permission to send its body, and gets this refusal.
    Denied(Refusal),
    Socket(io::Error),
}

impl From<HeadFault> for ConnectionEnd {
    fn from(fault: HeadFault) -> Self {
        Self::Refused(fault)
    }
}

impl From<NoMemory> for ConnectionEnd {
    fn from(fault: NoMemory) -> Self {
        Self::NoMemory(fault)
    }
}

impl From<io::Error> for ConnectionEnd {
    fn from(fault: io::Error) -> Self {
        Self::Socket(fault)
    }
}

/// State of a connection.
pub(crate) struct HttpConnection {
    pub(crate) context: Arc<ServerContext>,
    pub(super) memory: Arc<ConnectionMemory>,
    pub(super) socket: Socket,
    /// True if the client is on this machine.
    pub(crate) is_local: bool,
    /// True if the client came through the administration socket. It may then do everything without a
    /// password.
    pub(crate) is_operator: bool,
    /// Address of the client.
    pub(super) address: IpAddr,
    /// The client's login, and the permissions decided for it.
    pub(crate) session: Session,
    /// Counts the connection as one that has not logged in. While it is set, the deadline of the socket is
    /// that of the login.
    pub(super) unauthenticated: Option<UnauthenticatedConnection>,
    /// The proof of the last successful login.
    pub(super) known_proof: Option<KnownProof>,
    pub(super) failed_logins: u32,
    /// True if the connection was counted as one without TLS while security is on.
    pub(super) is_noted_plaintext: bool,
    /// Bytes that have arrived and are not answered yet, and their memory.
    pub(super) input: BytesMut,
    pub(super) input_reservation: MemoryReservation,
    /// The transfer of the request that is incomplete; set once a read had to wait for it.
    pub(super) transfer: Option<PacedTransfer>,
    /// Answers that are not written yet, and the memory of them and of the request that is being answered.
    pub(crate) out: Vec<u8>,
    /// Large values of the last answer in `out`, which are sent from their own buffers. Empty between
    /// requests.
    pub(super) shared: SharedParts,
    pub(super) reservation: MemoryReservation,
    /// True if a part of the current answer was written.
    has_flushed: bool,
    pub(crate) form: ReplyForm,
    /// The weight of the current request in the connection's turn.
    weight: Weight,
}

/// Serves a client until it disconnects, breaks the protocol, or the server stops.
pub async fn serve(
    context: Arc<ServerContext>,
    memory: Arc<ConnectionMemory>,
    stream: Stream,
    signal: Arc<StopSignal>,
) {
    let counts = Arc::clone(&context);
    let _open = counts.http_connections.open();
    let (is_local, is_operator) = (stream.is_local(), stream.is_operator());
    let mut connection = HttpConnection {
        address: stream.address(),
        session: Session::new(context.store.control(), &context.security, &stream),
        unauthenticated: None,
        known_proof: None,
        failed_logins: 0,
        is_noted_plaintext: false,
        context,
        socket: Socket::new(stream, signal),
        is_local,
        is_operator,
        input: BytesMut::new(),
        input_reservation: memory.reservation(REQUEST_COPIES * REQUESTS_BYTES_FREE),
        transfer: None,
        out: Vec::new(),
        shared: SharedParts::new(),
        reservation: memory.reservation(ANSWERS_BYTES_FREE),
        memory,
        has_flushed: false,
        form: ReplyForm { head_only: false, keep_alive: true, is_http_11: true },
        weight: Weight::Plain,
    };
    // A disconnected client needs no answer, and a log line for each would only help an attacker.
    let _ = connection.run().await;
}

impl HttpConnection {
    async fn run(&mut self) -> io::Result<()> {
        let mut turn = TurnBudget::new();
        loop {
            if !self.count_as_unauthenticated() {
                return self.close().await;
            }
            let request = match self.next_request().await {
                Ok(request) => request,
                Err(ConnectionEnd::Closed) => return self.close().await,
                Err(ConnectionEnd::Refused(fault)) => {
                    if fault == HeadFault::BodyTooLarge {
                        self.context.memory.note_too_large();
                    }
                    let text = format!("{fault}\n").into();
                    return self.refuse(Refusal::Text(fault.status(), text)).await;
                }
                Err(ConnectionEnd::Denied(refusal)) => return self.refuse(refusal).await,
                Err(ConnectionEnd::NoMemory(fault)) => {
                    let status = match fault {
                        NoMemory::Share { .. } => 413,
                        NoMemory::Budget { .. } => 503,
                    };
                    let text = format!("The request is not taken: {fault}\n").into();
                    return self.refuse(Refusal::Text(status, text)).await;
                }
                Err(ConnectionEnd::Socket(fault)) => return Err(fault),
            };
            // A client that waits for each answer before it sends its next request begins a turn with each
            // request.
            turn.go_on(&mut self.socket).await;
            self.form = self.form_for(&request.head);
            let start_bytes = self.out.len();
            self.answer_within_memory(&request).await?;
            let moved_bytes = request.body.len()
                + self.out.len().saturating_sub(start_bytes)
                + self.shared.size_bytes();
            if !self.form.keep_alive {
                return self.close().await;
            }
            if self.out.len() >= FLUSH_BYTES || !self.shared.is_empty() {
                self.flush().await?;
            }
            self.reservation.release_minimum(self.out.len());
            if turn.spend(self.weight, moved_bytes) {
                turn.pass(&self.socket).await;
            }
        }
    }

    pub(super) fn form_for(&self, head: &Head) -> ReplyForm {
        ReplyForm {
            head_only: head.method == Some(Method::Head),
            keep_alive: head.keeps_alive() && !self.socket.is_stopping(),
            is_http_11: head.is_http_11,
        }
    }

    /// Writes the answers that have gathered. A streamed answer calls it after each piece, so that a slow
    /// reader slows the listing down instead of filling memory.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.has_flushed = true;
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
        self.socket.shutdown().await
    }

    /// Sends the reason why no further request is read, and gives the client time to read it.
    async fn refuse(&mut self, refusal: Refusal) -> io::Result<()> {
        refusal.write(&mut self.out, ReplyForm { keep_alive: false, ..self.form })?;
        self.input = BytesMut::new();
        self.input_reservation.keep(0);
        self.flush().await?;
        self.socket.linger().await
    }

    /// Answers a request. If there is no memory for the answer, it is replaced by an error, unless a part
    /// of it was already sent.
    async fn answer_within_memory(&mut self, request: &Request) -> io::Result<()> {
        let start = self.out.len();
        self.has_flushed = false;
        if let Err(refusal) = self.answer(request).await {
            refusal.write(&mut self.out, self.form)?;
        }
        debug_assert!(self.has_flushed || start <= self.out.len(), "earlier answers are kept");
        if !self.shared.is_empty() {
            // The memory for a large value was asked for before the value was added.
            return Ok(());
        }
        if self.out.len() > ANSWERS_BYTES_FREE
            && let Err(fault) = self.reservation.hold(self.out.len())
        {
            if self.has_flushed {
                return Err(io::Error::other(fault));
            }
            self.out.truncate(start);
            self.out.shrink_to(ANSWERS_BYTES_FREE);
            Refusal::from(fault).write(&mut self.out, self.form)?;
        }
        Ok(())
    }

    /// The resource, method and query string of a request.
    pub(super) fn resource<'h>(
        &self,
        head: &'h Head,
    ) -> Result<(Route<'h>, Method, &'h [u8]), Refusal> {
        let (path, query) = uri::split_target(head.target());
        let decodes = self.context.settings.http_url_decoding
            || head.get("x-riak-url-encoding") == Some(b"on");
        let route = route(path, decodes).ok_or(Refusal::Page(404))?;
        let method = head.method.ok_or(Refusal::Page(501))?;
        if !route.methods().contains(&method) {
            return Err(Refusal::Method(route.methods()));
        }
        Ok((route, method, query))
    }

    /// Refuses a request that would be refused whatever its body is.
    pub(super) fn check_head(&self, head: &Head) -> Result<(), Refusal> {
        let (route, method, query) = self.resource(head)?;
        match (route, method) {
            (Route::Object(RecordName { bucket, .. }), Method::Put | Method::Post)
            | (Route::Keys(bucket) | Route::OldBucket(bucket), Method::Post) => {
                self.check_write(head, &bucket, query).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a write without a media type. Riak checks this before it asks for credentials.
    fn check_shape(&self, head: &Head, route: &Route<'_>, method: Method) -> Result<(), Refusal> {
        let writes = matches!(
            (route, method),
            (Route::Object(_), Method::Put | Method::Post)
                | (Route::Keys(_) | Route::OldBucket(_), Method::Post)
        );
        if writes && head.get("content-type").is_none() {
            return Err(Refusal::bad("Missing Content-Type request header"));
        }
        Ok(())
    }

    /// The refusal while the node does not serve clients; `None` for resources for operators, which always
    /// answer.
    fn refusal(&self, route: &Route<'_>) -> Option<Refusal> {
        let is_for_operators = matches!(
            route,
            Route::Admin(_) | Route::Stats | Route::Metrics | Route::Livez | Route::Readyz
        );
        if is_for_operators {
            return None;
        }
        let reason = self.context.readiness.refusal()?;
        Some(Refusal::Text(503, format!("{reason}\n").into()))
    }

    /// Finds the resource of a request, makes all checks, and answers it.
    async fn answer(&mut self, request: &Request) -> Result<(), Refusal> {
        self.weight = Weight::General;
        let (route, method, query) = self.resource(&request.head)?;
        if self.session.is_open() {
            self.admit_plaintext(&route)?;
        } else {
            self.check_shape(&request.head, &route, method)?;
            self.admit(&request.head, &route, method, query).await?;
        }
        if let Some(reason) = self.refusal(&route) {
            return Err(reason);
        }
        check_md5(request)?;
        self.check_page(&request.head, &route, method)?;
        self.weight = weight_of(&route);
        if takes_documents(&route) && request.body.len() > SMALL_DOCUMENT_BYTES {
            let bytes_max = match &route {
                Route::Mapred => Job::json_bytes_max(&request.body),
                _ => DOCUMENT_COPIES.saturating_mul(request.body.len()),
            };
            self.hold_document(bytes_max)?;
        }
        if shows_all_statistics(&route) {
            let context = Arc::clone(&self.context);
            // One answer of this type is made at a time, so that the other threads keep serving requests.
            let _alone = match context.heavy.try_acquire() {
                Ok(alone) => Ok(alone),
                Err(_) => {
                    self.flush().await?;
                    context.heavy.acquire().await
                }
            };
            self.socket.yield_to_ready_tasks().await;
            return self.answer_route(request, route, method, query).await;
        }
        self.answer_route(request, route, method, query).await
    }

    /// Asks for the memory that parsing a JSON document takes. The memory is returned after the request.
    fn hold_document(&mut self, bytes_max: usize) -> Result<(), Refusal> {
        let held = self.reservation.reserve_minimum(bytes_max);
        held.map_err(|fault| match fault {
            NoMemory::Share { .. } => {
                Refusal::Text(413, format!("The document is not read: {fault}\n").into())
            }
            NoMemory::Budget { .. } => fault.into(),
        })
    }

    /// Asks for the memory of a streamed answer. The memory is returned after the request.
    pub(super) fn hold_pieces(&mut self) -> Result<(), Refusal> {
        Ok(self.reservation.reserve_minimum(self.context.pieces_bytes())?)
    }

    /// Asks for memory for `bytes` of the answer that is made next.
    pub(super) fn hold_answer(&mut self, bytes: usize) -> Result<(), Refusal> {
        Ok(self.reservation.hold_answer(&mut self.out, bytes)?)
    }

    /// Refuses a request that a browser sent for a page of another site.
    pub(super) fn check_origin(&self, head: &Head) -> Result<(), Refusal> {
        if !csrf::is_of_page(head) {
            return Ok(());
        }
        let checks_referer = self.context.settings.secure_referer_check;
        let scheme = if self.socket.is_tls() { Scheme::Https } else { Scheme::Http };
        if self.is_local && scheme == Scheme::Http {
            csrf::check_host(head, checks_referer, &self.context.node_name)?;
        }
        csrf::check(head, checks_referer, scheme)
    }

    /// Refuses requests that a browser sent for a web page to resources of indexes, folds and queues: all
    /// requests for pages of other sites, and every GET that changes something. Other resources make this
    /// check after they have parsed their parameters.
    fn check_page(&self, head: &Head, route: &Route<'_>, method: Method) -> Result<(), Refusal> {
        let changes = match route {
            Route::Fold(fold) => fold.changes(),
            Route::Queue(_) => method != Method::Post,
            Route::Changes(_) | Route::Index(..) | Route::Membership => false,
            _ => return Ok(()),
        };
        self.check_origin(head)?;
        if changes {
            csrf::check_no_browser(head, self.context.settings.secure_referer_check)?;
        }
        Ok(())
    }

    /// Like [`Socket::unless_disconnected`].
    pub(super) async fn unless_disconnected<T>(
        &self,
        work: Pin<Box<impl Future<Output = T>>>,
    ) -> io::Result<T> {
        self.socket.unless_disconnected(work).await
    }

    /// Appends a piece of a stream and writes it.
    pub(super) async fn send_chunk(&mut self, piece: &[u8]) -> io::Result<()> {
        append_chunk(&mut self.out, self.form, piece);
        self.flush().await
    }

    /// Ends a stream.
    pub(super) fn end_stream(&mut self) {
        append_last_chunk(&mut self.out, self.form);
        // For a client of HTTP/1.0, closing the connection is the only end of a stream.
        self.form.keep_alive &= self.form.is_http_11;
    }
}
