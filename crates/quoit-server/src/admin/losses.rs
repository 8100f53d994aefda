//! Lost records in the administration API.

use super::{allow, refusal};
use crate::context::ServerContext;
use crate::http::{Method, Refusal};
use quoit_cluster::{NodeId, State};
use quoit_core::ReplicatedStore;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Copies that have lost records and are not complete again, by node; the unreachable nodes that they need
/// to complete; and the partitions of which records may be lost for good.
pub(super) fn losses(store: &ReplicatedStore, state: &State) -> Value {
    let name = |node: NodeId| state.members().name_of(node).to_string();
    let awaited = store.transfers().awaited_after_loss().into_iter().map(|(node, awaited)| {
        (name(node), awaited.into_iter().map(name).collect::<Vec<String>>())
    });
    let awaited: BTreeMap<String, Vec<String>> = awaited.collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (_, node) in state.layouts().lost_copies() {
        *counts.entry(name(node)).or_default() += 1;
    }
    let copies: Vec<Value> = counts
        .into_iter()
        .map(|(node, count)| {
            let waits_for = awaited.get(&node).cloned().unwrap_or_default();
            json!({"node": node, "partition_count": count, "waits_for": waits_for})
        })
        .collect();
    let unsure: Vec<u16> = state.layouts().unsure().iter().map(|each| each.0).collect();
    json!({"incomplete_copies": copies, "possibly_incomplete_partitions": unsure})
}

/// Acknowledges all partitions of which records may be lost for good. The answer lists them a last time.
pub(super) async fn accept(context: &ServerContext, method: Method) -> Result<Value, Refusal> {
    allow(method, &[Method::Post])?;
    let control = context.store.control();
    let accepted = losses(&context.store, &control.read());
    control.accept_losses().await.map_err(|fault| refusal(&fault))?;
    Ok(accepted)
}
