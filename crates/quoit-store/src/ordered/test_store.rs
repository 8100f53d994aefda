//! A store for tests of its parts.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::open::{EngineKind, StoreOpening};
use super::settings::OrderedSettings;
use super::store::StoreShared;
use super::tree::{ENGINE_FILE, TreeSettings, TreeStore};
use crate::engine::RecordAt;
use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{Disk, FaultyDisk, ManualClock};
use std::sync::Arc;

pub(super) const BUCKET: BucketRef<'static> = BucketRef::untyped(b"bucket");

/// A new `innostore` on a disk in memory.
pub(super) fn open() -> StoreShared {
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(7));
    let make = |_: &mut StoreOpening<'_>| -> Result<Box<dyn crate::ordered::OrderedStore>, _> {
        let settings =
            TreeSettings { cache_bytes: 1 << 20, disk_free_bytes_min: 0, ..Default::default() };
        Ok(Box::new(TreeStore::open(Arc::clone(&disk), ENGINE_FILE, settings)?))
    };
    let kind = EngineKind { name: "innostore", bodies_apart: false, open: &make };
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    StoreShared::open(&kind, &*disk, clock, OrderedSettings::new(7)).unwrap().0
}

/// Calls a function with the address of the record of a name.
pub(super) fn with<T>(name: &str, run: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let key = BUCKET.key(name.as_bytes());
    let encoded = key.encoded();
    let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
    let partition = RingSize::DEFAULT.partition(hash.placement);
    run(&RecordAt { key, encoded: &encoded, identity: hash.identity, partition })
}
