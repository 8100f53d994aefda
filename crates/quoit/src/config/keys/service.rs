//! Keys of the services for clients.

use super::{GB, KB, Key, MB, key};
use crate::config::value::Kind;

/// Keys of tombstones, transfers, limits, buckets and logs.
pub(super) const KEYS: &[Key] = &[
    key(
        "delete_mode",
        Kind::DeleteMode,
        "3000",
        "When a tombstone is removed: keep (never), immediate, or after so many milliseconds.",
    ),
    key(
        "transfer_limit",
        Kind::Integer(1, 1_000),
        "2",
        "Partitions that the node hands over to others at the same time.",
    ),
    key(
        "transfer_rate",
        Kind::Size(0, 1_024 * GB),
        "100MB",
        "Bytes a second that the node hands over to others; 0 is without a limit.",
    ),
    key(
        "transfer_share.minimum",
        Kind::Percent,
        "2",
        "Transfers rest in between while requests take longer than usual, here or at the receiver. They \
         work in at least this part of the time; at 100% they never rest.",
    ),
    key(
        "handoff.inbound",
        Kind::Flag,
        "on",
        "Whether the node receives partitions from others, when it starts.",
    ),
    key(
        "handoff.outbound",
        Kind::Flag,
        "on",
        "Whether the node sends partitions to others, when it starts.",
    ),
    key(
        "hints.maximum",
        Kind::Integer(1_000, 100_000_000),
        "1000000",
        "Records that other nodes have missed and that are recorded one by one, each once; beyond it whole \
         partitions are compared.",
    ),
    key(
        "reaped.maximum",
        Kind::Integer(1_000, 100_000_000),
        "4000000",
        "Reaped tombstones that are remembered until all members have reported that they hold nothing older, \
         each with 24 bytes of memory; beyond it tombstones wait.",
    ),
    key(
        "max_concurrent_requests",
        Kind::Integer(1, 10_000_000),
        "50000",
        "Gets, and as many puts and deletes, that may wait for a disk or other nodes on this node; further \
         ones are answered `overload` at once.",
    ),
    key(
        "anti_entropy",
        Kind::Word(&["active", "active-debug", "passive"]),
        "active",
        "Whether the node compares its copies with other nodes' and repairs differences. Passive: it \
         only answers others.",
    ),
    key(
        "tictacaae_active",
        Kind::Word(&["active", "passive"]),
        "passive",
        "Riak's setting: active counts where anti_entropy is passive.",
    ),
    key(
        "anti_entropy.concurrency_limit",
        Kind::Integer(1, 1_000),
        "2",
        "Nodes that the node compares its copies with at the same time.",
    ),
    key(
        "anti_entropy.trigger_interval",
        Kind::Duration(1_000),
        "15s",
        "How often the node begins to compare its copies with another one's, with each in turn.",
    ),
    key(
        "verify_rate",
        Kind::Size(0, 10 * GB),
        "1MB",
        "Bytes of the data on disk that are read in a second to find damage, which other replicas heal; 0: \
         none.",
    ),
    key("object.size.maximum", Kind::Size(1, 1_024 * GB), "50MB", "Larger objects are refused."),
    key(
        "object.size.warning_threshold",
        Kind::Size(0, 1_024 * GB),
        "5MB",
        "Larger objects are logged.",
    ),
    key(
        "object.siblings.maximum",
        Kind::Integer(1, 1_000_000),
        "100",
        "Writes that would leave \
         more siblings are refused.",
    ),
    key(
        "object.siblings.warning_threshold",
        Kind::Integer(1, 1_000_000),
        "25",
        "Objects with \
         more siblings are logged.",
    ),
    key("buckets.default.n_val", Kind::Integer(1, 255), "3", "Replicas of untyped buckets."),
    key("buckets.default.r", Kind::Quorum, "quorum", "Default of r for untyped buckets."),
    key("buckets.default.w", Kind::Quorum, "quorum", "Default of w for untyped buckets."),
    key("buckets.default.pr", Kind::Quorum, "0", "Default of pr for untyped buckets."),
    key("buckets.default.pw", Kind::Quorum, "0", "Default of pw for untyped buckets."),
    key("buckets.default.dw", Kind::Quorum, "quorum", "Default of dw for untyped buckets."),
    key("buckets.default.rw", Kind::Quorum, "quorum", "Default of rw for untyped buckets."),
    key("buckets.default.notfound_ok", Kind::Flag, "true", "Whether a miss counts as an answer."),
    key(
        "buckets.default.basic_quorum",
        Kind::Flag,
        "false",
        "Whether a majority of misses ends \
         a read early.",
    ),
    key(
        "buckets.default.allow_mult",
        Kind::Flag,
        "false",
        "Whether untyped buckets keep siblings.",
    ),
    key(
        "buckets.default.last_write_wins",
        Kind::Flag,
        "false",
        "Whether untyped buckets ignore \
         causality.",
    ),
    key(
        "buckets.default.merge_strategy",
        Kind::Integer(1, 2),
        "1",
        "1: the property dvv_enabled of untyped buckets reads false; 2: it reads true.",
    ),
    key(
        "buckets.default.compression",
        Kind::Word(&["none", "lz4"]),
        "none",
        "Whether values of untyped buckets are compressed when they are stored.",
    ),
    key(
        "request.maximum_size",
        Kind::Size(KB, 4 * GB),
        "",
        "Largest Protocol Buffers frame and HTTP body; larger ones end the connection. Not set: \
         object.size.maximum and 1MB more. It is never more than half of what a connection may have of \
         request.maximum_memory.",
    ),
    key(
        "request.maximum_memory",
        Kind::Size(16 * MB, 1_024 * GB),
        "",
        "Memory that requests and answers of all client connections may take together; a request or answer \
         that does not fit is refused at once. Each connection takes 64KB of it as long as it is open. Not \
         set: a quarter of the memory of the machine, or of the control group that the node is in.",
    ),
    key(
        "request.maximum_memory.per_connection",
        Kind::Size(MB, 1_024 * GB),
        "",
        "The part of that memory for one connection. A request counts twice, and so does an object that is \
         read. Not set: a quarter, or what the largest request takes if that is more and leaves a quarter to \
         others.",
    ),
    key(
        "request.stall_timeout",
        Kind::Duration(1_000),
        "60s",
        "The node closes a connection when no bytes of a request that has begun arrive for so long, or its \
         client reads nothing of an answer. Between requests a connection may be idle.",
    ),
    key(
        "request.minimum_rate",
        Kind::Size(0, GB),
        "16KB",
        "Bytes a second that requests and answers move at least, on average, beside request.stall_timeout; \
         0: without a limit.",
    ),
    key(
        "max_connections",
        Kind::Integer(1, 1_000_000),
        "65536",
        "Client connections served at \
         once; further ones wait to be accepted.",
    ),
    key(
        "protobuf.backlog",
        Kind::Integer(1, 65_535),
        "128",
        "Connections that may wait to be \
         accepted by a listener.",
    ),
    key(
        "slow_log.maximum",
        Kind::Integer(0, 10_000),
        "100",
        "Slowest requests that the node remembers, of the last ten minutes and of the ten before; 0 = none.",
    ),
    key(
        "hot_keys.maximum",
        Kind::Integer(0, 10_000),
        "100",
        "Keys asked for most, and largest objects, that the node remembers, found out from a sample; 0 = \
         none.",
    ),
    key("http_url_encoding", Kind::Flag, "on", "Whether names in URLs are percent-decoded."),
    key(
        "secure_referer_check",
        Kind::Flag,
        "on",
        "Whether HTTP requests of web pages are refused that have a foreign Referer or Origin, ask this \
         machine for another Host, or change something by GET.",
    ),
    key(
        "admin_socket",
        Kind::Flag,
        "on",
        "Whether operators on this machine reach the node through `admin.sock` in its data directory as \
         well. Only the user of the node may open it, and needs no password there. At most 16 connections at \
         once.",
    ),
    key(
        "admin_remote",
        Kind::Flag,
        "off",
        "Whether the administration API answers others than \
         this machine.",
    ),
    key(
        "cluster.job.riak_kv.list_buckets",
        Kind::Flag,
        "enabled",
        "Listing buckets in one answer.",
    ),
    key(
        "cluster.job.riak_kv.stream_list_buckets",
        Kind::Flag,
        "enabled",
        "Listing buckets as a \
         stream.",
    ),
    key("cluster.job.riak_kv.list_keys", Kind::Flag, "enabled", "Listing keys in one answer."),
    key("cluster.job.riak_kv.stream_list_keys", Kind::Flag, "enabled", "Listing keys as a stream."),
    key(
        "cluster.job.riak_kv.secondary_index",
        Kind::Flag,
        "enabled",
        "Index queries with one answer.",
    ),
    key(
        "cluster.job.riak_kv.stream_secondary_index",
        Kind::Flag,
        "enabled",
        "Index queries answered as a stream.",
    ),
    key("cluster.job.riak_kv.map_reduce", Kind::Flag, "enabled", "MapReduce jobs."),
    key(
        "cluster.job.riak_kv.map_reduce_js",
        Kind::Flag,
        "enabled",
        "MapReduce jobs with functions in JavaScript; mapreduce.javascript has to be on as well.",
    ),
    key(
        "mapreduce.jobs.maximum",
        Kind::Integer(1, 1024),
        "16",
        "MapReduce jobs that the node runs at once for its clients; further ones wait for their turn.",
    ),
    key(
        "mapreduce.job.maximum_memory",
        Kind::Size(MB, 64 * GB),
        "64MB",
        "Memory of what a MapReduce job keeps between its phases, such as values that are sorted. A job that \
         needs more ends with an error.",
    ),
    key(
        "mapreduce.javascript",
        Kind::Flag,
        "off",
        "Whether MapReduce jobs may have functions in JavaScript. They run in a sandbox.",
    ),
    key(
        "mapreduce.javascript.call_timeout",
        Kind::Duration(1),
        "5s",
        "Time of one call of a function in JavaScript.",
    ),
    key(
        "mapreduce.javascript.job_timeout",
        Kind::Duration(1),
        "60s",
        "Time of all calls of functions in JavaScript of one job at the node together.",
    ),
    key(
        "mapreduce.javascript.maximum_memory",
        Kind::Size(MB, 4 * GB),
        "64MB",
        "Memory of the functions in JavaScript of one job at the node, with all that they hold.",
    ),
    key(
        "mapreduce.javascript.jobs.maximum_memory",
        Kind::Size(MB, 64 * GB),
        "256MB",
        "Memory of the functions in JavaScript of all jobs at the node together. The job whose function asks \
         for more ends with an error.",
    ),
    key(
        "mapreduce.javascript.maximum_output",
        Kind::Size(KB, GB),
        "16MB",
        "Outputs of a batch of calls of a function in JavaScript.",
    ),
    key(
        "secondary_index_timeout",
        Kind::Integer(0, 86_400_000),
        "0",
        "Milliseconds that an index query may take if its client does not say; 0: without a limit.",
    ),
    key(
        "worker_threads",
        Kind::Integer(1, 1024),
        "",
        "Threads that serve requests. Not set: one \
         a core.",
    ),
    key("log.level", Kind::Level, "info", "Least important messages that are logged."),
    key(
        "log.format",
        Kind::Word(&["text", "json"]),
        "text",
        "Form of log lines on standard error.",
    ),
];
