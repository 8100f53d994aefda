//! Building of a client.

use crate::client::Client;
use crate::error::Error;
use crate::login::Login;
use crate::pool::Pool;
use crate::settings::Settings;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Settings of a [`Client`] to build. [`Client::builder`] makes one.
#[derive(Debug, Clone, Default)]
pub struct ClientBuilder {
    settings: Settings,
}

impl ClientBuilder {
    /// Adds a node as `host:port`, the port of its Protocol Buffers interface (8087 by default).
    #[must_use]
    pub fn node(mut self, address: impl Into<String>) -> ClientBuilder {
        self.settings.nodes.push(address.into());
        self
    }

    /// Adds several nodes. Requests go to the reachable ones in turn.
    #[must_use]
    pub fn nodes<T: Into<String>>(
        mut self,
        addresses: impl IntoIterator<Item = T>,
    ) -> ClientBuilder {
        self.settings.nodes.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// Maximum number of shared connections to one node, 1 to 10000. Default 8.
    ///
    /// The client opens another connection when all connections to the node are busy.
    #[must_use]
    pub fn connections_per_node_max(mut self, count: usize) -> ClientBuilder {
        self.settings.connections_per_node_max = count;
        self
    }

    /// Maximum number of requests in flight on one connection, 1 to 10000. Default 16.
    ///
    /// A server answers the requests of a connection one after the other. A value of 1 turns pipelining
    /// off. Further requests wait, within their timeout.
    #[must_use]
    pub fn in_flight_per_connection_max(mut self, count: usize) -> ClientBuilder {
        self.settings.in_flight_per_connection_max = count;
        self
    }

    /// Maximum number of concurrent listings and streamed queries, 1 to 10000. Default 8.
    ///
    /// Each of them has a connection of its own.
    #[must_use]
    pub fn streams_max(mut self, count: usize) -> ClientBuilder {
        self.settings.streams_max = count;
        self
    }

    /// Maximum number of attempts at a request, 1 to 10000. Default 3.
    ///
    /// The client tries a request again on another node if it could not connect or did not send the
    /// request. If the connection broke before the answer, it only repeats requests that may be repeated:
    /// reads, deletes with a context, changes of bucket properties, and writes whose options allow it
    /// ([`PutOptions::resend`](crate::PutOptions::resend)). It never repeats a request that the server
    /// answered with an error. A refused login ends the request, too. After a failed TLS handshake the client
    /// only tries nodes that it has not tried for this request.
    #[must_use]
    pub fn attempts_max(mut self, count: u32) -> ClientBuilder {
        self.settings.attempts_max = count;
        self
    }

    /// Maximum time for connecting. Default 5 s. A login may take 10 s more.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Maximum time for a request, including all attempts and the wait for a connection. Default 65 s, a
    /// little more than the time after which a server answers `timeout` by default.
    ///
    /// If the options of a request give the server a time limit, the client waits at least one second
    /// longer than that. For streams this is the longest time between two parts.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.request_timeout = timeout;
        self
    }

    /// Maximum time that one node may take for a request that may be repeated, before the client asks another
    /// node. Default 5 s. It applies only if there are several nodes; the last attempt has all the time that
    /// is left. After a node has exceeded this time, the client does not use it for the
    /// [`backoff`](Self::backoff) time.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// Time for which the client does not use a node that it could not connect to: the range's start after
    /// the first failure, twice as long after each further one, at most the range's end, and shortened at
    /// random by up to half. Default 50 ms to 5 s.
    #[must_use]
    pub fn backoff(mut self, range: RangeInclusive<Duration>) -> ClientBuilder {
        (self.settings.backoff_min, self.settings.backoff_max) = range.into_inner();
        self
    }

    /// True if requests about a key go straight to a replica of the key. Default false.
    ///
    /// The client then learns the cluster's layout from one of the given nodes, and with it the addresses
    /// of all nodes, which the client must be able to reach. It asks the replica with the fewest requests
    /// in flight, and any other node if no replica is reachable. The option has no effect on servers
    /// without layouts, such as Riak.
    #[must_use]
    pub fn replica_aware(mut self, replica_aware: bool) -> ClientBuilder {
        self.settings.replica_aware = replica_aware;
        self
    }

    /// Time between two requests for the layout, which the client makes in the background. Default 10 s;
    /// one second after a node failed or the layout changed. The answer is small as long as the layout
    /// stays the same.
    #[must_use]
    pub fn layout_refresh(mut self, interval: Duration) -> ClientBuilder {
        self.settings.layout_refresh = interval;
        self
    }

    /// Longest answer that the client accepts, in bytes. Default 128 MiB.
    #[must_use]
    pub fn frame_length_bytes_max(mut self, length_bytes: u32) -> ClientBuilder {
        self.settings.frame_length_bytes_max = length_bytes;
        self
    }

    /// Has each connection begin TLS and log in. By default connections are unencrypted and
    /// unauthenticated.
    #[must_use]
    pub fn login(mut self, login: Login) -> ClientBuilder {
        self.settings.login = Some(login);
        self
    }

    /// Builds the client. It connects with its first request.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if there is no node or a count is out of range.
    pub fn build(self) -> Result<Client, Error> {
        Pool::new(self.settings).map(Client::new)
    }
}
