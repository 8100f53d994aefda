//! Messages by which a large set or map comes to a node that has none of it: page by page, as it is stored.
//!
//! The receiver keeps the pages aside until the sender says that they are those of one moment, and which root
//! they belong to.

use super::transfer::DeliveredRecord;
use bytes::Bytes;

/// Asks for room for the pages of a record: [`OpenStaging`] -> [`StagingOpened`].
pub const METHOD_OPEN_STAGING: u16 = 0x0143;
/// Brings some pages: [`StagePages`] -> [`PagesStaged`].
pub const METHOD_STAGE_PAGES: u16 = 0x0144;
/// Says that all have come: [`FinishStaging`] -> [`StagingFinished`].
pub const METHOD_FINISH_STAGING: u16 = 0x0145;
/// Says that no more come, and that what has come is of no use: [`DropStaging`] -> [`StagingDropped`].
pub const METHOD_DROP_STAGING: u16 = 0x0146;

/// Asks for room for the pages of a record.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OpenStaging {
    /// The partition.
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// Name of the record, encoded.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// Digest of the object as it is now.
    #[prost(fixed64, tag = "4")]
    pub digest: u64,
    /// Whether the sender's transfers do the least that they may.
    #[prost(bool, tag = "5")]
    pub is_least: bool,
}

/// Next step for a record that lies in pages at the sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum Room {
    /// The whole object is to come.
    Whole = 0,
    /// Its pages may come.
    Open = 1,
    /// The receiver has it, on disk.
    Known = 2,
    /// The receiver has another one in pages: the two are to be compared.
    InPages = 3,
    /// As much comes as there may at a time: ask again in a while.
    Busy = 4,
}

/// Whether there is room.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagingOpened {
    /// Next step: a [`Room`].
    #[prost(enumeration = "Room", tag = "1")]
    pub room: i32,
    /// Where there is room, its number, which all that follows names.
    #[prost(fixed64, tag = "2")]
    pub staging: u64,
    /// How long clients' requests take at the receiver, in percent of what is tolerable; 0 = not known.
    #[prost(uint32, tag = "3")]
    pub pressure_percent: u32,
}

/// A page of a record.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagedPage {
    /// The number of its branch; 0 is the record itself.
    #[prost(uint64, tag = "1")]
    pub branch: u64,
    /// The lowest hash of its items.
    #[prost(fixed64, tag = "2")]
    pub first: u64,
    /// Size of the page in the payload; 0 where there is no such page any more.
    #[prost(uint32, tag = "3")]
    pub size_bytes: u32,
}

/// Brings pages, which the payload has one after another. With none of them it says that the sender goes on.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StagePages {
    /// The number that the receiver has given.
    #[prost(fixed64, tag = "1")]
    pub staging: u64,
    /// The pages.
    #[prost(message, repeated, tag = "2")]
    pub pages: Vec<StagedPage>,
    /// Whether the sender's transfers do the least that they may.
    #[prost(bool, tag = "3")]
    pub is_least: bool,
}

/// Result of staging pages.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PagesStaged {
    /// Whether the receiver knows nothing of such pages, or not any more: all has to be sent anew.
    #[prost(bool, tag = "1")]
    pub is_lost: bool,
    /// How long clients' requests take at the receiver, in percent of what is tolerable; 0 = not known.
    #[prost(uint32, tag = "2")]
    pub pressure_percent: u32,
}

/// All pages have come. The payload is the root that they belong to.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FinishStaging {
    /// The number that the receiver has given.
    #[prost(fixed64, tag = "1")]
    pub staging: u64,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// The record; its object is the root.
    #[prost(message, required, tag = "3")]
    pub record: DeliveredRecord,
}

/// Result of finishing the record.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagingFinished {
    /// [`Room::Known`]: the receiver has it on disk, merged with what was there. Else the pages are gone, and
    /// this is to be done.
    #[prost(enumeration = "Room", tag = "1")]
    pub room: i32,
}

/// No more pages come.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DropStaging {
    /// The number that the receiver has given.
    #[prost(fixed64, tag = "1")]
    pub staging: u64,
}

/// The receiver has taken note.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StagingDropped {}
