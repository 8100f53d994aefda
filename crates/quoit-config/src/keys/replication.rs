//! Keys of replication between clusters.

use super::{Key, KeyDefault, MB, key};
use crate::value::ValueType;

pub(super) const KEYS: &[Key] = &[
    key(
        "replrtq_enablesrc",
        ValueType::Flag,
        KeyDefault("disabled"),
        "Whether the node queues the writes that it coordinates for other clusters, in the queues of \
         replrtq_srcqueue. All nodes of the cluster should have the same value.",
    ),
    key(
        "replrtq_srcqueue",
        ValueType::Name,
        KeyDefault("q1_ttaaefs:block_rtq"),
        "Source queues, as NAME:FILTER separated by |. Filters: any (all writes), block_rtq (no writes, only \
         records of full-sync and folds), bucketname.NAME, bucketprefix.TEXT, buckettype.TYPE. The node logs \
         an invalid definition and leaves it out. Queues that commands have added or removed stay so.",
    ),
    key(
        "replrtq_srcobjectlimit",
        ValueType::Integer(0, 1_000_000),
        KeyDefault("1000"),
        "Number of entries of a source queue that keep their object in memory. The node reads the objects of \
         other entries when it sends them.",
    ),
    key(
        "replrtq_srcobjectsize",
        ValueType::Size(0, 64 * MB),
        KeyDefault("200KB"),
        "Largest object that an entry of a source queue keeps in memory.",
    ),
    key(
        "replrtq_overflow_limit",
        ValueType::Integer(1, 1_000_000_000),
        KeyDefault("10000000"),
        "Number of entries of a source queue, for each priority. The node discards and counts further ones; \
         then only a full-sync brings their objects to the sink. An entry of a write takes about 100 bytes \
         of disk. Entries of full-sync and folds are in memory, at most a million of each.",
    ),
    key(
        "replrtq_dataroot",
        ValueType::Name,
        KeyDefault(""),
        "Directory of source queues [default: replication in platform_data_dir].",
    ),
    key(
        "replrtq_compressonwire",
        ValueType::Flag,
        KeyDefault("disabled"),
        "Whether the node compresses (zlib) the objects that it sends to sinks of Riak.",
    ),
    key(
        "replrtq_vnodecheck",
        ValueType::Word(&["one", "quorum", "all"]),
        KeyDefault("one"),
        "Number of replicas that must answer when the node reads a queued object of which it has no copy, \
         and that must store an object of another cluster.",
    ),
    key(
        "repl_reap",
        ValueType::Flag,
        KeyDefault("disabled"),
        "Whether the node sends the removal of tombstones to other clusters, as Riak does since 3.0.18.",
    ),
    key(
        "repl.forward",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node queues objects of another Quoit cluster for further clusters, with the list of \
         clusters that they have visited. Chains, rings and meshes of clusters need this to converge.",
    ),
    key(
        "repl.retention",
        ValueType::Duration(1_000),
        KeyDefault("7d"),
        "Time for which the node remembers deleted records for sinks that lag behind. If deletes of a source \
         queue wait longer, in the queue or for a full-sync, the queue is stale: sinks can't consume it \
         until an operator decides with quoit repl rebase which cluster is right.",
    ),
    key(
        "replrtq_enablesink",
        ValueType::Flag,
        KeyDefault("disabled"),
        "Whether the node consumes source queues of other clusters, from the nodes of replrtq_sinkpeers.",
    ),
    key(
        "replrtq_sinkqueue",
        ValueType::Name,
        KeyDefault("q1_ttaaefs"),
        "Name of the queue that the node consumes from peers that are given without one.",
    ),
    key(
        "replrtq_sinkpeers",
        ValueType::Name,
        KeyDefault(""),
        "Nodes of other clusters whose queues this node consumes, as HOST:PORT:pb or QUEUE:HOST:PORT:pb \
         separated by |. The node logs an invalid one and leaves it out.",
    ),
    key(
        "replrtq_sinkworkers",
        ValueType::Integer(1, 1_000),
        KeyDefault("24"),
        "Number of objects of one queue that the node stores at the same time.",
    ),
    key(
        "replrtq_sinkpeerlimit",
        ValueType::Integer(1, 1_000),
        KeyDefault(""),
        "Number of connections to each peer of a queue [default: the number of workers of the queue]. To \
         Quoit nodes there are at most four, because each transports many entries at once.",
    ),
    key(
        "repl.bucket_types",
        ValueType::Word(&["off", "create", "follow"]),
        KeyDefault("off"),
        "Bucket types and properties to copy from clusters whose queues this node consumes. off: none. \
         create: those that are missing here. follow: also later changes, except of n_val.",
    ),
    key(
        "replrtq_peer_discovery",
        ValueType::Flag,
        KeyDefault("disabled"),
        "Whether the node asks its peers for the other nodes of their clusters, and consumes their queues \
         too. Leave it off if the clusters reach each other by address translation (NAT).",
    ),
    key(
        "repl_username",
        ValueType::Name,
        KeyDefault(""),
        "User as which this node logs in to nodes of other clusters. Sinks and full-sync then use TLS, over \
         Protocol Buffers (StartTls) and HTTP (HTTPS). There the user needs the permission quoit.replicate \
         on any, and quoit.fold for full-sync with Riak's messages. Needs repl_cacert_filename.",
    ),
    key(
        "repl_cacert_filename",
        ValueType::Name,
        KeyDefault(""),
        "File of the authorities that may sign certificates of nodes of other clusters.",
    ),
    key(
        "repl_cert_filename",
        ValueType::Name,
        KeyDefault(""),
        "File of the certificate by which this node logs in to nodes of other clusters. Its common name must \
         be repl_username.",
    ),
    key(
        "repl_key_filename",
        ValueType::Name,
        KeyDefault(""),
        "File of the private key of repl_cert_filename.",
    ),
    key(
        "repl.password_file",
        ValueType::Name,
        KeyDefault(""),
        "File whose first line is the password of repl_username, for other clusters where this user logs in \
         by password.",
    ),
    key(
        "replrtq_prompt_max_seconds",
        ValueType::Integer(60, 86_400),
        KeyDefault("900"),
        "Longest time in seconds between two requests for the nodes of other clusters \
         (replrtq_peer_discovery). The time is random, at least 60 s.",
    ),
    key(
        "ttaaefs_scope",
        ValueType::Word(&["disabled", "all", "bucket", "type"]),
        KeyDefault("disabled"),
        "Records that scheduled full-syncs compare: all, those of one bucket (see \
         ttaaefs_bucketfilter_name), or none (disabled). type is accepted and means all.",
    ),
    key(
        "ttaaefs_queuename",
        ValueType::Name,
        KeyDefault("q1_ttaaefs"),
        "Source queue of this cluster for records that full-sync finds to be newer here.",
    ),
    key(
        "ttaaefs_queuename_peer",
        ValueType::Name,
        KeyDefault("disabled"),
        "Source queue of the other cluster for records that full-sync finds to be newer there. disabled: the \
         other cluster's own full-sync repairs them.",
    ),
    key(
        "ttaaefs_peerip",
        ValueType::Name,
        KeyDefault(""),
        "Host of the other cluster for full-sync: a node, or a load balancer in front of several.",
    ),
    key(
        "ttaaefs_peerport",
        ValueType::Integer(1, 65_535),
        KeyDefault(""),
        "Port of ttaaefs_peerip, for the protocol of ttaaefs_peerprotocol.",
    ),
    key(
        "ttaaefs_peerprotocol",
        ValueType::Word(&["pb", "http"]),
        KeyDefault("pb"),
        "Protocol of ttaaefs_peerport. Full-sync with a Quoit cluster needs pb.",
    ),
    key(
        "ttaaefs_localnval",
        ValueType::Integer(1, 15),
        KeyDefault("3"),
        "For full-sync with a Riak cluster: n_val, in this cluster, of the buckets to compare.",
    ),
    key(
        "ttaaefs_remotenval",
        ValueType::Integer(1, 15),
        KeyDefault("3"),
        "For full-sync with a Riak cluster: n_val, in the Riak cluster, of the buckets to compare.",
    ),
    key(
        "replrtq_logfrequency",
        ValueType::Integer(1_000, 86_400_000),
        KeyDefault("30000"),
        "Milliseconds between two log lines about the lengths of source queues.",
    ),
    key(
        "ttaaefs_maxresults",
        ValueType::Integer(1, 1_048_576),
        KeyDefault("32"),
        "For full-sync with a Riak cluster: number of segments of its hash trees whose records one check \
         compares.",
    ),
    key(
        "ttaaefs_rangeboost",
        ValueType::Integer(1, 1_024),
        KeyDefault("16"),
        "For full-sync with a Riak cluster: factor by which a range check compares more segments than \
         ttaaefs_maxresults.",
    ),
    key(
        "ttaaefs_bucketfilter_name",
        ValueType::Name,
        KeyDefault(""),
        "With ttaaefs_scope = bucket: name of the bucket.",
    ),
    key(
        "ttaaefs_bucketfilter_type",
        ValueType::Name,
        KeyDefault("default"),
        "With ttaaefs_scope = bucket: bucket type of the bucket.",
    ),
    key(
        "ttaaefs_cluster_slice",
        ValueType::Integer(1, 4),
        KeyDefault("1"),
        "Quarter of each slot of the schedule in which this cluster starts its full-syncs. Give each cluster \
         a different quarter, so that they take turns.",
    ),
    key(
        "ttaaefs_allcheck",
        ValueType::Integer(0, 86_400),
        KeyDefault("0"),
        "Number of full-syncs per day, on each node, that repair all records.",
    ),
    key(
        "ttaaefs_nocheck",
        ValueType::Integer(0, 86_400),
        KeyDefault("0"),
        "Number of slots per day that stay empty in the schedule.",
    ),
    key(
        "ttaaefs_hourcheck",
        ValueType::Integer(0, 86_400),
        KeyDefault("0"),
        "Number of full-syncs per day, on each node, that repair records modified in the last hour.",
    ),
    key(
        "ttaaefs_daycheck",
        ValueType::Integer(0, 86_400),
        KeyDefault("0"),
        "Number of full-syncs per day, on each node, that repair records modified in the last day.",
    ),
    key(
        "ttaaefs_rangecheck",
        ValueType::Integer(0, 86_400),
        KeyDefault("0"),
        "Full-syncs a day that repair the range in which the last one found differences, or records modified \
         since both clusters were in sync.",
    ),
    key(
        "ttaaefs_autocheck",
        ValueType::Integer(0, 86_400),
        KeyDefault("24"),
        "Full-syncs a day that choose their records themselves: all, or, outside of the window, those of the \
         last day.",
    ),
    key(
        "ttaaefs_allcheck.policy",
        ValueType::Word(&["always", "never", "window"]),
        KeyDefault("always"),
        "When the full-syncs of ttaaefs_autocheck may repair all records: always, never, or in a window of \
         hours. At other times they repair records modified in the last day.",
    ),
    key(
        "ttaaefs_allcheck.window.start",
        ValueType::Integer(0, 23),
        KeyDefault("0"),
        "First hour (UTC) of the window of ttaaefs_allcheck.policy.",
    ),
    key(
        "ttaaefs_allcheck.window.end",
        ValueType::Integer(0, 23),
        KeyDefault("23"),
        "Last hour (UTC) of the window of ttaaefs_allcheck.policy, included. It can be before the first one.",
    ),
    key(
        "ttaaefs_logrepairs",
        ValueType::Flag,
        KeyDefault("disabled"),
        "Whether the node logs each record that full-sync finds to differ.",
    ),
    key(
        "repl.fullsync.interval",
        ValueType::DurationOr("off"),
        KeyDefault("off"),
        "Time between two full-syncs of the cluster; its nodes take turns. Each repairs all records, at any \
         hour. It replaces the schedule of ttaaefs_autocheck and the other numbers per day.",
    ),
    key(
        "repl.fullsync.maximum",
        ValueType::Integer(1, 1_000_000_000),
        KeyDefault("1000000"),
        "Number of records, of both directions together, after which a full-sync ends. The next full-sync \
         repairs the rest.",
    ),
    key(
        "change_feed.retention",
        ValueType::Duration(60_000),
        KeyDefault("7d"),
        "Time for which the node keeps the changes of buckets with a change feed. A reader that comes later \
         is told that changes are missing.",
    ),
    key(
        "change_feed.maximum_bytes",
        ValueType::Size(16 * MB, 1_000_000 * MB),
        KeyDefault("1GB"),
        "Disk space of the node for the changes of buckets with a change feed, to within 16 MB. Beyond it, \
         the node removes the oldest changes before change_feed.retention.",
    ),
];
