//! Changes of sinks and of full-sync by command.

use crate::address::PeerAddress;
use crate::full_sync::FullSyncChange;
use crate::json_file::JsonFile;
use crate::sink_definition::SinkDefinition;
use quoit_seam::Disk;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Changes by command, as they are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeptChanges {
    /// Sinks that a command has defined. The configuration does not apply to them.
    #[serde(default)]
    pub(crate) sinks: Vec<SinkDefinition>,
    /// Configured queues that a command has removed.
    #[serde(default)]
    pub(crate) removed: Vec<String>,
    /// True if scheduled full-syncs are paused.
    #[serde(default)]
    pub(crate) is_full_sync_paused: bool,
    /// Peer and queues of full-sync, if a command has set them.
    #[serde(default)]
    pub(crate) full_sync: Option<KeptFullSync>,
}

/// Peer and queues of full-sync that a command has set, in place of the configured ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeptFullSync {
    pub(crate) peer: PeerAddress,
    pub(crate) change: FullSyncChange,
}

/// The file of the changes.
pub(crate) type KeptFile = JsonFile<KeptChanges>;

/// The file of the changes on a disk.
pub(crate) const fn kept_file(disk: Option<Arc<dyn Disk>>) -> KeptFile {
    JsonFile::new("SINKS.json", disk, "changes of sinks by command have to be made again")
}
