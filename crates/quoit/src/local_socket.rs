//! The administration socket: how the operator of this machine reaches the node whatever its listeners and
//! passwords are.

use quoit::config::Settings;
use quoit_cli::local::{self, SOCKET_FILE};
use quoit_server::{Server, bind_local};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The socket in the data directory, while the node runs.
pub(crate) struct LocalSocket {
    path: PathBuf,
    listener: Cell<Option<UnixListener>>,
}

impl LocalSocket {
    /// Opens it. A node that can't have one serves without it, and says so: its file system may know no
    /// sockets.
    pub(crate) fn open(data_dir: &Path, settings: &Settings) -> Self {
        let path = data_dir.join(SOCKET_FILE);
        let listener =
            settings.flag("admin_socket").then(|| local::with_short_path(&path, bind_local));
        let listener = match listener {
            Some(Err(fault)) => {
                tracing::warn!(
                    %fault,
                    "no administration socket at {}: quoit admin reaches the node over HTTP only",
                    path.display()
                );
                None
            }
            Some(Ok(listener)) => Some(listener),
            None => None,
        };
        Self { path, listener: Cell::new(listener) }
    }

    /// The path, if the socket is open.
    pub(crate) fn path(&self) -> Option<&Path> {
        let listener = self.listener.take();
        let is_open = listener.is_some();
        self.listener.set(listener);
        is_open.then_some(&*self.path)
    }

    /// Has operators answered.
    pub(crate) fn serve_on(&self, server: &Server) {
        if let Some(listener) = self.listener.take() {
            server.serve_local(listener);
        }
    }

    /// Removes the file when nobody answers any more. One that is gone already is as good.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
