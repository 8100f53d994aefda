//! Transfers in the administration API: their progress, their limits, and switching them on and off.

use super::super::status::reap_records;
use super::super::{allow, error};
use super::view::{ClusterView, MemberView};
use super::{named, no_such_node, view};
use crate::http::{HttpConnection, Method, Refusal, Request};
use quoit_cluster::NodeId;
use quoit_core::{ActiveTransfer, LimitChange, NodeTransfers, TransferKind, TransferLimits};
use quoit_number::rounded;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Largest number of partitions that a node can be set to hand over at a time.
const PARTITION_COUNT_MAX: u64 = 1_000;

type TransfersByNode = BTreeMap<NodeId, NodeTransfers>;

impl HttpConnection {
    /// The waiting and the active transfers of the whole cluster.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    pub(in crate::admin) async fn transfers(&self) -> Value {
        let told = self.context.store.transfers().reports().await;
        let mut shown = view(&self.context).transfers(&told);
        shown["reap_records"] = reap_records(&self.context.store);
        shown
    }

    /// Shows or changes the limits of transfers.
    pub(in crate::admin) async fn transfer_limits(
        &self,
        request: &Request,
        method: Method,
        query: &[u8],
    ) -> Result<Value, Refusal> {
        allow(method, &[Method::Get, Method::Head, Method::Post])?;
        let view = view(&self.context);
        if method != Method::Post {
            let told = self.context.store.transfers().reports().await;
            let wanted = named(&view, query)?;
            return Ok(limits(&view, wanted, &told));
        }
        let (change, node) = asked(request)?;
        let wanted = match &node {
            None => None,
            Some(name) => Some(view.named(name).ok_or_else(|| no_such_node(name))?),
        };
        let nodes: Vec<NodeId> = chosen(&view, wanted).map(|member| member.id).collect();
        let told = self.context.store.transfers().change_limits(&nodes, change).await;
        if let Some(member) = wanted.filter(|member| !told.contains_key(&member.id)) {
            let message =
                format!("{} does not answer, so its limits stay as they are", member.name);
            return Err(error(503, "no_answer", &message));
        }
        Ok(limits(&view, wanted, &told))
    }
}

/// The change that a body asks for, and the name of its node; `None` = all nodes.
fn asked(request: &Request) -> Result<(LimitChange, Option<String>), Refusal> {
    let invalid = |message: &str| error(400, "invalid_limit", message);
    let body = &serde_json::from_slice::<Value>(&request.body)
        .map_err(|fault| error(400, "invalid_json", &format!("the body is not JSON: {fault}")))?;
    let flag = |name: &str| match &body[name] {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        _ => Err(invalid(&format!("{name} is true or false"))),
    };
    let number = |name: &str, min: u64, max: u64| match &body[name] {
        Value::Null => Ok(None),
        given => match given.as_u64() {
            Some(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ => Err(invalid(&format!("{name} is a whole number from {min} to {max}"))),
        },
    };
    let limit = number("limit", 1, PARTITION_COUNT_MAX)?;
    let change = LimitChange {
        partition_count_max: limit.and_then(|limit| u32::try_from(limit).ok()),
        bytes_per_sec_max: number("rate", 0, u64::MAX)?,
        inbound: flag("inbound")?,
        outbound: flag("outbound")?,
    };
    if change == LimitChange::default() {
        return Err(invalid("the body needs limit, rate, inbound or outbound"));
    }
    Ok((change, body["node"].as_str().map(str::to_owned)))
}

fn chosen<'v>(
    view: &'v ClusterView,
    wanted: Option<&'v MemberView>,
) -> impl Iterator<Item = &'v MemberView> {
    view.members.iter().filter(move |each| wanted.is_none_or(|wanted| wanted.id == each.id))
}

/// The limits of one member or of all.
fn limits(view: &ClusterView, wanted: Option<&MemberView>, told: &TransfersByNode) -> Value {
    let nodes = chosen(view, wanted).map(|member| match told.get(&member.id) {
        None => json!({"node": member.name, "answers": false}),
        Some(told) => json!({
            "node": member.name,
            "answers": true,
            "limit": told.limits.partition_count_max,
            "rate": told.limits.bytes_per_sec_max,
            "inbound": told.limits.inbound,
            "outbound": told.limits.outbound,
        }),
    });
    json!({"nodes": nodes.collect::<Vec<_>>()})
}

/// Numbers of copies that a node has yet to hand over.
#[derive(Default)]
struct Waiting {
    /// Copies for nodes that become primaries.
    ownership: u64,
    /// Partitions with records that the node holds for other nodes.
    hinted: u64,
}

