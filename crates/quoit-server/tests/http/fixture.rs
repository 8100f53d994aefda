//! A server on the memory engine, and an HTTP client that sends raw bytes.

use quoit_seam::{Clock, ManualClock};
use quoit_server::{AuditLog, Protocol, Server, ServerContext, ServerSettings, bind};
use quoit_testkit::TestNode;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const START_US: u64 = 1_700_000_000_000_000;
/// A test that receives nothing for this long has failed. No test waits this long on purpose.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub struct Node {
    pub address: SocketAddr,
    pub pb_address: SocketAddr,
    pub clock: Arc<ManualClock>,
    pub context: Arc<ServerContext>,
    server: Option<Server>,
    runtime: Runtime,
}

impl Node {
    pub fn start() -> Self {
        Self::with(ServerSettings::default())
    }

    pub fn with(settings: ServerSettings) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Self::made(settings, builder.worker_threads(1).enable_all().build().unwrap())
    }

    /// Starts a node that records changes and refusals.
    pub fn audited(audit: AuditLog) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        Self::assembled(ServerSettings::default(), audit, runtime)
    }

    /// Starts a node on the given runtime. A runtime with a single thread only runs inside [`Node::run`].
    pub fn inside(runtime: Runtime) -> Self {
        Self::made(ServerSettings::default(), runtime)
    }

    /// The same with settings.
    pub fn inside_with(settings: ServerSettings, runtime: Runtime) -> Self {
        Self::made(settings, runtime)
    }

    /// Runs the node's runtime until the future is ready.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn made(settings: ServerSettings, runtime: Runtime) -> Self {
        Self::assembled(settings, AuditLog::off(), runtime)
    }

    fn assembled(settings: ServerSettings, audit: AuditLog, runtime: Runtime) -> Self {
        let clock = Arc::new(ManualClock::at(START_US));
        let node = TestNode::new(7, "quoit", Arc::clone(&clock) as Arc<dyn Clock>);
        let node = node.assemble().unwrap();
        let context = ServerContext::new(node.store, "quoit@test".to_owned(), "memory", settings);
        let context = Arc::new(context.with_audit(audit));
        let server = Server::new(Arc::clone(&context));
        let serve = |protocol| {
            let _inside = runtime.enter();
            let listener = bind("127.0.0.1:0".parse().unwrap(), 64).unwrap();
            let address = listener.local_addr().unwrap();
            server.serve(listener, protocol);
            address
        };
        let (address, pb_address) = (serve(Protocol::Http), serve(Protocol::Pb));
        Self { address, pb_address, clock, context, server: Some(server), runtime }
    }

    pub fn connect(&self) -> Client {
        Client::new(self.address)
    }

    /// Stops the server. Returns true if all connections ended in time.
    pub fn stop(&mut self) -> bool {
        let server = self.server.take().expect("stopped once");
        self.runtime.block_on(server.stop(PATIENCE))
    }

    /// Sends a GET without further headers on a connection of its own.
    pub fn get(&self, path: &str) -> Answer {
        self.connect().request("GET", path, &[], b"")
    }

    /// Stores a text.
    pub fn put(&self, path: &str, body: &str) -> Answer {
        let headers = [("Content-Type", "text/plain")];
        self.connect().request("PUT", path, &headers, body.as_bytes())
    }

    /// Sends a JSON document.
    pub fn send_json(&self, method: &str, path: &str, document: &str) -> Answer {
        let headers = [("Content-Type", "application/json")];
        self.connect().request(method, path, &headers, document.as_bytes())
    }

    /// Creates a bucket type and activates it.
    pub fn make_type(&self, name: &str, props: &str) {
        let path = format!("/admin/v1/bucket-types/{name}");
        let document = format!("{{\"props\":{props}}}");
        assert_eq!(self.send_json("PUT", &path, &document).status, 200);
        let path = format!("{path}/activate");
        assert_eq!(self.connect().request("POST", &path, &[], b"").status, 200);
    }
}

/// One connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header with a name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Reads an answer; `method` determines whether it has a body.
    pub fn read(&mut self, method: &str) -> Answer {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").expect("a header");
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if method != "HEAD" && !matches!(status, 100 | 204 | 304) {
            answer.body = self.body(&answer);
        }
        answer
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        if let Some(length) = answer.header("content-length") {
            return self.bytes(length.parse().unwrap());
        }
        let mut body = Vec::new();
        if answer.header("transfer-encoding").is_none() {
            self.stream.read_to_end(&mut body).unwrap();
            return body;
        }
        loop {
            let size = usize::from_str_radix(&self.line(), 16).expect("the size of a chunk");
            body.extend(self.bytes(size));
            assert_eq!(self.line(), "");
            if size == 0 {
                return body;
            }
        }
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.truncate(line.trim_end().len());
        line
    }

    /// True if there are bytes to read.
    pub fn has_answer(&self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let is_there = !self.stream.buffer().is_empty() || stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        is_there
    }

    /// Reads until the server closes the connection.
    pub fn drain(mut self) {
        // A server that stops may reset the connection.
        let _ = std::io::copy(&mut self.stream, &mut std::io::sink());
    }

    /// True if the server has closed the connection and no bytes remain.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(count) => count == 0,
            Err(fault) => fault.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.send(&bytes);
        self.read(method)
    }
}
