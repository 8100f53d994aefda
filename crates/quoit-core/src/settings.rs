//! Settings of the store.

use crate::blocking::Blocking;
use crate::reap_records::ReapRecordLimits;
use crate::request_log::RequestLogSettings;
use std::time::Duration;

/// Time that a request may take when it does not say, in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u32 = 60_000;

/// Limits on what is stored and done. Repair and replication are exempt from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest object, as stored, in bytes (`object.size.maximum`).
    pub object_size_bytes_max: u64,
    /// Objects above this many bytes are logged (`object.size.warning_threshold`).
    pub object_size_bytes_warning: u64,
    /// Most siblings (`object.siblings.maximum`).
    pub sibling_count_max: u32,
    /// Objects with more siblings than this are logged (`object.siblings.warning_threshold`).
    pub sibling_count_warning: u32,
    /// Most requests under way, reads and writes each (`max_concurrent_requests`).
    pub concurrent_request_count_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_size_bytes_max: 50 << 20,
            object_size_bytes_warning: 5 << 20,
            sibling_count_max: 100,
            sibling_count_warning: 25,
            concurrent_request_count_max: 50_000,
        }
    }
}

/// Settings of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreSettings {
    /// Limits on objects.
    pub limits: Limits,
    /// How soon tombstones are reaped.
    pub delete_mode: DeleteMode,
    /// Seconds after which objects of buckets without a `ttl` of their own expire; `None` = never.
    pub ttl_secs_default: Option<u32>,
    /// Where the store waits for the disk.
    pub blocking: Blocking,
    /// How much transfers of partitions may take at first.
    pub transfer_limits: TransferLimits,
    /// The least part of the time in which transfers work, in percent, however slow requests are; 100: they
    /// never rest.
    pub transfer_share_min: TransferShareMin,
    /// Records that transfers read at once.
    pub page_records_max: PageRecordsMax,
    /// How copies are compared.
    pub exchanges: ExchangeSettings,
    /// References to records that other nodes have missed, at most.
    pub hint_count_max: HintCountMax,
    /// How many reap records there may be.
    pub reap_records: ReapRecordLimits,
    /// How many slow requests, large objects and hot keys are kept.
    pub request_log: RequestLogSettings,
}

/// A least share of the time, in percent, 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferShareMin(pub u8);

impl Default for TransferShareMin {
    fn default() -> Self {
        Self(2)
    }
}

/// Records that transfers and replication read at once at most, 1 to 256.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRecordsMax(pub usize);

impl Default for PageRecordsMax {
    fn default() -> Self {
        Self(256)
    }
}

/// A bound on hints: references of 32 bytes on disk, and some more in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintCountMax(pub usize);

impl Default for HintCountMax {
    fn default() -> Self {
        Self(1_000_000)
    }
}

/// How soon after its writing a tombstone is reaped (`delete_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteMode {
    /// Never.
    Keep,
    /// With the write that makes it.
    Immediate,
    /// After so many milliseconds.
    AfterMs(u64),
}

impl DeleteMode {
    /// Milliseconds that a tombstone lives at least; `None` = for ever.
    pub(crate) const fn delay_ms(self) -> Option<u64> {
        match self {
            Self::Keep => None,
            Self::Immediate => Some(0),
            Self::AfterMs(delay_ms) => Some(delay_ms),
        }
    }
}

impl Default for DeleteMode {
    fn default() -> Self {
        Self::AfterMs(3_000)
    }
}

/// How much the transfers of a node may take of it. All may be changed while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferLimits {
    /// Partitions handed over at the same time, at least 1 (`transfer_limit`).
    pub partition_count_max: u32,
    /// Bytes of objects handed over in a second; 0 = as many as go (`transfer_rate`).
    pub bytes_per_sec_max: u64,
    /// Whether the node takes records that others hand over (`handoff.inbound`).
    pub inbound: bool,
    /// Whether the node hands over records (`handoff.outbound`).
    pub outbound: bool,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self { partition_count_max: 2, bytes_per_sec_max: 100 << 20, inbound: true, outbound: true }
    }
}

/// How copies are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExchangeSettings {
    /// Whether this node compares its copies with others' by itself (`anti_entropy`).
    pub active: bool,
    /// Exchanges of this node at the same time (`anti_entropy.concurrency_limit`).
    pub count_max: u32,
    /// How often an exchange begins, with each node in turn (`anti_entropy.trigger_interval`).
    pub interval: Duration,
    /// Bytes of the data on disk that are read in a second to find damage; 0 = none (`verify_rate`).
    pub verified_bytes_per_sec: u64,
}

impl Default for ExchangeSettings {
    fn default() -> Self {
        Self {
            active: true,
            count_max: 2,
            interval: Duration::from_secs(15),
            verified_bytes_per_sec: 1 << 20,
        }
    }
}
