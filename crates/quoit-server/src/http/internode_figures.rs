//! Metrics of the messages between nodes.

use super::metrics::{FamilyKind, MetricsText};
use quoit_cluster::Internode;
use quoit_wire::internode::data::{METHOD_FETCH, METHOD_FORWARD, METHOD_JOIN, METHOD_STORE};

/// Requests of the data plane with a count of their own.
const COUNTED: [(&str, u16); 4] = [
    ("fetch", METHOD_FETCH),
    ("store", METHOD_STORE),
    ("join", METHOD_JOIN),
    ("forward", METHOD_FORWARD),
];

/// Adds the messages, bytes and system calls of the connections with other nodes, and this node's requests
/// to them by kind.
pub(super) fn internode_metrics(text: &mut MetricsText, internode: &Internode) {
    let (asked, served) = (internode.peer_statistics(), internode.statistics());
    let of = [asked.traffic, served.traffic];
    for (name, help, counts) in [
        ("sent_messages", "Messages sent to other nodes.", of.map(|each| each.sent_frames)),
        ("sent_bytes", "Bytes sent to other nodes.", of.map(|each| each.sent_bytes)),
        ("writes", "Writes that carried messages to other nodes.", of.map(|each| each.write_count)),
        ("received_messages", "Messages of other nodes.", of.map(|each| each.received_frames)),
        ("received_bytes", "Bytes from other nodes.", of.map(|each| each.received_bytes)),
        ("reads", "Reads that brought messages of other nodes.", of.map(|each| each.read_count)),
    ] {
        text.counter(&format!("quoit_internode_{name}"), help, counts.iter().sum());
    }
    let name = "quoit_internode_requests";
    text.family(name, "Requests sent to other nodes.", FamilyKind::Counter);
    let mut other: u64 = asked.calls.by_method().values().sum();
    for (kind, method) in COUNTED {
        let count = asked.calls.of(method);
        other -= count;
        text.line(format_args!("{name}_total{{kind=\"{kind}\"}} {count}"));
    }
    text.line(format_args!("{name}_total{{kind=\"other\"}} {other}"));
}
