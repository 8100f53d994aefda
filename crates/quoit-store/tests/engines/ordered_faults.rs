//! The engines on ordered stores under failures of the disk, the process and the operator.

use crate::support::indexes::{check_indexes, indexed, query_all, try_put_indexed};
use crate::support::ordered::open_ordered;
use crate::support::{Name, check_sums, get, keys, put, remove, try_put, value};
use quoit_model::hash::RingSize;
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution, RealDisk};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Engine, Fetch, IoMode, Maintenance, PointAccess,
    RecordMeta, RecordRef, Ticket,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use quoit_store::ordered::{
    LsmSettings, OrderedEngine, OrderedReport, OrderedSettings, TreeSettings, WRITE_WORKER,
};
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};

const TREE: &str = "tree.redb";

/// An `innostore` on a faulty disk.
struct Tree {
    disk: FaultyDisk,
    clock: Arc<ManualClock>,
    execution: ManualExecution,
    engine: Option<OrderedEngine>,
}

impl Tree {
    fn new() -> Self {
        let mut made = Self {
            disk: FaultyDisk::new(1),
            clock: Arc::new(ManualClock::at(1_700_000_000_000_000)),
            execution: ManualExecution::default(),
            engine: None,
        };
        made.open().unwrap();
        made
    }

    fn open(&mut self) -> Result<OrderedReport, StoreError> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock = Arc::clone(&self.clock);
        // Without a record cache, reads come from the file.
        let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
        // Disables the early warning of a full disk.
        let of_tree =
            TreeSettings { cache_bytes: 1 << 20, disk_free_bytes_min: 0, has_replicas: true };
        let (engine, report) =
            OrderedEngine::open_innostore(&disk, clock, &self.execution, settings, of_tree)?;
        self.engine = Some(engine);
        Ok(report)
    }

    fn engine(&self) -> &OrderedEngine {
        self.engine.as_ref().unwrap()
    }

    fn crash(&mut self) -> OrderedReport {
        self.engine = None;
        self.disk = self.disk.crash();
        self.open().unwrap()
    }
}

fn is_durable(engine: &dyn Engine, ticket: Ticket) -> bool {
    matches!(engine.poll_durable(ticket, Waker::noop()), Poll::Ready(Ok(())))
}

#[test]
fn what_was_durable_survives_crashes_and_the_sums_are_right() {
    let mut tree = Tree::new();
    for round in 0..40_u32 {
        let engine = tree.engine();
        let mut durable = Vec::new();
        for number in 0..12 {
            let key = format!("key{}", (round * 5 + number) % 30);
            let text = format!("{round}/{number}");
            let ticket = put(engine, &key, text.as_bytes());
            durable.push((key, text, ticket));
            let number_of_all = u64::from(round * 12 + number);
            let key = format!("indexed{}", number_of_all % 30);
            try_put_indexed(engine, &key, number_of_all).unwrap();
            if number == round % 12 {
                tree.execution.step(WRITE_WORKER);
            }
        }
        remove(engine, &format!("key{}", (round * 5 + 11) % 30));
        let survivors: Vec<_> =
            durable.into_iter().filter(|(.., ticket)| is_durable(engine, *ticket)).collect();
        assert!(!survivors.is_empty());
        let report = tree.crash();
        assert!(!report.clean && report.incarnation == u64::from(round) + 2);
        for (key, text, _) in survivors {
            assert_eq!(value(tree.engine(), &key), Some(text.into_bytes()), "{key}");
        }
        assert!(!query_all(tree.engine()).unwrap().is_empty());
        check_indexes(tree.engine());
        check_sums(tree.engine());
    }
}

#[test]
fn a_batch_is_whole_or_absent_after_a_crash() {
    let mut tree = Tree::new();
    for round in 0..30_u8 {
        let names: Vec<Name> = (0..6).map(|number| Name::new(&format!("part{number}"))).collect();
        let body = [round; 3_000];
        let writes: Vec<BatchWrite<'_>> = names
            .iter()
            .map(|name| {
                let meta = RecordMeta { digest: u64::from(round), ..RecordMeta::default() };
                BatchWrite::Put { at: name.at(), meta, value: &body }
            })
            .collect();
        tree.engine().batch(&writes).unwrap();
        if round % 3 == 0 {
            tree.disk.set_faults(|faults| faults.failing_syncs = 1);
        }
        tree.execution.step(WRITE_WORKER);
        tree.crash();
        let found: Vec<_> =
            (0..6).map(|number| value(tree.engine(), &format!("part{number}"))).collect();
        assert!(found.iter().all(|each| *each == found[0]), "parts of a batch");
        check_sums(tree.engine());
    }
}

