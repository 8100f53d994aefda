//! One worker's connection to one server of the HTTP API.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quoit_client::TlsSettings;

use super::StartError;
use crate::config::{ConfigError, Settings, Target};
use crate::http::{
    Connection, ConnectionLimits, HttpError, HttpRequest, Response, ResponseContent,
};
use crate::login::HttpSecurity;
use crate::term::Term;

/// Number of times that a request is sent before the worker gives up.
const ATTEMPT_COUNT: u32 = 3;

/// Maximum time to connect. A live machine answers much sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Pause before the next attempt to connect, after a failed one.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// A keep-alive connection that is opened when it is needed.
#[derive(Debug)]
pub(super) struct HttpLink {
    security: Option<Arc<HttpSecurity>>,
    connection: Option<Connection>,
    keeps_bodies: bool,
    /// True if the run verifies. A write is then sent only once, because sending it again would be a second
    /// write.
    is_verified: bool,
    /// True if the last attempt to connect failed.
    is_unreachable: bool,
    /// True if the last request got no answer because its connection was lost or could not be opened.
    is_lost: bool,
}

/// An HTTP method. It is part of the reasons of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    /// The method followed by a space, the beginning of a request.
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
    pub(super) async fn open(
        target: &Target,
        timeout: Duration,
        security: Option<Arc<HttpSecurity>>,
    ) -> Result<Self, StartError> {
        let mut link = Self::new(security);
        let opened = Connection::open(target, timeout, link.security.as_ref()).await;
        let connection = opened.map_err(|error| StartError::Connect {
            target: target.to_string(),
            reason: error.to_string(),
        })?;
        link.connection = Some(connection);
        Ok(link)
    }

    /// Creates a link that connects with its first request.
    pub(super) const fn new(security: Option<Arc<HttpSecurity>>) -> Self {
        Self {
            security,
            connection: None,
            keeps_bodies: false,
            is_verified: false,
            is_unreachable: false,
            is_lost: false,
        }
    }

    /// Switches to the behaviour of verified runs; bodies are kept, too.
    pub(super) fn verify(&mut self) {
        self.is_verified = true;
        self.keep_bodies();
    }

    /// Keeps the bodies of responses from now on.
    pub(super) fn keep_bodies(&mut self) {
        self.keeps_bodies = true;
        self.connection.iter_mut().for_each(Connection::keep_bodies);
    }

    /// The content of the last response, if bodies are kept.
    pub(super) fn content(&self) -> ResponseContent<'_> {
        self.connection.as_ref().map_or_else(ResponseContent::default, Connection::content)
    }

    /// True if no connection could be opened for the last request.
    pub(super) fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }

    /// True if the last request got no answer because its connection was lost or could not be opened.
    /// Another server may answer the request.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Closes the connection. The next request opens a new one.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    /// The vector clock of the last response that had one; empty if none had.
    pub(super) fn vclock(&self) -> &[u8] {
        self.connection.as_ref().map_or(&[], Connection::vclock)
    }

    /// Sends a request. Connects to `target` if there is no usable connection. If the connection breaks,
    /// the request is sent again, at most [`ATTEMPT_COUNT`] times in all; a write in a verified run is sent
    /// once. A request that times out is not sent again.
    ///
    /// The error is a reason as basho_bench counts it: `{Method, timeout}`, `max_retries`, ...
    pub(super) async fn request(
        &mut self,
        target: &Target,
        timeout: Duration,
        method: Method,
        request: HttpRequest<'_>,
    ) -> Result<Response, Term> {
        self.is_lost = false;
        let is_sent_once = self.is_verified && method != Method::Get;
        for _ in 0..if is_sent_once { 1 } else { ATTEMPT_COUNT } {
            if self.connection.as_ref().is_none_or(|connection| !connection.is_reusable()) {
                let limits =
                    ConnectionLimits { connect: timeout.min(CONNECT_LIMIT), request: timeout };
                let security = self.security.as_ref();
                match Connection::open_within(target, limits, security).await {
                    Ok(connection) => {
                        self.is_unreachable = false;
                        let connection = self.connection.insert(connection);
                        if self.keeps_bodies {
                            connection.keep_bodies();
                        }
                    }
                    Err(error) => {
                        self.is_unreachable = true;
                        // A machine that does not answer for this long is not tried again for this request.
                        if error.kind() == std::io::ErrorKind::TimedOut {
                            break;
                        }
                        tokio::time::sleep(RECONNECT_PAUSE).await;
                        continue;
                    }
                }
            }
            let Some(connection) = &mut self.connection else { continue };
            match connection.exchange(request).await {
                Ok(response) => return Ok(response),
                Err(HttpError::Connection(_)) => {}
                Err(HttpError::Timeout) => return Err(method.failure(Term::atom("timeout"))),
                Err(HttpError::Malformed(problem)) => {
                    let reason = [Term::atom("bad_response"), Term::String(problem.to_owned())];
                    return Err(method.failure(Term::Tuple(reason.into())));
                }
            }
        }
        self.is_lost = true;
        Err(Term::atom("max_retries"))
    }
}

