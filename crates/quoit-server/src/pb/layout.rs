//! The cluster's layout, for clients that send requests directly to a replica; see
//! `docs/design/client-routing.md`.

use super::connection::PbConnection;
use super::fault::Fault;
use bytes::Bytes;
use quoit_cluster::{NodeId, Placements, Readers, State};
use quoit_model::hash::PlacementRule;
use quoit_wire::messages::{RpbGetLayoutReq, RpbGetLayoutResp, RpbLayoutNode, RpbLayoutRule};
use xxhash_rust::xxh3::xxh3_128;

/// Largest number of rules in an answer. For buckets beyond them, requests of clients take one more hop.
const RULE_COUNT_MAX: usize = 8192;
/// Largest number of replicas of a partition in an answer.
const POSITION_COUNT_MAX: u32 = 16;

impl PbConnection {
    pub(super) fn layout(&mut self, request: &RpbGetLayoutReq) -> Result<(), Fault> {
        let layout = layout(&self.context.store.control().read());
        if request.known_tag.as_ref() == Some(&layout.tag) {
            return self.send(&RpbGetLayoutResp { tag: layout.tag, ..Default::default() });
        }
        self.send(&layout)
    }
}

/// The layout in the form for clients. Costs time and bytes in proportion to its length: two bytes for each
/// replica of each partition, and the rules.
fn layout(state: &State) -> RpbGetLayoutResp {
    let rules: Vec<_> = state.placements().into_iter().take(RULE_COUNT_MAX).map(rule).collect();
    let n_val_max = rules.iter().map(|rule| rule.n_val).max().unwrap_or_default();
    let positions = n_val_max.min(POSITION_COUNT_MAX);
    let Readers { nodes, places } = state.layouts().readers(positions);
    let mut layout = RpbGetLayoutResp {
        tag: Bytes::new(),
        ring_size: Some(u32::from(state.ring_size().get())),
        nodes: nodes.iter().map(|id| node(state, *id)).collect(),
        primaries: Some(places.into_iter().flat_map(u16::to_be_bytes).collect()),
        rules,
    };
    let hash = xxh3_128(&prost::Message::encode_to_vec(&layout));
    layout.tag = Bytes::copy_from_slice(&hash.to_be_bytes());
    layout
}

fn node(state: &State, id: NodeId) -> RpbLayoutNode {
    let member = state.members().get(id);
    let text = |text: Option<&str>| Bytes::copy_from_slice(text.unwrap_or_default().as_bytes());
    RpbLayoutNode {
        name: text(member.map(|member| &*member.name)),
        address: text(member.map(|member| &*member.addresses.pb)),
    }
}

fn rule(placements: Placements<'_>) -> RpbLayoutRule {
    RpbLayoutRule {
        bucket_type: Bytes::copy_from_slice(placements.bucket_type),
        bucket: placements.bucket.map(Bytes::copy_from_slice),
        n_val: placements.n_val,
        bucket_only: (placements.rule == PlacementRule::BucketOnly).then_some(true),
    }
}
