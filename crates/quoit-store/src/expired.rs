//! The tombstones that stay of records that have expired.

use crate::engine::{Record, RecordMeta};
use crate::frame;
use quoit_model::object::Object;
use quoit_planted::planted;
use std::borrow::Cow;

/// The tombstone that stays of a record that has expired, where the value is an object that has replaced
/// older ones ([`Object::after_expiry`]). Engines show it in the record's place where a single record is
/// looked at, in folds and to changes, and store it instead of the record when they take back its room or
/// [`PointAccess::update`](crate::engine::PointAccess::update) has shown it. `None` where nothing stays.
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
