//! One client connection.

use super::chunked::ChunkedBody;
use super::head::{BodyFraming, Head, HeadFault, Method, take_head};
use super::refusal::Refusal;
use super::response::{ReplyForm, append_chunk, append_last_chunk};
use super::route::{RecordName, Route, route};
use super::{csrf, uri};
use crate::context::ServerContext;
use crate::socket::{Incoming, Socket, StopSignal};
use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Room made for a read when nothing more is known.
const READ_BYTES: usize = 4 * 1024;
/// Room made at most for a body that is still arriving: a claim of the client is not believed at
/// once.
const READ_BYTES_MAX: usize = 1024 * 1024;
/// Answers are written when so many bytes have gathered, even if further requests are at hand.
const FLUSH_BYTES: usize = 64 * 1024;
/// Buffers larger than this do not outlive the request that needed them.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Time for the head of a request, from its first byte.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Time for a body, and for the client to take an answer, besides what their sizes allow.
const TRANSFER_LIMIT: Duration = Duration::from_secs(60);
/// Slowest rate at which a body may arrive and an answer may be taken.
const TRANSFER_BYTES_PER_SEC: u64 = 1024;
/// Time and bytes for a client to read its last answer before the connection is torn down.
const LINGER_LIMIT: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A request as it arrived.
pub(crate) struct Request {
    /// Request line and headers.
    pub(crate) head: Head,
    /// The body, whole.
    pub(crate) body: Bytes,
}

/// Why a connection ends.
enum Ending {
    Closed,
    Refused(HeadFault),
    /// The client waits for a word before it sends its body, and this is the word.
    Denied(Refusal),
    Socket(io::Error),
}

impl From<HeadFault> for Ending {
    fn from(fault: HeadFault) -> Self {
        Self::Refused(fault)
    }
}

impl From<io::Error> for Ending {
    fn from(fault: io::Error) -> Self {
        Self::Socket(fault)
    }
}

/// State of a connection.
pub(crate) struct Connection {
    pub(crate) context: Arc<ServerContext>,
    socket: Socket,
    /// Whether the client is on this machine.
    pub(crate) is_local: bool,
    input: BytesMut,
    pub(crate) out: Vec<u8>,
    pub(crate) form: ReplyForm,
}

