//! Restoring a cluster from copies of all nodes' data directories.
//!
//! A copy has forgotten events, votes and starts that other nodes may know of. A cluster that continues with
//! copies is therefore a new *epoch*: it has another identity, and a node with data of the former epoch can
//! neither vote nor store in it. One node brings the state that the cluster had agreed on. The other nodes
//! drop their logs, whose last entries may contradict each other, and follow that node. The stores of all
//! nodes count as stores that lost records: they get new actors, and their copies are merged with each other
//! before they count as complete.

use crate::control::file::{ControlFile, lock_error};
use crate::recover::{ControlFileState, RecoverError, changes_without};
use crate::{ClusterId, NodeId};
use quoit_seam::Disk;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Role of a node in a restored cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreRole {
    /// The node brings its state: members, layouts, bucket types, properties, users. Exactly
    /// one node has this role.
    Begins,
    /// The node follows the one that brings its state.
    Follows,
}

/// A node that was restored, or examined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Name of the node.
    pub node: Arc<str>,
    /// Names of the members that the node knows of, including itself.
    pub members: Vec<Arc<str>>,
    /// Revision of the node's state, that is the number of decisions of the cluster that it knows of. Of
    /// several copies, the one with the highest revision knows most.
    pub revision: u64,
}

/// Reads the copy of a node's data in the directory `disk`, and changes nothing.
///
/// # Errors
///
/// [`RecoverError`] if the directory is in use or damaged, or was written by a version without clusters.
pub fn inspect_copy(disk: Arc<dyn Disk>) -> Result<Restored, RecoverError> {
    let _lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
    let file = open(disk)?;
    Ok(seen(&ControlFileState::read(&file)?))
}

/// Makes the stopped node in the directory `disk`, which is a copy, a member of the new epoch. Run it once
/// for each node, before any of them is started. After a crash it can be run again.
///
/// # Errors
///
/// [`RecoverError`] if the directory is in use or damaged, or already belongs to this epoch.
pub fn restore(
    disk: Arc<dyn Disk>,
    epoch: ClusterId,
    role: RestoreRole,
) -> Result<Restored, RecoverError> {
    let _lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
    let file = open(disk)?;
    let known = ControlFileState::read(&file)?;
    let node = known.state.members().name_of(known.state.node_id());
    if known.state.cluster_id() == epoch {
        return Err(RecoverError::Restored { name: node.to_string(), epoch });
    }
    if role == RestoreRole::Begins {
        let nobody: BTreeSet<NodeId> = BTreeSet::new();
        let changes = changes_without(&known.state, &nobody)?;
        known.make_only_voter(&file, &nobody, changes)?;
    }
    file.begin_epoch(epoch, role == RestoreRole::Follows)?;
    Ok(seen(&known))
}

fn open(disk: Arc<dyn Disk>) -> Result<ControlFile, RecoverError> {
    let file = ControlFile::open_existing(disk)?;
    if file.has_log()? { Ok(file) } else { Err(RecoverError::BeforeClusters) }
}

fn seen(known: &ControlFileState) -> Restored {
    let (members, own) = (known.state.members(), known.state.node_id());
    Restored {
        node: members.name_of(own),
        members: members.iter().map(|member| members.name_of(member.id)).collect(),
        revision: known.state.revision(),
    }
}
