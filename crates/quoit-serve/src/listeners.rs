//! The listening sockets of a node.

use anyhow::{Context, Error, Result, bail};
use quoit_cluster::Addresses;
use quoit_config::Settings;
use quoit_server::{Protocol, ReachableListeners, Server, bind};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Default number of connections that may wait to be accepted by a listener.
const BACKLOG_DEFAULT: u32 = 128;

/// Sockets that listen and are not served yet, and their addresses.
pub(crate) struct Listeners {
    pub(crate) clients: ClientListeners,
    pub(crate) node: TcpListener,
    pub(crate) at: BoundAddresses,
}

/// Listening sockets for clients.
pub(crate) struct ClientListeners {
    pb: Vec<TcpListener>,
    http: Vec<TcpListener>,
    pb_tls: Vec<TcpListener>,
    https: Vec<TcpListener>,
}

impl ClientListeners {
    /// Starts to accept clients.
    pub(crate) fn serve_on(self, server: &Server) {
        let Self { pb, http, pb_tls, https } = self;
        pb.into_iter().for_each(|listener| server.serve(listener, Protocol::Pb));
        http.into_iter().for_each(|listener| server.serve(listener, Protocol::Http));
        pb_tls.into_iter().for_each(|listener| server.serve(listener, Protocol::PbTls));
        https.into_iter().for_each(|listener| server.serve(listener, Protocol::Https));
    }
}

/// Addresses that the node listens on.
pub(crate) struct BoundAddresses {
    pub(crate) pb: Vec<SocketAddr>,
    pub(crate) http: Vec<SocketAddr>,
    pub(crate) pb_tls: Vec<SocketAddr>,
    pub(crate) https: Vec<SocketAddr>,
    pub(crate) node: SocketAddr,
}

impl Listeners {
    /// Opens all listeners of the settings.
    pub(crate) fn bind(settings: &Settings) -> Result<Self> {
        let backlog =
            settings.integer("protobuf.backlog").and_then(|count| u32::try_from(count).ok());
        let backlog = backlog.unwrap_or(BACKLOG_DEFAULT);
        let family = |source: AddressSource| -> Result<(Vec<TcpListener>, Vec<SocketAddr>)> {
            let texts = settings.family(source.key).into_iter();
            let bound = texts.map(|text| listen(&text, backlog, source));
            Ok(bound.collect::<Result<Vec<_>>>()?.into_iter().unzip())
        };
        let (pb, pb_at) = family(AddressSource { key: "listener.protobuf", flag: "--pb" })?;
        let (http, http_at) = family(AddressSource { key: "listener.http", flag: "--http" })?;
        let has_tls = settings.security().tls.is_some();
        let of_tls = |key: &'static str| match has_tls {
            true => family(AddressSource { key, flag: "--set" }),
            false => Ok((Vec::new(), Vec::new())),
        };
        let (pb_tls, pb_tls_at) = of_tls("listener.protobuf_tls")?;
        let (https, https_at) = of_tls("listener.https")?;
        let internode = AddressSource { key: "listener.internode", flag: "--node" };
        let (node, node_at) = listen(&settings.internode(), backlog, internode)?;
        Ok(Self {
            clients: ClientListeners { pb, http, pb_tls, https },
            node,
            at: BoundAddresses {
                pb: pb_at,
                http: http_at,
                pb_tls: pb_tls_at,
                https: https_at,
                node: node_at,
            },
        })
    }

    /// Listeners that other machines can reach.
    pub(crate) fn reachable_from_afar(&self) -> ReachableListeners {
        let is_far = |at: &&SocketAddr| !at.ip().is_loopback();
        let all = [&self.at.pb, &self.at.http, &self.at.pb_tls, &self.at.https];
        ReachableListeners {
            clients: all.into_iter().flatten().filter(is_far).copied().collect(),
            nodes: Some(&self.at.node).filter(is_far).copied(),
        }
    }

    /// Addresses by which other nodes reach this node: the first listener of each type.
    pub(crate) fn reachable(&self, node_name: &str) -> Addresses {
        let first = |at: Option<&SocketAddr>| -> Arc<str> {
            at.map_or_else(|| "".into(), |at| reachable_at(*at, node_name).into())
        };
        Addresses {
            node: first(Some(&self.at.node)),
            pb: first(self.at.pb.first()),
            http: first(self.at.http.first()),
        }
    }
}

/// The places where the operator can set an address.
#[derive(Clone, Copy)]
struct AddressSource {
    /// Key of the configuration.
    key: &'static str,
    /// Flag of the command line.
    flag: &'static str,
}

fn listen(text: &str, backlog: u32, source: AddressSource) -> Result<(TcpListener, SocketAddr)> {
    let AddressSource { key, flag } = source;
    let listener = match bind(resolve(text)?, backlog) {
        Ok(listener) => listener,
        Err(error) => {
            let told = format!("can't listen on {text} ({key}); {}", remedy(error.kind(), flag));
            return Err(Error::new(error).context(told));
        }
    };
    let address = listener.local_addr().context("asking a listener for its address")?;
    Ok((listener, address))
}

/// The likely cause and the remedy for an address that the node can't listen on.
fn remedy(kind: ErrorKind, flag: &str) -> String {
    match kind {
        ErrorKind::AddrInUse => format!(
            "another process has the port: stop it or choose another address with {flag} HOST:PORT (port 0 \
             picks a free one)"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "this machine does not have the address: choose one of its own with {flag} HOST:PORT, or 0.0.0.0 \
             for all of them"
        ),
        ErrorKind::PermissionDenied => {
            format!(
                "the user of this process is not allowed to use the port: choose one above 1023 \
                 with {flag} HOST:PORT"
            )
        }
        _ => format!("choose another address with {flag} HOST:PORT"),
    }
}

fn resolve(text: &str) -> Result<SocketAddr> {
    let found = text.to_socket_addrs().with_context(|| format!("can't resolve address {text}"))?;
    match found.into_iter().next() {
        Some(address) => Ok(address),
        None => bail!("address {text} resolves to nothing"),
    }
}

/// The address by which other nodes reach a listener: its own, or, if it listens on all addresses, the host
/// of the node's name.
fn reachable_at(listener: SocketAddr, node_name: &str) -> String {
    match node_name.split_once('@') {
        Some((_, host)) if listener.ip().is_unspecified() && !host.is_empty() => {
            format!("{host}:{}", listener.port())
        }
        _ => listener.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_cannot_be_listened_on_is_told_its_own_cause() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = taken.local_addr().unwrap().to_string();
        let source = AddressSource { key: "listener.http", flag: "--http" };
        let said = |text: &str| listen(text, 1, source).unwrap_err().to_string();
        assert!(said(&taken).contains("another process has the port"), "{}", said(&taken));
        // An address reserved for documentation, which no machine has.
        let foreign = said("192.0.2.1:0");
        assert!(foreign.contains("this machine does not have the address"), "{foreign}");
    }

    #[test]
    fn a_listener_on_all_addresses_is_reached_at_the_host_of_the_node_name() {
        let at = |listener: &str, name| reachable_at(listener.parse().unwrap(), name);
        assert_eq!(at("0.0.0.0:8087", "quoit@db1.example"), "db1.example:8087");
        assert_eq!(at("[::]:8087", "quoit@10.0.0.7"), "10.0.0.7:8087");
        assert_eq!(at("10.0.0.8:8087", "quoit@db1.example"), "10.0.0.8:8087");
        assert_eq!(at("0.0.0.0:8087", "nameless"), "0.0.0.0:8087");
    }
}
