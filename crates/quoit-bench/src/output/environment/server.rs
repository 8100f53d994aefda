//! Descriptions that servers give of themselves.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use quoit_client::Connection;
use quoit_client::wire::messages::{RpbGetServerInfoReq, RpbGetServerInfoResp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Target;
use crate::http::{Connection as HttpConnection, HttpRequest};
use crate::login::{HttpSecurity, login};
use crate::output::text::size_text;

/// Maximum number of servers that are asked; a report needs no longer list.
const ASKED_MAX: usize = 16;

/// Time limit of a request. A server that takes longer counts as silent.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Member with the size of the server's memory in bytes.
const MEMORY: &str = "mem_total";

/// Members of `/stats` that describe a server.
const FACTS: [&str; 8] = [
    "nodename",
    "sys_system_version",
    "riak_kv_version",
    "storage_backend",
    "ring_num_partitions",
    "ring_members",
    MEMORY,
    "sys_system_architecture",
];

/// A server and its description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Host and port.
    pub address: String,
    /// Pairs of a name and a text; empty if the server did not answer.
    pub facts: Vec<(String, String)>,
    /// The reason why there is no description.
    pub problem: Option<String>,
}

/// Asks the servers one after another, over the protocol of the driver. Returns an empty list if the driver
/// is for servers of another kind.
pub(super) fn ask_all(driver: &str, targets: &[Target]) -> Vec<Server> {
    let ask = match driver {
        "http_raw" => over_http,
        "riakc_pb" | "riakclient" | "nhs" => over_pb,
        _ => return Vec::new(),
    };
    let asked = targets.iter().take(ASKED_MAX).map(|target| {
        let (facts, problem) = match ask(target) {
            Ok(facts) => (facts, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Server { address: target.to_string(), facts, problem }
    });
    asked.collect()
}

fn over_http(target: &Target) -> io::Result<Vec<(String, String)>> {
    if let Some(security) = HttpSecurity::from_environment().map_err(io::Error::other)? {
        return over_https(target, &security);
    }
    let mut addresses = (target.host.as_str(), target.port).to_socket_addrs()?;
    let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // A server closes the connection after an answer to HTTP/1.0, so the answer ends with the stream.
    write!(stream, "GET /stats HTTP/1.0\r\nHost: {target}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    stats_facts(&answer)
}

fn over_https(target: &Target, security: &Arc<HttpSecurity>) -> io::Result<Vec<(String, String)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let head = format!("GET /stats HTTP/1.1\r\nHost: {target}\r\nAccept: application/json\r\n\r\n");
    let asking = async {
        let mut connection = HttpConnection::open(target, TIMEOUT, Some(security)).await?;
        connection.keep_bodies();
        let request = HttpRequest { head: head.as_bytes(), body: b"" };
        let answer = connection.exchange(request).await.map_err(io::Error::other)?;
        match answer.status {
            200 => facts_of(connection.content().body),
            status => Err(io::Error::other(format!("GET /stats gave {status}"))),
        }
    };
    runtime.block_on(asking)
}

/// The known members of an answer to `GET /stats`.
fn stats_facts(answer: &[u8]) -> io::Result<Vec<(String, String)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let body = match response.parse(answer) {
        Ok(httparse::Status::Complete(head_bytes)) => answer.get(head_bytes..),
        _ => None,
    };
    let Some(body) = body else { return Err(malformed("GET /stats gave no HTTP response")) };
    if response.code != Some(200) {
        return Err(malformed(&format!("GET /stats gave {}", response.code.unwrap_or(0))));
    }
    facts_of(body)
}

/// The known members of the document of `/stats`.
fn facts_of(body: &[u8]) -> io::Result<Vec<(String, String)>> {
    let stats: Value = serde_json::from_slice(body)?;
    let facts = FACTS.iter().filter_map(|name| {
        let value = stats.get(*name)?;
        let text = match (*name, value.as_u64()) {
            (MEMORY, Some(size_bytes)) => size_text(size_bytes),
            _ => text_of(value)?,
        };
        Some(((*name).to_owned(), text))
    });
    Ok(facts.collect())
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().filter_map(text_of).collect();
            Some(texts.join(", "))
        }
        other => Some(other.to_string()),
    }
}

fn over_pb(target: &Target) -> io::Result<Vec<(String, String)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asking = async {
        let address = target.to_string();
        let mut connection = match login().map_err(io::Error::other)? {
            Some(login) => Connection::connect_as(&address, login).await,
            None => Connection::connect(&address).await,
        }
        .map_err(io::Error::other)?;
        let answer = connection.call::<_, RpbGetServerInfoResp>(&RpbGetServerInfoReq {}).await;
        answer.map_err(io::Error::other)
    };
    let answer = runtime.block_on(async { tokio::time::timeout(TIMEOUT, asking).await })?;
    let answer = answer?;
    let texts = [("nodename", answer.node), ("server_version", answer.server_version)];
    let known = texts.into_iter().filter_map(|(name, text)| {
        Some((name.to_owned(), String::from_utf8_lossy(&text?).into_owned()))
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_stats_are_taken_and_the_rest_is_left() {
        let body = r#"{"node_gets":1,"nodename":"a@b","ring_members":["a@b","c@d"],"mem_total":2147483648}"#;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
        let facts = stats_facts(answer.as_bytes()).expect("facts");
        let facts: Vec<_> = facts.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        assert_eq!(
            facts,
            [("nodename", "a@b"), ("ring_members", "a@b, c@d"), ("mem_total", "2.0 GB")]
        );
    }

    #[test]
    fn an_answer_that_is_none_is_told() {
        let said = |answer: &str| stats_facts(answer.as_bytes()).expect_err("no facts").to_string();
        assert_eq!(said("HTTP/1.1 404 Not Found\r\n\r\n"), "GET /stats gave 404");
        assert_eq!(said("SSH-2.0\r\n"), "GET /stats gave no HTTP response");
        assert!(said("HTTP/1.1 200 OK\r\n\r\nnot json").contains("expected"));
    }

    #[test]
    fn a_server_that_is_not_there_is_told_with_its_address() {
        // No process listens on a port that has just been released.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let targets = [Target { host: "127.0.0.1".to_owned(), port }];
        for driver in ["http_raw", "riakc_pb"] {
            let servers = ask_all(driver, &targets);
            assert_eq!(servers[0].address, format!("127.0.0.1:{port}"));
            assert!(servers[0].problem.is_some() && servers[0].facts.is_empty(), "{servers:?}");
        }
        assert!(ask_all("redis", &targets).is_empty());
    }
}
