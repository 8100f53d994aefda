//! Recovery from the loss of a majority of the voters.
//!
//! The control file of one stopped node gets two more entries of the log, in a term that no other voter
//! can have used: an entry that makes the node the only voter, and an entry that removes the lost nodes.
//! When the node is started it leads, and the members that are left follow it.

use crate::change::Change;
use crate::change::Decision;
use crate::control::fence::Voters;
use crate::control::file::{ControlFile, lock_error};
use crate::control::types::{Entry, LogId, Membership, RaftId, Vote};
use crate::error::{OpenError, StoreError};
use crate::members::MemberStatus;
use crate::membership_error::MembershipError;
use crate::outdated::PROPERTY_NEEDS;
use crate::staged::StagedChange;
use crate::state::State;
use crate::{ClusterId, NodeId};
use openraft::{CommittedLeaderId, EntryPayload};
use quoit_model::layout::{Layout, LayoutRequest};
use quoit_model::props::BucketProps;
use quoit_seam::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Number of skipped terms: the lost voters may have begun later terms without this node, but never that
/// many.
const TERMS_SKIPPED: u64 = 1 << 20;

/// Reason why a majority is not recovered. Nothing has changed then. Displayed for operators.
#[derive(Debug, Error)]
pub enum RecoverError {
    /// The control file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The control file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name belongs to no member, or no layout is possible without the lost nodes.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The node of the data directory itself is named as lost.
    #[error("{name} is the node of this data directory; name the nodes that are lost")]
    NotLost {
        /// The node.
        name: String,
    },
    /// The data directory already belongs to this epoch.
    #[error(
        "the data directory of {name} is restored as part of epoch {epoch} already: start the node"
    )]
    Restored {
        /// The node.
        name: String,
        /// The epoch.
        epoch: ClusterId,
    },
    /// The data directory was written by a version without clusters.
    #[error(
        "the data directory is of a version without clusters: start the node once, to convert it"
    )]
    BeforeClusters,
    /// A majority is left.
    #[error(
        "{left} of {all} voters are left, and that is a majority: start them, and remove the lost nodes \
         with `cluster force-remove`"
    )]
    NotNeeded {
        /// Number of voters that are not named as lost.
        left: usize,
        /// Number of all voters.
        all: usize,
    },
}

/// Result of a recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The node that is the only voter now.
    pub node: Arc<str>,
    /// Nodes that were removed for ever.
    pub removed: Vec<Arc<str>>,
    /// Members that are left, including this node.
    pub left: Vec<Arc<str>>,
}

/// Makes the stopped node in the directory `disk` the only voter, and removes the nodes named in `lost`
/// for ever. Use it if so many voters are lost for good that no majority is possible. The node keeps
/// everything that it knows of the log; decisions that it had not received are lost. When it is started it
/// leads, and the members that are left follow it.
///
/// Never run this on two nodes of one cluster: each would lead a cluster of its own, and the
/// two could not be merged.
///
/// # Errors
///
/// [`RecoverError`] if the directory is in use or damaged, a name is wrong, or a majority is left.
pub fn recover(disk: Arc<dyn Disk>, lost: &[String]) -> Result<Recovered, RecoverError> {
    let _lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
    let file = ControlFile::open_existing(disk)?;
    if !file.has_log()? {
        return Err(RecoverError::NotNeeded { left: 1, all: 1 });
    }
    let known = ControlFileState::read(&file)?;
    let (state, own) = (&known.state, known.state.node_id());
    let lost = identities(state, lost)?;
    let voters = Voters::of(&file.electorate()?).nodes;
    let left = voters.iter().filter(|voter| !lost.contains(voter)).count();
    if left * 2 > voters.len() {
        return Err(RecoverError::NotNeeded { left, all: voters.len() });
    }
    let changes = changes_without(state, &lost)?;
    let left = known.make_only_voter(&file, &lost, changes)?;
    let names =
        |ids: &BTreeSet<NodeId>| ids.iter().map(|id| state.members().name_of(*id)).collect();
    Ok(Recovered { node: state.members().name_of(own), removed: names(&lost), left: names(&left) })
}

/// Content of the control file of a stopped node: the state of the cluster, and the end of the log.
pub(crate) struct ControlFileState {
    /// The state, with the entries of the log that were not applied yet.
    pub(crate) state: State,
    /// The last entry of the log.
    pub(crate) last: Option<LogId>,
}

impl ControlFileState {
    pub(crate) fn read(file: &ControlFile) -> Result<Self, RecoverError> {
        let loaded = file.load()?;
        let applied = file.applied()?;
        let next = applied.last.map_or(0, |last| last.index + 1);
        let tail = file.log_entries(next..)?;
        let state = with_tail(State::of_file(loaded.whole, loaded.node_id), &tail);
        let last = tail.last().map(|entry| entry.log_id).or(applied.last);
        Ok(Self { state, last })
    }

