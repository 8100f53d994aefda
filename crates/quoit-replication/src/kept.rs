//! The file that keeps what commands have changed, so that it outlasts the process.

use crate::sinks::SinkDefinition;
use quoit_store::error::StoreError;
use quoit_store::seam::Disk;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const NAME: &str = "SINKS.json";
const NEW_NAME: &str = "SINKS.json.new";
/// The file is not read beyond this.
const BYTES_MAX: u64 = 4 << 20;

/// Changes by command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeptChanges {
    /// Queues that are consumed as a command has said; the configuration does not count for them.
    #[serde(default)]
    pub(crate) sinks: Vec<SinkDefinition>,
    /// Configured queues that are not consumed any more.
    #[serde(default)]
    pub(crate) removed: Vec<String>,
    /// Whether scheduled full-syncs rest.
    #[serde(default)]
    pub(crate) is_full_sync_paused: bool,
}

/// The file. Without a disk changes end with the process.
pub(crate) struct KeptFile(Option<Arc<dyn Disk>>);

impl KeptFile {
    pub(crate) const fn new(disk: Option<Arc<dyn Disk>>) -> Self {
        Self(disk)
    }

    /// Reads the file; no changes where there is none. A damaged one is told and left alone.
    pub(crate) fn load(&self) -> Result<KeptChanges, StoreError> {
        let Some(disk) = &self.0 else { return Ok(KeptChanges::default()) };
        if !disk.list()?.iter().any(|name| name == NAME) {
            return Ok(KeptChanges::default());
        }
        let file = disk.open(NAME, false)?;
        let mut bytes = vec![0; file.size_bytes()?.min(BYTES_MAX) as usize];
        let count = file.read_at(&mut bytes, 0)?;
        Ok(serde_json::from_slice(&bytes[..count]).unwrap_or_else(|fault| {
            tracing::error!(
                %fault,
                "{}/{NAME} is damaged: what commands have changed of sinks has to be changed again",
                disk.path()
            );
            KeptChanges::default()
        }))
    }

    /// Replaces the file, durably.
    pub(crate) fn store(&self, changes: &KeptChanges) -> Result<(), StoreError> {
        let Some(disk) = &self.0 else { return Ok(()) };
        let text = serde_json::to_vec_pretty(changes).expect("names and numbers can be written");
        if disk.list()?.iter().any(|name| name == NEW_NAME) {
            disk.remove(NEW_NAME)?;
        }
        let file = disk.open(NEW_NAME, true)?;
        file.write_at(&text, 0)?;
        file.sync()?;
        disk.rename(NEW_NAME, NAME)?;
        disk.sync_directory()
    }
}
