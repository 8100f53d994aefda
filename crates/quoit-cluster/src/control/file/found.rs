//! Creation of the control file, as that of a cluster of one node.

use super::{
    BUCKET_PROPS, BUCKET_TYPES, Backend, ControlFile, FILE_NAME, FORMAT, FORMAT_WITH_RULES,
    KEY_APPLIED, KEY_BALLOT, KEY_CLUSTER, KEY_CLUSTER_ID, KEY_ELECTORATE, KEY_FORMAT, KEY_NODE_ID,
    KEY_PURGED, KEY_REVISION, KEY_RING_SIZE, KEY_STARTS, KEY_VERSION, LAYOUTS, LOG, MEMBERS,
    NEW_FILE_NAME, NODE, RAFT, RULES, builder, commit, io_error, open_error,
};
use crate::control::codec::encode_member;
use crate::control::raft_codec::{encode_log_id, encode_stored_membership, encode_vote};
use crate::control::types::{LogId, Membership, RaftId, StoredMembership, Vote};
use crate::error::{OpenError, StoreError};
use crate::members::{Addresses, CAPACITY_DEFAULT, Member, MemberStatus};
use crate::{ClusterId, NodeId};
use openraft::CommittedLeaderId;
use prost::Message as _;
use quoit_model::hash::RingSize;
use quoit_seam::Disk;
use quoit_seam::DiskError;
use quoit_wire::internode::VersionRange;
use redb::{ReadableTable as _, WriteTransaction};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Initial content of a control file. When the file exists already, only the name, the addresses and the
/// versions may differ from it.
#[derive(Clone, Debug)]
pub(crate) struct Founding {
    pub(crate) node_id: NodeId,
    pub(crate) ring_size: RingSize,
    pub(crate) name: Arc<str>,
    pub(crate) addresses: Addresses,
    pub(crate) versions: VersionRange,
}

/// Creates the file under a temporary name and renames it, so that a file under the final name is
/// complete.
pub(super) fn create(
    disk: &dyn Disk,
    path: &Path,
    names: &[String],
    founding: &Founding,
) -> Result<(), OpenError> {
    let io = |fault| OpenError::Io { path: path.to_owned(), fault };
    let on_disk = |error: DiskError| io(io_error(error));
    if names.iter().any(|name| name == NEW_FILE_NAME) {
        disk.remove(NEW_FILE_NAME).map_err(on_disk)?;
    }
    let file = disk.open(NEW_FILE_NAME, true).map_err(on_disk)?;
    let database =
        builder().create_with_backend(Backend { file }).map_err(|error| open_error(path, error))?;
    commit(&database, |transaction| {
        {
            let mut node = transaction.open_table(NODE)?;
            node.insert(KEY_NODE_ID, founding.node_id.0.as_slice())?;
            node.insert(KEY_RING_SIZE, founding.ring_size.get().to_be_bytes().as_slice())?;
        }
        transaction.open_table(BUCKET_TYPES)?;
        transaction.open_table(BUCKET_PROPS)?;
        found(transaction, founding.node_id, founding)
    })
    .map_err(|error| io(io::Error::other(error)))?;
    drop(database);
    disk.rename(NEW_FILE_NAME, FILE_NAME).map_err(on_disk)?;
    disk.sync_directory().map_err(on_disk)
}

