//! Secondary indexes of the Bitcask engine under faults: their file is lost or damaged, or the log is
//! damaged as well.

use crate::support::indexes::{check_indexes, indexed, query_all, try_put_indexed};
use crate::support::{Faulty, Name, get, keys, put, remove, value};
use quoit_seam::NextStep;
use quoit_store::bitcask::SNAPSHOT_WORKER;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, Maintenance, PointAccess, RecordMeta, RecordRef,
    Transaction,
};
use quoit_store::error::StoreError;

#[test]
fn without_index_entries_there_is_no_file_of_them() {
    let mut store = Faulty::new(2_000);
    for number in 0..20 {
        put(store.engine(), &format!("key{number}"), &[7; 100]);
    }
    store.close();
    assert!(!store.names().contains(&"SECONDARY".to_owned()), "{:?}", store.names());
    store.open().unwrap();
    assert_eq!(query_all(store.engine()).unwrap(), []);
    store.close();
    assert!(!store.names().contains(&"SECONDARY".to_owned()), "{:?}", store.names());
}

/// Damage that is done to the file of secondary indexes while the store is closed.
type IndexDamage = fn(&Faulty);

#[test]
fn lost_and_damaged_indexes_are_rebuilt_and_never_incomplete() {
    let harms: [IndexDamage; 4] = [
        |store| store.disk.delete("SECONDARY"),
        |store| store.disk.put("SECONDARY", vec![0x5a; 9_000]),
        |store| store.disk.put("SECONDARY", Vec::new()),
        |store| {
            let half = store.disk.bytes("SECONDARY").unwrap();
            store.disk.put("SECONDARY", half[..half.len() / 2].to_vec());
        },
    ];
    for (number, harm) in harms.into_iter().enumerate() {
        let mut store = Faulty::new(4_000);
        for record in 0..60 {
            try_put_indexed(store.engine(), &format!("key{}", record % 40), record).unwrap();
        }
        check_indexes(store.engine());
        store.close();
        store.open().unwrap();
        check_indexes(store.engine());
        store.close();
        harm(&store);
        store.open().unwrap();
        // Entries that are written meanwhile aren't lost either.
        try_put_indexed(store.engine(), "young", 1_000).unwrap();
        let unavailable = query_all(store.engine());
        assert!(
            matches!(unavailable, Err(StoreError::IndexesUnavailable { .. })),
            "harm {number}: {unavailable:?}"
        );
        while store.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
        assert_eq!(query_all(store.engine()).unwrap().len(), 82);
        check_indexes(store.engine());
        store.kill();
        store.open().unwrap();
        while store.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
        check_indexes(store.engine());
    }
}

/// Regression test: a worker that its own failure wakes would retry at once, for ever.
#[test]
fn damaged_indexes_on_a_full_disk_are_tried_after_a_pause_and_rebuilt_when_there_is_room() {
    let mut store = Faulty::new(4_000);
    for record in 0..40 {
        try_put_indexed(store.engine(), &format!("key{record}"), record).unwrap();
    }
    store.close();
    store.disk.put("SECONDARY", vec![0x5a; 9_000]);
    store.open().unwrap();
    // Less capacity than a new file takes, even when the old file's space is reused.
    let capacity_bytes = store.disk.used_bytes() - 8_000;
    store.disk.set_faults(|faults| faults.capacity_bytes = Some(capacity_bytes));
    for _ in 0..3 {
        let next = store.execution.step(SNAPSHOT_WORKER);
        assert!(matches!(next, Some(NextStep::AfterUs(_))), "{next:?}");
        assert!(!store.execution.woken().contains(&SNAPSHOT_WORKER));
    }
    store.disk.set_faults(|faults| faults.capacity_bytes = None);
    while store.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again)
        || store.execution.woken().contains(&SNAPSHOT_WORKER)
    {}
    check_indexes(store.engine());
}

