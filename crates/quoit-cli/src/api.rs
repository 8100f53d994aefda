//! Client of a node's HTTP interface: of its administration API and of the API for clients.

use crate::document::value_at;
use crate::local::{LocalConnector, NoResolver};
use crate::login::LoginArgs;
use crate::target::{Target, TargetArgs};
use anyhow::{Result, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use quoit_tls::https::SecureConnector;
use serde_json::Value;
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;
use ureq::http::{self, Method};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Body, SendBody};

/// Time limit of a whole call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Client of a node's HTTP interface. If several nodes are given, it uses the first one that it can connect
/// to, and keeps that node for later calls.
pub struct Api {
    places: Vec<(Target, Agent)>,
    current: Cell<usize>,
    /// Error that prevents all calls, for example an unreadable password file.
    fault: Option<String>,
}

/// Answer of the administration API.
pub enum Answer {
    /// Document of a successful call.
    Done(Value),
    /// Refusal: a stable error code and a message for people.
    Refused {
        /// Stable error code.
        error: String,
        /// Message for people.
        message: String,
        /// The whole document.
        document: Value,
    },
}

/// A request as a client sends it.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Method; GET by default.
    pub method: Method,
    /// Path without the leading slash, with the query.
    pub path: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// The answer to a [`Call`].
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: http::HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

impl Reply {
    /// Value of a header as text; empty if the header is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Body as text, trimmed.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }
}

type Response = http::Response<Body>;

/// Percent-encodes a path segment.
#[must_use]
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

fn agent(target: &Target, login: &LoginArgs) -> Result<Agent> {
    let config = Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        // The body of a refusal is a document with the reason.
        .http_status_as_error(false)
        .max_redirects(0)
        .middleware(Authorization(login.authorization()?.filter(|_| target.is_https())))
        // Response headers contain names and metadata, which can be as long as the node accepts.
        .max_response_header_size(1 << 20)
        .build();
    Ok(match target {
        Target::Http(_) if target.is_https() => {
            let connector = SecureConnector::new(login.config()?);
            Agent::with_parts(config, connector, DefaultResolver::default())
        }
        Target::Http(_) => config.into(),
        Target::Local(path) => {
            Agent::with_parts(config, LocalConnector::new(path.clone()), NoResolver)
        }
    })
}

/// Repeats a refused call through the administration socket, and returns its response. This applies if a
/// node on this machine requires a login or TLS and names a socket that the user can open. A login over
/// HTTPS that was refused stays refused, because the user asked for that login. The socket must belong to
/// the user, unless the user is root.
fn through_socket(
    target: &Target,
    refused: &Response,
    call: &impl Fn(&Agent, &str) -> Result<Response, ureq::Error>,
) -> Option<Response> {
    use std::os::unix::fs::MetadataExt as _;
    let is_locked = matches!(refused.status().as_u16(), 401 | 426) && !target.is_https();
    if !is_locked || !target.is_this_machine() {
        return None;
    }
    let path = PathBuf::from(refused.headers().get("quoit-admin-socket")?.to_str().ok()?);
    let user = rustix::process::geteuid();
    let owner = std::fs::metadata(&path).ok()?.uid();
    if owner != user.as_raw() && !user.is_root() {
        return None;
    }
    let local = Target::Local(path);
    call(&agent(&local, &LoginArgs::default()).ok()?, local.base()).ok()
}

/// Adds the `Authorization` header to requests.
struct Authorization(Option<String>);

impl Middleware for Authorization {
    fn handle(
        &self,
        mut request: http::Request<SendBody<'_>>,
        next: MiddlewareNext<'_>,
    ) -> Result<Response, ureq::Error> {
        if let Some(value) = self.0.as_deref().and_then(|value| value.parse().ok()) {
            request.headers_mut().insert(http::header::AUTHORIZATION, value);
        }
        next.handle(request)
    }
}

/// True if the request did not reach a node, so that it is safe to send it to another node.
fn is_unreachable(error: &ureq::Error) -> bool {
    use std::io::ErrorKind as K;
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => true,
        ureq::Error::Io(fault) if is_unknown_host(fault) => true,
        ureq::Error::Io(fault) => matches!(
            fault.kind(),
            K::ConnectionRefused
                | K::NotFound
                | K::PermissionDenied
                | K::HostUnreachable
                | K::NetworkUnreachable
                | K::AddrNotAvailable
        ),
        _ => false,
    }
}

/// True if the host name could not be resolved. The error has no kind for this, only a message.
fn is_unknown_host(fault: &std::io::Error) -> bool {
    fault.to_string().contains("lookup address")
}

impl Api {
    /// Creates a client of the first node of `targets` that it can connect to.
    #[must_use]
    pub fn new(targets: &TargetArgs) -> Self {
        Self::as_user(targets.targets(), &targets.login)
    }

    /// Creates a client of the first of these nodes that it can connect to; there must be at least one.
    #[must_use]
    pub fn of(targets: Vec<Target>) -> Self {
        Self::as_user(targets, &LoginArgs::default())
    }

