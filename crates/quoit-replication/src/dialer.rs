//! Connections to nodes of other clusters, with the node's login if it has one.

use crate::address::{PeerAddress, Protocol};
use quoit_client::{Connection, Error, Login, LoginSettings};
use quoit_riak_peer::{PeerError, RiakPeer, RiakProtocol};
use std::io;
use std::sync::Arc;

/// Opens connections to peers. The files of the login are read for each connection, so that a renewed
/// certificate or password applies without a restart.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerDialer {
    login: Option<Arc<LoginSettings>>,
}

impl PeerDialer {
    pub(crate) fn new(login: Option<&LoginSettings>) -> Self {
        Self { login: login.cloned().map(Arc::new) }
    }

    /// Connects over Protocol Buffers.
    pub(crate) async fn connect(&self, address: &str) -> Result<Connection, Error> {
        match self.login(address).await? {
            Some(login) => Connection::connect_as(address, &login).await,
            None => Connection::connect(address).await,
        }
    }

    /// Connects with Riak's protocols.
    pub(crate) async fn connect_riak(
        &self,
        address: &PeerAddress,
        protocol: Protocol,
    ) -> Result<RiakPeer, PeerError> {
        let host_and_port = address.host_and_port();
        let login = self.login(&host_and_port).await?;
        let protocol = match protocol {
            Protocol::Pb => RiakProtocol::Pb,
            Protocol::Http => RiakProtocol::Http,
        };
        RiakPeer::connect(&host_and_port, protocol, login.as_ref()).await
    }

    async fn login(&self, address: &str) -> Result<Option<Login>, Error> {
        let Some(settings) = self.login.clone() else { return Ok(None) };
        match tokio::task::spawn_blocking(move || settings.load()).await {
            Ok(login) => login.map(Some),
            // The runtime shuts down. A connection without the login would not be encrypted.
            Err(fault) => {
                let source = Arc::new(io::Error::other(fault));
                Err(Error::Lost { address: address.to_owned(), source })
            }
        }
    }
}
