//! The clusters of a world: one in most runs, and several that replicate in the family `clusters`.

use crate::boot::NODE_PORT;
use crate::faults::{MachineFault, PlannedFault};
use crate::links::Replication;
use crate::machine::{Machine, MachineRole, MachineUse};
use crate::settings::Settings;
use std::sync::Arc;

/// The clusters of a run.
pub(crate) struct ClusterPlan {
    /// Number of machines of each cluster.
    machine_counts: Vec<usize>,
    /// Number of the cluster whose members the operator changes.
    operated: usize,
    /// Replication between the clusters; `None` if there is only one.
    pub(crate) replication: Option<Arc<Replication>>,
}

impl ClusterPlan {
    /// Draws the clusters of a seed.
    pub(crate) fn draw(seed: u64, settings: &Settings) -> Self {
        let machine_counts = settings.clusters_of(seed);
        let count = machine_counts.len();
        let replication = (count > 1).then(|| Arc::new(Replication::draw(seed, count)));
        Self { operated: operated_cluster(seed, count), machine_counts, replication }
    }

    /// Number of clusters.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.machine_counts.len()).expect("a run has a few clusters")
    }

    /// Number of machines that are in service at first.
    pub(crate) fn founder_count(&self) -> usize {
        self.machine_counts.iter().sum()
    }

    /// Internode addresses of the machines that are in service at first.
    pub(crate) fn addresses(&self) -> Arc<[Arc<str>]> {
        let address = |place| format!("{}:{NODE_PORT}", Machine::name_at(place)).into();
        (0..self.founder_count()).map(address).collect()
    }

    /// Role of a machine at the start of the run.
    pub(crate) fn role(&self, index: usize) -> MachineRole {
        let mut end = 0;
        let cluster = self.machine_counts.iter().position(|count| {
            end += count;
            index < end
        });
        match cluster {
            Some(cluster) => MachineRole { cluster, machine_use: MachineUse::InService },
            None => MachineRole { cluster: self.operated, machine_use: MachineUse::Spare },
        }
    }

    /// True if clusters are not compared in general, so that a fault must not lose anything which only a
    /// comparison finds.
    pub(crate) fn is_lossless(&self) -> bool {
        self.replication.as_ref().is_some_and(|replication| !replication.has_full_sync)
    }

    /// Number of partitions of each cluster: every second cluster has twice as many.
    pub(crate) fn partition_counts(&self, settings: &Settings) -> Arc<[u16]> {
        let count = settings.partition_count();
        (0..self.machine_counts.len()).map(|cluster| count << (cluster % 2)).collect()
    }

    /// Removes the faults from whose effects this world has no way to recover. In a lossless world only
    /// harmless faults stay, and losses of power if a comparison follows them.
    pub(crate) fn keep_possible(&self, planned: &mut Vec<PlannedFault>) {
        if self.is_lossless() {
            let has_losses =
                self.replication.as_ref().is_some_and(|replication| replication.has_losses);
            let is_mended = |fault| has_losses && matches!(fault, MachineFault::PowerLoss(_));
            planned.retain(|planned| is_harmless(planned.fault) || is_mended(planned.fault));
        }
    }
}

/// Number of the cluster whose members the operator changes, of `cluster_count` clusters.
pub(crate) const fn operated_cluster(seed: u64, cluster_count: usize) -> usize {
    quoit_number::index(seed % cluster_count as u64)
}

/// True if a fault takes nothing that only a comparison of clusters would find again.
const fn is_harmless(fault: MachineFault) -> bool {
    matches!(fault, MachineFault::Kill(_)) || fault.preserves_hints_and_time()
}
