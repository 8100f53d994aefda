//! Making a client.

use crate::client::Client;
use crate::error::Error;
use crate::pool::Pool;
use crate::secure::Login;
use crate::settings::Settings;
use std::time::Duration;

/// Settings of a [`Client`] to be. Made by [`Client::builder`].
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

    /// Adds several nodes. Requests take turns among those that can be reached.
    #[must_use]
    pub fn nodes<T: Into<String>>(
        mut self,
        addresses: impl IntoIterator<Item = T>,
    ) -> ClientBuilder {
        self.settings.nodes.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// Most shared connections to one node, 1 to 10000. Default 8.
    ///
    /// A connection is made when all others to that node are busy.
    #[must_use]
    pub fn connections_per_node_max(mut self, count: usize) -> ClientBuilder {
        self.settings.connections_per_node_max = count;
        self
    }

    /// Most requests in flight on one connection, 1 to 10000. Default 16.
    ///
    /// A server answers the requests of a connection one after the other. With 1 there is no
    /// pipelining. Further requests wait, within their timeout.
    #[must_use]
    pub fn in_flight_per_connection_max(mut self, count: usize) -> ClientBuilder {
        self.settings.in_flight_per_connection_max = count;
        self
    }

    /// Most listings at a time, each with a connection of its own, 1 to 10000. Default 8.
    #[must_use]
    pub fn streams_max(mut self, count: usize) -> ClientBuilder {
        self.settings.streams_max = count;
        self
    }

    /// How often a request is tried, 1 to 10000. Default 3.
    ///
    /// A request is tried again on another node if no connection could be made or the request
    /// was not sent; reads and other requests that may be repeated, also if the connection broke
    /// before the answer, and so are writes that allow it
    /// ([`PutOptions::resend`](crate::PutOptions::resend)). Errors that the server sends are never
    /// tried again.
    #[must_use]
    pub fn attempts_max(mut self, count: u32) -> ClientBuilder {
        self.settings.attempts_max = count;
        self
    }

    /// How long connecting may take. Default 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long a request may take, all attempts and waiting for a connection included. Default
    /// 65 s, a little more than a server takes by default before it says `timeout` itself.
    ///
    /// A request whose own timeout (that of its options, which the server keeps) is longer is
    /// waited for a second longer than that. For streams it is the time between two parts.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.request_timeout = timeout;
        self
    }

    /// How long one node may take for a request that may be repeated, before another is asked.
    /// Default 5 s. Only where there are several nodes; the last attempt has all the time that is
    /// left. A node that took too long is left alone for a while, as one that can't be connected
    /// to.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// How long a node that could not be connected to is left alone: `min` after the first
    /// failure, twice as long after each further one, at most `max`, and at random up to half of
    /// it shorter. Default 50 ms to 5 s.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> ClientBuilder {
        self.settings.backoff_min = min;
        self.settings.backoff_max = max;
        self
    }

    /// Whether requests about a key go straight to a node that holds it. Default no.
    ///
    /// The client then learns the cluster's layout from one of the nodes named, and with it all
    /// others and their addresses, which must be reachable from here. Of the replicas of a key
    /// the one with the fewest requests in flight is asked; when none can be reached, any node.
    /// Servers that know no layouts, such as Riak's, are used as without it.
    #[must_use]
    pub fn replica_aware(mut self, replica_aware: bool) -> ClientBuilder {
        self.settings.replica_aware = replica_aware;
        self
    }

    /// How often the layout is asked for, beside the requests. Default 10 s; a second after a
    /// node failed or the layout was found changed. One small answer as long as nothing changed.
    #[must_use]
    pub fn layout_refresh(mut self, interval: Duration) -> ClientBuilder {
        self.settings.layout_refresh = interval;
        self
    }

    /// Longest answer accepted. Default 128 MiB.
    #[must_use]
    pub fn frame_length_bytes_max(mut self, length_bytes: u32) -> ClientBuilder {
        self.settings.frame_length_bytes_max = length_bytes;
        self
    }

    /// Has each connection begin TLS and log in. Default: in clear, as nobody.
    #[must_use]
    pub fn login(mut self, login: Login) -> ClientBuilder {
        self.settings.login = Some(login);
        self
    }

    /// The client. Nothing is connected yet: that happens with the first request.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if there is no node or a count is out of range.
    pub fn build(self) -> Result<Client, Error> {
        Pool::new(self.settings).map(Client::new)
    }
}