    fn as_user(targets: Vec<Target>, login: &LoginArgs) -> Self {
        assert!(!targets.is_empty(), "there is a node to ask");
        let (mut places, mut fault) = (Vec::new(), None);
        for target in targets {
            match agent(&target, login) {
                Ok(agent) => places.push((target, agent)),
                Err(error) => {
                    fault = Some(format!("{error:#}"));
                    places.push((target, Agent::new_with_defaults()));
                }
            }
        }
        Self { places, current: Cell::new(0), fault }
    }

    /// The node that calls go to at present.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "`current` is the number of a node")]
    pub fn target(&self) -> &Target {
        &self.places[self.current.get()].0
    }

    /// Calls the current node. If it can't connect to a node, it tries the next one. It tries each node once.
    #[expect(clippy::indexing_slicing, reason = "`current` is the number of a node")]
    fn ask(
        &self,
        call: impl Fn(&Agent, &str) -> Result<Response, ureq::Error>,
    ) -> Result<Response> {
        if let Some(fault) = &self.fault {
            bail!("{fault}");
        }
        let first = self.current.get();
        let mut first_failure = None;
        for step in 0..self.places.len() {
            let place = (first + step) % self.places.len();
            self.current.set(place);
            let (target, agent) = &self.places[place];
            match call(agent, target.base()) {
                Ok(response) => {
                    return Ok(through_socket(target, &response, &call).unwrap_or(response));
                }
                Err(error) => {
                    let is_last = step + 1 == self.places.len();
                    let goes_on = is_unreachable(&error) && !is_last;
                    let failure = self.failed(error);
                    if !goes_on {
                        return Err(match first_failure {
                            Some(_) if self.places.len() > 1 => {
                                let all: Vec<String> = self
                                    .places
                                    .iter()
                                    .map(|(target, _)| target.to_string())
                                    .collect();
                                failure.context(format!("none of {} can be asked", all.join(", ")))
                            }
                            _ => failure,
                        });
                    }
                    first_failure.get_or_insert(failure);
                }
            }
        }
        unreachable!("the last node's answer or failure is returned")
    }

    /// Sends a client's request and returns the reply, whatever its status.
    ///
    /// # Errors
    ///
    /// No node answers.
    pub fn call(&self, call: &Call) -> Result<Reply> {
        let mut response = self.ask(|agent, base| {
            let mut request = http::Request::builder()
                .method(call.method.clone())
                .uri(format!("{base}/{}", call.path));
            for (name, value) in &call.headers {
                request = request.header(name, value);
            }
            match call.method {
                Method::GET | Method::HEAD => agent.run(request.body(())?),
                _ => agent.run(request.body(&call.body[..])?),
            }
        })?;
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
        Ok(Reply { status: response.status().as_u16(), headers: response.headers().clone(), body })
    }

