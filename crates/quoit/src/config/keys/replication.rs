//! Keys of replication between clusters.

use super::{Key, MB, key};
use crate::config::value::Kind;

pub(super) const KEYS: &[Key] = &[
    key(
        "replrtq_enablesrc",
        Kind::Flag,
        "disabled",
        "Whether the node queues the writes that it coordinates for other clusters (replrtq_srcqueue). All \
         nodes of the cluster should have the same.",
    ),
    key(
        "replrtq_srcqueue",
        Kind::Name,
        "q1_ttaaefs:block_rtq",
        "Source queues, NAME:FILTER separated by |. Filters: any (all writes), block_rtq (none, only full-sync \
         and folds), bucketname.NAME, bucketprefix.TEXT, buckettype.TYPE. One that can't be read is logged and \
         left out. Queues that commands have added or removed stay so.",
    ),
    key(
        "replrtq_srcobjectlimit",
        Kind::Integer(0, 1_000_000),
        "1000",
        "Entries of a source queue that have their object with them in memory; the objects of others are read \
         when they are sent.",
    ),
    key(
        "replrtq_srcobjectsize",
        Kind::Size(0, 64 * MB),
        "200KB",
        "Largest object that an entry of a source queue has with it in memory.",
    ),
    key(
        "replrtq_overflow_limit",
        Kind::Integer(1, 1_000_000_000),
        "10000000",
        "Entries of a source queue and priority; further ones are discarded, counted, and left to full-sync. \
         An entry takes about 100 bytes of disk. Those of full-sync and folds are in memory, a million at most.",
    ),
    key(
        "replrtq_dataroot",
        Kind::Name,
        "",
        "Directory of source queues [default: replication below platform_data_dir].",
    ),
    key(
        "replrtq_compressonwire",
        Kind::Flag,
        "disabled",
        "Whether objects are compressed (zlib) on their way to sinks of Riak.",
    ),
    key(
        "replrtq_vnodecheck",
        Kind::Word(&["one", "quorum", "all"]),
        "one",
        "Replicas that answer when a queued object is read, and that take an object of another cluster before \
         it counts as stored.",
    ),
    key(
        "repl_reap",
        Kind::Flag,
        "disabled",
        "Whether reaps of tombstones are sent to other clusters, as Riak does from 3.0.18 on.",
    ),
    key(
        "repl.forward",
        Kind::Flag,
        "on",
        "Whether objects of another Quoit cluster are queued for further clusters, with the list of those that \
         they have visited, so that chains, rings and meshes of clusters converge.",
    ),
];
