//! The last figures of each server that is watched.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ServerLine;

/// Servers with their last figures; clones are the same board.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerBoard(Arc<Mutex<BTreeMap<String, ServerLine>>>);

impl ServerBoard {
    /// Replaces the figures of a server.
    pub(crate) fn put(&self, line: ServerLine) {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(line.server.clone(), line);
    }

    /// All servers by their names.
    pub(crate) fn lines(&self) -> Vec<ServerLine> {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.values().cloned().collect()
    }
}
