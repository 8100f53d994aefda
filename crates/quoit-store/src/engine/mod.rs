//! The contract of storage engines: access to single records ([`PointAccess`]), scans ([`ScanAccess`]) and
//! maintenance ([`Maintenance`]). An [`Engine`] implements all three.
//!
//! An engine keeps opaque values under record keys. It does not interpret them (clocks, siblings); the
//! caller passes the facts that an engine needs about a record in [`RecordMeta`].
//!
//! Engines are synchronous and are called on the thread that parsed the request. A call made with
//! [`IoMode::NoWait`] never waits for a disk read: it returns `WouldBlock`, and the caller repeats the call
//! with [`IoMode::Wait`] on a thread that is allowed to wait.

mod compared;
mod maintenance;
mod pages;
mod point;
mod scan;
mod transaction;
mod visit;

pub use crate::record::{Record, RecordAt, RecordMeta, RecordRef};
pub use compared::Compare;
pub use maintenance::{EngineStats, Maintenance, WriteFailure};
pub(crate) use pages::listing_place;
pub use pages::{DataLocation, IndexPage, KeyPage, KeyRange, RecordPage, Verified};
pub use point::{
    Applied, BeforeImage, ChangeFn, Decision, FRONT_BYTES, Fetch, InPlaceRead, IoMode, LargeChange,
    PointAccess, SizeBound, Ticket, joined_change,
};
pub use scan::ScanAccess;
pub(crate) use transaction::Interruption;
pub use transaction::{BatchWrite, Interrupted, Transaction, TransactionFn};
pub use visit::{RecordPlace, RecordVisitor, RecordWalk, VisitedRecord};
pub(crate) use visit::{visit_listed, visit_one};

/// A storage engine. The module's documentation says which calls may wait for the disk.
pub trait Engine: PointAccess + ScanAccess + Maintenance {}

impl<T: PointAccess + ScanAccess + Maintenance> Engine for T {}
