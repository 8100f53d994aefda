//! Keys of the node: its name, its listeners, other nodes.

use super::{GB, KB, Key, KeyDefault, key};
use crate::value::ValueType;
use quoit_cluster::VersionRange;

/// Keys of the node, its listeners and its engine, in the order of the documentation.
pub(super) const KEYS: &[Key] = &[
    key(
        "nodename",
        ValueType::Name,
        KeyDefault("quoit@127.0.0.1"),
        "Name of the node, as clients and operators see it. Where a listener stands for all addresses of the \
         machine, such as 0.0.0.0, the node tells others the host after the @ of its name.",
    ),
    key(
        "listener.protobuf.$name",
        ValueType::Address,
        KeyDefault("127.0.0.1:8087"),
        "Address on which the node listens for Protocol Buffers clients. Several can be set under different \
         names.",
    ),
    key(
        "listener.http.$name",
        ValueType::Address,
        KeyDefault("127.0.0.1:8098"),
        "Address on which the node listens for HTTP clients. Several can be set under different names.",
    ),
    key(
        "listener.internode",
        ValueType::Address,
        KeyDefault("127.0.0.1:8099"),
        "Address on which the node listens for other nodes, and which it tells them. If it stands for all \
         addresses of the machine, the node tells them the host of nodename instead. Unless internode.tls = \
         required, anyone who can reach this address can read and write everything: keep it inside the \
         network of the cluster.",
    ),
    key(
        "internode.tls",
        ValueType::Word(&["plain", "both", "required"]),
        KeyDefault("plain"),
        "TLS between nodes, with certificates of the cluster's own certificate authority. plain: no TLS, and \
         the node trusts anyone who reaches listener.internode; only for loopback and closed networks. both: \
         TLS with nodes that support it, plain connections with others, which the node counts by address; \
         use it while you change a cluster from plain to required. required: the node closes connections \
         that prove neither membership nor a join token. Applied on SIGHUP.",
    ),
    key(
        "audit",
        ValueType::Flag,
        KeyDefault("off"),
        "Whether the node writes an audit log, in JSON lines. It records changes that operators make over \
         the administration API, including refused ones; changes of bucket properties by clients; and \
         refused logins and operations.",
    ),
    key(
        "audit.buckets",
        ValueType::Name,
        KeyDefault(""),
        "Buckets for which the audit log records every operation while security is on: BUCKET, TYPE/BUCKET \
         or TYPE/*, separated by commas. Each operation then writes a line to the file.",
    ),
    key(
        "audit.file",
        ValueType::Name,
        KeyDefault(""),
        "Path of the audit log [default: audit.log in platform_data_dir]. Older files have the same name \
         with a number appended.",
    ),
    key(
        "audit.file.maximum_size",
        ValueType::Size(64 * KB, 64 * GB),
        KeyDefault("16MB"),
        "Size of the audit log at which the node renames it and begins a new file.",
    ),
    key(
        "audit.file.kept",
        ValueType::Integer(0, 10_000),
        KeyDefault("10"),
        "Number of older audit log files to keep. The node deletes the oldest one beyond that.",
    ),
    key(
        "internode.version.maximum",
        ValueType::Integer(VersionRange::CURRENT.min as i64, VersionRange::CURRENT.max as i64),
        KeyDefault("1"),
        "Newest version of the protocol between nodes that this node uses. While you upgrade a cluster, set \
         it to the version of the older nodes for as long as you may want to go back. Features of a newer \
         version wait until all members use it. So far, only one version exists.",
    ),
    key(
        "cluster.seeds",
        ValueType::Addresses,
        KeyDefault(""),
        "Addresses (listener.internode) of other nodes of this node's cluster. All nodes can have the same \
         list. With this setting, a node that is the only member of its cluster does not serve clients, and \
         logs the reason and the remedy: it has not joined yet, or it was a member and has lost its data \
         directory. Start the first node of a new cluster without it.",
    ),
    key(
        "handoff.ip",
        ValueType::Name,
        KeyDefault(""),
        "Riak's setting: host of listener.internode. It has no effect if listener.internode is set.",
    ),
    key(
        "handoff.port",
        ValueType::Integer(0, 65_535),
        KeyDefault(""),
        "Riak's setting: port of listener.internode. It has no effect if listener.internode is set.",
    ),
    key(
        "platform_data_dir",
        ValueType::Name,
        KeyDefault("./data"),
        "Directory of all data of the node. The node creates it if it does not exist.",
    ),
    key(
        "ring_size",
        ValueType::Integer(8, 4096),
        KeyDefault("64"),
        "Number of partitions of the cluster, a power of two. The node stores it at its first start. If it \
         is set to another value later, the node does not start.",
    ),
    key(
        "storage_backend",
        ValueType::Word(&["bitcask", "leveldb", "leveled", "innostore", "memory", "multi"]),
        KeyDefault("bitcask"),
        "Storage engine: bitcask (append-only log, index in memory), leveldb (log-structured merge tree), \
         leveled (log-structured merge tree that stores large values apart from their metadata), innostore \
         (B+tree), memory (a restart loses all records) or multi (several of these: see \
         multi_backend.$name.storage_backend).",
    ),
    key(
        "multi_backend.$name.storage_backend",
        ValueType::Word(&["bitcask", "leveldb", "leveled", "innostore", "memory"]),
        KeyDefault(""),
        "With storage_backend = multi: type of the engine called $name. Buckets choose the engine with the \
         property backend. Settings for this engine alone have the same prefix, such as \
         multi_backend.$name.leveldb.maximum_memory. All nodes should have the same engines, at most 32.",
    ),
    key(
        "multi_backend.default",
        ValueType::Name,
        KeyDefault(""),
        "With storage_backend = multi: name of the engine for buckets without the property backend. The node \
         does not start without it.",
    ),
    key(
        "durability",
        ValueType::Word(&["strict", "relaxed"]),
        KeyDefault("strict"),
        "strict: the node confirms a write with dw above 0 only after a sync to the device, which it shares \
         with other writes. relaxed: the node confirms it at once and syncs within bitcask.sync.interval, so \
         a power failure can lose confirmed writes. Applies to all engines on disk.",
    ),
];