    /// Starts to read a resource of the client API whose body may be endless. Returns the status and the
    /// body. The read has no time limit.
    ///
    /// # Errors
    ///
    /// No node answers.
    pub fn open(&self, path: &str) -> Result<(u16, Body)> {
        let response = self.ask(|agent, base| {
            let request = agent.get(format!("{base}/{path}"));
            request.config().timeout_global(None).build().call()
        })?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    /// Reads a document of the administration API.
    ///
    /// # Errors
    ///
    /// No node answers, or the answer is not a document of the administration API.
    pub fn get(&self, path: &str) -> Result<Answer> {
        self.read(self.ask(|agent, base| agent.get(format!("{base}/admin/v1/{path}")).call()))
    }

    /// Reads a resource of the client API. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// No node answers, or the node refuses.
    pub fn get_data(&self, path: &str) -> Result<Option<Value>> {
        let reply = self.call(&Call { path: path.to_owned(), ..Call::default() })?;
        match (reply.status, serde_json::from_slice::<Value>(&reply.body)) {
            (200, Ok(document)) => Ok(Some(document)),
            (404, Ok(document)) if value_at(&document, "/error") == "notfound" => Ok(None),
            // The body is an HTML page: the bucket type does not exist.
            (404, Err(_)) => Ok(None),
            _ => bail!("{}", reply.text()),
        }
    }

    /// Describes the likely cause of a failed request and the remedy.
    fn no_answer(&self, error: &ureq::Error) -> String {
        let target = self.target();
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                format!("{target} is not a URL; write --url HOST:PORT")
            }
            ureq::Error::Protocol(_) => format!(
                "the server at {target} does not speak HTTP; --url is the address of a node's \
                 listener.http \
                 (port 8098 by default)"
            ),
            ureq::Error::Timeout(ureq::Timeout::Connect) => format!(
                "no connection to {target} within {} s; is the machine up, and does a firewall let it \
                 through?",
                CONNECT_TIMEOUT.as_secs()
            ),
            ureq::Error::Timeout(_) => format!(
                "no answer from {target} within {} s; the node there is overloaded, or hangs",
                TIMEOUT.as_secs()
            ),
            ureq::Error::HostNotFound => format!("{target}: there is no host of that name"),
            ureq::Error::Io(fault) if is_unknown_host(fault) => {
                format!("{target}: there is no host of that name")
            }
            ureq::Error::Io(fault) if fault.kind() == std::io::ErrorKind::UnexpectedEof => format!(
                "{target} ended the connection without an answer in HTTP; --url is the address of a node's \
                 listener.http (port 8098 by default)"
            ),
            ureq::Error::Io(fault) => no_connection(target, fault.kind()),
            _ => no_connection(target, std::io::ErrorKind::Other),
        }
    }

    fn failed(&self, error: ureq::Error) -> anyhow::Error {
        let told = self.no_answer(&error);
        anyhow::Error::new(error).context(told)
    }

    /// Sends a document with PUT.
    ///
    /// # Errors
    ///
    /// Like [`Api::get`].
    pub fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        self.read(
            self.ask(|agent, base| agent.put(format!("{base}/admin/v1/{path}")).send_json(body)),
        )
    }

    /// Sends a POST request, with a document if one is given.
    ///
    /// # Errors
    ///
    /// Like [`Api::get`].
    pub fn post(&self, path: &str, body: Option<&Value>) -> Result<Answer> {
        self.read(self.ask(|agent, base| {
            let request = agent.post(format!("{base}/admin/v1/{path}"));
            match body {
                Some(body) => request.send_json(body),
                None => request.send_empty(),
            }
        }))
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    ///
    /// Like [`Api::get`].
    pub fn delete(&self, path: &str) -> Result<Answer> {
        self.read(self.ask(|agent, base| agent.delete(format!("{base}/admin/v1/{path}")).call()))
    }

    fn read(&self, response: Result<Response>) -> Result<Answer> {
        let mut response = response?;
        let status = response.status();
        let document: Value = match response.body_mut().read_json() {
            Ok(document) => document,
            Err(_) => {
                bail!(
                    "{} answered {status} without a document of the administration API; is it the HTTP \
                     address of a quoit node?",
                    self.target()
                )
            }
        };
        if status.is_success() {
            return Ok(Answer::Done(document));
        }
        let text =
            |pointer: &str| value_at(&document, pointer).as_str().unwrap_or_default().to_owned();
        Ok(Answer::Refused { error: text("/error"), message: text("/message"), document })
    }
}

/// Describes the likely cause of a failed connection and the remedy.
fn no_connection(target: &Target, kind: std::io::ErrorKind) -> String {
    match (target, kind) {
        (Target::Local(_), std::io::ErrorKind::PermissionDenied) => format!(
            "{target} may be opened by the user of the node only: run the command as that user (sudo -u \
             quoit)"
        ),
        (Target::Local(_), std::io::ErrorKind::NotFound) => {
            format!("{target} is not there; does a node run with this data directory?")
        }
        _ => format!(
            "no answer from {target}; is a node running there? (--url HOST:PORT names another)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Answers one request with a document.
    fn answer_once(mut stream: impl Read + Write) {
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n")
            && stream.read(&mut byte).is_ok_and(|count| count == 1)
        {
            request.push(byte[0]);
        }
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n";
        write!(stream, "{answer}{{\"ping\":\"pong\"}}").expect("it reads");
    }

    fn is_pong(api: &Api) -> bool {
        matches!(api.get("ping"), Ok(Answer::Done(document)) if document["ping"] == "pong")
    }

    #[test]
    fn the_next_node_is_asked_while_one_cannot_be_connected_to() {
        let dead =
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it has one");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let alive = listener.local_addr().expect("it has one");
        let node = thread::spawn(move || answer_once(listener.accept().expect("somebody asks").0));
        let targets = [dead, alive].map(|address| Target::of(&address.to_string()));
        let api = Api::of(targets.to_vec());
        assert!(is_pong(&api));
        assert_eq!(api.target(), &targets[1]);
        node.join().expect("it has answered");
        let told = format!("{:#}", api.get("ping").err().expect("nobody is left"));
        assert!(told.contains("none of") && told.contains(&dead.to_string()), "{told}");
    }

    #[test]
    fn a_node_is_reached_through_its_socket_however_long_the_path_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let long = directory.path().join("x".repeat(200));
        std::fs::create_dir(&long).expect("a directory");
        let path = long.join(crate::local::SOCKET_FILE);
        let listener = crate::local::with_short_path(&path, |path| UnixListener::bind(path));
        let listener = listener.expect("it listens");
        let node = thread::spawn(move || answer_once(listener.accept().expect("somebody asks").0));
        let api = Api::of(vec![Target::of(&format!("unix:{}", long.display()))]);
        assert!(is_pong(&api));
        node.join().expect("it has answered");
        std::fs::remove_file(&path).expect("it is there");
        let told = format!("{:#}", api.get("ping").err().expect("nobody listens"));
        assert!(told.contains("does a node run with this data directory"), "{told}");
    }
}
