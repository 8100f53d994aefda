//! Going on after the loss of a majority.

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

/// Terms that the lost voters may have begun among themselves without this node. Nobody begins a million
/// terms, and there are enough.
const TERMS_SKIPPED: u64 = 1 << 20;

/// Why a majority is not recovered. Displayed for operators. Nothing is changed then.
#[derive(Debug, Error)]
pub enum RecoverError {
    /// The control file can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The control file can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name that no member has, or no layout without the lost nodes.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The node itself is named.
    #[error("{name} is the node of this data directory; name the nodes that are lost")]
    NotLost {
        /// The node.
        name: String,
    },
    /// The data directory is of that epoch already.
    #[error(
        "the data directory of {name} is restored as part of epoch {epoch} already: start the node"
    )]
    Restored {
        /// The node.
        name: String,
        /// The epoch.
        epoch: ClusterId,
    },
    /// The data directory was written by a program that knew no clusters.
    #[error("the data directory is of a program before clusters: start the node with it once")]
    BeforeClusters,
    /// A majority is left.
    #[error(
        "{left} of {all} voters are left, and that is a majority: start them, and remove the lost nodes \
         with `cluster force-remove`"
    )]
    NotNeeded {
        /// Voters that are not named as lost.
        left: usize,
        /// All voters.
        all: usize,
    },
}

/// Result of a recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The node that decides alone now.
    pub node: Arc<str>,
    /// Nodes that were removed for ever.
    pub removed: Vec<Arc<str>>,
    /// Members that are left, this node among them.
    pub left: Vec<Arc<str>>,
}

/// Makes the stopped node in the directory `disk` decide alone, without the nodes that are named as `lost`:
/// they are removed for ever. For when so many voters are gone for good that no majority can be had. What
/// this node knows of the log stays; what others agreed on without it is lost. Started again, it leads, and
/// the members that are left follow it.
///
/// Never do this on two nodes of a cluster: they would go apart for ever.
///
/// # Errors
///
/// When the directory is in use or damaged, a name is wrong, or a majority is left.
pub fn recover(disk: Arc<dyn Disk>, lost: &[String]) -> Result<Recovered, RecoverError> {
    let _lock = disk.lock().map_err(|error| lock_error(&*disk, error))?;
    let file = ControlFile::open_existing(disk)?;
    if !file.has_log()? {
        return Err(RecoverError::NotNeeded { left: 1, all: 1 });
    }
    let known = Known::read(&file)?;
    let (state, own) = (&known.state, known.state.node_id());
    let lost = identities(state, lost)?;
    let voters = Voters::of(&file.electorate()?).nodes;
    let left = voters.iter().filter(|voter| !lost.contains(voter)).count();
    if left * 2 > voters.len() {
        return Err(RecoverError::NotNeeded { left, all: voters.len() });
    }
    let changes = changes_without(state, &lost)?;
    let left = known.decides_alone(&file, &lost, changes)?;
    let names =
        |ids: &BTreeSet<NodeId>| ids.iter().map(|id| state.members().name_of(*id)).collect();
    Ok(Recovered { node: state.members().name_of(own), removed: names(&lost), left: names(&left) })
}

/// Knowledge of the cluster in the control file of a stopped node.
pub(crate) struct Known {
    /// With the entries of the log that are not applied.
    pub(crate) state: State,
    /// The last entry of the log.
    pub(crate) last: Option<LogId>,
}

impl Known {
    pub(crate) fn read(file: &ControlFile) -> Result<Self, RecoverError> {
        let loaded = file.load()?;
        let applied = file.applied()?;
        let next = applied.last.map_or(0, |last| last.index + 1);
        let tail = file.log_entries(next..)?;
        let state = with_tail(State::of_file(loaded.whole, loaded.node_id), &tail);
        let last = tail.last().map(|entry| entry.log_id).or(applied.last);
        Ok(Self { state, last })
    }

    /// Makes the node the only voter, in a term that no other voter can know, by two entries of the log: the
    /// voters, and `changes`. Returns the members that follow it, this node among them.
    pub(crate) fn decides_alone(
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

/// Adds the entries of the log that are not applied to the state. Some of it may never have been agreed on;
/// none of it may have been acknowledged without being in somebody's log.
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

/// Removes members, their places in the layout, and whatever was staged but the joining of those that are
/// left. Where no member is left that holds partitions by later layouts, all that are left do: what they were
/// about to hand over or to get has no other place.
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
    /// The state in a control file, for who only looks into it.
    fn of_file(whole: crate::state::Whole, own: NodeId) -> Self {
        let defaults = Arc::new(BucketProps::untyped());
        let (cluster_id, ring_size) = (whole.cluster_id, whole.ring_size);
        let name = own.to_string().into();
        let empty = Self::new(own, name, cluster_id, ring_size, defaults, PROPERTY_NEEDS);
        Self::restored(&empty, whole)
    }
}
