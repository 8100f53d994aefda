//! Estimates how many bytes a planned change of layout moves, and how long that takes.

use super::Transfers;
use super::operators::NodeTransfers;
use crate::placement::n_vals;
use quoit_cluster::{NodeId, Plan, PlannedTransfer};
use quoit_model::layout::Layout;
use quoit_number::rounded;
use std::collections::BTreeMap;

/// Estimate of the data that a pair of nodes has to move.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransferEstimate {
    /// The pair and its partitions.
    pub transfer: PlannedTransfer,
    /// Bytes of the records in these partitions; `None` if no member has reported how much it stores.
    pub byte_count: Option<u64>,
    /// Seconds that this transfer takes by itself, at the rate that the sender's limits allow; `None` if
    /// there is no limit or no byte count.
    pub secs: Option<f64>,
}

/// Estimate of the data that a plan moves.
///
/// The figures assume that records are spread evenly over partitions, that receivers have none of them
/// yet, and that senders are as fast as their limits allow.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanEstimate {
    /// Each pair of nodes.
    pub transfers: Vec<TransferEstimate>,
    /// Bytes of all pairs together; `None` if those of one are not known.
    pub byte_count: Option<u64>,
    /// Seconds until all transfers are done; `None` if one of them has no estimate. Nodes send at the
    /// same time, each to one receiver after another.
    pub secs: Option<f64>,
}

impl Transfers {
    /// Estimates the data that a plan moves. Asks all members how much they store and how fast they may
    /// send.
    pub async fn estimate(&self, plan: &Plan) -> PlanEstimate {
        let told = self.reports().await;
        let state = self.local.state();
        let (_, n_val_max) = n_vals(&state);
        estimate(&plan.transfers, state.layouts().newest(), n_val_max, &told)
    }
}

fn estimate(
    transfers: &[PlannedTransfer],
    layout: &Layout,
    n_val_max: u32,
    told: &BTreeMap<NodeId, NodeTransfers>,
) -> PlanEstimate {
    let sizes = CopySizes::new(layout, n_val_max, told);
    let slowest = told.values().map(|each| each.limits.bytes_per_sec_max).filter(|rate| *rate > 0);
    let slowest = slowest.min().unwrap_or_default();
    let mut by_sender: BTreeMap<NodeId, f64> = BTreeMap::new();
    let estimated = transfers.iter().map(|transfer| {
        let byte_count = sizes
            .of(transfer.from)
            .map(|copy_bytes| rounded(copy_bytes * f64::from(transfer.partition_count)));
        // Copies of a node that is gone are rebuilt from several others: assume the rate of the slowest.
        let sender = told.get(&transfer.from).filter(|_| transfer.has_source);
        let rate = sender.map_or(slowest, |sender| sender.limits.bytes_per_sec_max);
        let secs = byte_count.filter(|_| rate > 0).map(|bytes| bytes as f64 / rate as f64);
        *by_sender.entry(transfer.from).or_default() += secs.unwrap_or_default();
        TransferEstimate { transfer: *transfer, byte_count, secs }
    });
    let transfers: Vec<_> = estimated.collect();
    let all_have_time = transfers.iter().all(|each| each.secs.is_some());
    PlanEstimate {
        byte_count: transfers.iter().map(|each| each.byte_count).sum(),
        secs: all_have_time.then(|| by_sender.into_values().fold(0.0, f64::max)),
        transfers,
    }
}

/// Bytes of one copy of a partition, for each node that has copies.
struct CopySizes {
    by_node: BTreeMap<NodeId, f64>,
    /// The mean over all nodes, used for nodes that did not report; `None` if no node that has copies
    /// reported.
    mean: Option<f64>,
}

