//! Identity of a store, which survives restarts: the actor of the events that its records contain, and the
//! counters of events that may have been used and must not be used again.
//!
//! The file `STORE` keeps it. Every engine with records on disk has that file, whatever the format of its
//! records.

use crate::error::StoreError;
use crate::file_names::META_NAME;
use crate::store_file::{Meta, MetaFile};
use parking_lot::{Mutex, MutexGuard};
use quoit_model::clock::Actor;
use quoit_model::store_opening::{LastOpening, StoreId};
use quoit_seam::Disk;
use std::sync::atomic::{AtomicBool, Ordering};

/// Identity of an open store. A change is durable when the call returns. Changes fail after the engine was
/// closed.
pub struct StoreIdentity {
    file: Mutex<MetaFile>,
    is_closed: ClosedFlag,
}

/// On a cache line of its own: each request reads the flag, and each sync of the log takes the lock of the
/// file beside it.
#[repr(align(64))]
struct ClosedFlag(AtomicBool);

impl StoreIdentity {
    pub(crate) fn new(file: MetaFile) -> Self {
        Self { file: Mutex::new(file), is_closed: ClosedFlag(AtomicBool::new(false)) }
    }

    /// The actor of the events in one incarnation of a store: 8 bytes. Two incarnations of one store never
    /// share an actor; two different stores do with a chance of 2^-64.
    #[must_use]
    pub fn actor_of(store_id: StoreId, incarnation: u64) -> Actor {
        // An odd factor spreads the incarnations of a store over all values without a collision.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let id = store_id.0.wrapping_add(incarnation.wrapping_mul(SPREAD));
        Actor(id.to_be_bytes()[..].into())
    }

    /// The actor of the events that the store makes from now on.
    #[must_use]
    pub fn actor(&self) -> Actor {
        let file = self.file();
        Self::actor_of(file.meta().store_id, file.meta().incarnation)
    }

    /// Random id that the store got when it was created.
    #[must_use]
    pub fn store_id(&self) -> StoreId {
        self.file().meta().store_id
    }

    /// Number of the incarnation: 1 when the store was created, incremented after each unclean stop, and
    /// when records turn out to be lost after a clean stop.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.file().meta().incarnation
    }

    /// Number and identity of this opening. If the node keeps it durably in another place, the next opening
    /// can detect that the store was rolled back.
    #[must_use]
    pub fn opening(&self) -> LastOpening {
        self.file().meta().opening()
    }

    /// Number of times that the store was opened or closed.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.file().meta().mark
    }

    /// The highest counter that may have been used for an event. Higher counters were not used.
    #[must_use]
    pub fn reserved_counter(&self) -> u64 {
        self.file().meta().reserved_counter
    }

    /// Reserves counters up to `counter`; the caller does so before it uses any of them. Costs a write and
    /// a sync, unless they are reserved already.
    ///
    /// # Errors
    ///
    /// If the write or sync fails. Nothing is reserved then.
    pub fn reserve_counter(&self, counter: u64) -> Result<(), StoreError> {
        self.open_file()?.reserve_counter(counter)
    }

    /// The highest counter that may be in copies which were given away.
    #[must_use]
    pub fn exported_counter(&self) -> u64 {
        self.file().meta().exported_counter
    }

    /// Notes that copies with counters up to `counter` may be given away; the caller does so before it
    /// gives them away. Costs a write and a sync, unless it is noted already.
    ///
    /// # Errors
    ///
    /// If the write or sync fails. The caller must not give anything away then.
    pub fn note_exported(&self, counter: u64) -> Result<(), StoreError> {
        self.open_file()?.note_exported(counter)
    }

    /// Notes that the node has repaired the loss of records
    /// ([`OpenedStore::loss`](crate::OpenedStore::loss)).
    ///
    /// # Errors
    ///
    /// If the write or sync fails. The next start reports the loss again then.
    pub fn mark_loss_repaired(&self) -> Result<(), StoreError> {
        self.open_file()?.mark_loss_repaired()
    }

    /// The file `STORE`, in which engines also keep facts of their own.
    pub(crate) fn file(&self) -> MutexGuard<'_, MetaFile> {
        self.file.lock()
    }

    /// Makes changes fail from now on. True for the first call.
    pub(crate) fn begin_close(&self) -> bool {
        !self.is_closed.0.swap(true, Ordering::AcqRel)
    }

    /// # Errors
    ///
    /// [`StoreError::Closed`] after the store was closed.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.0.load(Ordering::Relaxed) { Err(StoreError::Closed) } else { Ok(()) }
    }

    fn open_file(&self) -> Result<MutexGuard<'_, MetaFile>, StoreError> {
        self.check_open()?;
        Ok(self.file())
    }
}

/// The opened file `STORE`.
pub(crate) struct OpenedIdentity {
    pub(crate) meta: MetaFile,
    /// True if the store was created by this opening.
    pub(crate) created: bool,
    /// True if the last stop was clean, and for a new store.
    pub(crate) clean: bool,
}

/// Reads or creates the file `STORE`. Begins a new incarnation if the last stop was not clean, because
/// events of the last incarnation may have been lost.
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
        // The file is damaged and the store's identity is lost. The store gets a new identity, which no
        // event has used.
        MetaFile::check_overwritable(disk)?;
        tracing::warn!(path = disk.path(), "the file {META_NAME} is damaged and is made again");
    }
    let made = Meta { store_id: StoreId(entropy), incarnation: 1, ..Meta::default() };
    let meta = MetaFile::create(disk, exists, made)?;
    Ok(OpenedIdentity { meta, created: !exists, clean: !exists })
}