/// Serves a client until it closes, errs, or the server stops.
pub async fn serve(context: Arc<ServerContext>, stream: TcpStream, signal: Arc<StopSignal>) {
    let counts = Arc::clone(&context);
    let _open = counts.http_connections.open();
    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    let mut connection = Connection {
        context,
        socket: Socket::new(stream, signal),
        is_local,
        input: BytesMut::new(),
        out: Vec::new(),
        form: ReplyForm { head_only: false, keep_alive: true, is_http_11: true },
    };
    // A client that is gone needs no answer, and a log line for each would only help an attacker.
    let _ = connection.run().await;
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            let request = match self.next_request().await {
                Ok(request) => request,
                Err(Ending::Closed) => return self.close().await,
                Err(Ending::Refused(fault)) => {
                    let text = format!("{fault}\n").into();
                    return self.refuse(Refusal::Text(fault.status(), text)).await;
                }
                Err(Ending::Denied(refusal)) => return self.refuse(refusal).await,
                Err(Ending::Socket(fault)) => return Err(fault),
            };
            self.form = self.form_for(&request.head);
            if let Err(refusal) = self.answer(&request).await {
                refusal.write(&mut self.out, self.form)?;
            }
            if !self.form.keep_alive {
                return self.close().await;
            }
            if self.out.len() >= FLUSH_BYTES {
                self.flush().await?;
            }
        }
    }

    fn form_for(&self, head: &Head) -> ReplyForm {
        ReplyForm {
            head_only: head.method == Some(Method::Head),
            keep_alive: head.keeps_alive() && !self.socket.is_stopping(),
            is_http_11: head.is_http_11,
        }
    }

    /// The next request, from what has arrived or from the socket. Answers that have gathered are
    /// written before anything is waited for.
    async fn next_request(&mut self) -> Result<Request, Ending> {
        let mut deadline = None;
        let head = loop {
            if let Some(head) = take_head(&mut self.input)? {
                break head;
            }
            if !self.input.is_empty() && deadline.is_none() {
                deadline = Some(Instant::now() + HEAD_LIMIT);
            }
            self.await_line(deadline).await?;
        };
        let body = match head.framing(self.context.settings.request_bytes_max)? {
            BodyFraming::Length(size) => self.take_body(&head, size).await?,
            BodyFraming::Chunked => self.take_chunks(&head).await?,
        };
        Ok(Request { head, body })
    }

    /// Reads until a further line is there: before that, a head that was not whole is not whole
    /// either, and parsing it again for each byte would be a way to keep the server busy.
    async fn await_line(&mut self, deadline: Option<Instant>) -> Result<(), Ending> {
        loop {
            let known = self.input.len();
            self.fill(READ_BYTES, deadline).await?;
            let fresh = &self.input[known..];
            let is_first = known == 0;
            if is_first
                || memchr::memchr(b'\n', fresh).is_some()
                || self.input.len() > super::head::HEAD_BYTES_MAX
            {
                return Ok(());
            }
        }
    }

    async fn take_body(&mut self, head: &Head, size: usize) -> Result<Bytes, Ending> {
        if self.input.len() < size {
            self.invite_body(head)?;
            let start = Instant::now();
            while self.input.len() < size {
                let missing = size - self.input.len();
                let deadline = start + allowed(self.input.len());
                self.fill(missing.min(READ_BYTES_MAX), Some(deadline)).await?;
            }
        }
        Ok(self.input.split_to(size).freeze())
    }

    async fn take_chunks(&mut self, head: &Head) -> Result<Bytes, Ending> {
        let mut body = ChunkedBody::new(self.context.settings.request_bytes_max);
        if self.input.is_empty() {
            self.invite_body(head)?;
        }
        let start = Instant::now();
        loop {
            if let Some(body) = body.take(&mut self.input)? {
                return Ok(body);
            }
            let deadline = start + allowed(body.received_bytes());
            self.fill(READ_BYTES, Some(deadline)).await?;
        }
    }

    /// Has a client send the body that it holds back, unless its head is refused already.
    fn invite_body(&mut self, head: &Head) -> Result<(), Ending> {
        if head.expects_continue() {
            self.form = self.form_for(head);
            self.check_head(head).map_err(Ending::Denied)?;
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        Ok(())
    }

    /// Writes what has gathered, then reads once.
    async fn fill(&mut self, room: usize, deadline: Option<Instant>) -> Result<(), Ending> {
        self.flush().await?;
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES_MAX {
            self.input = BytesMut::new();
        }
        let read = self.socket.read(&mut self.input, room);
        let incoming = match deadline {
            None => read.await?,
            Some(deadline) => match tokio::time::timeout_at(deadline, read).await {
                Ok(incoming) => incoming?,
                Err(_) => return Err(Ending::Refused(HeadFault::TooSlow)),
            },
        };
        if incoming == Incoming::End { Err(Ending::Closed) } else { Ok(()) }
    }

    /// Writes what has gathered. Streams call it after each of their pieces, so that a slow reader
    /// slows the listing down instead of filling memory.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            within(allowed(self.out.len()), self.socket.write_all(&self.out)).await?;
            self.out.clear();
            if self.out.capacity() > KEPT_BYTES_MAX {
                self.out = Vec::new();
            }
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.socket.shutdown().await
    }

    /// Tells why no further request is read, and gives the client time to read it: to close with
    /// bytes unread would make the system throw the answer away.
    async fn refuse(&mut self, refusal: Refusal) -> io::Result<()> {
        refusal.write(&mut self.out, ReplyForm { keep_alive: false, ..self.form })?;
        self.close().await?;
        let deadline = Instant::now() + LINGER_LIMIT;
        let mut dropped_bytes = 0;
        while dropped_bytes < LINGER_BYTES_MAX {
            self.input.clear();
            let read = self.socket.read(&mut self.input, READ_BYTES);
            match tokio::time::timeout_at(deadline, read).await {
                Ok(Ok(Incoming::Bytes(count))) => dropped_bytes += count,
                _ => break,
            }
        }
        Ok(())
    }

    /// The resource and method of a request, and the query string.
    fn resource<'h>(&self, head: &'h Head) -> Result<(Route<'h>, Method, &'h [u8]), Refusal> {
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

    /// Refuses a request that would be refused whatever its body.
    fn check_head(&self, head: &Head) -> Result<(), Refusal> {
        let (route, method, query) = self.resource(head)?;
        match (route, method) {
            (Route::Object(RecordName { bucket, .. }), Method::Put | Method::Post)
            | (Route::Keys(bucket) | Route::OldBucket(bucket), Method::Post) => {
                self.check_write(head, &bucket, query).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Finds the resource and has it answer.
    /// Why a client is not answered. Operators always are.
    fn refusal(&self, route: &Route<'_>) -> Option<Refusal> {
        if matches!(route, Route::Admin(_) | Route::Stats | Route::Metrics) {
            return None;
        }
        let reason = self.context.readiness.refusal()?;
        Some(Refusal::Text(503, format!("{reason}\n").into()))
    }

    async fn answer(&mut self, request: &Request) -> Result<(), Refusal> {
        let (route, method, query) = self.resource(&request.head)?;
        if let Some(reason) = self.refusal(&route) {
            return Err(reason);
        }
        check_md5(request)?;
        match route {
            Route::Object(name) => match method {
                Method::Put | Method::Post => {
                    self.put_object(request, &name.bucket, Some(&name.key), query).await
                }
                Method::Delete => self.delete_object(request, &name, query).await,
                _ => self.get_object(request, &name, query).await,
            },
            Route::Keys(bucket) if method == Method::Post => {
                self.put_object(request, &bucket, None, query).await
            }
            Route::OldBucket(bucket) => match method {
                Method::Post => self.put_object(request, &bucket, None, query).await,
                Method::Put => self.put_props(request, &bucket).await,
                _ => self.old_bucket(request, &bucket, query).await,
            },
            Route::Keys(bucket) => self.list_keys(request, &bucket, query).await,
            Route::Buckets(bucket_type) => self.list_buckets(request, &bucket_type, query).await,
            Route::Props(bucket) => match method {
                Method::Put => self.put_props(request, &bucket).await,
                Method::Delete => self.reset_props(request, &bucket).await,
                _ => self.get_props(request, &bucket),
            },
            Route::TypeProps(name) => match method {
                Method::Put => self.put_type_props(request, &name).await,
                _ => self.get_type_props(request, &name),
            },
            Route::Walk(name, steps) => self.walk(request, &name, &steps).await,
            Route::Preflist(name) => self.preflist(request, &name),
            Route::Root => self.root(request),
            Route::Ping => self.ping(request),
            Route::Stats => self.stats(request),
            Route::Metrics => self.metrics(request),
            Route::Admin(parts) => self.admin(request, method, &parts, query).await,
            Route::Index(bucket, names) => self.index_query(request, &bucket, &names, query).await,
            Route::Mapred => self.mapred(request, method).await,
            Route::Datatype(bucket, Some(key)) if method != Method::Post => {
                self.get_datatype(request, &bucket, &key, query).await
            }
            Route::Datatype(bucket, key) => {
                self.post_datatype(request, &bucket, key.as_deref(), query).await
            }
            Route::Counter(name) if method == Method::Post => {
                self.post_counter(request, &name, query).await
            }
            Route::Counter(name) => self.get_counter(request, &name, query).await,
        }
    }

    /// Refuses what a foreign web page made a browser send.
    pub(super) fn check_origin(&self, head: &Head) -> Result<(), Refusal> {
        csrf::check(head, self.context.settings.secure_referer_check)
    }

    /// As [`Socket::unless_gone`].
    pub(super) async fn unless_gone<T>(
        &self,
        work: Pin<Box<impl Future<Output = T>>>,
    ) -> io::Result<T> {
        self.socket.unless_gone(work).await
    }

    /// Appends a piece of a stream and writes it.
    pub(super) async fn send_chunk(&mut self, piece: &[u8]) -> io::Result<()> {
        append_chunk(&mut self.out, self.form, piece);
        self.flush().await
    }

    /// Ends a stream.
    pub(super) fn end_stream(&mut self) {
        append_last_chunk(&mut self.out, self.form);
        // To a client of HTTP/1.0 only the end of the connection is the end of the stream.
        self.form.keep_alive &= self.form.is_http_11;
    }
}

/// Time that the transfer of so many bytes may take.
fn allowed(transferred_bytes: usize) -> Duration {
    TRANSFER_LIMIT + Duration::from_secs(transferred_bytes as u64 / TRANSFER_BYTES_PER_SEC)
}

/// Runs a write that may take so long. A socket nearly always takes everything at once; only else is a
/// timer made.
async fn within(limit: Duration, write: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let mut write = pin!(write);
    match poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
        Poll::Ready(written) => written,
        Poll::Pending => tokio::time::timeout(limit, write).await?,
    }
}

fn check_md5(request: &Request) -> Result<(), Refusal> {
    let Some(sent) = request.head.get("content-md5") else { return Ok(()) };
    let sent = base64::engine::general_purpose::STANDARD.decode(sent.trim_ascii());
    let digest = Md5::digest(&request.body);
    if sent.is_ok_and(|sent| sent == digest.as_slice()) {
        return Ok(());
    }
    let expected = base64::engine::general_purpose::STANDARD.encode(digest);
    Err(Refusal::bad(format!(
        "Content-MD5 is not that of the body, which is {expected}: \
         the body was damaged on its way\n"
    )))
}
