//! Keys of the services for clients.

use super::{GB, KB, Key, KeyDefault, MB, key};
use crate::value::ValueType;

/// Keys of tombstones, transfers, limits, buckets and logs.
pub(super) const KEYS: &[Key] = &[
    key(
        "delete_mode",
        ValueType::DeleteMode,
        KeyDefault("3000"),
        "Age in milliseconds at which the tombstone of a deleted object is removed, if all primaries have \
         it; or immediate; or keep (never).",
    ),
    key(
        "transfer_limit",
        ValueType::Integer(1, 1_000),
        KeyDefault("2"),
        "Number of partitions that the node hands over to other nodes at the same time. Applied on SIGHUP.",
    ),
    key(
        "transfer_rate",
        ValueType::Size(0, 1_024 * GB),
        KeyDefault("100MB"),
        "Bytes per second that the node sends when it hands over partitions; 0 = no limit. Applied on \
         SIGHUP.",
    ),
    key(
        "transfer_share.minimum",
        ValueType::Percent,
        KeyDefault("2"),
        "Transfers pause while requests take longer than usual, on this node or on the receiver. This is the \
         least share of the time in which they work all the same; 0% counts as 1%. With 100% they never \
         pause.",
    ),
    key(
        "handoff.inbound",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node accepts partitions from other nodes. Commands can change it until the next start. \
         Applied on SIGHUP.",
    ),
    key(
        "handoff.outbound",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node hands over partitions to other nodes. Commands can change it until the next start. \
         Applied on SIGHUP.",
    ),
    key(
        "hints.maximum",
        ValueType::Integer(1_000, 100_000_000),
        KeyDefault("1000000"),
        "Number of hints: records that other nodes have missed, noted one by one. Beyond it, the node notes \
         whole partitions, and compares them when the other node is back.",
    ),
    key(
        "reaped.maximum",
        ValueType::Integer(1_000, 100_000_000),
        KeyDefault("4000000"),
        "Number of reap records: notes of removed tombstones, which the node keeps until no member can hold \
         an older copy of the record. Each takes 24 bytes of memory. Beyond it, the node does not remove \
         further tombstones.",
    ),
    key(
        "max_concurrent_requests",
        ValueType::Integer(1, 10_000_000),
        KeyDefault("50000"),
        "Limit of reads, and separately of writes, that wait for a disk or other nodes on this node. The \
         node answers further ones with `overload` at once.",
    ),
    key(
        "anti_entropy",
        ValueType::Word(&["active", "active-debug", "passive"]),
        KeyDefault("active"),
        "active: the node compares its copies with those of other nodes and repairs differences. passive: it \
         only does so when an operator asks for it (aae-exchange), and answers other nodes. active-debug \
         means active.",
    ),
    key(
        "tictacaae_active",
        ValueType::Word(&["active", "passive"]),
        KeyDefault("passive"),
        "Riak's setting. active overrides anti_entropy = passive.",
    ),
    key(
        "anti_entropy.concurrency_limit",
        ValueType::Integer(1, 1_000),
        KeyDefault("2"),
        "Number of nodes with which the node compares its copies at the same time.",
    ),
    key(
        "anti_entropy.trigger_interval",
        ValueType::Duration(1_000),
        KeyDefault("15s"),
        "Interval at which the node starts to compare its copies with another node's. The other nodes take \
         turns.",
    ),
    key(
        "verify_rate",
        ValueType::Size(0, 10 * GB),
        KeyDefault("1MB"),
        "Bytes per second of its data on disk that the node reads to find damaged records, which it replaces \
         from other replicas. 0 = none.",
    ),
    key(
        "object.size.maximum",
        ValueType::Size(1, 1_024 * GB),
        KeyDefault("50MB"),
        "Largest object that clients may write, with all its siblings and metadata. The node refuses larger \
         ones.",
    ),
    key(
        "object.size.warning_threshold",
        ValueType::Size(0, 1_024 * GB),
        KeyDefault("5MB"),
        "Size of an object above which the node logs a warning when the object is written.",
    ),
    key(
        "object.siblings.maximum",
        ValueType::Integer(1, 1_000_000),
        KeyDefault("100"),
        "Largest number of siblings of an object. The node refuses writes that would leave more.",
    ),
    key(
        "object.siblings.warning_threshold",
        ValueType::Integer(1, 1_000_000),
        KeyDefault("25"),
        "Number of siblings above which the node logs a warning when the object is written.",
    ),
    key(
        "buckets.default.n_val",
        ValueType::Integer(1, 255),
        KeyDefault("3"),
        "Default of the property n_val of untyped buckets: number of replicas. All buckets.default settings \
         should be the same on all nodes.",
    ),
    key(
        "buckets.default.r",
        ValueType::Quorum,
        KeyDefault("quorum"),
        "Default of the property r of untyped buckets: replicas that must answer a read.",
    ),
    key(
        "buckets.default.w",
        ValueType::Quorum,
        KeyDefault("quorum"),
        "Default of the property w of untyped buckets: replicas that must answer a write.",
    ),
    key(
        "buckets.default.pr",
        ValueType::Quorum,
        KeyDefault("0"),
        "Default of the property pr of untyped buckets: primaries that must answer a read.",
    ),
    key(
        "buckets.default.pw",
        ValueType::Quorum,
        KeyDefault("0"),
        "Default of the property pw of untyped buckets: primaries that must answer a write.",
    ),
    key(
        "buckets.default.dw",
        ValueType::Quorum,
        KeyDefault("quorum"),
        "Default of the property dw of untyped buckets: replicas that must have synced a write to disk.",
    ),
    key(
        "buckets.default.rw",
        ValueType::Quorum,
        KeyDefault("quorum"),
        "Default of the property rw of untyped buckets: replicas that must answer a delete.",
    ),
    key(
        "buckets.default.notfound_ok",
        ValueType::Flag,
        KeyDefault("true"),
        "Default of the property notfound_ok of untyped buckets: whether \"not found\" counts as an answer \
         to a read.",
    ),
    key(
        "buckets.default.basic_quorum",
        ValueType::Flag,
        KeyDefault("false"),
        "Default of the property basic_quorum of untyped buckets: whether a read ends when a majority of the \
         replicas has not found the record.",
    ),
    key(
        "buckets.default.allow_mult",
        ValueType::Flag,
        KeyDefault("false"),
        "Default of the property allow_mult of untyped buckets: whether concurrent writes are kept as \
         siblings.",
    ),
    key(
        "buckets.default.last_write_wins",
        ValueType::Flag,
        KeyDefault("false"),
        "Default of the property last_write_wins of untyped buckets: whether the newest write replaces all \
         others, also concurrent ones. Not with buckets.default.merge_strategy = 2.",
    ),
    key(
        "buckets.default.merge_strategy",
        ValueType::Integer(1, 2),
        KeyDefault("1"),
        "Default of the property dvv_enabled of untyped buckets: 1 = false, 2 = true. With false, the node \
         may drop old entries of long version vectors.",
    ),
    key(
        "buckets.default.compression",
        ValueType::Word(&["none", "lz4"]),
        KeyDefault("none"),
        "Default of the property compression of untyped buckets: whether stored values are compressed.",
    ),
    key(
        "request.maximum_size",
        ValueType::Size(KB, 4 * GB),
        KeyDefault(""),
        "Largest Protocol Buffers message or HTTP body. The node refuses a larger one and closes the \
         connection. At most half of request.maximum_memory.per_connection. Not set: object.size.maximum and \
         1MB more.",
    ),
    key(
        "request.maximum_memory",
        ValueType::Size(16 * MB, 1_024 * GB),
        KeyDefault(""),
        "Memory for requests and answers of all client connections together. The node refuses a request or \
         answer that does not fit at once. Each open connection takes 64KB of it. Not set: a quarter of the \
         memory of the machine, or of the node's control group.",
    ),
    key(
        "request.maximum_memory.per_connection",
        ValueType::Size(MB, 1_024 * GB),
        KeyDefault(""),
        "Part of request.maximum_memory that one connection may use. A request counts twice, and so does an \
         object that is read. Not set: a quarter, or twice the largest request if that is more, but at most \
         three quarters.",
    ),
    key(
        "request.stall_timeout",
        ValueType::Duration(1_000),
        KeyDefault("60s"),
        "The node closes a connection if no byte of a started request arrives, or the client reads no byte \
         of an answer, for this time. Between requests, a connection may be idle without limit.",
    ),
    key(
        "request.minimum_rate",
        ValueType::Size(0, GB),
        KeyDefault("16KB"),
        "Lowest average speed of a request or answer, in bytes per second, after the first \
         request.stall_timeout. The node closes slower connections. 0 = no minimum.",
    ),
    key(
        "max_connections",
        ValueType::Integer(1, 1_000_000),
        KeyDefault("65536"),
        "Number of client connections that the node serves at once; further ones wait to be accepted. The \
         limit of open files and request.maximum_memory can lower it.",
    ),
    key(
        "protobuf.backlog",
        ValueType::Integer(1, 65_535),
        KeyDefault("128"),
        "Number of connections that may wait to be accepted, for each listener of any kind.",
    ),
    key(
        "slow_log.maximum",
        ValueType::Integer(0, 10_000),
        KeyDefault("100"),
        "Number of slowest requests that the node remembers in each period of ten minutes: the present one \
         and the one before. 0 = none.",
    ),
    key(
        "hot_keys.maximum",
        ValueType::Integer(0, 10_000),
        KeyDefault("100"),
        "Number of most requested keys, found by sampling, and number of largest objects that the node \
         remembers. 0 = none.",
    ),
    key(
        "http_url_encoding",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node percent-decodes names in URLs.",
    ),
    key(
        "secure_referer_check",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node refuses HTTP requests that a browser makes for a web page of another site: with a \
         foreign Referer or Origin, to this machine under a foreign Host, or with a GET that changes \
         something.",
    ),
    key(
        "admin_socket",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether operators on this machine can also reach the node through `admin.sock` in its data \
         directory. Only the user that runs the node may open it, and needs no password there. At most 16 \
         connections at once.",
    ),
    key(
        "admin_remote",
        ValueType::Flag,
        KeyDefault("off"),
        "Whether the administration API answers requests from other machines while security is off; they \
         need no password then. While security is on, it has no effect: the permissions of users decide.",
    ),
    key(
        "cluster.job.riak_kv.list_buckets",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may list buckets in one answer.",
    ),
    key(
        "cluster.job.riak_kv.stream_list_buckets",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may list buckets as a stream.",
    ),
    key(
        "cluster.job.riak_kv.list_keys",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may list keys in one answer.",
    ),
    key(
        "cluster.job.riak_kv.stream_list_keys",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may list keys as a stream.",
    ),
    key(
        "cluster.job.riak_kv.secondary_index",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may make index queries with one answer.",
    ),
    key(
        "cluster.job.riak_kv.stream_secondary_index",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may make index queries with a stream of answers.",
    ),
    key(
        "cluster.job.riak_kv.map_reduce",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may run MapReduce jobs.",
    ),
    key(
        "cluster.job.riak_kv.map_reduce_js",
        ValueType::Flag,
        KeyDefault("enabled"),
        "Whether clients may run MapReduce jobs with JavaScript functions. mapreduce.javascript must be on \
         as well.",
    ),
    key(
        "mapreduce.jobs.maximum",
        ValueType::Integer(1, 1024),
        KeyDefault("16"),
        "Number of MapReduce jobs that the node runs at once for its clients. Further jobs wait, and fail at \
         their timeout.",
    ),
    key(
        "mapreduce.job.maximum_memory",
        ValueType::Size(MB, 64 * GB),
        KeyDefault("64MB"),
        "Memory for data that a MapReduce job keeps between its phases, such as values that are sorted. A \
         job that needs more ends with an error.",
    ),
    key(
        "mapreduce.javascript",
        ValueType::Flag,
        KeyDefault("off"),
        "Whether MapReduce jobs may use JavaScript functions. They run in a sandbox.",
    ),
    key(
        "mapreduce.javascript.call_timeout",
        ValueType::Duration(1),
        KeyDefault("5s"),
        "Time limit of one call of a JavaScript function.",
    ),
    key(
        "mapreduce.javascript.job_timeout",
        ValueType::Duration(1),
        KeyDefault("60s"),
        "Time limit of all calls of JavaScript functions of one job on this node together.",
    ),
    key(
        "mapreduce.javascript.maximum_memory",
        ValueType::Size(MB, 4 * GB),
        KeyDefault("64MB"),
        "Memory for the JavaScript functions of one job on this node, with all their data.",
    ),
    key(
        "mapreduce.javascript.jobs.maximum_memory",
        ValueType::Size(MB, 64 * GB),
        KeyDefault("256MB"),
        "Memory for the JavaScript functions of all jobs on this node. The job that asks for more ends with \
         an error.",
    ),
    key(
        "mapreduce.javascript.maximum_output",
        ValueType::Size(KB, GB),
        KeyDefault("16MB"),
        "Size of the output of one batch of calls of a JavaScript function. A job with more output ends with \
         an error.",
    ),
    key(
        "secondary_index_timeout",
        ValueType::Integer(0, 86_400_000),
        KeyDefault("0"),
        "Time limit in milliseconds of an index query whose client sets none; 0 = no limit.",
    ),
    key(
        "worker_threads",
        ValueType::Integer(1, 1024),
        KeyDefault(""),
        "Number of threads that serve requests. Not set: one for each processor core.",
    ),
    key(
        "log.level",
        ValueType::Level,
        KeyDefault("info"),
        "Lowest level of messages that the node logs: error logs the fewest, trace all. Applied on SIGHUP.",
    ),
    key(
        "log.format",
        ValueType::Word(&["text", "json"]),
        KeyDefault("text"),
        "Format of log lines on standard error.",
    ),
];
