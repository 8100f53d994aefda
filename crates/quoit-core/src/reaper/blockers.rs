//! Reports the reasons for which tombstones that are due stay.

use super::Reaper;
use quoit_cluster::Member;
use std::sync::Arc;

/// Reasons for which tombstones of a node that are due are not reaped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReapingBlockers {
    /// Names of members that hold partitions and can't be reached. The tombstones of their partitions
    /// stay.
    pub unreachable_members: Vec<Arc<str>>,
    /// Names of members that have lost records and have not recovered them. The tombstones of their
    /// partitions stay.
    pub incomplete: Vec<Arc<str>>,
    /// True if all tombstones stay because several layouts are live.
    pub partitions_move: bool,
}

impl Reaper {
    /// Returns the reasons for which this node's tombstones stay. There are no reasons if it has no
    /// tombstones.
    #[must_use]
    pub fn tombstones_held_up(&self) -> ReapingBlockers {
        if self.local.engine.stats().tombstone_count == 0 {
            return ReapingBlockers::default();
        }
        let state = self.local.state();
        let layouts = state.layouts();
        let own = state.node_id();
        let names = |is_wanted: &dyn Fn(&Member) -> bool| {
            let members = state.members().iter().filter(|member| is_wanted(member));
            members.map(|member| Arc::clone(&member.name)).collect()
        };
        let holds = |member: &Member| layouts.newest().node_index(member.id).is_some();
        let is_away = |member: &Member| {
            holds(member) && member.id != own && self.local.reachable(member.id).is_none()
        };
        let has_lost = |member: &Member| layouts.lost_copies().any(|(_, node)| node == member.id);
        ReapingBlockers {
            unreachable_members: names(&is_away),
            incomplete: names(&has_lost),
            partitions_move: layouts.is_moving(),
        }
    }
}
