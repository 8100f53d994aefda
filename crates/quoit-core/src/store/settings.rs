//! Settings of the store.

use crate::blocking::Blocking;
use crate::exchange::ExchangeSettings;
use crate::reap_records::ReapRecordLimits;
use crate::reaper::DeleteMode;
use crate::request_log::RequestLogSettings;
use crate::transfer::TransferLimits;

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
