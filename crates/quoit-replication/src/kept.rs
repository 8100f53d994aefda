//! Changes of sinks by command.

use crate::address::PeerAddress;
use crate::full_sync::FullSyncChange;
use crate::json_file::JsonFile;
use crate::sink_definition::SinkDefinition;
use quoit_seam::Disk;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// The other side of full-sync, where a command has set it.
    #[serde(default)]
    pub(crate) full_sync: Option<KeptFullSync>,
}

/// The other side of full-sync by command, in place of the configuration's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeptFullSync {
    pub(crate) peer: PeerAddress,
    pub(crate) change: FullSyncChange,
}

/// The file of the changes.
pub(crate) type KeptFile = JsonFile<KeptChanges>;

/// The file of the changes on a disk.
pub(crate) const fn kept_file(disk: Option<Arc<dyn Disk>>) -> KeptFile {
    JsonFile::new(disk, "SINKS.json", "changes of sinks by command have to be made again")
}