    /// Makes the node the only voter, in a term that no other voter can know, by two entries
    /// of the log: one with the voters and one with `changes`. Returns the members that follow
    /// it, including this node.
    pub(crate) fn make_only_voter(
        &self,
        file: &ControlFile,
        lost: &BTreeSet<NodeId>,
        changes: Vec<Change>,
    ) -> Result<BTreeSet<NodeId>, RecoverError> {
        let own = self.state.node_id();
        let members = self.state.members().iter().map(|member| member.id);
        let left: BTreeSet<NodeId> = members.filter(|id| !lost.contains(id)).collect();
        let ballot = file.ballot()?;
        let terms =
            [ballot.map(|vote| vote.leader_id.term), self.last.map(|last| last.leader_id.term)];
        let term = terms.into_iter().flatten().max().unwrap_or_default() + TERMS_SKIPPED;
        let leader = CommittedLeaderId::new(term, RaftId(own));
        let index = self.last.map_or(0, |last| last.index);
        let nodes: BTreeMap<_, _> = left.iter().map(|id| (RaftId(*id), ())).collect();
        let electorate = Membership::new(vec![BTreeSet::from([RaftId(own)])], nodes);
        let entries = [
            EntryPayload::Membership(electorate),
            EntryPayload::Normal(Decision { base: None, changes }),
        ];
        let entries: Vec<Entry> = (index + 1..)
            .zip(entries)
            .map(|(index, payload)| Entry { log_id: LogId::new(leader, index), payload })
            .collect();
        file.append_as(&Vote::new_committed(term, RaftId(own)), &entries)?;
        Ok(left)
    }
}

/// Applies the entries of the log that were not applied yet. Some of them may never have been
/// committed. That is safe: an entry that was acknowledged to a client is committed, and entries that
/// conflict with it cannot be.
fn with_tail(mut state: State, tail: &[Entry]) -> State {
    for entry in tail {
        if let EntryPayload::Normal(decision) = &entry.payload
            && let Some(next) = state.decided(decision)
        {
            state = next;
        }
    }
    state
}

fn identities(state: &State, names: &[String]) -> Result<BTreeSet<NodeId>, RecoverError> {
    let mut identities = BTreeSet::new();
    for name in names {
        let member = state.members().named(name);
        let member = member.ok_or_else(|| MembershipError::NotAMember { name: name.clone() })?;
        if member.id == state.node_id() {
            return Err(RecoverError::NotLost { name: name.clone() });
        }
        identities.insert(member.id);
    }
    Ok(identities)
}

/// Returns the changes that remove members and their positions in the layout, and that drop all
/// staged changes but the joins of nodes that are left. If no full member is left, all members
/// that are left become full members, because no other node has the data that they were about to
/// hand over or to receive.
pub(crate) fn changes_without(
    state: &State,
    lost: &BTreeSet<NodeId>,
) -> Result<Vec<Change>, MembershipError> {
    let mut changes: Vec<_> =
        lost.iter().map(|id| Change::RemoveMember { id: *id, for_ever: true }).collect();
    let newest = state.layouts().newest();
    let left = state.members().iter().filter(|member| !lost.contains(&member.id));
    let left: Vec<_> = left.collect();
    let mut holding: Vec<_> = left.iter().filter(|member| member.stays()).copied().collect();
    if holding.is_empty() {
        holding = left;
        let kept = holding.iter().map(|member| member.with_status(MemberStatus::Valid));
        changes.extend(kept.map(Change::PutMember));
    }
    let places: Vec<_> = holding.iter().map(|member| member.for_layout()).collect();
    if lost.iter().any(|node| newest.node_index(*node).is_some()) {
        let layout = Layout::compute(&LayoutRequest::after(newest, &places))?;
        let n_vals = state.n_vals();
        changes.push(Change::PutLayout { layout: Arc::new(layout), n_vals });
    }
    let waits = |change: &&StagedChange| match change {
        StagedChange::Join { node } => {
            !holding.iter().any(|member| member.id == *node) && !lost.contains(node)
        }
        _ => false,
    };
    let staged = state.staged().iter().filter(waits).cloned().collect();
    changes.push(Change::Stage { staged });
    Ok(changes)
}

impl State {
    /// Returns the state in a control file, for reading only.
    fn of_file(whole: crate::state::StoredState, own: NodeId) -> Self {
        let defaults = Arc::new(BucketProps::untyped());
        let (cluster_id, ring_size) = (whole.cluster_id, whole.ring_size);
        let name = own.to_string().into();
        let empty = Self::new(own, name, cluster_id, ring_size, defaults, PROPERTY_NEEDS);
        Self::restored(&empty, whole)
    }
}
