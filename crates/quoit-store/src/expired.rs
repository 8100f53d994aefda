//! Tombstones that replace expired records.

use crate::engine::{Record, RecordMeta};
use crate::frame;
use quoit_model::object::Object;
use quoit_planted::planted;
use std::borrow::Cow;

/// The tombstone that replaces an expired record, if its value is an object that has superseded older
/// versions ([`Object::after_expiry`]); `None` if the record just disappears.
///
/// Engines return the tombstone instead of the record in reads of single records, in folds and to change
/// functions. They store it instead of the record when they reclaim the record's space, or after
/// [`PointAccess::update`](crate::engine::PointAccess::update) has shown it.
#[must_use]
pub fn after_expiry(record: &Record) -> Option<Record> {
    if planted!(ForgetsExpired) {
        return None;
    }
    let object = match frame::unpack(&record.value).ok()? {
        Cow::Borrowed(_) => Object::decode(&record.value),
        Cow::Owned(unpacked) => Object::decode(&unpacked.into()),
    };
    let tombstone = object.ok()?.after_expiry()?;
    let mut value = Vec::new();
    tombstone.encode_into(&mut value);
    let meta = RecordMeta::of(&tombstone, record.meta.n_val_class);
    Some(Record { meta, value: value.into() })
}
