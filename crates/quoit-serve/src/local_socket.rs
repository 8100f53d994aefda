//! The administration socket, through which an operator on this machine reaches the node without a password.
//! It does not depend on the node's other listeners.

use quoit_cli::local::{self, SOCKET_FILE};
use quoit_config::Settings;
use quoit_server::{Server, bind_local};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The socket in the data directory while the node runs.
pub(crate) struct LocalSocket {
    path: PathBuf,
    listener: Cell<Option<UnixListener>>,
}

impl LocalSocket {
    /// Opens the socket. If that fails, for example because the file system does not support sockets, the
    /// node runs without it and logs a warning.
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

    /// The path, if the socket is open and not served yet.
    pub(crate) fn path(&self) -> Option<&Path> {
        let listener = self.listener.take();
        let is_open = listener.is_some();
        self.listener.set(listener);
        is_open.then_some(&*self.path)
    }

    /// Starts to accept connections of operators.
    pub(crate) fn serve_on(&self, server: &Server) {
        if let Some(listener) = self.listener.take() {
            server.serve_local(listener);
        }
    }

    /// Removes the file after the node has stopped. A missing file is not an error.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
