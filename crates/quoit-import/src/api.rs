//! Requests to a cluster's administration API, and to the HTTP interface that Riak and Quoit have in
//! common.

use anyhow::{Context, Result, bail};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longest wait for an answer. The digest of a bucket takes time in proportion to the bucket.
const TIMEOUT: Duration = Duration::from_secs(3600);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default time for which requests are repeated while the cluster can't answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// First and longest pause between repeated requests; each pause is twice the one before.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Most characters that are shown of an error text that is not JSON.
const ERROR_CHARS_MAX: usize = 300;

/// A node's HTTP interface.
#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    agent: ureq::Agent,
    patience: Duration,
}

/// A path segment, percent-encoded.
pub(crate) fn segment(name: &[u8]) -> String {
    percent_encode(name, NON_ALPHANUMERIC).to_string()
}

impl Api {
    /// A client of the node at `url`, for example `http://127.0.0.1:8098`, or the same without a scheme.
    pub(crate) fn new(url: &str) -> Self {
        let url = url.trim().trim_end_matches('/');
        let base = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .build();
        Self { base, agent: config.into(), patience: PATIENCE }
    }

    /// Sets the time for which requests are repeated while the cluster can't answer.
    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Time for which requests are repeated while the cluster can't answer.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The host of the URL and its port, if it names one, without a user and a password.
    pub(crate) fn authority(&self) -> &str {
        let authority = self.base.split("://").nth(1).unwrap_or(&self.base);
        let authority = authority.split('/').next().unwrap_or(authority);
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    }

    /// The host of the URL, without its port.
    pub(crate) fn host(&self) -> &str {
        let authority = self.authority();
        match authority.rsplit_once(':') {
            Some((host, _)) if !authority.ends_with(']') => host,
            _ => authority,
        }
    }

    /// Requests a path and returns status and JSON document: `null` if there is no JSON, and the text of an
    /// error that is not JSON.
    pub(crate) fn get(&self, path: &str) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.get(&url).call())
    }

    /// Requests a path as [`get`](Self::get), and repeats the request while no node answers: for use during
    /// an import.
    pub(crate) fn get_with_retries(&self, path: &str) -> Result<(u16, Value)> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match self.get(path) {
                Err(_) if began.elapsed() < self.patience => {}
                answer => return answer,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.put(&url).send_json(body))
    }

    pub(crate) fn post(&self, path: &str) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.post(&url).send_empty())
    }

    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.post(&url).send_json(body))
    }

    /// Deletes the resource at a path, and returns the status.
    pub(crate) fn delete(&self, path: &str) -> Result<u16> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.delete(&url).call()).map(|(status, _)| status)
    }

    pub(crate) fn post_records(&self, path: &str, body: &[u8]) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        let request = self.agent.post(&url).header("Content-Type", "application/octet-stream");
        self.read(request.send(body))
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Value)> {
        let mut response = response.with_context(|| {
            format!(
                "no answer from {}; is a node running there? (the address of its listener.http)",
                self.base
            )
        })?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        Ok((status, document_of(status, &text)))
    }

    /// Returns the document of a successful answer, or an error with the node's own message.
    pub(crate) fn done(&self, (status, document): (u16, Value)) -> Result<Value> {
        if status < 300 {
            return Ok(document);
        }
        // Quoit answers JSON for unknown paths, so an answer without JSON comes from another server.
        let question = if status == 404 { "; is it a node of quoit?" } else { "" };
        match (document.get("message").and_then(Value::as_str), document.as_str()) {
            (Some(message), _) => bail!("{} refuses: {message}", self.base),
            (None, Some(text)) => bail!("{} answers status {status}: {text}{question}", self.base),
            (None, None) => bail!("{} answers status {status}; is it a node of quoit?", self.base),
        }
    }
}

/// Parses the JSON of an answer. An error that is not JSON becomes the beginning of its text, in one line.
fn document_of(status: u16, text: &str) -> Value {
    if let Ok(document) = serde_json::from_str(text) {
        return document;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if status < 300 || words.is_empty() {
        return Value::Null;
    }
    Value::String(words.join(" ").chars().take(ERROR_CHARS_MAX).collect())
}

/// A fake node for tests.
#[cfg(test)]
pub(crate) mod fake {
    use super::Api;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// A function from a request's first line and body to the status and text of the answer.
    type Answer = dyn Fn(&str, &[u8]) -> (u16, String);

    /// Starts a node that answers each request with the result of a function.
    pub(crate) fn node(answer: impl Fn(&str, &[u8]) -> (u16, String) + Send + 'static) -> Api {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.expect("a connection"), &answer);
            }
        });
        Api::new(&address.to_string())
    }

    /// Answers one request, and closes the connection.
    fn serve(mut stream: TcpStream, answer: &Answer) {
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let (mut first, mut len) = (String::new(), 0);
        reader.read_line(&mut first).expect("a line");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a header");
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                len = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).expect("a body");
        let (status, text) = answer(first.trim(), &body);
        let head = format!(
            "HTTP/1.1 {status} Some Words\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).expect("a head");
        stream.write_all(text.as_bytes()).expect("a text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_that_of_the_url() {
        let host = |url: &str| Api::new(url).host().to_owned();
        assert_eq!(host("http://db1:8098/"), "db1");
        assert_eq!(host("10.0.0.1:8098"), "10.0.0.1");
        assert_eq!(host("http://[::1]:8098"), "[::1]");
        assert_eq!(host("https://proxy/riak"), "proxy");
        assert_eq!(host("https://alice:se@cret@db1:8098/"), "db1");
        assert_eq!(Api::new("http://alice:secret@[::1]:8098").authority(), "[::1]:8098");
    }

    #[test]
    fn an_error_without_json_is_told_with_the_beginning_of_its_text() {
        let api = Api::new("h");
        let told = |status: u16, text: &str| match api.done((status, document_of(status, text))) {
            Ok(document) => panic!("{document} is no refusal"),
            Err(fault) => fault.to_string(),
        };
        let refused = told(413, "The document\n is not read\n");
        assert_eq!(refused, "http://h answers status 413: The document is not read");
        assert_eq!(told(400, r#"{"message":"no"}"#), "http://h refuses: no");
        assert_eq!(told(500, ""), "http://h answers status 500; is it a node of quoit?");
        assert!(told(404, "<html>").ends_with("<html>; is it a node of quoit?"));
        assert!(told(502, &"x".repeat(1000)).len() < 400);
        assert_eq!(document_of(200, "OK"), Value::Null);
    }
}
