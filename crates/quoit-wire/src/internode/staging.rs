//! Messages that send a large set or map page by page, in stored form, to a node that has no copy
//! of it.
//!
//! The receiver keeps the pages apart until the sender finishes the record with its root and
//! confirms that all pages belong to one version of it.

use super::transfer::DeliveredRecord;
use bytes::Bytes;

/// Opens a staging area for the pages of a record: [`OpenStaging`] -> [`StagingOpened`].
pub const METHOD_OPEN_STAGING: u16 = 0x0143;
/// Sends some pages: [`StagePages`] -> [`PagesStaged`].
pub const METHOD_STAGE_PAGES: u16 = 0x0144;
/// Finishes a record after all its pages: [`FinishStaging`] -> [`StagingFinished`].
pub const METHOD_FINISH_STAGING: u16 = 0x0145;
/// Discards a staging area: [`DropStaging`] -> [`StagingDropped`].
pub const METHOD_DROP_STAGING: u16 = 0x0146;

/// Opens a staging area for the pages of a record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OpenStaging {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// Current digest of the object.
    #[prost(fixed64, tag = "4")]
    pub digest: u64,
    /// True if the sender's transfers run at their minimum rate.
    #[prost(bool, tag = "5")]
    pub is_minimum_rate: bool,
}

/// Next step for a record that is in pages at the sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum StagingDecision {
    /// Send the whole object.
    Whole = 0,
    /// Send the pages.
    Open = 1,
    /// The receiver has this version on disk.
    Known = 2,
    /// The receiver has another version in pages; compare the two.
    InPages = 3,
    /// The receiver has reached its limit of staging areas; ask again later.
    Busy = 4,
}

/// Answer to a request for a staging area.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagingOpened {
    /// Next step: a [`StagingDecision`].
    #[prost(enumeration = "StagingDecision", tag = "1")]
    pub room: i32,
    /// Number of the staging area, which later messages name.
    #[prost(fixed64, tag = "2")]
    pub staging: u64,
    /// Latency of clients' requests at the receiver, in percent of the tolerable one; 0 if unknown.
    #[prost(uint32, tag = "3")]
    pub pressure_percent: u32,
}

/// A page of a record.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagedPage {
    /// Number of the page's branch; 0 for the record itself.
    #[prost(uint64, tag = "1")]
    pub branch: u64,
    /// Lowest hash of the page.
    #[prost(fixed64, tag = "2")]
    pub first: u64,
    /// Size of the page in the payload, in bytes; 0 if the page no longer exists.
    #[prost(uint32, tag = "3")]
    pub size_bytes: u32,
}

/// Sends pages, one after the other in the payload. Without pages it keeps the staging area open.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StagePages {
    /// Number of the staging area.
    #[prost(fixed64, tag = "1")]
    pub staging: u64,
    /// The pages.
    #[prost(message, repeated, tag = "2")]
    pub pages: Vec<StagedPage>,
    /// True if the sender's transfers run at their minimum rate.
    #[prost(bool, tag = "3")]
    pub is_minimum_rate: bool,
}

/// Result of staging pages.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PagesStaged {
    /// True if the receiver does not have the staging area, or no longer; everything has to be sent
    /// again.
    #[prost(bool, tag = "1")]
    pub is_lost: bool,
    /// Latency of clients' requests at the receiver, in percent of the tolerable one; 0 if unknown.
    #[prost(uint32, tag = "2")]
    pub pressure_percent: u32,
}

/// Finishes a record. The payload is the root of its pages.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FinishStaging {
    /// Number of the staging area.
    #[prost(fixed64, tag = "1")]
    pub staging: u64,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// The record; its object is the root.
    #[prost(message, required, tag = "3")]
    pub record: DeliveredRecord,
}

/// Result of finishing a record.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagingFinished {
    /// [`StagingDecision::Known`] if the receiver has the record on disk, merged with what was there. Any
    /// other value is the sender's next step; the pages were discarded.
    #[prost(enumeration = "StagingDecision", tag = "1")]
    pub room: i32,
}

/// Discards a staging area.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DropStaging {
    /// Number of the staging area.
    #[prost(fixed64, tag = "1")]
    pub staging: u64,
}

/// The staging area was discarded.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagingDropped {}
