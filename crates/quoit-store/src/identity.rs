//! Identity of a store, which lasts over restarts: whose events its records are of, and which counters of
//! events it has promised never to give out again.
//!
//! The file `STORE` keeps it. Every engine that keeps records on a disk has one, whatever its records lie in.

use crate::error::StoreError;
use crate::file_names::META_NAME;
use crate::store_file::{Meta, MetaFile};
use parking_lot::{Mutex, MutexGuard};
use quoit_model::clock::Actor;
use quoit_model::store_opening::LastOpening;
use quoit_seam::Disk;
use std::sync::atomic::{AtomicBool, Ordering};

/// Identity of an open store. Changes are durable when a call returns; after the engine was closed they fail.
pub struct StoreIdentity {
    file: Mutex<MetaFile>,
    is_closed: ClosedFlag,
}

/// On a cache line of its own: each request reads it, and each sync of the log locks the file beside it.
#[repr(align(64))]
struct ClosedFlag(AtomicBool);

impl StoreIdentity {
    pub(crate) fn new(file: MetaFile) -> Self {
        Self { file: Mutex::new(file), is_closed: ClosedFlag(AtomicBool::new(false)) }
    }

    /// The actor of events in one incarnation of a store: 8 bytes. Incarnations of a store never share one,
    /// and different stores only by a chance of 2^-64.
    #[must_use]
    pub fn actor_of(store_id: u64, incarnation: u64) -> Actor {
        // An odd factor spreads the incarnations of a store over all values without a collision.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let id = store_id.wrapping_add(incarnation.wrapping_mul(SPREAD));
        Actor(id.to_be_bytes()[..].into())
    }

    /// The actor of the store's events from now on.
    #[must_use]
    pub fn actor(&self) -> Actor {
        let file = self.file();
        Self::actor_of(file.meta().store_id, file.meta().incarnation)
    }

    /// Random id that the store got when it was made.
    #[must_use]
    pub fn store_id(&self) -> u64 {
        self.file().meta().store_id
    }

    /// 1 when the store was made, one more after each stop that was not in good order, and when records
    /// turned out to be lost after one that was.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.file().meta().incarnation
    }

    /// This opening of the store. A node that keeps it elsewhere, durably, can tell the next opening whether
    /// the store went back in time.
    #[must_use]
    pub fn opening(&self) -> LastOpening {
        self.file().meta().opening()
    }

    /// How often the store was opened and closed.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.file().meta().mark
    }

    /// Counters up to this one may have been given out: those above have not.
    #[must_use]
    pub fn reserved_counter(&self) -> u64 {
        self.file().meta().reserved_counter
    }

    /// Reserves counters up to `counter` before any of them is given out. Costs a write and a sync, unless
    /// they are reserved already.
    ///
    /// # Errors
    ///
    /// When the disk refuses: nothing is reserved then.
    pub fn reserve_counter(&self, counter: u64) -> Result<(), StoreError> {
        self.open_file()?.reserve_counter(counter)
    }

    /// Counters up to this one may have been in copies that were given away.
    #[must_use]
    pub fn given_away_counter(&self) -> u64 {
        self.file().meta().given_away_counter
    }

    /// Notes that copies with counters up to `counter` may be given away, before they are. Costs a write and
    /// a sync, unless it is noted already.
    ///
    /// # Errors
    ///
    /// When the disk refuses: nothing may be given away then.
    pub fn note_given_away(&self, counter: u64) -> Result<(), StoreError> {
        self.open_file()?.note_given_away(counter)
    }

    /// Notes that the node has made up for lost records ([`OpenedStore::loss`](crate::OpenedStore::loss)).
    ///
    /// # Errors
    ///
    /// When the disk refuses: the next start reports the loss again.
    pub fn settle_loss(&self) -> Result<(), StoreError> {
        self.open_file()?.settle_loss()
    }

    /// The file, for what engines keep in it beside the identity.
    pub(crate) fn file(&self) -> MutexGuard<'_, MetaFile> {
        self.file.lock()
    }

    /// Lets changes fail from now on, and tells whether they did not before.
    pub(crate) fn begin_close(&self) -> bool {
        !self.is_closed.0.swap(true, Ordering::AcqRel)
    }

    /// # Errors
    ///
    /// When the store was closed.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.0.load(Ordering::Relaxed) { Err(StoreError::Closed) } else { Ok(()) }
    }

    fn open_file(&self) -> Result<MutexGuard<'_, MetaFile>, StoreError> {
        self.check_open()?;
        Ok(self.file())
    }
}

/// The opened file that says who a store is.
pub(crate) struct OpenedIdentity {
    pub(crate) meta: MetaFile,
    /// Whether the store was made new.
    pub(crate) created: bool,
    /// Whether it was closed in good order (also true of a new one).
    pub(crate) clean: bool,
}

/// Reads or makes the file that says who the store is, and begins a new incarnation unless the last one ended
/// in good order: events of it may have been lost.
pub(crate) fn open(disk: &dyn Disk, entropy: u64) -> Result<OpenedIdentity, StoreError> {
    let names = disk.list()?;
    if let Some(mut meta) = MetaFile::open(disk, &names)? {
        let last = meta.meta().clone();
        let clean = last.clean;
        let incarnation = last.incarnation + u64::from(!clean);
        meta.write(Meta { clean: false, incarnation, ..last })?;
        return Ok(OpenedIdentity { meta, created: false, clean });
    }
    let exists = names.iter().any(|name| name == META_NAME);
    if exists {
        // Damaged: who the store was is lost, so it becomes another one, which no event belongs to.
        MetaFile::check_overwritable(disk)?;
        tracing::warn!(path = disk.path(), "the file {META_NAME} is damaged and is made again");
    }
    let made = Meta { store_id: entropy, incarnation: 1, ..Meta::default() };
    let meta = MetaFile::create(disk, exists, made)?;
    Ok(OpenedIdentity { meta, created: !exists, clean: !exists })
}
