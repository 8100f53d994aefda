//! One connection: sends requests and reads responses.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use quoit_client::ClientStream;

use super::body::{Body, Chunk};
use super::read_buffer::ReadBuffer;
use super::{HttpError, HttpRequest, ResponseContent};
use crate::config::Target;
use crate::login::HttpSecurity;
use crate::sent::note_sent;

/// Time without any packet after which a peer machine counts as dead. A slow answer is not silence, because
/// the peer's kernel still acknowledges probes.
const DEAD_PEER_LIMIT: Duration = Duration::from_secs(1);

/// Maximum size of a response's head, in bytes.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// Maximum number of headers in a response.
const HEADER_COUNT_MAX: usize = 100;

/// A keep-alive connection with one request in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: ClientStream,
    security: Option<Arc<HttpSecurity>>,
    /// Buffer for the head of a request with the login, if there is a login.
    head: Vec<u8>,
    buffer: ReadBuffer,
    /// The timer of requests, reset for each. A timer that only moves forward costs almost nothing.
    timer: Pin<Box<Sleep>>,
    timeout: Duration,
    vclock: Vec<u8>,
    content_type: Vec<u8>,
    /// The body of the last response, if bodies are kept.
    body: Vec<u8>,
    keeps_bodies: bool,
    is_reusable: bool,
}

/// The time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Of connecting.
    pub(crate) connect: Duration,
    /// Of each request.
    pub(crate) request: Duration,
}

/// The parts of a response that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    /// Status code.
    pub(crate) status: u16,
    /// True if the head had an `X-Riak-Vclock`, which [`Connection::vclock`] now returns.
    pub(crate) has_vclock: bool,
}

impl Connection {
    /// Connects within `timeout`, which is also the time limit of each request.
    pub(crate) async fn open(
        target: &Target,
        timeout: Duration,
        security: Option<&Arc<HttpSecurity>>,
    ) -> io::Result<Self> {
        let limits = ConnectionLimits { connect: timeout, request: timeout };
        Self::open_within(target, limits, security).await
    }

    /// As [`Connection::open`], with a separate time limit for connecting.
    pub(crate) async fn open_within(
        target: &Target,
        limits: ConnectionLimits,
        security: Option<&Arc<HttpSecurity>>,
    ) -> io::Result<Self> {
        let ConnectionLimits { connect: connect_limit, request: timeout } = limits;
        let connecting = async {
            let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
            stream.set_nodelay(true)?;
            // Without this the loss of a machine is only noticed by the time limits of requests.
            let _ = quoit_client::notice_dead_peer(&stream, DEAD_PEER_LIMIT);
            match security {
                None => Ok(ClientStream::Plain(stream)),
                Some(security) => {
                    let secured = security.login().begin_tls(stream, &target.to_string()).await;
                    secured.map_err(io::Error::other)
                }
            }
        };
        let stream = tokio::time::timeout(connect_limit, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(Self {
            stream,
            security: security.cloned(),
            head: Vec::new(),
            buffer: ReadBuffer::new(),
            timer: Box::pin(tokio::time::sleep(timeout)),
            timeout,
            vclock: Vec::new(),
            content_type: Vec::new(),
            body: Vec::new(),
            keeps_bodies: false,
            is_reusable: true,
        })
    }

    /// True if another request can be sent.
    pub(crate) fn is_reusable(&self) -> bool {
        self.is_reusable
    }

    /// The vector clock of the last response that had one.
    pub(crate) fn vclock(&self) -> &[u8] {
        &self.vclock
    }

    /// Keeps the bodies of responses from now on.
    pub(crate) fn keep_bodies(&mut self) {
        self.keeps_bodies = true;
    }

    /// The content of the last response, if bodies are kept.
    pub(crate) fn content(&self) -> ResponseContent<'_> {
        ResponseContent { content_type: &self.content_type, body: &self.body }
    }