#[test]
fn entries_of_versions_that_damage_brings_back_are_found() {
    let mut store = Faulty::new(1 << 20);
    store.close();
    // Entries are moved to their file at once, together with the removals of the previous versions'
    // entries.
    store.settings.entry_buffer_bytes = 1;
    store.open().unwrap();
    (0..20).for_each(|record| {
        try_put_indexed(store.engine(), &format!("key{record}"), record).unwrap();
    });
    store.close();
    store.open().unwrap();
    for record in 0..20 {
        try_put_indexed(store.engine(), &format!("key{record}"), 100 + record).unwrap();
    }
    check_indexes(store.engine());
    store.kill();
    // Damage in the middle of the later versions, and at their end, where it looks like a torn write.
    let [_, later] = &store.segments()[..] else { panic!("a segment for each time") };
    let size = store.disk.bytes(later).unwrap().len();
    [1_000, size - 20].into_iter().for_each(|at| store.disk.flip_bit(later, at, 1));
    store.open().unwrap();
    while store.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
    let has_earlier = keys(store.engine()).iter().any(|key| {
        let number = key.trim_start_matches("key").parse().unwrap();
        value(store.engine(), key).unwrap() == indexed(number).0
    });
    assert!(has_earlier, "the damage brought no version back");
    check_indexes(store.engine());
}

#[test]
fn queries_fail_while_a_damaged_record_has_unknown_index_entries() {
    let mut store = Faulty::new(2_000);
    (0..60).for_each(|record| {
        try_put_indexed(store.engine(), &format!("key{record}"), record).unwrap();
    });
    store.close();
    store.disk.delete("SECONDARY");
    let segment = store.segments().remove(0);
    let bytes = store.disk.bytes(&segment).unwrap();
    // In the value of a record whose name is still readable.
    store.disk.flip_bit(&segment, bytes.len() / 2, 1);
    store.open().unwrap();
    while store.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
    let query = |store: &Faulty| query_all(store.engine());
    assert!(matches!(query(&store), Err(StoreError::IndexesUnavailable { .. })));
    let found = store.engine().take_found_damage();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(store.engine().take_found_damage(), []);
    let damaged = |key: &String| get(store.engine(), key).is_err();
    let name = keys(store.engine()).into_iter().find(damaged).unwrap();
    // The damaged record is replaced without reading it, as in a repair from another replica.
    remove(store.engine(), &name);
    query(&store).unwrap();
    check_indexes(store.engine());
}

#[test]
fn a_write_that_may_not_wait_moves_no_entries() {
    let mut store = Faulty::new(1 << 20);
    store.close();
    store.settings.entry_buffer_bytes = 1;
    store.open().unwrap();
    let engine = store.engine();
    try_put_indexed(engine, "indexed", 1).unwrap();
    let name = Name::new("key");
    let update = |access| {
        let change =
            &mut |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Put(RecordMeta::default());
        engine.update(&name.at(), BeforeImage::Skip, access, change).unwrap()
    };
    let transact = |access| {
        let body =
            &mut |open: &mut dyn Transaction| open.put(&name.at(), RecordMeta::default(), b"value");
        engine.transact(name.at().partition, access, body).unwrap()
    };
    let sync_count = || engine.stats().sync_count;
    let before = sync_count();
    assert_eq!(update(IoMode::NoWait), Applied::WouldBlock);
    assert_eq!(transact(IoMode::NoWait), Applied::WouldBlock);
    assert_eq!(sync_count(), before);
    assert!(matches!(update(IoMode::Wait), Applied::Written(_)));
    assert!(sync_count() > before);
    assert!(matches!(update(IoMode::NoWait), Applied::Written(_)));
    assert!(matches!(transact(IoMode::NoWait), Applied::Written(_)));
}

#[test]
fn entries_that_are_left_behind_are_not_found_and_go() {
    let mut store = Faulty::new(1 << 20);
    for record in 0..30 {
        try_put_indexed(store.engine(), &format!("key{record}"), record).unwrap();
    }
    let skipping = |key: &str| {
        let replace = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            out.extend_from_slice(b"plain");
            Decision::Put(RecordMeta::default())
        };
        let name = Name::new(key);
        store.engine().update(&name.at(), BeforeImage::Skip, IoMode::Wait, replace).unwrap();
    };
    (0..10).for_each(|record| skipping(&format!("key{record}")));
    store.engine().drop_partition(Name::new("key20").at().partition).unwrap();
    let found = query_all(store.engine()).unwrap();
    assert!(found.len() <= 38, "{found:?}");
    check_indexes(store.engine());
    store.close();
    store.open().unwrap();
    check_indexes(store.engine());
}
