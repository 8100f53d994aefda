//! One worker's connection to one server of the HTTP API.

use std::time::Duration;

use super::StartError;
use crate::config::{ConfigError, Settings, Target};
use crate::http::{Connection, HttpError, Response};
use crate::term::Term;

/// How often a request is sent before its connection is given up.
const ATTEMPT_COUNT: u32 = 3;

/// Longest wait for a connection: a machine that is up answers in far less.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Pause before connecting anew once connecting has failed.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// A keep-alive connection that is made when it is needed.
#[derive(Debug, Default)]
pub(super) struct HttpLink {
    connection: Option<Connection>,
    keeps_bodies: bool,
    /// Whether the run is verified. A request that writes is then sent once: a second time it would
    /// be a second write.
    is_verified: bool,
    /// Whether the last attempt to connect failed.
    is_unreachable: bool,
}

/// A method, which also names its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    /// The method and the space behind it, as requests begin.
    pub(super) fn token(self) -> &'static str {
        match self {
            Self::Get => "GET ",
            Self::Put => "PUT ",
            Self::Post => "POST ",
            Self::Delete => "DELETE ",
        }
    }

    fn error_name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }

    fn failure(self, reason: Term) -> Term {
        Term::Tuple(vec![Term::atom(self.error_name()), reason])
    }
}

impl HttpLink {
    /// Connects to `target`.
    pub(super) async fn open(target: &Target, timeout: Duration) -> Result<Self, StartError> {
        let connection = Connection::open(target, timeout).await.map_err(|error| {
            StartError::Connect { target: target.to_string(), reason: error.to_string() }
        })?;
        Ok(Self { connection: Some(connection), ..Self::default() })
    }

    /// Verifies all reads and writes from now on: bodies are kept, too.
    pub(super) fn verify(&mut self) {
        self.is_verified = true;
        self.keep_bodies();
    }

    /// The bodies of responses are kept from now on.
    pub(super) fn keep_bodies(&mut self) {
        self.keeps_bodies = true;
        self.connection.iter_mut().for_each(Connection::keep_bodies);
    }

    /// Content type and body of the last response, where bodies are kept.
    pub(super) fn content(&self) -> (&[u8], &[u8]) {
        self.connection.as_ref().map_or((&[], &[]), Connection::content)
    }

    /// Whether there was no connection to be had for the last request.
    pub(super) fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }

    /// Closes the connection; the next request makes one anew.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    /// The vector clock of the last response that had one; empty when there was none.
    pub(super) fn vclock(&self) -> &[u8] {
        self.connection.as_ref().map_or(&[], Connection::vclock)
    }

    /// Sends a request; connects to `target` when there is no usable connection, and sends anew
    /// when it breaks, [`ATTEMPT_COUNT`] times in all, but once only what writes and is verified.
    /// A timeout is not tried again.
    ///
    /// The error is a reason as basho_bench counts it: `{Method, timeout}`, `max_retries`, ...
    pub(super) async fn request(
        &mut self,
        target: &Target,
        timeout: Duration,
        method: Method,
        head: &[u8],
        body: &[u8],
    ) -> Result<Response, Term> {
        let is_sent_once = self.is_verified && method != Method::Get;
        for _ in 0..if is_sent_once { 1 } else { ATTEMPT_COUNT } {
            if self.connection.as_ref().is_none_or(|connection| !connection.is_reusable()) {
                match Connection::open_within(target, timeout.min(CONNECT_LIMIT), timeout).await {
                    Ok(connection) => {
                        self.is_unreachable = false;
                        let connection = self.connection.insert(connection);
                        if self.keeps_bodies {
                            connection.keep_bodies();
                        }
                    }
                    Err(_) => {
                        self.is_unreachable = true;
                        tokio::time::sleep(RECONNECT_PAUSE).await;
                        continue;
                    }
                }
            }
            let Some(connection) = &mut self.connection else { continue };
            match connection.exchange(head, body).await {
                Ok(response) => return Ok(response),
                Err(HttpError::Connection(_)) => {}
                Err(HttpError::Timeout) => return Err(method.failure(Term::atom("timeout"))),
                Err(HttpError::Malformed(problem)) => {
                    let reason = [Term::atom("bad_response"), Term::String(problem.to_owned())];
                    return Err(method.failure(Term::Tuple(reason.into())));
                }
            }
        }
        Err(Term::atom("max_retries"))
    }
}

/// Counts a status that is not wanted as `{http_error, "NNN"}`.
pub(super) fn check_status(status: u16, wanted: &[u16]) -> Result<(), Term> {
    if wanted.contains(&status) {
        return Ok(());
    }
    Err(Term::Tuple(vec![Term::atom("http_error"), Term::String(status.to_string())]))
}

/// Reads the setting `key`: headers that every request has, as they are sent.
pub(super) fn read_headers(settings: &Settings, key: &str) -> Result<Vec<u8>, ConfigError> {
    let expected = "write a list of {'Header-Name', \"value\"}";
    settings.read(key, Vec::new(), expected, header_lines)
}

/// A list of `{Name, Value}` as headers, each with its line end; nothing when a name is no token or
/// a value would break the line.
pub(super) fn header_lines(term: &Term) -> Option<Vec<u8>> {
    let mut headers = Vec::new();
    for element in term.as_list()? {
        let [name, value] = element.as_tuple()? else { return None };
        let name = name.as_atom().map(str::to_owned).or_else(|| name.as_text())?;
        let value = value.as_text()?;
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) || value.contains(['\r', '\n']) {
            return None;
        }
        headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    Some(headers)
}

/// Characters that a path may have besides letters and digits.
pub(super) const PATH: &[u8] = b"-._~!$&'()*+,;=:@/";

/// The same, of text that may hold percent-encodings already.
pub(super) const ENCODED_PATH: &[u8] = b"-._~!$&'()*+,;=:@/%";

/// The same with a query behind it.
pub(super) const PATH_AND_QUERY: &[u8] = b"-._~!$&'()*+,;=:@/%?";

/// Characters that one segment of a path may have.
pub(super) const SEGMENT: &[u8] = b"-._~!$&'()*+,;=:@";

/// Appends a name to a path; bytes other than letters, digits and those of `kept` are
/// percent-encoded.
pub(super) fn append_to_path(path: &mut Vec<u8>, name: &[u8], kept: &[u8]) {
    use std::io::Write as _;
    for byte in name {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            path.push(*byte);
        } else {
            write!(path, "%{byte:02X}").expect("writing to a vector does not fail");
        }
    }
}
