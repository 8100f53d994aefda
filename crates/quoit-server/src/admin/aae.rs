//! Anti-entropy in the administration API.

use super::error;
use crate::context::ServerContext;
use crate::http::{Refusal, query_value};
use quoit_core::{Counter, PartitionExchanges};
use quoit_model::hash::{Partition, RingSize};
use serde_json::{Value, json};

/// The results of comparing and repairing copies.
pub(super) fn status(context: &ServerContext) -> Value {
    let stats = context.store.anti_entropy().stats();
    let ring_size = context.store.control().read().ring_size();
    let digests_ago_secs = rounded(stats.digests_ago.as_secs_f64());
    let partition = |figures: &PartitionExchanges| partition(figures, ring_size, digests_ago_secs);
    let counts = context.store.stats().snapshot();
    json!({
        "node": context.node_name,
        "partitions": stats.partitions.iter().map(partition).collect::<Value>(),
        "exchanges_total": counts.total(Counter::Exchanges),
        "in_sync_total": counts.total(Counter::ExchangesInSync),
        "settled_total": counts.total(Counter::ExchangesSettled),
        "repaired_total": counts.total(Counter::ExchangesRepaired),
        "failed_total":
            counts.total(Counter::ExchangeErrors) + counts.total(Counter::ExchangeTimeouts),
        "keys_repaired_total": counts.total(Counter::ExchangeKeysRepaired),
        "bytes_repaired_total": counts.total(Counter::ExchangeBytesRepaired),
    })
}

fn partition(figures: &PartitionExchanges, ring_size: RingSize, digests_ago_secs: f64) -> Value {
    let secs = |ago: Option<std::time::Duration>| ago.map(|ago| rounded(ago.as_secs_f64()));
    json!({
        "id": figures.partition.0,
        "index": figures.partition.index_decimal(ring_size),
        "last_ago_secs": secs(figures.last_ago),
        "all_ago_secs": secs(figures.all_ago),
        "built_ago_secs": digests_ago_secs,
        "repaired_last": figures.repaired_last,
        "repaired_mean": rounded(figures.repaired_mean),
        "repaired_max": figures.repaired_max,
    })
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Requests an early exchange of one partition, or of all partitions, with every node that holds a copy.
pub(super) fn exchange(context: &ServerContext, query: &[u8]) -> Result<Value, Refusal> {
    let shared: Vec<Partition> =
        context.store.anti_entropy().stats().partitions.iter().map(|each| each.partition).collect();
    let wanted = match query_value(query, "id") {
        None => shared,
        Some(text) => {
            let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            let partition = number.map(Partition).filter(|partition| shared.contains(partition));
            let text = String::from_utf8_lossy(&text);
            let message = format!("the node shares no complete copy of a partition {text}");
            vec![partition.ok_or_else(|| error(404, "no_partition", &message))?]
        }
    };
    context.store.anti_entropy().request_exchange(&wanted);
    Ok(json!({"partitions": wanted.len()}))
}
