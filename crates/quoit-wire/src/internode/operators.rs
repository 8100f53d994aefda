//! Messages by which the node that an operator asks speaks for the whole cluster.
//!
//! Every node knows by itself how much it stores and what it hands over. The node that is asked gathers
//! that from the others, and passes on what the operator changes.

use bytes::Bytes;

/// Asks what the receiver stores and hands over: [`AskTransfers`] -> [`TransferReport`].
pub const METHOD_ASK_TRANSFERS: u16 = 0x0118;
/// Changes how much the receiver's transfers may take: [`SetTransfers`] -> [`TransferReport`].
pub const METHOD_SET_TRANSFERS: u16 = 0x0119;

/// Asks for a report.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AskTransfers {}

/// Settings to change; an absent one stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SetTransfers {
    /// Partitions handed over at the same time.
    #[prost(uint32, optional, tag = "1")]
    pub partition_count_max: Option<u32>,
    /// Bytes of objects handed over in a second; 0 = as many as go.
    #[prost(uint64, optional, tag = "2")]
    pub bytes_per_sec_max: Option<u64>,
    /// Whether it takes records that others hand over.
    #[prost(bool, optional, tag = "3")]
    pub inbound: Option<bool>,
    /// Whether it hands over records.
    #[prost(bool, optional, tag = "4")]
    pub outbound: Option<bool>,
}

/// Records that a node stores and hands over.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TransferReport {
    /// Bytes that its live records take.
    #[prost(uint64, tag = "1")]
    pub live_bytes: u64,
    /// Partitions handed over at the same time.
    #[prost(uint32, tag = "2")]
    pub partition_count_max: u32,
    /// Bytes of objects handed over in a second; 0 = as many as go.
    #[prost(uint64, tag = "3")]
    pub bytes_per_sec_max: u64,
    /// Whether it takes records that others hand over.
    #[prost(bool, tag = "4")]
    pub inbound: bool,
    /// Whether it hands over records.
    #[prost(bool, tag = "5")]
    pub outbound: bool,
    /// Transfers that go out now.
    #[prost(message, repeated, tag = "6")]
    pub active: Vec<ActiveTransfer>,
    /// Partitions that may have records that belong to others.
    #[prost(uint64, tag = "7")]
    pub stray_partition_count: u64,
    /// Records handed over since the start.
    #[prost(uint64, tag = "8")]
    pub record_count: u64,
    /// Bytes of their objects.
    #[prost(uint64, tag = "9")]
    pub byte_count: u64,
    /// Writes of this node that other nodes have missed.
    #[prost(message, repeated, tag = "10")]
    pub hints: Vec<WaitingHints>,
    /// The part of the time in which its transfers work, up to 1; 0 = 1.
    #[prost(double, tag = "11")]
    pub share: f64,
    /// How the node is.
    #[prost(message, optional, tag = "12")]
    pub figures: Option<NodeFigures>,
}

/// How a node is, in the figures of one screen.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeFigures {
    /// Version of the program.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Seconds since its start.
    #[prost(uint64, tag = "2")]
    pub uptime_secs: u64,
    /// Records that it stores, tombstones among them.
    #[prost(uint64, tag = "3")]
    pub key_count: u64,
    /// Of these, tombstones.
    #[prost(uint64, tag = "4")]
    pub tombstone_count: u64,
    /// Bytes of its engine's files.
    #[prost(uint64, tag = "5")]
    pub disk_bytes: u64,
    /// Bytes that its disk has left; with `disk_total_bytes` 0 it is not known.
    #[prost(uint64, tag = "6")]
    pub disk_free_bytes: u64,
    /// Size of its disk.
    #[prost(uint64, tag = "7")]
    pub disk_total_bytes: u64,
    /// Reads of clients in the last minute, or since the start.
    #[prost(uint64, tag = "8")]
    pub get_count: u64,
    /// Writes of clients in that time.
    #[prost(uint64, tag = "9")]
    pub put_count: u64,
    /// Reads and writes of them that failed.
    #[prost(uint64, tag = "10")]
    pub error_count: u64,
    /// 99th percentile of the time of reads, in microseconds.
    #[prost(uint64, tag = "11")]
    pub get_p99_us: u64,
    /// 99th percentile of the time of writes, in microseconds.
    #[prost(uint64, tag = "12")]
    pub put_p99_us: u64,
    /// 99th percentile of the siblings of objects read.
    #[prost(uint64, tag = "13")]
    pub siblings_p99: u64,
    /// Most siblings of an object read.
    #[prost(uint64, tag = "14")]
    pub siblings_max: u64,
    /// 99th percentile of the bytes of objects read.
    #[prost(uint64, tag = "15")]
    pub object_bytes_p99: u64,
    /// Most bytes of an object read.
    #[prost(uint64, tag = "16")]
    pub object_bytes_max: u64,
    /// Whether its disk is full.
    #[prost(bool, tag = "17")]
    pub is_disk_full: bool,
    /// Why it takes no writes; empty if it does.
    #[prost(string, tag = "18")]
    pub writes_refused: String,
}

/// Writes that a node has missed and that wait until it is back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WaitingHints {
    /// Node that has missed them.
    #[prost(bytes = "bytes", tag = "1")]
    pub to: Bytes,
    /// Records.
    #[prost(uint64, tag = "2")]
    pub record_count: u64,
    /// Partitions besides, of which too much was missed to know it one by one.
    #[prost(uint64, tag = "3")]
    pub partition_count: u64,
}

/// A partition that is being handed over.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActiveTransfer {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The node that gets it as one of its primaries; empty for strays, which go to all primaries.
    #[prost(bytes = "bytes", tag = "2")]
    pub to: Bytes,
    /// Records that the receivers lacked and have got.
    #[prost(uint64, tag = "3")]
    pub record_count: u64,
    /// Bytes of their objects.
    #[prost(uint64, tag = "4")]
    pub byte_count: u64,
    /// How much of the partition is done, 0 to 1.
    #[prost(double, tag = "5")]
    pub fraction: f64,
    /// Seconds since it began.
    #[prost(double, tag = "6")]
    pub elapsed_secs: f64,
    /// Whether it goes to a primary that has missed it.
    #[prost(bool, tag = "7")]
    pub is_hinted: bool,
}
