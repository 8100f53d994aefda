//! Figures of exchanges, for operators.

use super::repair::Repaired;
use super::roots::SharedPartition;
use parking_lot::Mutex;
use quoit_cluster::NodeId;
use quoit_model::hash::Partition;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Exchanges of one partition with all nodes that share it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PartitionExchanges {
    /// The partition.
    pub partition: Partition,
    /// Time since its last comparison with any node; `None` if there was none.
    pub last_ago: Option<Duration>,
    /// Time since the oldest of its last comparisons with each node that shares it: within that time it
    /// was compared with all of them. `None` if there is a node with which it was not compared yet.
    pub all_ago: Option<Duration>,
    /// Number of keys that the last exchange repaired.
    pub repaired_last: u64,
    /// Mean number of keys repaired by an exchange.
    pub repaired_mean: f64,
    /// Largest number of keys repaired by an exchange.
    pub repaired_max: u64,
}

/// Figures of all exchanges that this node has begun.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExchangeStats {
    /// Time for which this node has kept digests of its copies: the time since its start.
    pub digests_ago: Duration,
    /// The partitions of which this node has a complete copy, in order.
    pub partitions: Vec<PartitionExchanges>,
}

#[derive(Clone, Copy, Default)]
struct Repairs {
    exchange_count: u64,
    last: u64,
    sum: u64,
    max: u64,
}

/// Counts of exchanges since the start.
pub(super) struct ExchangeCounts {
    began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    compared: BTreeMap<(Partition, NodeId), Instant>,
    repairs: BTreeMap<Partition, Repairs>,
}

impl ExchangeCounts {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, inner: Mutex::default() }
    }

    /// Notes an exchange with a node that came to its end.
    pub(super) fn note(
        &self,
        node: NodeId,
        compared: &[SharedPartition],
        repaired: &BTreeMap<Partition, Repaired>,
        now: Instant,
    ) {
        let mut inner = self.inner.lock();
        for SharedPartition { partition, .. } in compared {
            inner.compared.insert((*partition, node), now);
            let key_count = repaired.get(partition).map_or(0, |repaired| repaired.key_count);
            let repairs = inner.repairs.entry(*partition).or_default();
            repairs.exchange_count += 1;
            repairs.last = key_count;
            repairs.sum += key_count;
            repairs.max = repairs.max.max(key_count);
        }
    }

    /// Returns the figures of these partitions, each with the nodes that share it.
    pub(super) fn stats(
        &self,
        sharing: &BTreeMap<Partition, Vec<NodeId>>,
        now: Instant,
    ) -> ExchangeStats {
        let inner = self.inner.lock();
        let figures = |(partition, nodes): (&Partition, &Vec<NodeId>)| {
            let compared = nodes.iter().map(|node| inner.compared.get(&(*partition, *node)));
            let times: Vec<Option<Instant>> = compared.map(Option::<&Instant>::copied).collect();
            let last = times.iter().flatten().max();
            let all = times.iter().copied().collect::<Option<Vec<Instant>>>();
            let repairs = inner.repairs.get(partition).copied().unwrap_or_default();
            PartitionExchanges {
                partition: *partition,
                last_ago: last.map(|at| now - *at),
                all_ago: all.and_then(|all| all.into_iter().min()).map(|at| now - at),
                repaired_last: repairs.last,
                repaired_mean: repairs.sum as f64 / repairs.exchange_count.max(1) as f64,
                repaired_max: repairs.max,
            }
        };
        let partitions = sharing.iter().map(figures).collect();
        ExchangeStats { digests_ago: now - self.began, partitions }
    }
}
