//! Settings of the store.

use crate::blocking::Blocking;
use crate::reap_records::ReapRecordLimits;
use crate::request_log::RequestLogSettings;
use std::time::Duration;

/// Timeout of requests that name none, in milliseconds.
pub const TIMEOUT_MS_DEFAULT: u32 = 60_000;

/// Limits on objects and requests. Repair and replication are exempt from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum size of a stored object, in bytes (`object.size.maximum`).
    pub object_size_bytes_max: u64,
    /// Objects above this many bytes are logged (`object.size.warning_threshold`).
    pub object_size_bytes_warning: u64,
    /// Maximum number of siblings of an object (`object.siblings.maximum`).
    pub sibling_count_max: u32,
    /// Objects with more siblings than this are logged (`object.siblings.warning_threshold`).
    pub sibling_count_warning: u32,
    /// Maximum number of requests under way, counted separately for reads and writes
    /// (`max_concurrent_requests`).
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
    /// Time after which tombstones are reaped.
    pub delete_mode: DeleteMode,
    /// Seconds after which objects expire in buckets without a `ttl` of their own; `None` for never.
    pub ttl_secs_default: Option<u32>,
    /// Threads on which the store waits for the disk.
    pub blocking: Blocking,
    /// Limits on transfers of partitions at the start; operators can change them later.
    pub transfer_limits: TransferLimits,
    /// Minimum share of the time in which transfers work, in percent, however slow requests are. With 100
    /// they never pause.
    pub transfer_share_min: TransferShareMin,
    /// Maximum number of records that transfers read at once.
    pub page_records_max: PageRecordsMax,
    /// Settings of anti-entropy.
    pub exchanges: ExchangeSettings,
    /// Maximum number of hints that are kept.
    pub hint_count_max: HintCountMax,
    /// Limits on reap records.
    pub reap_records: ReapRecordLimits,
    /// Numbers of slow requests, large objects and hot keys that are kept.
    pub request_log: RequestLogSettings,
}

/// Minimum share of the time in which transfers work, in percent, from 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferShareMin(pub u8);

impl Default for TransferShareMin {
    fn default() -> Self {
        Self(2)
    }
}

/// Maximum number of records that transfers and replication read at once, from 1 to 256.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRecordsMax(pub usize);

impl Default for PageRecordsMax {
    fn default() -> Self {
        Self(256)
    }
}

/// Maximum number of hints that are kept. Each takes 32 bytes on disk and somewhat more in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintCountMax(pub usize);

impl Default for HintCountMax {
    fn default() -> Self {
        Self(1_000_000)
    }
}

/// Time after which a tombstone is reaped (`delete_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteMode {
    /// Never.
    Keep,
    /// At once.
    Immediate,
    /// After this number of milliseconds.
    AfterMs(u64),
}

impl DeleteMode {
    /// Minimum lifetime of a tombstone in milliseconds; `None` for ever.
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

/// Limits on the transfers of a node. All can be changed while the node runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferLimits {
    /// Maximum number of partitions that are handed over at the same time, at least 1 (`transfer_limit`).
    pub partition_count_max: u32,
    /// Maximum number of bytes of objects that are handed over per second; 0 for no limit (`transfer_rate`).
    pub bytes_per_sec_max: u64,
    /// True if the node takes records that other nodes hand over (`handoff.inbound`).
    pub inbound: bool,
    /// True if the node hands over records (`handoff.outbound`).
    pub outbound: bool,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self { partition_count_max: 2, bytes_per_sec_max: 100 << 20, inbound: true, outbound: true }
    }
}

/// Settings of anti-entropy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExchangeSettings {
    /// True if this node starts exchanges by itself (`anti_entropy`).
    pub active: bool,
    /// Maximum number of exchanges that this node runs at the same time (`anti_entropy.concurrency_limit`).
    pub count_max: u32,
    /// Interval between the starts of exchanges, with each peer in turn
    /// (`anti_entropy.trigger_interval`).
    pub interval: Duration,
    /// Bytes on disk that are read per second to find damage; 0 for none (`verify_rate`).
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
