//! Opening: who the store is, and which engine each bucket has.

use super::assignments::Routing;
use super::engine::MultiEngine;
use super::file;
use super::routes::{NamedEngines, Routes};
use super::tickets::Tickets;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::identity::{self, StoreIdentity};
use crate::marker;
use crate::store_file::Meta;
use parking_lot::RwLock;
use quoit_model::hash::RingSize;
use quoit_model::store_opening::LastOpening;
use quoit_seam::Disk;
use std::sync::Arc;

/// The engine's name.
const NAME: &str = "multi";

/// An engine under a name.
pub struct NamedEngine {
    /// The name: what the property `backend` says.
    pub name: String,
    /// The engine, opened for the same ring.
    pub engine: Arc<dyn Engine>,
    /// Whether it has all that it had before: it was made before and closed in good order. Never true of an
    /// engine that keeps nothing.
    pub is_intact: bool,
}

/// Settings of several engines behind one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiSettings {
    /// Random bits: the id of a store that is made new.
    pub entropy: u64,
    /// Number of partitions that records may belong to.
    pub ring_size: RingSize,
    /// The last opening that the node knows of: what tells whose events they are went back in time otherwise.
    pub last_opening: Option<LastOpening>,
    /// Name of the engine of buckets that have no property `backend`.
    pub default: String,
}

/// Reports of opening several engines behind one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiReport {
    /// Whether the store was made new.
    pub created: bool,
    /// Whether it was closed in good order before, with all of its engines.
    pub clean: bool,
    /// Records in all engines, tombstones included.
    pub key_count: u64,
}

impl MultiEngine {
    /// Puts engines behind one. Their common directory has the file that says who the store is, and the one
    /// that says which engine each bucket has. Looks through the buckets whose assignment was changed since.
    ///
    /// # Errors
    ///
    /// When the directory is in use, has data of another engine or for another ring size, or the disk
    /// refuses.
    ///
    /// # Panics
    ///
    /// When no engine has the default's name.
    pub fn open(
        disk: Arc<dyn Disk>,
        engines: Vec<NamedEngine>,
        routing: Arc<dyn Routing>,
        settings: &MultiSettings,
    ) -> Result<(Self, MultiReport), StoreError> {
        let lock = disk.lock()?;
        if !marker::check(&*disk, NAME, settings.ring_size)? {
            marker::write(&*disk, NAME, settings.ring_size)?;
        }
        let identity::OpenedIdentity { mut meta, created, clean } =
            identity::open(&*disk, settings.entropy)?;
        let intact = engines.iter().all(|named| named.is_intact);
        let last = meta.meta().clone();
        let known = settings.last_opening.filter(|known| known.is_later_than(&last.opening()));
        let incarnation = match known {
            // Starts that the node knows nothing of may have had others: a random number lies in between.
            Some(known) => last.incarnation.max(known.incarnation) + 1 + (settings.entropy >> 32),
            // Events that an engine has forgotten may be known elsewhere: nothing may follow them.
            None => last.incarnation + u64::from(!created && clean && !intact),
        };
        let mark = last.mark.max(known.map_or(0, |known| known.mark)) + 1;
        meta.write(Meta { incarnation, mark, ..last })?;
        let (names, engines): (Vec<_>, Vec<_>) =
            engines.into_iter().map(|named| (named.name, named.engine)).unzip();
        let default = names.iter().position(|name| *name == settings.default);
        let default = default.expect("the default engine is one of those named");
        let key_count = engines.iter().map(|engine| engine.stats().key_count).sum();
        let named = NamedEngines { names, engines, default };
        let routes = match file::read(&*disk)? {
            Some(kept) => Routes::restored(kept, &named),
            None => Routes::unknown(&named),
        };
        let engine = Self {
            tickets: Tickets::new(named.engines.len()),
            named,
            routes: RwLock::new(routes),
            routing,
            identity: Arc::new(StoreIdentity::new(meta)),
            disk,
            _lock: lock,
        };
        engine.follow(&mut engine.routes.write())?;
        Ok((engine, MultiReport { created, clean: clean && intact, key_count }))
    }
}