/// Founds a cluster of one node.
///
/// The state exists before the log: entry 1 counts as applied and purged. Every node that joins later
/// therefore needs a snapshot, and so receives the state from before the log. The identity of the cluster
/// is that of its founder.
fn found(
    transaction: &WriteTransaction,
    node_id: NodeId,
    founding: &Founding,
) -> Result<(), redb::Error> {
    let has_rules = transaction.open_table(RULES)?.iter()?.next().is_some();
    let format = if has_rules { FORMAT_WITH_RULES } else { FORMAT };
    let mut node = transaction.open_table(NODE)?;
    node.insert(KEY_FORMAT, format.to_be_bytes().as_slice())?;
    node.insert(KEY_CLUSTER_ID, node_id.0.as_slice())?;
    if node.get(KEY_STARTS)?.is_none() {
        node.insert(KEY_STARTS, 0u64.to_be_bytes().as_slice())?;
    }
    let member = Member {
        id: node_id,
        name: Arc::clone(&founding.name),
        addresses: founding.addresses.clone(),
        status: MemberStatus::Valid,
        is_down: false,
        location: None,
        capacity: CAPACITY_DEFAULT,
        versions: founding.versions,
    };
    let member = encode_member(&member).encode_to_vec();
    transaction.open_table(MEMBERS)?.insert(node_id.0.as_slice(), member.as_slice())?;
    transaction.open_table(LOG)?;
    let own = RaftId(node_id);
    let first = LogId::new(CommittedLeaderId::new(1, own), 1);
    let electorate = Membership::new(vec![BTreeSet::from([own])], BTreeMap::from([(own, ())]));
    let electorate = StoredMembership::new(Some(first), electorate);
    let mut raft = transaction.open_table(RAFT)?;
    // A committed vote for itself makes the node the leader of term 1 without an election.
    let ballot = encode_vote(&Vote::new_committed(1, own)).encode_to_vec();
    raft.insert(KEY_BALLOT, ballot.as_slice())?;
    let first = encode_log_id(&first).encode_to_vec();
    raft.insert(KEY_PURGED, first.as_slice())?;
    raft.insert(KEY_APPLIED, first.as_slice())?;
    let electorate = encode_stored_membership(&electorate).encode_to_vec();
    raft.insert(KEY_ELECTORATE, electorate.as_slice())?;
    raft.insert(KEY_VERSION, 1u64.to_be_bytes().as_slice())?;
    raft.insert(KEY_REVISION, 1u64.to_be_bytes().as_slice())?;
    Ok(())
}

/// Deletes the log and the node's position in it, and records the identity of the cluster to follow.
pub(super) fn give_up(transaction: &WriteTransaction, other: ClusterId) -> Result<(), redb::Error> {
    transaction.delete_table(LOG)?;
    transaction.open_table(LOG)?;
    let mut raft = transaction.open_table(RAFT)?;
    for key in [KEY_BALLOT, KEY_PURGED, KEY_APPLIED, KEY_ELECTORATE] {
        raft.remove(key)?;
    }
    transaction.open_table(NODE)?.insert(KEY_CLUSTER_ID, other.0.as_slice())?;
    Ok(())
}

impl ControlFile {
    /// Makes the node a cluster of one again. Bucket types, buckets and rules of security are kept.
    pub(crate) fn reset_to_single_node(&self, founding: &Founding) -> Result<(), StoreError> {
        self.commit(|transaction| {
            transaction.delete_table(MEMBERS)?;
            transaction.delete_table(LAYOUTS)?;
            transaction.delete_table(LOG)?;
            transaction.open_table(RAFT)?.remove(KEY_CLUSTER)?;
            found(transaction, founding.node_id, founding)
        })
    }

    /// Gives up the node's own cluster in order to follow another one. The log is deleted. The state stays
    /// until a snapshot of the other cluster replaces it.
    pub(crate) fn give_up(&self, other: ClusterId) -> Result<(), StoreError> {
        self.commit(|transaction| give_up(transaction, other))
    }

    /// Converts a file of format 1, which knew only single nodes, into that of a cluster of
    /// one, and counts the start.
    pub(super) fn upgrade(&self, founding: &Founding) -> Result<(), OpenError> {
        let kept = self.identity()?;
        let written = self.commit(|transaction| {
            if kept.format == 1 {
                found(transaction, kept.node_id, founding)?;
            }
            let mut node = transaction.open_table(NODE)?;
            node.insert(KEY_STARTS, (kept.starts + 1).to_be_bytes().as_slice())?;
            Ok(())
        });
        written.map_err(|error| OpenError::Io {
            path: self.path().to_owned(),
            fault: io::Error::other(error.reason),
        })
    }
}
