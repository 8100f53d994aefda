//! Shows operators the transfers of all members, and changes their limits, through the node that the
//! operator asks.

use super::Transfers;
use crate::delivery::limits::LimitChange;
use crate::delivery::progress::{ActiveTransfer, TransferKind, TransferStats, WaitingHints};
use crate::refusal::refuse;
use crate::settings::TransferLimits;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Replies, Responder};
use quoit_model::hash::Partition;
use quoit_wire::internode::operators::{
    self as wire, AskTransfers, METHOD_ASK_TRANSFERS, METHOD_SET_TRANSFERS, NodeFigures,
    SetTransfers, TransferReport,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time that members have to report. A member that takes longer is missing in the answer.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Report of a node on the data that it stores and hands over.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeTransfers {
    /// Bytes that its live records take in its storage engine.
    pub live_bytes: u64,
    /// Limits of its transfers.
    pub limits: TransferLimits,
    /// Transfers that it sends; `waiting` is left empty.
    pub stats: TransferStats,
    /// Other figures of the node.
    pub figures: NodeFigures,
}

impl Transfers {
    /// Returns the limits of this node's transfers.
    #[must_use]
    pub fn limits(&self) -> TransferLimits {
        self.delivery.throttle.limits()
    }

    /// Changes the limits of this node's transfers. The rate in bytes a second changes at once, the other
    /// limits from the next batch and round on. Transfers that are switched off end after the batch that
    /// is under way, and continue from there when they are switched on again.
    pub fn set_limits(&self, limits: TransferLimits) {
        self.delivery.throttle.set(limits);
    }

    /// Returns this node's own report.
    #[must_use]
    pub fn own_report(&self) -> NodeTransfers {
        NodeTransfers {
            live_bytes: self.local.engine.stats().live_bytes(),
            limits: self.limits(),
            stats: TransferStats { waiting: BTreeMap::new(), ..self.stats() },
            figures: self.local.node_figures(),
        }
    }

    /// Returns the reports of all members that answer within five seconds. This node's own report is
    /// always there.
    pub async fn reports(&self) -> BTreeMap<NodeId, NodeTransfers> {
        let members: Vec<NodeId> =
            self.local.state().members().iter().map(|each| each.id).collect();
        self.ask_members(&members, METHOD_ASK_TRANSFERS, &AskTransfers {}, || {}).await
    }

    /// Changes the limits of these members, and returns their reports after the change. A member that is
    /// missing in the answer could not be asked or did not answer in time: its limits are the old or the
    /// new ones.
    pub async fn change_limits(
        &self,
        members: &[NodeId],
        change: LimitChange,
    ) -> BTreeMap<NodeId, NodeTransfers> {
        let set = SetTransfers {
            partition_count_max: change.partition_count_max,
            bytes_per_sec_max: change.bytes_per_sec_max,
            inbound: change.inbound,
            outbound: change.outbound,
        };
        let here = || self.set_limits(change.of(self.limits()));
        self.ask_members(members, METHOD_SET_TRANSFERS, &set, here).await
    }

    /// Asks members for their reports. If this node is one of them, `here` runs before its own report is
    /// made.
    async fn ask_members(
        &self,
        members: &[NodeId],
        method: u16,
        header: &impl Message,
        here: impl Fn(),
    ) -> BTreeMap<NodeId, NodeTransfers> {
        let own = self.local.state().node_id();
        let mut reports = BTreeMap::new();
        let mut replies = Replies::new();
        let mut asked = Vec::new();
        for node in members {
            if *node == own {
                here();
                reports.insert(own, self.own_report());
            } else if let Some(peer) = self.local.reachable(*node)
                && let Ok(slot) = u16::try_from(asked.len())
                && peer.send(method, header, b"", Lane::Small, &replies, slot).is_ok()
            {
                asked.push(*node);
            }
        }
        let limit = Instant::now() + REPORT_TIMEOUT;
        while let Ok(Some((slot, answer))) = timeout_at(limit, replies.next()).await {
            let Ok(report) = answer.map(|reply| TransferReport::decode(reply.header)) else {
                continue;
            };
            if let (Ok(report), Some(node)) = (report, asked.get(usize::from(slot))) {
                reports.insert(*node, read_report(report));
            }
        }
        reports
    }

    pub(crate) fn serve_ask_transfers(&self, reply: Responder) {
        reply.send(&report(&self.own_report()), b"");
    }

    pub(crate) fn serve_set_transfers(&self, request: &IncomingRequest, reply: Responder) {
        // The request is valid under any layout: limits do not depend on it.
        let set = match self.local.read_header(request, |_: &SetTransfers| u64::MAX) {
            Ok(set) => set,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let change = LimitChange {
            partition_count_max: set.partition_count_max,
            bytes_per_sec_max: set.bytes_per_sec_max,
            inbound: set.inbound,
            outbound: set.outbound,
        };
        self.set_limits(change.of(self.limits()));
        reply.send(&report(&self.own_report()), b"");
    }
}

fn report(told: &NodeTransfers) -> TransferReport {
    let active = told.stats.active.iter().map(|each| wire::ActiveTransfer {
        partition: u32::from(each.partition.0),
        to: each.to.map_or_else(Bytes::new, |to| Bytes::copy_from_slice(&to.0)),
        is_hinted: each.kind == TransferKind::Hints,
        record_count: each.record_count,
        byte_count: each.byte_count,
        fraction: each.fraction,
        elapsed_secs: each.elapsed_secs,
    });
    let hints = told.stats.hints.iter().map(|each| wire::WaitingHints {
        to: Bytes::copy_from_slice(&each.to.0),
        record_count: each.record_count,
        partition_count: each.partition_count,
    });
    TransferReport {
        live_bytes: told.live_bytes,
        partition_count_max: told.limits.partition_count_max,
        bytes_per_sec_max: told.limits.bytes_per_sec_max,
        inbound: told.limits.inbound,
        outbound: told.limits.outbound,
        active: active.collect(),
        hints: hints.collect(),
        stray_partition_count: told.stats.stray_partition_count,
        record_count: told.stats.record_count,
        byte_count: told.stats.byte_count,
        share: told.stats.share,
        figures: Some(told.figures.clone()),
    }
}

fn read_report(report: TransferReport) -> NodeTransfers {
    let active = report.active.into_iter().map(|each| {
        let to = <[u8; 16]>::try_from(&each.to[..]).ok().map(NodeId);
        ActiveTransfer {
            partition: Partition(u16::try_from(each.partition).unwrap_or(u16::MAX)),
            kind: match to {
                Some(_) if each.is_hinted => TransferKind::Hints,
                Some(_) => TransferKind::Ownership,
                None => TransferKind::Strays,
            },
            to,
            record_count: each.record_count,
            byte_count: each.byte_count,
            fraction: each.fraction,
            elapsed_secs: each.elapsed_secs,
        }
    });
    let hints = report.hints.into_iter().filter_map(|each| {
        Some(WaitingHints {
            to: NodeId(<[u8; 16]>::try_from(&each.to[..]).ok()?),
            record_count: each.record_count,
            partition_count: each.partition_count,
        })
    });
    NodeTransfers {
        live_bytes: report.live_bytes,
        limits: TransferLimits {
            partition_count_max: report.partition_count_max,
            bytes_per_sec_max: report.bytes_per_sec_max,
            inbound: report.inbound,
            outbound: report.outbound,
        },
        stats: TransferStats {
            active: active.collect(),
            waiting: BTreeMap::new(),
            hints: hints.collect(),
            stray_partition_count: report.stray_partition_count,
            record_count: report.record_count,
            byte_count: report.byte_count,
            // A node that does not yield reports no share.
            share: if report.share > 0.0 { report.share } else { 1.0 },
        },
        figures: report.figures.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_arrives_as_it_was_sent() {
        let active = |to: Option<NodeId>| ActiveTransfer {
            partition: Partition(3),
            kind: if to.is_some() { TransferKind::Ownership } else { TransferKind::Strays },
            to,
            record_count: 4,
            byte_count: 5,
            fraction: 0.5,
            elapsed_secs: 6.5,
        };
        let told = NodeTransfers {
            live_bytes: 1,
            limits: TransferLimits { inbound: false, ..TransferLimits::default() },
            stats: TransferStats {
                active: vec![active(None), active(Some(NodeId([9; 16])))],
                waiting: BTreeMap::new(),
                hints: vec![WaitingHints {
                    to: NodeId([8; 16]),
                    record_count: 10,
                    partition_count: 11,
                }],
                stray_partition_count: 7,
                record_count: 8,
                byte_count: 9,
                share: 0.25,
            },
            figures: NodeFigures { key_count: 12, ..NodeFigures::default() },
        };
        let sent = report(&told).encode_to_vec();
        assert_eq!(read_report(TransferReport::decode(&sent[..]).unwrap()), told);
    }
}