#[test]
fn a_read_that_fails_fails_no_other_read_and_no_write() {
    let mut tree = Tree::new();
    let body = vec![7; 100_000];
    let names: Vec<String> = (0..40).map(|number| format!("key{number}")).collect();
    for name in &names {
        put(tree.engine(), name, &body);
    }
    // Drops everything from memory.
    tree.engine().close().unwrap();
    tree.engine = None;
    tree.open().unwrap();
    let engine = tree.engine();
    let read = |name: &str| engine.get(&Name::new(name).at(), IoMode::Wait);
    let fail = |count| tree.disk.set_faults(|faults| faults.failing_reads = count);
    let mut failed_count = 0;
    for (number, name) in names.iter().enumerate() {
        fail(1);
        match read(name) {
            Err(StoreError::Io { action: "read", reason, .. })
                if reason == "input/output error" =>
            {
                failed_count += 1;
            }
            // The writes have read it into memory.
            Ok(Fetch::Found(_)) => fail(0),
            other => panic!("{name}: {other:?}"),
        }
        assert!(matches!(read(name), Ok(Fetch::Found(record)) if record.value == body), "{name}");
        let ticket = put(engine, &format!("new{number}"), b"v");
        tree.execution.step(WRITE_WORKER);
        assert!(is_durable(engine, ticket), "{name}");
    }
    assert!(failed_count > 10, "{failed_count}");
    check_sums(engine);
}

#[test]
fn a_full_disk_refuses_writes_and_goes_on_when_there_is_room() {
    let tree = Tree::new();
    let engine = tree.engine();
    put(engine, "small", b"before");
    engine.sync().unwrap();
    let used = tree.disk.bytes(TREE).unwrap().len() as u64;
    tree.disk.set_faults(|faults| faults.capacity_bytes = Some(used + 40_000));
    let ticket = put(engine, "large", &vec![1; 3_000_000]);
    tree.execution.step(WRITE_WORKER);
    let failed = engine.poll_durable(ticket, Waker::noop());
    assert!(matches!(failed, Poll::Ready(Err(StoreError::DiskFull { .. }))), "{failed:?}");
    assert!(engine.stats().disk_full);
    let refused = try_put(engine, "other", b"x", RecordMeta::default());
    assert!(matches!(refused, Err(StoreError::DiskFull { .. })), "{refused:?}");
    assert_eq!(value(engine, "large").map(|value| value.len()), Some(3_000_000));
    // Failed retries don't change what can be read.
    for _ in 0..3 {
        assert_eq!(value(engine, "small").as_deref(), Some(&b"before"[..]));
        assert_eq!(keys(engine), ["large", "small"]);
        tree.execution.step(WRITE_WORKER);
    }
    tree.disk.set_faults(|faults| faults.capacity_bytes = None);
    tree.execution.step(WRITE_WORKER);
    assert!(is_durable(engine, ticket) && !engine.stats().disk_full);
    put(engine, "other", b"x");
    assert_eq!(value(engine, "small").as_deref(), Some(&b"before"[..]));
    check_sums(engine);
}

#[test]
fn damaged_bytes_are_never_shown_and_are_found_by_verification() {
    let mut tree = Tree::new();
    let body = vec![0xab; 20_000];
    put(tree.engine(), "damaged", &body);
    put(tree.engine(), "whole", b"value");
    tree.engine().close().unwrap();
    tree.engine = None;
    let mut bytes = tree.disk.bytes(TREE).unwrap();
    let at = bytes.windows(1_000).position(|window| window == &body[..1_000]).unwrap();
    bytes[at + 5_000] ^= 1;
    tree.disk.put(TREE, bytes);
    tree.open().unwrap();
    let engine = tree.engine();
    assert!(matches!(get(engine, "damaged"), Err(StoreError::Corrupt { .. })));
    assert_eq!(value(engine, "whole").as_deref(), Some(&b"value"[..]));
    let verified = engine.verify(None, u64::MAX).unwrap();
    let name = Name::new("damaged");
    assert_eq!(verified.damaged, [(name.at().partition, Tag::of(name.at().identity))]);
    assert_eq!(verified.next, None);
    assert!(engine.stats().corrupt_record_count > 0);
    // A replacement doesn't have to read the damaged record.
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(b"healed");
        Decision::Put(RecordMeta::default())
    };
    let applied = engine.update(&name.at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    assert!(matches!(applied, Applied::Written(_)));
    assert_eq!(value(engine, "damaged").as_deref(), Some(&b"healed"[..]));
    check_sums(engine);
}

#[test]
fn verification_gets_past_records_whose_removal_waits() {
    let tree = Tree::new();
    let engine = tree.engine();
    // All in one partition, so that a step of verification meets only pending removals.
    let names: Vec<String> = (0..10_000).map(|number| format!("key{number}")).collect();
    let first = Name::new(&names[0]).at().partition;
    let own: Vec<&String> =
        names.iter().filter(|name| Name::new(name).at().partition == first).collect();
    assert!(own.len() > 100);
    for name in &own {
        put(engine, name, b"value");
    }
    put(engine, "last", b"value");
    engine.sync().unwrap();
    own.iter().for_each(|name| remove(engine, name));
    let verified = engine.verify(None, u64::MAX).unwrap();
    assert_eq!((verified.damaged, verified.next), (vec![], None));
    assert!(verified.byte_count > 0);
}

