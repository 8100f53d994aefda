//! Opening: the store's identity, and the engine of each bucket.

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

/// Name of this engine.
const NAME: &str = "multi";

/// An engine with its name.
pub struct NamedEngine {
    /// The name by which the property `backend` refers to it.
    pub name: String,
    /// The engine, opened for the same ring.
    pub engine: Arc<dyn Engine>,
    /// True if the engine has all of its earlier records: it existed before and its last stop was clean.
    /// Never true for an engine without files.
    pub is_intact: bool,
}

/// Settings of several engines behind one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiSettings {
    /// Random bits: the id of a store that is created.
    pub entropy: u64,
    /// Number of partitions that records may belong to.
    pub ring_size: RingSize,
    /// The last opening of the store that the node has noted. A store whose file `STORE` is older was
    /// rolled back.
    pub last_opening: Option<LastOpening>,
    /// Name of the engine of buckets without the property `backend`.
    pub default: String,
}

/// Result of opening several engines behind one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MultiReport {
    /// True if the store was created by this opening.
    pub created: bool,
    /// True if the last stop was clean and all engines are intact.
    pub clean: bool,
    /// Records in all engines, tombstones included.
    pub key_count: u64,
}

impl MultiEngine {
    /// Combines engines to one. Their common directory has the files `STORE` and `ROUTES`. Scans the
    /// buckets whose assignment has changed since the last start.
    ///
    /// # Errors
    ///
    /// If the directory is in use, has data of another engine or for another ring size, or the disk fails.
    ///
    /// # Panics
    ///
    /// If no engine has the name of the default engine.
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
            // Starts that the node does not know of may have used higher incarnations, so the number skips
            // a random distance.
            Some(known) => last.incarnation.max(known.incarnation) + 1 + (settings.entropy >> 32),
            // Other nodes may know events that an engine has lost, so this incarnation must not make
            // further events.
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
