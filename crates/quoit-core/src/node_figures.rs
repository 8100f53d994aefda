//! Figures of a node's state for the operator's overview.

use crate::local_node::LocalNode;
use crate::stats::{Counter, Distribution};
use quoit_wire::internode::operators::NodeFigures;

const US_PER_SEC: u64 = 1_000_000;

impl LocalNode {
    /// Figures of this node. Sums all counters, which takes some tens of microseconds.
    pub(crate) fn node_figures(&self) -> NodeFigures {
        let (snapshot, stats) = (self.figures(), self.engine.stats());
        let room = self.disk_space().unwrap_or_default();
        let count = |counter: Counter| snapshot.last_minute(counter);
        let of = |distribution: Distribution| snapshot.summary(distribution);
        let (siblings, sizes) = (of(Distribution::GetSiblings), of(Distribution::GetObjectBytes));
        NodeFigures {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_secs: self.clock.monotonic_us() / US_PER_SEC,
            key_count: stats.key_count + stats.tombstone_count,
            tombstone_count: stats.tombstone_count,
            disk_bytes: stats.disk_bytes,
            disk_free_bytes: room.free_bytes,
            disk_total_bytes: room.total_bytes,
            get_count: count(Counter::Gets),
            put_count: count(Counter::Puts),
            error_count: count(Counter::GetErrors) + count(Counter::PutErrors),
            get_p99_us: of(Distribution::GetTimeUs).p99,
            put_p99_us: of(Distribution::PutTimeUs).p99,
            siblings_p99: siblings.p99,
            siblings_max: siblings.max,
            object_bytes_p99: sizes.p99,
            object_bytes_max: sizes.max,
            is_disk_full: stats.disk_full,
            writes_refused: stats.write_failure.map_or_else(String::new, |failure| failure.reason),
        }
    }
}