impl ClusterView {
    /// Copies that wait to be handed over by each node, and active transfers. `told` has the reports of the
    /// members that answered.
    pub(super) fn transfers(&self, told: &TransfersByNode) -> Value {
        let mut waiting: BTreeMap<NodeId, Waiting> = BTreeMap::new();
        for each in self.moves().iter().filter(|each| !self.is_complete(each)) {
            waiting.entry(each.from).or_default().ownership += 1;
        }
        for (node, told) in told.iter().filter(|(_, told)| told.stats.stray_partition_count > 0) {
            waiting.entry(*node).or_default().hinted += told.stats.stray_partition_count;
        }
        let waiting = waiting.into_iter().map(|(node, Waiting { ownership, hinted })| {
            json!({"node": self.name(node), "is_removed": self.is_removed(node),
                   "partitions": ownership + hinted, "ownership": ownership, "hinted": hinted})
        });
        let mut waiting: Vec<Value> = waiting.collect();
        waiting.sort_by(|one, other| one["node"].as_str().cmp(&other["node"].as_str()));
        let away = self.members.iter().filter(|member| !member.is_up);
        let away = away
            .map(|member| json!({"node": member.name, "partitions": self.held(member.id).len()}));
        let hints = told.iter().flat_map(|(node, told)| {
            told.stats.hints.iter().map(|each| {
                json!({"from": self.name(*node), "to": self.name(each.to),
                       "records": each.record_count, "partitions": each.partition_count})
            })
        });
        let active = told.iter().flat_map(|(node, told)| {
            told.stats.active.iter().map(|each| self.active_json(*node, each))
        });
        let yielding = told.iter().filter(|(_, told)| told.stats.share < 1.0);
        let yielding = yielding.map(|(node, told)| {
            json!({"node": self.name(*node), "share_percent": tenths(told.stats.share * 100.0)})
        });
        let off = told.iter().filter(|(_, told)| !told.limits.inbound || !told.limits.outbound);
        let off = off.map(|(node, told)| {
            let TransferLimits { inbound, outbound, .. } = told.limits;
            json!({"node": self.name(*node), "inbound": inbound, "outbound": outbound})
        });
        let silent = self.members.iter().filter(|member| !told.contains_key(&member.id));
        json!({
            "waiting": waiting,
            "away": away.collect::<Vec<_>>(),
            "hints": hints.collect::<Vec<_>>(),
            "active": active.collect::<Vec<_>>(),
            "yielding": yielding.collect::<Vec<_>>(),
            "switched_off": off.collect::<Vec<_>>(),
            "silent": silent.map(|member| &member.name).collect::<Vec<_>>(),
            "records_total": told.values().map(|told| told.stats.record_count).sum::<u64>(),
            "bytes_total": told.values().map(|told| told.stats.byte_count).sum::<u64>(),
        })
    }

    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    fn active_json(&self, from: NodeId, each: &ActiveTransfer) -> Value {
        let mut told = self.partition_json(each.partition);
        told["type"] = match each.kind {
            TransferKind::Ownership => "ownership",
            TransferKind::Strays | TransferKind::Hints => "hinted",
        }
        .into();
        told["from"] = self.name(from).into();
        told["to"] = each.to.map(|id| self.name(id)).into();
        told["records"] = each.record_count.into();
        told["bytes"] = each.byte_count.into();
        told["bytes_per_sec"] = rounded(each.bytes_per_sec()).into();
        told["percent"] = tenths(each.fraction * 100.0).into();
        told["elapsed_secs"] = tenths(each.elapsed_secs).into();
        told["remaining_secs"] = each.remaining_secs().map(tenths).into();
        told
    }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::view;
    use super::*;
    use quoit_core::{TransferLimits, TransferStats};
    use quoit_model::hash::Partition;
    use quoit_wire::internode::operators::NodeFigures;

    fn told(node: u8, stats: TransferStats) -> (NodeId, NodeTransfers) {
        let (limits, figures) = (TransferLimits::default(), NodeFigures::default());
        (NodeId([node; 16]), NodeTransfers { live_bytes: 0, limits, stats, figures })
    }

    #[test]
    fn what_waits_and_what_is_on_its_way_is_told_of_all_nodes() {
        let active = ActiveTransfer {
            partition: Partition(5),
            kind: TransferKind::Ownership,
            to: Some(NodeId([4; 16])),
            record_count: 10,
            byte_count: 4_000,
            fraction: 0.25,
            elapsed_secs: 2.0,
        };
        let moving =
            TransferStats { active: vec![active], byte_count: 7_000, ..TransferStats::default() };
        let strays = TransferStats { stray_partition_count: 2, ..TransferStats::default() };
        let told =
            BTreeMap::from([told(1, moving), told(2, strays), told(4, TransferStats::default())]);
        let shown = view().transfers(&told);
        let waiting = shown["waiting"].as_array().unwrap();
        let sum = |name: &str| waiting.iter().filter_map(|each| each[name].as_u64()).sum::<u64>();
        assert_eq!((sum("partitions"), sum("ownership"), sum("hinted")), (3, 1, 2), "{shown}");
        assert_eq!(shown["away"], json!([{"node": "n3@h", "partitions": 8}]));
        assert_eq!(shown["silent"], json!(["n3@h"]));
        let active = &shown["active"][0];
        assert_eq!((&active["from"], &active["to"]), (&json!("n1@h"), &json!("n4@h")));
        assert_eq!(active["bytes_per_sec"], 2_000);
        assert_eq!((&active["percent"], &active["remaining_secs"]), (&json!(25.0), &json!(6.0)));
        assert_eq!(shown["bytes_total"], 7_000);
    }

    #[test]
    fn limits_are_told_of_those_that_answer() {
        let told = BTreeMap::from([told(1, TransferStats::default())]);
        let view = view();
        let shown = limits(&view, None, &told);
        assert_eq!(shown["nodes"].as_array().unwrap().len(), 4);
        assert_eq!(shown["nodes"][0]["limit"], 2);
        assert_eq!(shown["nodes"][1], json!({"node": "n2@h", "answers": false}));
        let one = limits(&view, view.named("n1@h"), &told);
        assert_eq!(one["nodes"].as_array().unwrap().len(), 1);
    }
}