#[test]
fn entries_of_a_damaged_record_go_with_it() {
    let mut tree = Tree::new();
    try_put_indexed(tree.engine(), "damaged", 4).unwrap();
    try_put_indexed(tree.engine(), "whole", 9).unwrap();
    tree.engine().close().unwrap();
    tree.engine = None;
    let mut bytes = tree.disk.bytes(TREE).unwrap();
    // All copies of the value in the file.
    let places: Vec<usize> =
        (0..bytes.len() - 1_000).filter(|at| bytes[*at..*at + 1_000] == [4; 1_000]).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[at + 100] = 5);
    tree.disk.put(TREE, bytes);
    tree.open().unwrap();
    let engine = tree.engine();
    assert!(matches!(get(engine, "damaged"), Err(StoreError::Corrupt { .. })));
    assert_eq!(query_all(engine).unwrap().len(), 4);
    let replace = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(b"healed");
        Decision::Put(RecordMeta::default())
    };
    let at = Name::new("damaged");
    let applied = engine.update(&at.at(), BeforeImage::Skip, IoMode::Wait, replace).unwrap();
    assert!(matches!(applied, Applied::Written(_)));
    assert_eq!(query_all(engine).unwrap().len(), 2);
    // The other record was in the same page: its entries are found, but it can't be read.
    engine.sync().unwrap();
    assert_eq!(query_all(engine).unwrap().len(), 2);
    assert!(matches!(get(engine, "whole"), Err(StoreError::Corrupt { .. })));
    let (value, meta) = indexed(9);
    let replace = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(&value);
        Decision::Put(meta)
    };
    engine.update(&Name::new("whole").at(), BeforeImage::Skip, IoMode::Wait, replace).unwrap();
    check_indexes(engine);
}

fn open_named(name: &str, path: &Path, ring_size: RingSize) -> Result<(), StoreError> {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let execution = ManualExecution::default();
    let settings = OrderedSettings { ring_size, ..OrderedSettings::new(7) };
    if name == "bitcask" {
        let disk = Arc::new(RealDisk::open(path)?);
        let settings = BitcaskSettings { ring_size, ..BitcaskSettings::new(7) };
        return BitcaskEngine::open(disk, clock, &execution, settings).map(drop);
    }
    open_ordered(name, path, clock, &execution, settings, LsmSettings::default()).map(drop)
}

#[test]
fn no_engine_opens_the_directory_of_another() {
    let names = ["bitcask", "leveldb", "leveled", "innostore"];
    for owner in names {
        let directory = tempfile::tempdir().unwrap();
        open_named(owner, directory.path(), RingSize::DEFAULT).unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        assert_eq!(quoit_store::engine_of(&disk).unwrap().as_deref(), Some(owner));
        for other in names.into_iter().filter(|other| *other != owner) {
            let error = open_named(other, directory.path(), RingSize::DEFAULT).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, StoreError::OtherEngine { .. }), "{text}");
            assert!(text.contains(&format!("storage_backend = {owner}")), "{text}");
        }
        open_named(owner, directory.path(), RingSize::DEFAULT).unwrap();
    }
}

#[test]
fn a_directory_keeps_its_number_of_partitions() {
    let directory = tempfile::tempdir().unwrap();
    open_named("leveled", directory.path(), RingSize::DEFAULT).unwrap();
    let error = open_named("leveled", directory.path(), RingSize::new(128).unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::OtherRing { stored: 64, wanted: 128, .. }), "{error}");
}

#[test]
fn an_engine_in_use_is_not_opened_again() {
    let mut tree = Tree::new();
    let held = tree.engine.take();
    assert!(matches!(tree.open(), Err(StoreError::Locked { .. })));
    drop(held);
    tree.open().unwrap();
}

#[test]
fn what_was_closed_is_clean_and_keeps_its_counters() {
    let mut tree = Tree::new();
    put(tree.engine(), "key", b"value");
    tree.engine().identity().reserve_counter(500).unwrap();
    tree.engine().identity().note_exported(400).unwrap();
    tree.engine().close().unwrap();
    assert!(matches!(
        tree.engine().get(&Name::new("key").at(), IoMode::Wait),
        Err(StoreError::Closed)
    ));
    tree.engine = None;
    let report = tree.open().unwrap();
    assert!(report.clean && !report.created);
    assert_eq!((report.incarnation, report.key_count, report.store_id.0), (1, 1, 7));
    assert_eq!(tree.engine().identity().reserved_counter(), 500);
    assert_eq!(tree.engine().identity().exported_counter(), 400);
    assert_eq!(keys(tree.engine()), ["key"]);
}

#[test]
fn a_read_that_may_not_wait_says_so_unless_the_record_is_in_memory() {
    let tree = Tree::new();
    put(tree.engine(), "key", b"value");
    let get = |access| tree.engine().get(&Name::new("key").at(), access).unwrap();
    assert!(matches!(get(IoMode::NoWait), Fetch::Found(_)));
    tree.engine().sync().unwrap();
    assert_eq!(get(IoMode::NoWait), Fetch::WouldBlock);
    assert!(matches!(get(IoMode::Wait), Fetch::Found(_)));
}
