//! Addresses of peers, in the form of `replrtq_sinkpeers`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Protocol of a connection to a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Protocol Buffers.
    Pb,
    /// HTTP.
    Http,
}

/// A node of another cluster, and the queue that is consumed there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PeerAddress {
    /// Name of the queue; `None` for the default queue.
    pub queue: Option<String>,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
}

impl PeerAddress {
    /// `host:port`, with an IPv6 address in brackets.
    #[must_use]
    pub fn host_and_port(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Reads a list `host:port:protocol|queue:host:port:protocol`. Returns the valid addresses, and an
    /// error for each invalid one.
    #[must_use]
    pub fn read_list(text: &str) -> (Vec<Self>, Vec<PeerAddressError>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for part in text.split('|').map(str::trim).filter(|part| !part.is_empty()) {
            match part.parse() {
                Ok(peer) => good.push(peer),
                Err(fault) => bad.push(fault),
            }
        }
        (good, bad)
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Pb => "pb",
            Protocol::Http => "http",
        };
        if let Some(queue) = &self.queue {
            write!(formatter, "{queue}:")?;
        }
        write!(formatter, "{}:{protocol}", self.host_and_port())
    }
}

/// Error for a text that is not the address of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{0}` is not a peer: wanted HOST:PORT:pb or QUEUE:HOST:PORT:pb, such as 10.0.0.1:8087:pb")]
pub struct PeerAddressError(pub String);

impl FromStr for PeerAddress {
    type Err = PeerAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || PeerAddressError(text.to_owned());
        let (rest, protocol) = text.rsplit_once(':').ok_or_else(bad)?;
        let protocol = match protocol {
            "pb" => Protocol::Pb,
            "http" => Protocol::Http,
            _ => return Err(bad()),
        };
        let (rest, port) = rest.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
        let (queue, host) = match rest.strip_suffix(']') {
            // An IPv6 address in brackets, possibly after a queue.
            Some(rest) => {
                let (queue, host) = rest.split_once('[').ok_or_else(bad)?;
                (queue.strip_suffix(':'), host)
            }
            None => match rest.split_once(':') {
                Some((queue, host)) => (Some(queue), host),
                None => (None, rest),
            },
        };
        let is_bad = |part: &str| part.is_empty() || part.contains(char::is_whitespace);
        if is_bad(host) || queue.is_some_and(is_bad) {
            return Err(bad());
        }
        Ok(Self { queue: queue.map(str::to_owned), host: host.to_owned(), port, protocol })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_and_shown_with_and_without_a_queue() {
        for text in [
            "10.0.0.1:8087:pb",
            "node.example:8098:http",
            "q2:10.0.0.1:8087:pb",
            "[::1]:8087:pb",
            "q1:[fe80::1]:8087:pb",
        ] {
            let peer: PeerAddress = text.parse().expect("a peer");
            assert_eq!(peer.to_string(), text);
        }
        let peer: PeerAddress = "q1:[fe80::1]:8087:pb".parse().expect("a peer");
        assert_eq!((peer.queue.as_deref(), &*peer.host), (Some("q1"), "fe80::1"));
    }

    #[test]
    fn a_list_gives_its_good_peers_and_a_fault_for_each_bad_one() {
        let text = "h:1:pb|h:1|h::pb|:1:pb|h:0:pb|h:1:ftp|q:h:2:pb";
        let (good, bad) = PeerAddress::read_list(text);
        assert_eq!((good.len(), bad.len()), (2, 5));
        assert!(bad[0].to_string().contains("`h:1`"));
    }
}