/// Checks a status. An unexpected one gives the reason `{http_error, "NNN"}`.
pub(super) fn check_status(status: u16, wanted: &[u16]) -> Result<(), Term> {
    if wanted.contains(&status) {
        return Ok(());
    }
    Err(Term::Tuple(vec![Term::atom("http_error"), Term::String(status.to_string())]))
}

/// TLS and login of a driver over HTTP that has no settings for them: those of the environment.
pub(super) fn read_security(settings: &Settings) -> Result<Option<Arc<HttpSecurity>>, ConfigError> {
    HttpSecurity::from_environment().map_err(|fault| settings.value_error("driver", fault))
}

/// Reads the setting `http_use_ssl`: a boolean, or a list of files in the form of TLS options.
pub(super) fn read_use_ssl(settings: &Settings) -> Result<Option<Arc<HttpSecurity>>, ConfigError> {
    let expected = "write true, false, or a list of {cacertfile, \"FILE\"}, {certfile, \"FILE\"} and \
                    {keyfile, \"FILE\"}";
    match settings.read("http_use_ssl", None, expected, |term| files_of(term).map(Some))? {
        Some(UseSsl::Files(files)) => {
            let security = HttpSecurity::with_files(files);
            security.map(Some).map_err(|fault| settings.value_error("http_use_ssl", fault))
        }
        Some(UseSsl::Off) if matches!(crate::login::login(), Ok(Some(_))) => {
            let fault = "a login (QUOIT_USER) is not sent in clear: take the setting out";
            Err(settings.value_error("http_use_ssl", fault.to_owned()))
        }
        _ => read_security(settings),
    }
}

/// A value of `http_use_ssl`.
enum UseSsl {
    Off,
    Files(TlsSettings),
}

fn files_of(term: &Term) -> Option<UseSsl> {
    let mut files = TlsSettings::default();
    match term.as_atom() {
        Some("false") => return Some(UseSsl::Off),
        Some("true") => return Some(UseSsl::Files(files)),
        _ => {}
    }
    let (mut certificate, mut key) = (None, None);
    for option in term.as_list()? {
        let [name, value] = option.as_tuple()? else { return None };
        let file = PathBuf::from(value.as_text()?);
        match name.as_atom()? {
            "cacertfile" => files.authorities = file,
            "certfile" => certificate = Some(file),
            "keyfile" => key = Some(file),
            _ => return None,
        }
    }
    if certificate.is_some() != key.is_some() {
        return None;
    }
    files.identity = certificate.zip(key);
    Some(UseSsl::Files(files))
}

/// Reads the setting `key`: headers that are added to every request, in wire form.
pub(super) fn read_headers(settings: &Settings, key: &str) -> Result<Vec<u8>, ConfigError> {
    let expected = "write a list of {'Header-Name', \"value\"}";
    settings.read(key, Vec::new(), expected, header_lines)
}

/// Encodes a list of `{Name, Value}` as header lines. Returns `None` if a name is not a token or a value
/// contains a line break.
pub(super) fn header_lines(term: &Term) -> Option<Vec<u8>> {
    let mut headers = Vec::new();
    for element in term.as_list()? {
        let [name, value] = element.as_tuple()? else { return None };
        let name = name.as_atom().map(str::to_owned).or_else(|| name.as_text())?;
        let value = match value {
            Term::Atom(name) => name.clone(),
            Term::Integer(number) => number.to_string(),
            text => text.as_text()?,
        };
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) || value.contains(['\r', '\n']) {
            return None;
        }
        headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    Some(headers)
}

/// Bytes that stay unencoded in a part of a request line, besides letters and digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptBytes(&'static [u8]);

/// Bytes that stay unencoded in a path.
pub(super) const PATH: KeptBytes = KeptBytes(b"-._~!$&'()*,;=:@/");

/// Bytes that stay unencoded in a path that may already contain percent-encodings.
pub(super) const ENCODED_PATH: KeptBytes = KeptBytes(b"-._~!$&'()*+,;=:@/%");

/// Bytes that stay unencoded in a path with a query.
pub(super) const PATH_AND_QUERY: KeptBytes = KeptBytes(b"-._~!$&'()*+,;=:@/%?");

/// Bytes that stay unencoded in one segment of a path.
pub(super) const SEGMENT: KeptBytes = KeptBytes(b"-._~!$&'()*,;=:@");

/// Appends a name to a path. Bytes other than letters, digits and those of `kept` are percent-encoded.
pub(super) fn append_to_path(path: &mut Vec<u8>, name: &[u8], kept: KeptBytes) {
    use std::io::Write as _;
    for byte in name {
        if byte.is_ascii_alphanumeric() || kept.0.contains(byte) {
            path.push(*byte);
        } else {
            write!(path, "%{byte:02X}").expect("writing to a vector does not fail");
        }
    }
}
