//! The latest figures of each watched server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ServerLine;

/// The servers with their latest figures. Clones share the board.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerBoard(Arc<Mutex<BTreeMap<String, ServerLine>>>);

impl ServerBoard {
    /// Replaces the figures of a server.
    pub(crate) fn put(&self, line: ServerLine) {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(line.server.clone(), line);
    }

    /// The figures of all servers, sorted by name.
    pub(crate) fn lines(&self) -> Vec<ServerLine> {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.values().cloned().collect()
    }
}
