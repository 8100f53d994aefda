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
        "Source queues, NAME:FILTER separated by |. Filters: any (all writes), block_rtq (none, only \
         full-sync and folds), bucketname.NAME, bucketprefix.TEXT, buckettype.TYPE. One that can't be \
         read is logged and left out. Queues that commands have added or removed stay so.",
    ),
    key(
        "replrtq_srcobjectlimit",
        Kind::Integer(0, 1_000_000),
        "1000",
        "Entries of a source queue that have their object with them in memory; the objects of others are \
         read when they are sent.",
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
        "Entries of a source queue and priority; further ones are discarded, counted, and left to \
         full-sync. An entry takes about 100 bytes of disk. Those of full-sync and folds are in memory, a \
         million at most.",
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
        "Replicas that answer when a queued object is read, and that take an object of another cluster \
         before it counts as stored.",
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
        "Whether objects of another Quoit cluster are queued for further clusters, with the list of those \
         that they have visited, so that chains, rings and meshes of clusters converge.",
    ),
    key(
        "repl.retention",
        Kind::Duration(1_000),
        "7d",
        "How long the node remembers deleted records for sinks that lag behind. A source queue whose deletes \
         wait for longer, in the queue or for a full-sync, is stale: it is not consumed until quoit repl \
         rebase says how to go on.",
    ),
    key(
        "replrtq_enablesink",
        Kind::Flag,
        "disabled",
        "Whether the node consumes source queues of other clusters (replrtq_sinkpeers).",
    ),
    key(
        "replrtq_sinkqueue",
        Kind::Name,
        "q1_ttaaefs",
        "Name of the queue that is consumed at peers which are given without one.",
    ),
    key(
        "replrtq_sinkpeers",
        Kind::Name,
        "",
        "Nodes of other clusters whose queues are consumed: HOST:PORT:pb or QUEUE:HOST:PORT:pb, separated \
         by |. One that can't be read is logged and left out.",
    ),
    key(
        "replrtq_sinkworkers",
        Kind::Integer(1, 1_000),
        "24",
        "Objects of a queue that are stored at the same time.",
    ),
    key(
        "replrtq_sinkpeerlimit",
        Kind::Integer(1, 1_000),
        "",
        "Connections to each peer and queue [default: replrtq_sinkworkers]. Peers of Quoit have four at \
         most: each takes many entries at once.",
    ),
    key(
        "repl.bucket_types",
        Kind::Word(&["off", "create", "follow"]),
        "off",
        "Bucket types and properties that are taken over from clusters whose queues are consumed: none \
         (off), those that are missing here (create), or those and later changes, but of n_val (follow).",
    ),
    key(
        "replrtq_peer_discovery",
        Kind::Flag,
        "disabled",
        "Whether peers are asked for the other nodes of their clusters, which are then peers, too. Not for \
         clusters behind address translation.",
    ),
    key(
        "repl_username",
        Kind::Name,
        "",
        "User that this node logs in as at nodes of other clusters: sinks and full-sync then speak TLS, over \
         Protocol Buffers (StartTls) and HTTP (HTTPS). It needs quoit.replicate on any there, and quoit.fold \
         for full-sync with Riak's messages. Needs repl_cacert_filename.",
    ),
    key(
        "repl_cacert_filename",
        Kind::Name,
        "",
        "File of the authorities that certificates of nodes of other clusters are held against.",
    ),
    key(
        "repl_cert_filename",
        Kind::Name,
        "",
        "File of the certificate that is shown to nodes of other clusters; its common name is repl_username.",
    ),
    key("repl_key_filename", Kind::Name, "", "File of the key of repl_cert_filename."),
    key(
        "repl.password_file",
        Kind::Name,
        "",
        "File whose first line is the password of repl_username, where its source there is password.",
    ),
    key(
        "replrtq_prompt_max_seconds",
        Kind::Integer(60, 86_400),
        "900",
        "The longest time between two questions for the nodes of other clusters; the shortest is 60 s.",
    ),
    key(
        "ttaaefs_scope",
        Kind::Word(&["disabled", "all", "bucket", "type"]),
        "disabled",
        "The records that scheduled full-syncs are about: all, those of one bucket \
         (ttaaefs_bucketfilter_name), or none. type is accepted and stands for all.",
    ),
    key(
        "ttaaefs_queuename",
        Kind::Name,
        "q1_ttaaefs",
        "The source queue here that full-sync puts records into which are newer here.",
    ),
    key(
        "ttaaefs_queuename_peer",
        Kind::Name,
        "disabled",
        "The source queue of the other cluster that full-sync puts records into which are newer there; \
         disabled: they are left to the other cluster's own full-sync.",
    ),
    key(
        "ttaaefs_peerip",
        Kind::Name,
        "",
        "Host of the other cluster for full-sync: a node, or a balancer before several.",
    ),
    key("ttaaefs_peerport", Kind::Integer(1, 65_535), "", "Its port, of Protocol Buffers."),
    key(
        "ttaaefs_peerprotocol",
        Kind::Word(&["pb", "http"]),
        "pb",
        "Its protocol. Full-sync with a cluster of Quoit needs pb.",
    ),
    key(
        "ttaaefs_localnval",
        Kind::Integer(1, 15),
        "3",
        "In full-sync with a Riak, the n_val here of the buckets that are compared.",
    ),
    key(
        "ttaaefs_remotenval",
        Kind::Integer(1, 15),
        "3",
        "In full-sync with a Riak, the n_val of these buckets there.",
    ),
    key(
        "replrtq_logfrequency",
        Kind::Integer(1_000, 86_400_000),
        "30000",
        "Milliseconds between two log lines about the lengths of source queues.",
    ),
    key(
        "ttaaefs_maxresults",
        Kind::Integer(1, 1_048_576),
        "32",
        "In full-sync with a Riak, segments of its trees whose records a check compares.",
    ),
    key(
        "ttaaefs_rangeboost",
        Kind::Integer(1, 1_024),
        "16",
        "In full-sync with a Riak, how many times as many segments a range check compares.",
    ),
    key("ttaaefs_bucketfilter_name", Kind::Name, "", "With ttaaefs_scope = bucket, the bucket."),
    key(
        "ttaaefs_bucketfilter_type",
        Kind::Name,
        "default",
        "With ttaaefs_scope = bucket, the bucket type of the bucket.",
    ),
    key(
        "ttaaefs_cluster_slice",
        Kind::Integer(1, 4),
        "1",
        "Which quarter of the slices of a day is this cluster's, so that clusters take turns.",
    ),
    key(
        "ttaaefs_allcheck",
        Kind::Integer(0, 86_400),
        "0",
        "Full-syncs a day that repair all records.",
    ),
    key("ttaaefs_nocheck", Kind::Integer(0, 86_400), "0", "Free places a day in the schedule."),
    key(
        "ttaaefs_hourcheck",
        Kind::Integer(0, 86_400),
        "0",
        "Full-syncs a day that repair records modified in the last hour.",
    ),
    key(
        "ttaaefs_daycheck",
        Kind::Integer(0, 86_400),
        "0",
        "Full-syncs a day that repair records modified in the last day.",
    ),
    key(
        "ttaaefs_rangecheck",
        Kind::Integer(0, 86_400),
        "0",
        "Full-syncs a day that repair where the last one has found something, or what was modified since \
         both clusters were in sync.",
    ),
    key(
        "ttaaefs_autocheck",
        Kind::Integer(0, 86_400),
        "24",
        "Full-syncs a day that choose themselves what to repair: all records, or outside of the window those \
         of the last day.",
    ),
    key(
        "ttaaefs_allcheck.policy",
        Kind::Word(&["always", "never", "window"]),
        "always",
        "When full-syncs that choose themselves may repair all records.",
    ),
    key(
        "ttaaefs_allcheck.window.start",
        Kind::Integer(0, 23),
        "0",
        "First hour (UTC) of the window of ttaaefs_allcheck.policy.",
    ),
    key(
        "ttaaefs_allcheck.window.end",
        Kind::Integer(0, 23),
        "23",
        "Last hour (UTC) of the window of ttaaefs_allcheck.policy; it may be before the first one.",
    ),
    key(
        "ttaaefs_logrepairs",
        Kind::Flag,
        "disabled",
        "Whether each record is logged that full-sync finds to differ.",
    ),
    key(
        "repl.fullsync.interval",
        Kind::DurationOr("off"),
        "off",
        "Time between two full-syncs of the cluster, whose nodes take turns. It replaces the schedule by \
         ttaaefs_autocheck and its like.",
    ),
    key(
        "repl.fullsync.maximum",
        Kind::Integer(1, 1_000_000_000),
        "1000000",
        "Records that a full-sync queues at most; the next one goes on.",
    ),
    key(
        "change_feed.retention",
        Kind::Duration(60_000),
        "7d",
        "How long the node keeps the changes of buckets with a change feed. A reader that comes later is \
         told that changes are missing.",
    ),
    key(
        "change_feed.maximum_bytes",
        Kind::Size(16 * MB, 1_000_000 * MB),
        "1GB",
        "Disk that the changes of buckets with a change feed may take on the node, to within 16 MB. Beyond \
         it the oldest are removed before their time.",
    ),
];
