//! The share of a node in a bootstrap, with its progress, kept in a file.

use crate::address::PeerAddress;
use crate::json_file::JsonFile;
use quoit_seam::Disk;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The share of a node, with its progress.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct BootstrapPlan {
    /// Nodes of the other cluster, as HOST:PORT:pb.
    pub(super) peers: Vec<String>,
    /// Partitions of the other cluster that are not fully copied, each with the hash from which copying
    /// continues.
    left: BTreeMap<u16, u64>,
    /// Partitions that are fully copied.
    copied: BTreeSet<u16>,
    record_count: u64,
    byte_count: u64,
    began_us: u64,
    ended_us: Option<u64>,
    /// True if an operator has stopped the work.
    pub(super) is_stopped: bool,
    /// Partitions that are being copied.
    #[serde(skip)]
    claimed: BTreeSet<u16>,
}

/// Records that were copied, and their size.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopiedAmount {
    pub(super) record_count: u64,
    pub(super) byte_count: u64,
}

impl BootstrapPlan {
    /// A plan for these partitions. Partitions that an unfinished plan with the same peers has copied
    /// count as done.
    pub(super) fn begun(
        peers: Vec<String>,
        partitions: Vec<u16>,
        former: Option<Self>,
        now_us: u64,
    ) -> Self {
        let goes_on = |former: &Self| former.peers == peers && former.ended_us.is_none();
        let former = former.filter(goes_on).unwrap_or_default();
        let is_left = |number: &u16| !former.copied.contains(number);
        let from = |number: u16| (number, former.left.get(&number).copied().unwrap_or(0));
        Self {
            left: partitions.into_iter().filter(is_left).map(from).collect(),
            copied: former.copied.clone(),
            record_count: former.record_count,
            byte_count: former.byte_count,
            began_us: if former.began_us > 0 { former.began_us } else { now_us },
            peers,
            ..Self::default()
        }
    }

    /// The peers while there is something to copy; otherwise `None`.
    pub(super) fn peers_to_ask(&self) -> Option<Vec<PeerAddress>> {
        let is_wanted = !self.is_stopped && self.ended_us.is_none();
        let peers = self.peers.iter().filter_map(|peer| peer.parse().ok());
        is_wanted.then(|| peers.collect::<Vec<_>>()).filter(|peers| !peers.is_empty())
    }

    /// Claims the next partition to copy from these peers. Returns it with the hash from which copying
    /// continues; `None` if none is left, or the plan has other peers by now.
    pub(super) fn claim(&mut self, peers: &[PeerAddress]) -> Option<(u16, u64)> {
        if self.peers_to_ask().as_deref() != Some(peers) {
            return None;
        }
        let is_free = |(number, _): &(&u16, &u64)| !self.claimed.contains(number);
        let (number, from) =
            self.left.iter().find(is_free).map(|(number, from)| (*number, *from))?;
        let is_new = self.claimed.insert(number);
        debug_assert!(is_new, "a partition is copied once at a time");
        Some((number, from))
    }

    /// Gives up the claims on all partitions that are being copied.
    pub(super) fn release(&mut self) {
        self.claimed.clear();
    }

    /// Notes that more records of a partition are stored, all up to a hash; `None` for the whole partition.
    pub(super) fn reached(&mut self, number: u16, next: Option<u64>, copied: CopiedAmount) {
        // The plan may have been replaced in the meantime, by one with other peers. The records came from
        // the former ones, then.
        if !self.claimed.contains(&number) {
            return;
        }
        let Some(from) = self.left.get_mut(&number) else { return };
        debug_assert!(self.ended_us.is_none(), "an ended plan has no partitions left");
        debug_assert!(next.is_none_or(|next| next > *from), "copying goes on from where it was");
        self.record_count += copied.record_count;
        self.byte_count += copied.byte_count;
        match next {
            Some(next) => *from = next,
            None => {
                self.left.remove(&number);
                self.copied.insert(number);
            }
        }
    }

    /// Ends the plan if no partition is left. True if it has ended.
    pub(super) fn end(&mut self, now_us: u64) -> bool {
        if self.left.is_empty() {
            self.ended_us = Some(now_us);
        }
        self.ended_us.is_some()
    }
}

/// State of a bootstrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BootstrapState {
    /// No bootstrap was ever begun on this node.
    Never,
    /// The node is copying.
    Copying,
    /// An operator has stopped the work.
    Stopped,
    /// The node has copied its share.
    Copied,
}

