//! Messages by which a node collects information about the whole cluster for an operator.
//!
//! Every node knows only what it stores and hands over itself. The node that an operator asks
//! collects this from the other nodes, and passes changes of settings on to them.

use bytes::Bytes;

/// Requests a report of the receiver's records and transfers: [`AskTransfers`] ->
/// [`TransferReport`].
pub const METHOD_ASK_TRANSFERS: u16 = 0x0118;
/// Changes the settings of the receiver's transfers: [`SetTransfers`] -> [`TransferReport`].
pub const METHOD_SET_TRANSFERS: u16 = 0x0119;

/// Asks for a report.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AskTransfers {}

/// Settings to change; absent ones stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SetTransfers {
    /// Maximum number of partitions that the node hands over at the same time.
    #[prost(uint32, optional, tag = "1")]
    pub partition_count_max: Option<u32>,
    /// Maximum rate of transfers in bytes of objects per second; 0 for no limit.
    #[prost(uint64, optional, tag = "2")]
    pub bytes_per_sec_max: Option<u64>,
    /// True if the node accepts transfers.
    #[prost(bool, optional, tag = "3")]
    pub inbound: Option<bool>,
    /// True if the node sends transfers.
    #[prost(bool, optional, tag = "4")]
    pub outbound: Option<bool>,
}

/// Records and transfers of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TransferReport {
    /// Size of its live records in bytes.
    #[prost(uint64, tag = "1")]
    pub live_bytes: u64,
    /// Maximum number of partitions that it hands over at the same time.
    #[prost(uint32, tag = "2")]
    pub partition_count_max: u32,
    /// Maximum rate of transfers in bytes of objects per second; 0 for no limit.
    #[prost(uint64, tag = "3")]
    pub bytes_per_sec_max: u64,
    /// True if it accepts transfers.
    #[prost(bool, tag = "4")]
    pub inbound: bool,
    /// True if it sends transfers.
    #[prost(bool, tag = "5")]
    pub outbound: bool,
    /// Outgoing transfers in progress.
    #[prost(message, repeated, tag = "6")]
    pub active: Vec<ActiveTransfer>,
    /// Number of partitions that may have records of other primaries (strays).
    #[prost(uint64, tag = "7")]
    pub stray_partition_count: u64,
    /// Number of records handed over since the start.
    #[prost(uint64, tag = "8")]
    pub record_count: u64,
    /// Size of their objects in bytes.
    #[prost(uint64, tag = "9")]
    pub byte_count: u64,
    /// Writes of this node that other nodes have missed.
    #[prost(message, repeated, tag = "10")]
    pub hints: Vec<WaitingHints>,
    /// Fraction of the time in which its transfers work, up to 1; 0 stands for 1.
    #[prost(double, tag = "11")]
    pub share: f64,
    /// State of the node.
    #[prost(message, optional, tag = "12")]
    pub figures: Option<NodeFigures>,
}

/// Figures of a node for an overview of the cluster.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeFigures {
    /// Version of the program.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Time since its start in seconds.
    #[prost(uint64, tag = "2")]
    pub uptime_secs: u64,
    /// Number of records that it stores, including tombstones.
    #[prost(uint64, tag = "3")]
    pub key_count: u64,
    /// Number of tombstones among them.
    #[prost(uint64, tag = "4")]
    pub tombstone_count: u64,
    /// Size of its engine's files in bytes.
    #[prost(uint64, tag = "5")]
    pub disk_bytes: u64,
    /// Free space of its disk in bytes; unknown if `disk_total_bytes` is 0.
    #[prost(uint64, tag = "6")]
    pub disk_free_bytes: u64,
    /// Size of its disk in bytes.
    #[prost(uint64, tag = "7")]
    pub disk_total_bytes: u64,
    /// Number of clients' reads in the last minute, or since the start if that is later.
    #[prost(uint64, tag = "8")]
    pub get_count: u64,
    /// Number of clients' writes in that time.
    #[prost(uint64, tag = "9")]
    pub put_count: u64,
    /// Number of these reads and writes that failed.
    #[prost(uint64, tag = "10")]
    pub error_count: u64,
    /// 99th percentile of the latency of reads, in microseconds.
    #[prost(uint64, tag = "11")]
    pub get_p99_us: u64,
    /// 99th percentile of the latency of writes, in microseconds.
    #[prost(uint64, tag = "12")]
    pub put_p99_us: u64,
    /// 99th percentile of the number of siblings of objects read.
    #[prost(uint64, tag = "13")]
    pub siblings_p99: u64,
    /// Maximum number of siblings of an object read.
    #[prost(uint64, tag = "14")]
    pub siblings_max: u64,
    /// 99th percentile of the size of objects read, in bytes.
    #[prost(uint64, tag = "15")]
    pub object_bytes_p99: u64,
    /// Maximum size of an object read, in bytes.
    #[prost(uint64, tag = "16")]
    pub object_bytes_max: u64,
    /// True if its disk is full.
    #[prost(bool, tag = "17")]
    pub is_disk_full: bool,
    /// Reason for which it refuses writes; empty if it accepts them.
    #[prost(string, tag = "18")]
    pub writes_refused: String,
}

/// Writes that a node has missed and that another node will send it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WaitingHints {
    /// The node that has missed them.
    #[prost(bytes = "bytes", tag = "1")]
    pub to: Bytes,
    /// Number of records.
    #[prost(uint64, tag = "2")]
    pub record_count: u64,
    /// Number of partitions in which so much was missed that single records are not known.
    #[prost(uint64, tag = "3")]
    pub partition_count: u64,
}

/// A transfer of a partition in progress.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActiveTransfer {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The node that becomes one of its primaries; empty for strays, which go to all primaries.
    #[prost(bytes = "bytes", tag = "2")]
    pub to: Bytes,
    /// Number of records that the receivers lacked and have received.
    #[prost(uint64, tag = "3")]
    pub record_count: u64,
    /// Size of their objects in bytes.
    #[prost(uint64, tag = "4")]
    pub byte_count: u64,
    /// Completed fraction of the partition, 0 to 1.
    #[prost(double, tag = "5")]
    pub fraction: f64,
    /// Time since the beginning in seconds.
    #[prost(double, tag = "6")]
    pub elapsed_secs: f64,
    /// True if the transfer brings missed writes to a primary.
    #[prost(bool, tag = "7")]
    pub is_hinted: bool,
}
