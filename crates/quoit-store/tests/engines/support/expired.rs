//! Tombstones that engines keep of expired objects.

use super::{Name, keys, try_put};
use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::Identity;
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::object::{Metadata, Object};
use quoit_seam::{Clock, ManualClock};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, Fetch, IoMode, Record, RecordMeta, RecordRef,
};

const LIFE_SECS: u32 = 100;

fn written(stored: Option<&Object>, counter: u64, expires_at_secs: Option<u32>) -> Object {
    let new = NewValue {
        meta: Metadata { expires_at_secs, ..Metadata::default() },
        // Long enough to be compressed, and longer than the front of a value.
        value: Bytes::from(vec![b'v'; 5_000]),
        last_modified_us: counter,
        ..NewValue::default()
    };
    let dot = Dot { actor: Actor(b"actor"[..].into()), counter, time_secs: 0 };
    let context = stored.map_or_else(VersionVector::default, |object| object.clock.clone());
    Object::write(stored, &context, new, dot, WritePolicy::Siblings)
}

fn store(engine: &dyn Engine, key: &str, object: &Object) {
    let mut value = Vec::new();
    object.encode_into(&mut value);
    try_put(engine, key, &value, RecordMeta::of(object, 3)).unwrap();
}

/// Stores an object that has replaced an older one and expires.
pub fn put_expiring_overwrite(engine: &dyn Engine, key: &str, expires_at_secs: u32) {
    let old = written(None, 1, None);
    store(engine, key, &written(Some(&old), 2, Some(expires_at_secs)));
}

/// Reads the record in every way, and checks that all results are the same.
fn shown(engine: &dyn Engine, key: &str) -> Option<Record> {
    let name = Name::new(key);
    let at = name.at();
    let found = match engine.get(&at, IoMode::Wait).unwrap() {
        Fetch::Found(record) => Some(record),
        Fetch::Missing => None,
        Fetch::WouldBlock => panic!("waited"),
    };
    assert_eq!(engine.head(&at).unwrap(), found.as_ref().map(|record| record.meta));
    for before in [BeforeImage::Front, BeforeImage::Read] {
        let mut seen = None;
        let change = &mut |stored: Option<&RecordRef<'_>>, _: &mut Vec<u8>| {
            seen = stored.map(RecordRef::to_record);
            Decision::Keep
        };
        assert_eq!(engine.update(&at, before, IoMode::Wait, change).unwrap(), Applied::Kept);
        assert_eq!(seen, found, "{before:?}");
    }
    let mut seen = None;
    let body = &mut |transaction: &mut dyn quoit_store::engine::Transaction| {
        seen = transaction.get(&at)?;
        Ok(())
    };
    assert_eq!(engine.transact(at.partition, IoMode::Wait, body).unwrap(), Applied::Kept);
    assert_eq!(seen, found);
    let page = engine.fold(at.partition, Identity(0), 100, false).unwrap();
    let folded = page.entries.into_iter().find(|(encoded, _)| **encoded == *at.encoded);
    assert_eq!(folded.map(|(_, record)| record), found);
    found
}

/// Stores two objects that expire, one of which has replaced an older object. Checks what is left of them
/// after expiry, before and after the engine reclaims their space.
pub fn an_expired_overwrite_leaves_a_tombstone(
    engine: &dyn Engine,
    clock: &ManualClock,
    take_back_room: impl FnOnce(),
) {
    let expires = Some(clock.unix_secs() as u32 + LIFE_SECS);
    let old = written(None, 1, None);
    let overwrite = written(Some(&old), 2, expires);
    let fresh = written(None, 3, expires);
    store(engine, "overwrite", &overwrite);
    store(engine, "fresh", &fresh);
    assert_eq!(keys(engine), ["fresh", "overwrite"]);
    clock.advance_us(u64::from(LIFE_SECS) * 1_000_000);
    let tombstone = overwrite.after_expiry().unwrap();
    let check = || {
        assert_eq!(shown(engine, "fresh"), None);
        let record = shown(engine, "overwrite").unwrap();
        assert_eq!(record.meta, RecordMeta::of(&tombstone, 3));
        assert_eq!(Object::decode(&record.value).unwrap(), tombstone);
    };
    // Before and after an update has read it.
    let found = engine.get(&Name::new("overwrite").at(), IoMode::Wait).unwrap();
    assert!(matches!(found, Fetch::Found(record) if record.meta == RecordMeta::of(&tombstone, 3)));
    assert_eq!(engine.head(&Name::new("fresh").at()).unwrap(), None);
    check();
    assert_eq!(engine.stats().tombstone_count, 1, "a change has met it");
    take_back_room();
    check();
    assert_eq!(keys(engine), ["overwrite"]);
    let stats = engine.stats();
    assert_eq!((stats.key_count, stats.tombstone_count), (1, 1));
    assert!(tombstone.merge(&old).is_tombstone(), "an old copy stays deleted");
}