    /// Sends a request and reads its response, with one write and one read unless they are large.
    ///
    /// The connection is not reusable after an error.
    pub(crate) async fn exchange(
        &mut self,
        request: HttpRequest<'_>,
    ) -> Result<Response, HttpError> {
        self.is_reusable = false;
        let deadline = Instant::now() + self.timeout;
        self.timer.as_mut().reset(deadline);
        match self.security.clone() {
            None => self.send(request).await?,
            Some(security) => {
                let mut with_login = std::mem::take(&mut self.head);
                security.add_header(request.head, &mut with_login);
                self.send(HttpRequest { head: &with_login, ..request }).await?;
                self.stream.flush().await.map_err(HttpError::Connection)?;
                self.head = with_login;
            }
        }
        let (response, mut body, is_kept) = self.read_head().await?;
        self.body.clear();
        loop {
            let kept = self.keeps_bodies.then_some(&mut self.body);
            let taken = body.consume(self.buffer.filled(), kept)?;
            self.buffer.drop_front(taken);
            if body.is_complete() {
                break;
            }
            match self.fill().await {
                Ok(()) => {}
                Err(HttpError::Connection(error))
                    if body == Body::UntilClose && error.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if !self.buffer.filled().is_empty() {
            return Err(HttpError::Malformed("bytes follow the response"));
        }
        self.is_reusable = is_kept && body != Body::UntilClose;
        Ok(response)
    }

    async fn send(&mut self, request: HttpRequest<'_>) -> Result<(), HttpError> {
        let HttpRequest { mut head, mut body } = request;
        note_sent();
        while !head.is_empty() || !body.is_empty() {
            let sent = tokio::select! {
                biased;
                sent = async {
                    if body.is_empty() {
                        self.stream.write(head).await
                    } else {
                        let parts = [IoSlice::new(head), IoSlice::new(body)];
                        self.stream.write_vectored(&parts).await
                    }
                } => sent,
                () = self.timer.as_mut() => return Err(HttpError::Timeout),
            };
            let sent = sent.map_err(HttpError::Connection)?;
            if sent == 0 {
                return Err(HttpError::Connection(io::ErrorKind::WriteZero.into()));
            }
            let of_head = sent.min(head.len());
            head.advance(of_head);
            body.advance(sent - of_head);
        }
        Ok(())
    }

    /// Reads more bytes, behind those in the buffer.
    async fn fill(&mut self) -> Result<(), HttpError> {
        let read = tokio::select! {
            biased;
            read = self.stream.read(self.buffer.room()) => read,
            () = self.timer.as_mut() => return Err(HttpError::Timeout),
        };
        match read.map_err(HttpError::Connection)? {
            0 => Err(HttpError::Connection(io::ErrorKind::UnexpectedEof.into())),
            count => {
                self.buffer.note_read(count);
                Ok(())
            }
        }
    }

    /// Reads the head of the final response. Interim responses are skipped.
    async fn read_head(&mut self) -> Result<(Response, Body, bool), HttpError> {
        loop {
            let bytes = self.buffer.filled();
            if let Some(head) = parse_head(bytes, &mut self.vclock, &mut self.content_type)? {
                self.buffer.drop_front(head.size_bytes);
                if !(100..200).contains(&head.response.status) {
                    return Ok((head.response, head.body, head.is_kept));
                }
            } else if self.buffer.filled().len() > HEAD_BYTES_MAX {
                return Err(HttpError::Malformed("the head is too large"));
            } else {
                self.fill().await?;
            }
        }
    }
}

/// The head of a response.
struct Head {
    size_bytes: usize,
    response: Response,
    body: Body,
    is_kept: bool,
}

/// Parses a complete head at the front of `bytes`. Returns `None` if more bytes are needed.
fn parse_head(
    bytes: &[u8],
    vclock: &mut Vec<u8>,
    content_type: &mut Vec<u8>,
) -> Result<Option<Head>, HttpError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut headers = [const { MaybeUninit::uninit() }; HEADER_COUNT_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let size_bytes = match httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, bytes, &mut headers)
        .map_err(|_| HttpError::Malformed("its head cannot be read"))?
    {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(size_bytes) => size_bytes,
    };
    let status = parsed.code.unwrap_or(0);
    let mut has_vclock = false;
    let mut is_kept = parsed.version == Some(1);
    let mut length = None;
    let mut is_chunked = false;
    for header in parsed.headers.iter() {
        let name = header.name;
        if name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).ok().map(str::trim);
            let value = text.and_then(|text| text.parse::<u64>().ok());
            length = Some(value.ok_or(HttpError::Malformed("its length is not a number"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = header.value.to_ascii_lowercase().ends_with(b"chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            is_kept = !header.value.eq_ignore_ascii_case(b"close")
                && (is_kept || header.value.eq_ignore_ascii_case(b"keep-alive"));
        } else if name.eq_ignore_ascii_case("x-riak-vclock") {
            has_vclock = true;
            vclock.clear();
            vclock.extend_from_slice(header.value);
        } else if name.eq_ignore_ascii_case("content-type") {
            content_type.clear();
            content_type.extend_from_slice(header.value);
        }
    }
    let body = match (status, is_chunked, length) {
        (100..=199 | 204 | 304, _, _) => Body::Sized(0),
        (_, true, _) => Body::Chunked(Chunk::Size),
        (_, false, Some(length)) => Body::Sized(length),
        (_, false, None) => Body::UntilClose,
    };
    Ok(Some(Head { size_bytes, response: Response { status, has_vclock }, body, is_kept }))
}
