//! Damaged records that share the tag of another one.

use crate::support::{Faulty, Name};
use quoit_model::hash::Identity;
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Fetch, IoMode, Maintenance, PointAccess, RecordAt,
    RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;

const SEGMENT_BYTES: u64 = 2_000;

/// Offset in a record of a byte of its sequence, and of a byte of its name.
const SEQUENCE_AT: usize = 10;
const NAME_AT: usize = 60;

/// Two records in one partition whose identities have the same tag; a byte of the first one is damaged.
fn with_a_damaged_record_that_shares_its_tag(
    damaged_at: usize,
    run: impl FnOnce(&mut Faulty, RecordAt<'_>, RecordAt<'_>),
) {
    let (name, other) = (Name::new("damaged"), Name::new("other"));
    let at = name.at();
    let identity = Identity(at.identity.0 ^ 1);
    let other = RecordAt { identity, partition: at.partition, ..other.at() };
    let mut store = Faulty::new(SEGMENT_BYTES);
    write(&store, &at, Decision::Put(RecordMeta::default()));
    write(&store, &other, Decision::Put(RecordMeta::default()));
    store.close();
    let segment = store.segments().remove(0);
    store.disk.flip_bit(&segment, 64 + damaged_at, 1);
    store.open().unwrap();
    assert!(matches!(store.engine().get(&at, IoMode::Wait), Err(StoreError::Corrupt { .. })));
    run(&mut store, at, other);
}

/// Changes a record without reading it. Its new value is the encoded name.
fn write(store: &Faulty, at: &RecordAt<'_>, decision: Decision) -> Applied {
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(if decision == Decision::Remove { &[] } else { at.encoded });
        decision
    };
    store.engine().update(at, BeforeImage::Skip, IoMode::Wait, change).unwrap()
}

/// True if the record has its value; false if it is missing.
fn is_there(store: &Faulty, at: &RecordAt<'_>) -> bool {
    match store.engine().get(at, IoMode::Wait).unwrap() {
        Fetch::Found(record) => record.value == at.encoded,
        Fetch::Missing => false,
        Fetch::WouldBlock => panic!("waited"),
    }
}

#[test]
fn a_damaged_record_that_shares_its_tag_can_be_removed() {
    with_a_damaged_record_that_shares_its_tag(NAME_AT, |store, at, other| {
        assert!(matches!(write(store, &at, Decision::Remove), Applied::Written(_)));
        for _ in 0..2 {
            assert_eq!([is_there(store, &at), is_there(store, &other)], [false, true]);
            assert_eq!(store.engine().stats().key_count, 1);
            store.kill();
            store.open().unwrap();
        }
    });
}

#[test]
fn a_write_replaces_a_damaged_record_that_shares_its_tag() {
    with_a_damaged_record_that_shares_its_tag(NAME_AT, |store, at, other| {
        write(store, &at, Decision::Put(RecordMeta::default()));
        for _ in 0..2 {
            assert_eq!([is_there(store, &at), is_there(store, &other)], [true, true]);
            assert_eq!(store.engine().stats().key_count, 2);
            store.kill();
            store.open().unwrap();
        }
    });
}

#[test]
fn a_batch_of_records_that_share_a_damaged_ones_tag_stores_each() {
    with_a_damaged_record_that_shares_its_tag(SEQUENCE_AT, |store, at, other| {
        let name = Name::new("third");
        let identity = Identity(at.identity.0 ^ 2);
        let third = RecordAt { identity, partition: at.partition, ..name.at() };
        let writes = [at, third].map(|at| {
            let meta = RecordMeta::default();
            BatchWrite::Put { at, meta, value: at.encoded }
        });
        store.engine().batch(&writes).unwrap();
        for _ in 0..2 {
            assert_eq!([&at, &other, &third].map(|at| is_there(store, at)), [true; 3]);
            assert_eq!(store.engine().stats().key_count, 3);
            store.kill();
            store.open().unwrap();
        }
    });
}
