//! The clusters of a world: one in most, several that replicate in some.

use crate::faults::{MachineFault, Planned};
use crate::links::Replication;
use crate::machine::Use;
use crate::settings::Settings;
use std::sync::Arc;

/// The clusters of a run.
pub(crate) struct ClusterPlan {
    /// Machines of each.
    machine_counts: Vec<usize>,
    /// The cluster whose members come and go.
    operated: usize,
    /// How they replicate, where there are several.
    pub(crate) replication: Option<Arc<Replication>>,
}

impl ClusterPlan {
    /// The clusters of a seed.
    pub(crate) fn draw(seed: u64, settings: &Settings) -> Self {
        let machine_counts = settings.clusters_of(seed);
        let count = machine_counts.len();
        let replication = (count > 1).then(|| Arc::new(Replication::draw(seed, count)));
        Self { operated: operated_cluster(seed, count), machine_counts, replication }
    }

    /// Clusters of the world.
    pub(crate) fn count(&self) -> u32 {
        self.machine_counts.len() as u32
    }

    /// Machines that are in service at first.
    pub(crate) fn founder_count(&self) -> usize {
        self.machine_counts.iter().sum()
    }

    /// The cluster of a machine, and its role at first.
    pub(crate) fn role(&self, index: usize) -> (usize, Use) {
        let mut end = 0;
        let cluster = self.machine_counts.iter().position(|count| {
            end += count;
            index < end
        });
        cluster.map_or((self.operated, Use::Spare), |cluster| (cluster, Use::InService))
    }

    /// Whether nothing may be lost that only a comparison of clusters finds again.
    pub(crate) fn is_lossless(&self) -> bool {
        self.replication.as_ref().is_some_and(|replication| !replication.has_full_sync)
    }

    /// Partitions of each cluster: every second one has twice as many.
    pub(crate) fn partition_counts(&self, settings: &Settings) -> Arc<[u16]> {
        let count = settings.partition_count();
        (0..self.machine_counts.len()).map(|cluster| count << (cluster % 2)).collect()
    }

    /// Leaves out the faults that this world can't make good.
    pub(crate) fn keep_possible(&self, planned: &mut Vec<Planned>) {
        if self.is_lossless() {
            let has_losses =
                self.replication.as_ref().is_some_and(|replication| replication.has_losses);
            let is_mended = |fault| has_losses && matches!(fault, MachineFault::PowerLoss(_));
            planned.retain(|planned| is_harmless(planned.fault) || is_mended(planned.fault));
        }
    }
}

/// The cluster whose members come and go, of so many.
pub(crate) const fn operated_cluster(seed: u64, cluster_count: usize) -> usize {
    (seed % cluster_count as u64) as usize
}

/// Whether a fault takes nothing that only a comparison of clusters would find again.
const fn is_harmless(fault: MachineFault) -> bool {
    matches!(fault, MachineFault::Kill(_)) || fault.keeps_what_is_known()
}
