//! Changes of members and capacities, and the steps towards them.

use crate::machine::Machine;
use quoit_cluster::{ControlPlane, MemberStatus, StagedChange, State};
use std::sync::Arc;

/// A change of members or capacities. Machines are identified by their indexes, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberChange {
    Join {
        new: usize,
    },
    Leave {
        old: usize,
    },
    Replace {
        old: usize,
        new: usize,
    },
    RemoveLost {
        old: usize,
    },
    ReplaceLost {
        old: usize,
        new: usize,
    },
    /// Replaces a machine that has lost its directory.
    ReplaceWiped {
        old: usize,
        new: usize,
    },
    Capacity {
        of: usize,
        capacity: u32,
    },
}

impl MemberChange {
    /// Returns the machine that joins.
    pub(super) const fn newcomer(self) -> Option<usize> {
        match self {
            Self::Join { new }
            | Self::Replace { new, .. }
            | Self::ReplaceLost { new, .. }
            | Self::ReplaceWiped { new, .. } => Some(new),
            _ => None,
        }
    }

    /// Returns the machine that leaves or was lost.
    pub(super) const fn old(self) -> Option<usize> {
        match self {
            Self::Leave { old }
            | Self::Replace { old, .. }
            | Self::RemoveLost { old }
            | Self::ReplaceLost { old, .. }
            | Self::ReplaceWiped { old, .. } => Some(old),
            _ => None,
        }
    }

    /// Returns the machine whose data is lost before the change.
    pub(super) const fn lost(self) -> Option<usize> {
        match self {
            Self::RemoveLost { old }
            | Self::ReplaceLost { old, .. }
            | Self::ReplaceWiped { old, .. } => Some(old),
            _ => None,
        }
    }

    /// Returns the change to stage; `None` for a join, which stages itself.
    pub(super) fn staged(self) -> Option<StagedChange> {
        let id = Machine::node_id_at;
        match self {
            Self::Join { .. } => None,
            Self::Leave { old } => Some(StagedChange::Leave { node: id(old) }),
            Self::Replace { old, new } => {
                Some(StagedChange::Replace { old: id(old), new: id(new) })
            }
            Self::RemoveLost { old } => Some(StagedChange::ForceRemove { node: id(old) }),
            Self::ReplaceLost { old, new } | Self::ReplaceWiped { old, new } => {
                Some(StagedChange::ForceReplace { old: id(old), new: id(new) })
            }
            Self::Capacity { of, capacity } => {
                Some(StagedChange::Capacity { node: id(of), capacity })
            }
        }
    }

    /// True if the change is committed in a member's state.
    pub(super) fn is_made(self, state: &State) -> bool {
        let member = |place| state.members().get(Machine::node_id_at(place));
        let came = self.newcomer().is_none_or(|new| {
            member(new).is_some_and(|member| member.status == MemberStatus::Valid)
        });
        let goes = self.old().is_none_or(|old| match member(old).map(|member| member.status) {
            // The state of a member that is behind may not have the node yet, so only a recorded removal
            // counts.
            None => state.members().is_removed(Machine::node_id_at(old)),
            // A removal by force has to be complete; that the node is leaving is not enough.
            Some(status) => {
                let is_going = matches!(status, MemberStatus::Leaving | MemberStatus::Exiting);
                is_going && self.lost().is_none()
            }
        });
        let weighs = match self {
            Self::Capacity { of, capacity } => {
                member(of).is_none_or(|member| member.capacity == capacity)
            }
            _ => true,
        };
        came && goes && weighs
    }
}

/// Takes the steps towards a change that are possible now. Returns true if the change is made.
pub(super) async fn step(control: Arc<ControlPlane>, change: MemberChange) -> Result<bool, String> {
    if change.is_made(&control.read()) {
        return Ok(true);
    }
    if let Some(staged) = change.staged()
        && !control.read().staged().contains(&staged)
    {
        control.stage(&staged).await.map_err(|fault| fault.to_string())?;
    }
    control.plan().map_err(|fault| fault.to_string())?;
    control.commit_staged(None).await.map_err(|fault| fault.to_string())?;
    Ok(change.is_made(&control.read()))
}
