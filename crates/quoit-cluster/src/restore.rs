//! Going on with copies of all nodes' data.
//!
//! A copy has forgotten events, votes and starts that other nodes may know of. So a cluster that goes on
//! with copies is a new *epoch*: it has another identity, and a node with data of the former epoch can
//! neither vote nor store in it. One node alone brings what the cluster had agreed on; the others forget
//! their logs, whose last entries may contradict each other, and follow it. The stores of all nodes count as
//! stores that lost records: they get new actors, and their copies are merged with each other before they
//! count as complete.

use crate::control::file::{ControlFile, lock_error};
use crate::recover::{Known, RecoverError, changes_without};
use crate::{ClusterId, NodeId};
use quoit_seam::Disk;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Part of a node in a restored cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreRole {
    /// Begins the epoch with what it knows of the cluster: members, layouts, bucket types, properties, users.
    /// One node of the cluster does.
    Begins,
    /// Follows the node that began it.
    Follows,
}

/// A node that is ready to be started as part of a new epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The node.
    pub node: Arc<str>,
    /// Members that the node knows of, itself among them.
    pub members: Vec<Arc<str>>,
    /// Number of decisions of the cluster that the node knew of, also known as its revision: of several
    /// copies, the one with the highest number knows most.
    pub revision: u64,
}

/// Looks at the copy of a node's data in the directory `disk`, and changes nothing.
///
/// # Errors
///
/// When the directory is in use or damaged, or is that of a node before there were clusters.
pub fn look_at_copy(disk: Arc<dyn Disk>) -> Result<Restored, RecoverError> {
    let _lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
    let file = open(disk)?;
    Ok(seen(&Known::read(&file)?))
}

/// Makes the stopped node in the directory `disk`, which is a copy, a member of the cluster's new epoch. To
/// be done once for each node, before any of them is started. A repetition after a crash does no harm.
///
/// # Errors
///
/// When the directory is in use or damaged, or already of that epoch.
pub fn restore(
    disk: Arc<dyn Disk>,
    epoch: ClusterId,
    role: RestoreRole,
) -> Result<Restored, RecoverError> {
    let _lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
    let file = open(disk)?;
    let known = Known::read(&file)?;
    let node = known.state.members().name_of(known.state.node_id());
    if known.state.cluster_id() == epoch {
        return Err(RecoverError::Restored { name: node.to_string(), epoch });
    }
    if role == RestoreRole::Begins {
        let nobody: BTreeSet<NodeId> = BTreeSet::new();
        let changes = changes_without(&known.state, &nobody)?;
        known.decides_alone(&file, &nobody, changes)?;
    }
    file.begin_epoch(epoch, role == RestoreRole::Follows)?;
    Ok(seen(&known))
}

fn open(disk: Arc<dyn Disk>) -> Result<ControlFile, RecoverError> {
    let file = ControlFile::open_existing(disk)?;
    if file.has_log()? { Ok(file) } else { Err(RecoverError::BeforeClusters) }
}

fn seen(known: &Known) -> Restored {
    let (members, own) = (known.state.members(), known.state.node_id());
    Restored {
        node: members.name_of(own),
        members: members.iter().map(|member| members.name_of(member.id)).collect(),
        revision: known.state.revision(),
    }
}