/// Progress of a bootstrap on this node, for operators.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BootstrapStatus {
    /// State of the bootstrap.
    pub state: BootstrapState,
    /// Nodes of the other cluster.
    pub peers: Vec<String>,
    /// Number of partitions of the other cluster that this node copies.
    pub partition_count: u64,
    /// Number of them that are fully copied.
    pub copied_count: u64,
    /// Number of records that were stored here.
    pub record_count: u64,
    /// Bytes of their objects.
    pub byte_count: u64,
    /// Time of the beginning, microseconds since 1970; 0 if it never began.
    pub began_us: u64,
    /// Time of the end, microseconds since 1970.
    pub ended_us: Option<u64>,
    /// Fault of a partition that is tried again every second.
    pub fault: Option<String>,
}

impl BootstrapStatus {
    pub(super) fn of(plan: Option<&BootstrapPlan>, fault: Option<String>) -> Self {
        let none = BootstrapPlan::default();
        let is_known = plan.is_some();
        let plan = plan.unwrap_or(&none);
        let state = match plan {
            _ if !is_known => BootstrapState::Never,
            BootstrapPlan { ended_us: Some(_), .. } => BootstrapState::Copied,
            BootstrapPlan { is_stopped: true, .. } => BootstrapState::Stopped,
            _ => BootstrapState::Copying,
        };
        Self {
            state,
            peers: plan.peers.clone(),
            partition_count: (plan.left.len() + plan.copied.len()) as u64,
            copied_count: plan.copied.len() as u64,
            record_count: plan.record_count,
            byte_count: plan.byte_count,
            began_us: plan.began_us,
            ended_us: plan.ended_us,
            fault,
        }
    }
}

/// The file of the plan.
pub(super) type BootstrapFile = JsonFile<BootstrapPlan>;

/// The file of the plan on a disk.
pub(super) const fn bootstrap_file(disk: Option<Arc<dyn Disk>>) -> BootstrapFile {
    JsonFile::new("BOOTSTRAP.json", disk, "give quoit repl bootstrap start again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_seam::FaultyDisk;

    #[test]
    fn a_bootstrap_goes_on_where_a_killed_process_has_left_it() {
        let disk = FaultyDisk::new(3);
        let file = bootstrap_file(Some(Arc::new(disk.clone())));
        let peers = vec!["a:1:pb".to_owned()];
        let mut plan = BootstrapPlan::begun(peers.clone(), vec![4, 5, 6], None, 7);
        let asked = plan.peers_to_ask().expect("a peer");
        assert_eq!((plan.claim(&asked), plan.claim(&asked)), (Some((4, 0)), Some((5, 0))));
        plan.reached(4, Some(99), CopiedAmount { record_count: 10, byte_count: 1_000 });
        plan.reached(5, None, CopiedAmount { record_count: 20, byte_count: 2_000 });
        assert!(!plan.end(8), "a partition is left");
        file.store(&plan).expect("the disk takes it");
        let file = bootstrap_file(Some(Arc::new(disk.kill())));
        let mut plan = file.load().expect("the disk reads").expect("a plan");
        let status = BootstrapStatus::of(Some(&plan), None);
        assert_eq!((status.state, status.partition_count), (BootstrapState::Copying, 3));
        assert_eq!((status.copied_count, status.record_count), (1, 30));
        assert_eq!((plan.claim(&asked), plan.claim(&asked)), (Some((4, 99)), Some((6, 0))));
        assert_eq!(plan.claim(&asked), None);
        // The same command again leaves out copied partitions; a command with other peers does not.
        let again = BootstrapPlan::begun(peers, vec![4, 5], Some(plan.clone()), 9);
        assert_eq!(again.left, BTreeMap::from([(4, 99)]));
        let other = BootstrapPlan::begun(vec!["b:1:pb".to_owned()], vec![4, 5], Some(plan), 9);
        assert_eq!(other.left, BTreeMap::from([(4, 0), (5, 0)]));
    }

    #[test]
    fn records_of_former_peers_do_not_count_for_a_plan_with_others() {
        let begun =
            |peer: &str, former| BootstrapPlan::begun(vec![peer.to_owned()], vec![4, 5], former, 7);
        let mut former = begun("a:1:pb", None);
        let asked = former.peers_to_ask().expect("a peer");
        assert_eq!((former.claim(&asked), former.claim(&asked)), (Some((4, 0)), Some((5, 0))));
        let mut plan = begun("b:1:pb", Some(former));
        let copied = CopiedAmount { record_count: 10, byte_count: 1_000 };
        plan.reached(4, Some(99), copied);
        plan.reached(5, None, copied);
        assert_eq!(plan.claim(&asked), None);
        assert_eq!(plan.left, BTreeMap::from([(4, 0), (5, 0)]));
    }
}
