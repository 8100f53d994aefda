//! Keys of the node: its name, its listeners, other nodes.

use super::{GB, KB, Key, key};
use crate::config::value::Kind;
use quoit_cluster::VersionRange;

/// Keys of the node, its listeners and its engine, in the order of the documentation.
pub(super) const KEYS: &[Key] = &[
    key(
        "nodename",
        Kind::Name,
        "quoit@127.0.0.1",
        "Name of the node that clients and operators see.",
    ),
    key(
        "listener.protobuf.$name",
        Kind::Address,
        "127.0.0.1:8087",
        "Address of a Protocol Buffers listener. Several may be given under different names.",
    ),
    key(
        "listener.http.$name",
        Kind::Address,
        "127.0.0.1:8098",
        "Address of an HTTP listener. Several may be given under different names.",
    ),
    key(
        "listener.internode",
        Kind::Address,
        "127.0.0.1:8099",
        "Address of the listener for other nodes. The node tells it to other nodes; if it stands for all \
         addresses of the machine, it tells the host of nodename instead. Anyone who can reach it can read \
         and write everything: keep it inside the network of the cluster.",
    ),
    key(
        "internode.tls",
        Kind::Word(&["plain", "both", "required"]),
        "plain",
        "TLS between nodes, by certificates of the cluster's own authority. plain: none, and whoever reaches \
         listener.internode is believed; for nodes on loopback and for closed networks. both: TLS with those \
         that can, plain connections with others, which are counted by address: the step between the two. \
         required: a connection that does not prove that it comes from a member, or from a node with a join \
         token, is closed. Taken up at SIGHUP.",
    ),
    key(
        "audit",
        Kind::Flag,
        "off",
        "Whether the node records as JSON lines: changes that operators make by the administration API, and \
         those that it refuses; properties that clients change; refused logins and operations.",
    ),
    key(
        "audit.buckets",
        Kind::Name,
        "",
        "Buckets whose every operation the audit log records while security is on: BUCKET, TYPE/BUCKET or \
         TYPE/*, separated by commas. Each operation costs a line.",
    ),
    key(
        "audit.file",
        Kind::Name,
        "",
        "File of the audit log [default: audit.log in platform_data_dir]. Older files have numbers behind \
         its name.",
    ),
    key(
        "audit.file.maximum_size",
        Kind::Size(64 * KB, 64 * GB),
        "16MB",
        "Size of the audit log from which on the next file is begun.",
    ),
    key(
        "audit.file.kept",
        Kind::Integer(0, 10_000),
        "10",
        "Older files of the audit log that are kept.",
    ),
    key(
        "internode.version.maximum",
        Kind::Integer(VersionRange::CURRENT.min as i64, VersionRange::CURRENT.max as i64),
        "1",
        "Newest version of the protocol between nodes that the node speaks. Hold it at the version of \
         the older nodes while a cluster is upgraded, as long as you may want to go back; features that need \
         a newer version wait until all members speak it. So far there is one version.",
    ),
    key(
        "cluster.seeds",
        Kind::Addresses,
        "",
        "Addresses (listener.internode) of other nodes of the node's cluster; all nodes may have the same \
         list. While the node is alone it does not serve clients, and names the reason and the remedy: it \
         has not joined yet, or it was a member and has lost its data directory. The first node of a new \
         cluster is started without it.",
    ),
    key(
        "handoff.ip",
        Kind::Name,
        "",
        "Riak's setting: the host of listener.internode, unless that is set.",
    ),
    key(
        "handoff.port",
        Kind::Integer(0, 65_535),
        "",
        "Riak's setting: the port of listener.internode, unless that is set.",
    ),
    key(
        "platform_data_dir",
        Kind::Name,
        "./data",
        "Directory of everything that the node keeps; made if it is not there.",
    ),
    key(
        "ring_size",
        Kind::Integer(8, 4096),
        "64",
        "Number of partitions, a power of two. Fixed when the node starts for the first time; \
         a different value later stops the start.",
    ),
    key(
        "storage_backend",
        Kind::Word(&["bitcask", "leveldb", "leveled", "innostore", "memory", "multi"]),
        "bitcask",
        "Storage engine: bitcask (append-only log, index in memory), leveldb (log-structured merge tree), \
         leveled (the same with large values stored apart from their metadata), innostore (B+tree), memory \
         (nothing is kept across a restart) or multi (several of these: see multi_backend.$name).",
    ),
    key(
        "multi_backend.$name.storage_backend",
        Kind::Word(&["bitcask", "leveldb", "leveled", "innostore", "memory"]),
        "",
        "With storage_backend = multi, a storage engine that buckets choose with the property backend, which \
         says its name. Settings of the engine for this one alone stand behind its name, such as \
         multi_backend.$name.leveldb.maximum_memory. All nodes should have the same.",
    ),
    key(
        "multi_backend.default",
        Kind::Name,
        "",
        "With storage_backend = multi, the name of the engine of buckets that have no property backend.",
    ),
    key(
        "durability",
        Kind::Word(&["strict", "relaxed"]),
        "strict",
        "strict: a write with dw above 0 is answered when it is synced to the device, grouped \
         with others. relaxed: it is answered at once and synced within bitcask.sync.interval. For all \
         engines.",
    ),
];
