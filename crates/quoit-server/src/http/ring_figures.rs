//! Figures of the ring in `/stats`.

use quoit_cluster::{ControlPlane, NodeId, State};
use quoit_model::layout::Layout;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Figures of the members and of the nodes that own partitions, under Riak's names.
pub(super) fn ring_figures(control: &ControlPlane) -> [(&'static str, Value); 6] {
    let state = control.read();
    let newest = state.layouts().newest();
    let own = state.node_id();
    let mut members: Vec<_> =
        state.members().iter().map(|member| (&*member.name, member.id)).collect();
    members.sort_unstable();
    let connected = members.iter().filter(|(_, id)| *id != own && control.is_reachable(*id));
    let connected: Vec<_> = connected.map(|(name, _)| *name).collect();
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    [
        ("connected_nodes", json!(connected)),
        ("ring_members", json!(names)),
        ("ring_num_partitions", newest.ring_size().get().into()),
        ("ring_creation_size", newest.ring_size().get().into()),
        ("ring_ownership", ownership(&state, newest).into()),
        ("riak_kv_vnodes_running", copies(newest, own).into()),
    ]
}

/// Number of partitions that prefer each node, as Erlang prints a list of pairs.
fn ownership(state: &State, layout: &Layout) -> String {
    let members = layout.nodes().iter().map(|id| (state.members().name_of(*id), 0));
    let mut owned: BTreeMap<_, u32> = members.collect();
    for owner in layout.partitions().filter_map(|partition| layout.order(partition).first()) {
        *owned.entry(state.members().name_of(layout.node_at(*owner))).or_default() += 1;
    }
    let pairs = owned.iter().map(|(name, count)| format!("{{'{name}',{count}}}"));
    format!("[{}]", pairs.collect::<Vec<_>>().join(","))
}

/// Number of partitions of which a node holds a copy.
fn copies(layout: &Layout, node: NodeId) -> u32 {
    let shares = layout.shares();
    shares.iter().find(|share| share.node == node).map_or(0, |share| share.partition_count)
}
