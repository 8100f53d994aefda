//! Announcement of a node's state on the standard output, to the supervisor of the process, and in the
//! ready file.

use crate::listeners::BoundAddresses;
use crate::readiness;
use anyhow::Result;
use quoit_cli::say;
use quoit_cluster::Readiness;
use quoit_process::ready_file;
use quoit_server::ReadinessGate;
use sd_notify::NotifyState;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use tokio::sync::watch;

/// Reports a state to systemd, if systemd has started the process. A failure only causes a warning.
pub(super) fn notify_supervisor(state: &NotifyState<'_>) {
    if let Err(fault) = sd_notify::notify(std::slice::from_ref(state)) {
        tracing::warn!(%fault, "the supervisor of the process can't be notified of its state");
    }
}

/// Facts about the node to announce.
pub(super) struct Announcement<'a> {
    pub(super) node_name: &'a str,
    pub(super) at: &'a BoundAddresses,
    pub(super) data_dir: &'a Path,
    /// Note about how the data directory was opened.
    pub(super) note: &'a str,
    /// File that gets the record of the node once it serves.
    pub(super) ready_file: Option<&'a Path>,
}

impl Announcement<'_> {
    /// Opens and closes the gate for clients, for ever, and announces changes.
    pub(super) async fn maintain_gate(
        &self,
        gate: &ReadinessGate,
        readiness: watch::Receiver<Readiness>,
    ) -> Result<()> {
        let (on_waiting, on_serving) = (|| self.announce_waiting(), || self.announce_serving());
        readiness::maintain_gate(gate, readiness, on_waiting, on_serving).await
    }

    /// Announces that the node does not serve clients yet.
    fn announce_waiting(&self) {
        readiness::announce_waiting(self.node_name, &self.at.http);
        // The start has succeeded: the node waits for other members or for the operator.
        notify_supervisor(&NotifyState::Ready);
    }

    /// Announces that the node serves clients.
    fn announce_serving(&self) -> Result<()> {
        self.print_addresses();
        notify_supervisor(&NotifyState::Ready);
        self.ready_file.map_or(Ok(()), |path| self.write_ready_file(path))
    }

    fn print_addresses(&self) {
        let Self { node_name, at, data_dir, note, .. } = self;
        let list = |addresses: &[SocketAddr]| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        say!("{node_name} serves with its data in {} ({note})", data_dir.display());
        say!("  Protocol Buffers  {}", list(&at.pb));
        say!("  HTTP              {}", list(&at.http));
        if !at.pb_tls.is_empty() {
            say!("  the same by TLS   {}", list(&at.pb_tls));
        }
        if !at.https.is_empty() {
            say!("  HTTPS             {}", list(&at.https));
        }
        say!("  other nodes       {}", at.node);
    }

    fn write_ready_file(&self, path: &Path) -> Result<()> {
        let Self { node_name, at, .. } = self;
        let first = |addresses: &[SocketAddr]| addresses.first().map(ToString::to_string);
        let record = json!({
            "pid": std::process::id(),
            "name": node_name,
            "pb": first(&at.pb),
            "http": first(&at.http),
            "pb_tls": first(&at.pb_tls),
            "https": first(&at.https),
            "node": at.node.to_string(),
        });
        ready_file::write(path, &record)
    }
}
