//! Replication between clusters, on the side of the sink: sinks pull from source queues of other
//! clusters, and full-sync compares the records of two clusters.
//!
//! The other cluster is reached over its ordinary Protocol Buffers listeners. `quoit-core` has the
//! source queues and stores arriving objects. This crate has peers, connections, delays and schedules.
//! The program runs [`Replication`] beside the server, and the administration API asks it for its
//! status. `docs/design/replication.md` has the design.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod address;
mod bootstrap;
mod bucket_types;
mod command;
mod dialer;
mod execute;
mod figures;
mod full_sync;
mod json_file;
mod kept_changes;
mod links;
mod log_lines;
mod missing_ranges;
mod peer;
mod peer_context;
mod peer_delay;
mod rebase;
mod remote_node;
mod replication;
mod riak;
mod settings;
mod share;
mod sink_definition;
mod sinks;
mod status;
mod storing;
mod task_end;
#[cfg(test)]
mod test_peer;

pub use address::{PeerAddress, PeerAddressError, Protocol};
pub use bootstrap::{Bootstrap, BootstrapError, BootstrapState, BootstrapStatus};
pub use bucket_types::BucketTypeMode;
pub use command::{
    ChangeVersion, CommandError, CommandOutcome, ReplicationCommand, SharedChange, SharedChanges,
};
pub use figures::{LAG_BOUNDS_MS, LagHistogram, LagSnapshot, PeerKind, PeerStatus, SinkStatus};
pub use full_sync::{
    CheckKind, CheckRange, CheckWindow, FullSync, FullSyncChange, FullSyncReport, FullSyncScope,
    FullSyncSettings, FullSyncState, FullSyncStatus, RebaseFrom,
};
pub use quoit_client::LoginSettings;
pub use replication::Replication;
pub use settings::SinkSettings;
pub use sink_definition::SinkDefinition;
pub use sinks::ChangeSinkError;