impl CopySizes {
    fn new(layout: &Layout, n_val_max: u32, told: &BTreeMap<NodeId, NodeTransfers>) -> Self {
        let mut copy_counts: BTreeMap<NodeId, u64> = BTreeMap::new();
        for partition in layout.partitions() {
            for place in layout.primaries(partition, n_val_max) {
                *copy_counts.entry(layout.node_at(*place)).or_default() += 1;
            }
        }
        let known = || {
            let known = told.iter();
            known.filter_map(|(node, told)| Some((*node, told.live_bytes, *copy_counts.get(node)?)))
        };
        let by_node = known().map(|(node, bytes, count)| (node, bytes as f64 / count as f64));
        let (bytes, count) =
            known().fold((0, 0), |sums, (_, bytes, count)| (sums.0 + bytes, sums.1 + count));
        let mean = (count > 0).then(|| bytes as f64 / count as f64);
        Self { by_node: by_node.collect(), mean }
    }

    fn of(&self, node: NodeId) -> Option<f64> {
        self.by_node.get(&node).copied().or(self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::progress::TransferStats;
    use crate::settings::TransferLimits;
    use quoit_model::hash::RingSize;
    use quoit_model::layout::{LayoutMember, LayoutRequest};
    use quoit_wire::internode::operators::NodeFigures;

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    /// A layout of three nodes that each have a copy of all 16 partitions.
    fn layout() -> Layout {
        let alone = Layout::single(node(1), RingSize::new(16).unwrap());
        let members: Vec<_> = (1..=3).map(|number| LayoutMember::new(node(number))).collect();
        Layout::compute(&LayoutRequest::after(&alone, &members)).unwrap()
    }

    fn stores(live_bytes: u64, bytes_per_sec_max: u64) -> NodeTransfers {
        let limits = TransferLimits { bytes_per_sec_max, ..TransferLimits::default() };
        NodeTransfers {
            live_bytes,
            limits,
            stats: TransferStats::default(),
            figures: NodeFigures::default(),
        }
    }

    fn moves(from: u8, to: u8, partition_count: u32) -> PlannedTransfer {
        PlannedTransfer { from: node(from), to: node(to), partition_count, has_source: true }
    }

    fn bytes_and_secs(estimate: &PlanEstimate) -> Vec<(Option<u64>, Option<f64>)> {
        estimate.transfers.iter().map(|each| (each.byte_count, each.secs)).collect()
    }

    #[test]
    fn pairs_take_time_by_size_and_rate_and_senders_work_at_the_same_time() {
        let told =
            BTreeMap::from([(node(1), stores(16_000, 1_000)), (node(2), stores(32_000, 500))]);
        let moved = [moves(1, 4, 4), moves(1, 5, 2), moves(2, 4, 1)];
        let estimate = estimate(&moved, &layout(), 3, &told);
        let expected =
            [(Some(4_000), Some(4.0)), (Some(2_000), Some(2.0)), (Some(2_000), Some(4.0))];
        assert_eq!(bytes_and_secs(&estimate), expected);
        assert_eq!((estimate.byte_count, estimate.secs), (Some(8_000), Some(6.0)));
    }

    #[test]
    fn a_node_that_is_gone_had_as_much_as_the_others_and_they_make_it_anew() {
        let told =
            BTreeMap::from([(node(1), stores(16_000, 1_000)), (node(2), stores(32_000, 500))]);
        let moved = [PlannedTransfer { has_source: false, ..moves(3, 2, 2) }];
        let estimate = estimate(&moved, &layout(), 3, &told);
        assert_eq!(bytes_and_secs(&estimate), [(Some(3_000), Some(6.0))]);
    }

    #[test]
    fn without_a_rate_there_is_no_time_and_without_sizes_nothing() {
        let told = BTreeMap::from([(node(1), stores(16_000, 0))]);
        let unlimited = estimate(&[moves(1, 4, 4)], &layout(), 3, &told);
        assert_eq!((unlimited.byte_count, unlimited.secs), (Some(4_000), None));
        let unknown = estimate(&[moves(1, 4, 4)], &layout(), 3, &BTreeMap::new());
        assert_eq!((unknown.byte_count, unknown.secs), (None, None));
        let nothing = estimate(&[], &layout(), 3, &told);
        assert_eq!((nothing.byte_count, nothing.secs), (Some(0), Some(0.0)));
    }
}
