//! The cluster's layout for clients that go straight to a replica; `docs/design/client-routing.md`.

use super::connection::{Connection, Fault};
use crate::context::ServerContext;
use bytes::Bytes;
use quoit_cluster::{Placements, State};
use quoit_model::hash::{Partition, PlacementRule};
use quoit_wire::messages::{RpbGetLayoutReq, RpbGetLayoutResp, RpbLayoutNode, RpbLayoutRule};
use xxhash_rust::xxh3::xxh3_128;

/// Most rules told. Clients do without those of further buckets, at the cost of a hop.
const RULE_COUNT_MAX: usize = 8192;

impl Connection {
    pub(super) fn layout(&mut self, request: &RpbGetLayoutReq) -> Result<(), Fault> {
        let layout = layout(&self.context);
        if request.known_tag.as_ref() == Some(&layout.tag) {
            return self.send(&RpbGetLayoutResp { tag: layout.tag, ..Default::default() });
        }
        self.send(&layout)
    }
}

/// The layout as clients are told it. Costs as much as it is long: two bytes for each replica of
/// each partition, and the rules.
fn layout(context: &ServerContext) -> RpbGetLayoutResp {
    let state = context.store.control().read();
    let rules: Vec<_> = state.placements().into_iter().take(RULE_COUNT_MAX).map(rule).collect();
    let node = RpbLayoutNode {
        name: Bytes::copy_from_slice(state.node_name().as_bytes()),
        address: Bytes::copy_from_slice(context.pb_address.as_bytes()),
    };
    let mut layout = RpbGetLayoutResp {
        tag: Bytes::new(),
        ring_size: Some(u32::from(state.ring_size().get())),
        nodes: vec![node],
        primaries: Some(primaries(&state)),
        rules,
    };
    let hash = xxh3_128(&prost::Message::encode_to_vec(&layout));
    layout.tag = Bytes::copy_from_slice(&hash.to_be_bytes());
    layout
}

/// The only node is the primary of every partition.
fn primaries(state: &State) -> Bytes {
    let partitions = (0..state.ring_size().get()).map(Partition);
    partitions.flat_map(|_| 0u16.to_be_bytes()).collect()
}

fn rule(placements: Placements<'_>) -> RpbLayoutRule {
    RpbLayoutRule {
        bucket_type: Bytes::copy_from_slice(placements.bucket_type),
        bucket: placements.bucket.map(Bytes::copy_from_slice),
        n_val: placements.n_val,
        bucket_only: (placements.rule == PlacementRule::BucketOnly).then_some(true),
    }
}
