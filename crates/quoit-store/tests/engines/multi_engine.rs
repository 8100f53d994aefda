//! Several engines behind one pass the conformance tests, and each bucket stays where its records are.

#[allow(
    dead_code,
    reason = "pages of folds are put together by identities that names have by themselves"
)]
use crate::conformance;
use crate::conformance::{Identities, START_SECS, Subject, ring_size};
use parking_lot::Mutex;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule};
use quoit_model::key::BucketRef;
use quoit_seam::{Clock, Disk, FaultyDisk, ManualClock, ManualExecution, NextStep};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, SNAPSHOT_WORKER};
use quoit_store::compare::Digests;
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Engine, Fetch, IoMode, KeyRange, Maintenance,
    PointAccess, RecordAt, RecordMeta, RecordRef, ScanAccess, Ticket,
};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::multi::{Assignments, MultiEngine, MultiSettings, NamedEngine, Routing};
use quoit_store::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Assignments that a test can change.
#[derive(Default)]
struct Table(Mutex<(u64, Assignments)>);

impl Table {
    fn set(&self, assignments: Assignments) {
        let mut table = self.0.lock();
        *table = (table.0 + 1, assignments);
    }
}

impl Routing for Table {
    fn version(&self) -> u64 {
        self.0.lock().0
    }

    fn assignments(&self) -> Assignments {
        self.0.lock().1.clone()
    }
}

/// Parses assignments: `TYPE=ENGINE` for types, `TYPE/BUCKET=ENGINE` for buckets.
fn assigned(words: &[&str]) -> Assignments {
    let mut assignments = Assignments::default();
    for word in words {
        let (name, engine) = word.split_once('=').unwrap();
        match name.split_once('/') {
            None => {
                assignments.types.insert(name.into(), engine.into());
            }
            Some((bucket_type, bucket)) => {
                assignments.buckets.insert((bucket_type.into(), bucket.into()), engine.into());
            }
        }
    }
    assignments
}

struct Several {
    disks: [Arc<FaultyDisk>; 3],
    clock: Arc<ManualClock>,
    executions: [ManualExecution; 2],
    table: Arc<Table>,
    default: &'static str,
    /// Settings of an additional memory engine.
    memory: Option<MemorySettings>,
    engine: Option<MultiEngine>,
    /// Number of restarts.
    restarts: usize,
    /// Assignments that `maintain` sets in turn.
    turns: &'static [&'static [&'static str]],
    turn: usize,
}

impl Several {
    fn new(words: &[&str]) -> Self {
        let mut made = Self {
            disks: [1, 2, 3].map(|seed| Arc::new(FaultyDisk::new(seed))),
            clock: Arc::new(ManualClock::at(u64::from(START_SECS) * 1_000_000)),
            executions: Default::default(),
            table: Arc::default(),
            default: "log",
            memory: None,
            engine: None,
            restarts: 0,
            turns: &[],
            turn: 0,
        };
        made.table.set(assigned(words));
        made.open();
        made
    }

    fn with_memory(words: &[&str], settings: MemorySettings) -> Self {
        let mut made = Self::new(words);
        made.restart();
        made.memory = Some(settings);
        made.restart();
        made
    }

    fn turning(turns: &'static [&'static [&'static str]]) -> Self {
        Self { turns, ..Self::new(turns[0]) }
    }

    fn open(&mut self) {
        let [common, log, tree] = self.disks.clone();
        let settings = BitcaskSettings {
            ring_size: ring_size(),
            max_file_size_bytes: 2_000,
            ..BitcaskSettings::new(1)
        };
        let clock = || Arc::clone(&self.clock) as Arc<dyn Clock>;
        let (log, of_log) =
            BitcaskEngine::open(log, clock(), &self.executions[0], settings).unwrap();
        let settings = OrderedSettings { ring_size: ring_size(), ..OrderedSettings::new(2) };
        let of_tree = TreeSettings { cache_bytes: 1 << 20, ..Default::default() };
        let disk: Arc<dyn Disk> = tree;
        let opened =
            OrderedEngine::open_innostore(&disk, clock(), &self.executions[1], settings, of_tree);
        let (tree, of_tree) = opened.unwrap();
        let is_intact = !of_log.created && of_log.clean;
        let mut engines =
            vec![NamedEngine { name: "log".into(), engine: Arc::new(log), is_intact }];
        let is_intact = !of_tree.created && of_tree.clean;
        engines.push(NamedEngine { name: "tree".into(), engine: Arc::new(tree), is_intact });
        if let Some(settings) = self.memory {
            let engine = Arc::new(MemoryEngine::new(settings, ring_size(), clock()));
            engines.push(NamedEngine { name: "memory".into(), engine, is_intact: false });
        }
        let settings = MultiSettings {
            entropy: 7,
            ring_size: ring_size(),
            last_opening: None,
            default: self.default.into(),
        };
        let routing = Arc::clone(&self.table) as Arc<dyn Routing>;
        self.engine = Some(MultiEngine::open(common, engines, routing, &settings).unwrap().0);
    }

    fn multi(&self) -> &MultiEngine {
        self.engine.as_ref().unwrap()
    }

    fn put(&self, bucket: &str, key: &str, value: &[u8]) -> Ticket {
        let change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            out.extend_from_slice(value);
            Decision::Put(RecordMeta { digest: value.len() as u64, ..RecordMeta::default() })
        };
        self.update(bucket, key, change)
    }

    fn remove(&self, bucket: &str, key: &str) {
        self.update(bucket, key, |_, _| Decision::Remove);
    }

    fn update(
        &self,
        bucket: &str,
        key: &str,
        mut change: impl FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>) -> Decision,
    ) -> Ticket {
        with_record(bucket, key, |at| {
            match self.multi().update(at, BeforeImage::Skip, IoMode::Wait, &mut change).unwrap() {
                Applied::Written(ticket) => ticket,
                other => panic!("a write was {other:?}"),
            }
        })
    }

    fn has(&self, bucket: &str, key: &str) -> bool {
        let fetch = with_record(bucket, key, |at| self.multi().get(at, IoMode::Wait).unwrap());
        matches!(fetch, Fetch::Found(_))
    }

    fn engine_of(&self, bucket: &str) -> String {
        self.multi().engine_of(bucket_of(bucket)).to_owned()
    }

    fn key_counts(&self) -> Vec<u64> {
        self.multi().stats_by_name().iter().map(|(_, stats)| stats.key_count).collect()
    }
}

impl Subject for Several {
    fn engine(&self) -> &dyn Engine {
        self.multi()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn rebuild_indexes(&self) {
        while self.executions[0].step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
    }

    fn restart(&mut self) {
        let engine = self.engine.take().unwrap();
        if self.restarts.is_multiple_of(2) {
            engine.close().unwrap();
        } else {
            // Otherwise writes in memory would be lost with the process.
            engine.sync().unwrap();
        }
        drop(engine);
        self.restarts += 1;
        self.open();
    }

    fn maintain(&mut self) {
        self.executions.iter().for_each(step_all);
        if !self.turns.is_empty() {
            self.turn += 1;
            self.table.set(assigned(self.turns[self.turn % self.turns.len()]));
        }
    }

    fn changes_together(&self, one: BucketRef<'_>, other: BucketRef<'_>) -> bool {
        self.multi().engine_of(one) == self.multi().engine_of(other)
    }
}

fn step_all(execution: &ManualExecution) {
    for name in execution.names() {
        execution.step(name);
    }
}

/// Parses `TYPE/BUCKET`.
fn bucket_of(name: &str) -> BucketRef<'_> {
    let (bucket_type, bucket) = name.split_once('/').unwrap();
    BucketRef { bucket_type: bucket_type.as_bytes(), bucket: bucket.as_bytes() }
}

/// Calls `then` with a record in partition 3, as are all records of these tests.
fn with_record<T>(bucket: &str, key: &str, then: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let key = bucket_of(bucket).key(key.as_bytes());
    let mut encoded = Vec::new();
    key.encode_into(&mut encoded);
    let identity = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey).identity;
    then(&RecordAt { key, encoded: &encoded, identity, partition: Partition(3) })
}

#[test]
fn behave_like_the_model() {
    let make = || Several::new(&["maps=tree", "default/ab=tree", "maps/\u{ff}=log"]);
    conformance::behaves_like_the_model(60, Identities::Hashed, make);
}

#[test]
fn behave_like_the_model_while_buckets_are_assigned_to_other_engines() {
    // `default/a` always stays on `log`: the programs have pieces without a record there, so no record
    // keeps the bucket on its engine.
    let make = || {
        Several::turning(&[
            &["maps=tree"],
            &["default/ab=tree", "z=tree"],
            &["default=tree", "default/a=log", "default/ab=log", "z=nowhere"],
            &[],
        ])
    };
    conformance::behaves_like_the_model(100, Identities::Hashed, make);
}

#[test]
fn writes_of_index_entries_are_counted() {
    conformance::writes_of_entries_are_counted(&mut Several::new(&[]));
}

#[test]
fn concurrent_updates_are_not_lost() {
    conformance::concurrent_updates_are_not_lost(&Several::new(&[]));
}

#[test]
fn buckets_of_one_key_are_listed_beside_others() {
    conformance::buckets_of_one_key_are_listed_beside_others(&Several::new(&[]));
}

#[test]
fn folds_beside_writes_are_right() {
    conformance::folds_beside_writes_are_right(&mut Several::new(&[]));
}

#[test]
fn each_bucket_is_in_the_engine_that_it_is_assigned_to() {
    let mut several = Several::new(&["t=tree", "t/b=log"]);
    for bucket in ["t/a", "t/b", "default/a", "other/a"] {
        several.put(bucket, "key", b"value");
    }
    assert_eq!(several.key_counts(), [3, 1]);
    several.restart();
    assert_eq!(several.key_counts(), [3, 1]);
    assert!(["t/a", "t/b", "default/a", "other/a"].iter().all(|bucket| several.has(bucket, "key")));
}

#[test]
fn a_bucket_with_records_stays_where_it_is_until_it_is_empty() {
    let mut several = Several::new(&["t=tree"]);
    several.put("t/old", "one", b"value");
    several.table.set(assigned(&["t=log"]));
    several.put("t/new", "one", b"value");
    several.put("t/old", "two", b"value");
    assert_eq!([several.engine_of("t/old"), several.engine_of("t/new")], ["tree", "log"]);
    assert!(several.has("t/old", "one") && several.has("t/old", "two"));
    assert_eq!(several.key_counts(), [1, 2]);
    several.restart();
    assert_eq!(several.engine_of("t/old"), "tree");
    several.remove("t/old", "one");
    several.restart();
    assert_eq!(several.engine_of("t/old"), "tree");
    several.remove("t/old", "two");
    several.restart();
    assert_eq!(several.engine_of("t/old"), "log");
}

#[test]
fn pieces_are_where_their_record_is() {
    let several = Several::new(&["t/a=tree"]);
    several.put("t/a", "set", b"root");
    let record = with_record("t/a", "set", |at| at.encoded.to_vec());
    let piece = BucketRef::of_pieces(&record).key(b"page");
    let encoded = piece.encoded();
    let record = KeyHash::of(&record, bucket_of("t/a"), PlacementRule::BucketAndKey);
    let identity = KeyHash::of_piece(&encoded, record.placement).identity;
    let at = RecordAt { key: piece, encoded: &encoded, identity, partition: Partition(3) };
    let write = BatchWrite::Put { at, meta: RecordMeta::PIECE, value: b"elements" };
    several.multi().batch(&[write]).unwrap();
    assert_eq!(several.multi().engine_of(piece.bucket), "tree");
    several.table.set(Assignments::default());
    let found = several.multi().get(&at, IoMode::Wait).unwrap();
    assert!(matches!(found, Fetch::Found(_)) && several.has("t/a", "set"));
    let pages = several.multi().list_keys(KeyRange::Bucket(piece.bucket), None, 10).unwrap();
    assert_eq!(pages.entries.len(), 1);
}

#[test]
fn records_are_found_where_they_are_under_another_default_and_without_the_file_of_routes() {
    let mut several = Several::new(&["t=tree"]);
    for number in 0..20 {
        several.put(&format!("t/{number}"), "key", b"value");
        several.put(&format!("default/{number}"), "key", b"value");
    }
    let all = |several: &Several| {
        (0..20).all(|number| {
            several.has(&format!("t/{number}"), "key")
                && several.has(&format!("default/{number}"), "key")
        })
    };
    several.default = "tree";
    several.restart();
    assert!(all(&several));
    assert_eq!(several.engine_of("default/new"), "tree");
    several.table.set(assigned(&["t=log"]));
    several.disks[0].delete("ROUTES");
    several.restart();
    assert!(all(&several));
    several.disks[0].flip_bit("ROUTES", 9, 0);
    several.restart();
    assert!(all(&several));
    assert_eq!([several.engine_of("t/3"), several.engine_of("default/3")], ["tree", "log"]);
}

#[test]
fn a_name_that_the_node_does_not_have_is_the_default_engine_until_it_has_it() {
    let mut several = Several::new(&["t=memory"]);
    several.put("t/old", "key", b"value");
    assert_eq!(several.engine_of("t/old"), "log");
    several.memory = Some(MemorySettings::default());
    several.restart();
    assert_eq!([several.engine_of("t/old"), several.engine_of("t/new")], ["log", "memory"]);
    assert!(several.has("t/old", "key"));
}

#[test]
fn what_would_be_in_several_engines_at_once_is_refused_as_a_whole() {
    let several = Several::new(&["t=tree"]);
    let meta = RecordMeta::default();
    with_record("t/a", "key", |one| {
        with_record("default/a", "key", |other| {
            let (one, other) = (*one, *other);
            let writes = [one, other].map(|at| BatchWrite::Put { at, meta, value: b"value" });
            let error = several.multi().batch(&writes).unwrap_err();
            assert!(matches!(error, StoreError::SeveralEngines), "{error}");
            several.multi().batch(&writes[..1]).unwrap();
            let body: &mut quoit_store::engine::TransactionFn<'_> = &mut |transaction| {
                transaction.remove(&one)?;
                transaction.put(&other, meta, b"value")
            };
            let error = several.multi().transact(Partition(3), IoMode::Wait, body).unwrap_err();
            assert!(matches!(error, StoreError::SeveralEngines), "{error}");
        });
    });
    assert!(several.has("t/a", "key") && !several.has("default/a", "key"));
}

#[test]
fn a_write_waits_for_its_own_engine_alone() {
    let several = Several::new(&["t=tree"]);
    let in_tree = several.put("t/a", "key", b"value");
    let in_log = several.put("default/a", "key", b"value");
    let durable = |ticket| several.multi().poll_durable(ticket, Waker::noop());
    assert!(durable(in_log).is_pending() && durable(in_tree).is_pending());
    step_all(&several.executions[0]);
    assert!(matches!(durable(in_log), Poll::Ready(Ok(()))));
    let both = several.multi().joined(in_log, in_tree);
    assert!(durable(in_tree).is_pending() && durable(both).is_pending(), "the tree has not synced");
    step_all(&several.executions[1]);
    assert!(
        [in_tree, both].into_iter().all(|ticket| matches!(durable(ticket), Poll::Ready(Ok(()))))
    );
}

#[test]
fn an_engine_that_can_not_sync_fails_no_writes_of_others() {
    let several = Several::new(&["t=tree"]);
    several.multi().sync().unwrap();
    let tree = &several.disks[2];
    let used_bytes = tree.used_bytes();
    tree.set_faults(|faults| faults.capacity_bytes = Some(used_bytes));
    let in_tree = several.put("t/a", "key", &[7; 200_000]);
    let in_log = several.put("default/a", "key", b"value");
    assert!(several.multi().sync().is_err());
    let durable = |ticket| several.multi().poll_durable(ticket, Waker::noop());
    assert!(matches!(durable(in_log), Poll::Ready(Ok(()))));
    assert!(!matches!(durable(in_tree), Poll::Ready(Ok(()))));
    tree.set_faults(|faults| faults.capacity_bytes = None);
    several.multi().sync().unwrap();
    assert!(matches!(durable(in_tree), Poll::Ready(Ok(()))));
}

#[test]
fn tickets_that_nobody_asks_for_take_no_room_for_ever() {
    let several = Several::new(&["t=tree"]);
    let first = several.put("t/a", "key", b"value");
    let last = (0..3_000).map(|_| several.put("t/a", "key", b"value")).last().unwrap();
    assert!(several.multi().poll_durable(first, Waker::noop()).is_pending());
    several.multi().sync().unwrap();
    for ticket in [first, last] {
        let durable = several.multi().poll_durable(ticket, Waker::noop());
        assert!(matches!(durable, Poll::Ready(Ok(()))), "{durable:?}");
    }
}

#[test]
fn engines_that_drop_records_are_left_out_of_comparisons() {
    let bounded = MemorySettings { partition_bytes_max: Some(10_000), ttl_secs: None };
    let several = Several::with_memory(&["t=memory"], bounded);
    let digests = || several.multi().compared().unwrap().digests(Partition(3), 0).unwrap();
    several.put("t/a", "key", b"value");
    assert_eq!(digests(), Digests::default());
    several.put("default/a", "key", b"value");
    assert_ne!(digests(), Digests::default());
}

#[test]
fn an_engine_that_forgets_begins_a_new_incarnation_of_the_store() {
    let mut several = Several::new(&[]);
    assert_eq!(several.multi().identity().incarnation(), 1);
    several.restart();
    assert_eq!(several.multi().identity().incarnation(), 1, "closed in good order");
    several.restart();
    assert_eq!(several.multi().identity().incarnation(), 2, "not closed");
    several.memory = Some(MemorySettings::default());
    several.restart();
    assert_eq!(
        several.multi().identity().incarnation(),
        3,
        "closed, but with an engine that forgets"
    );
    assert_eq!(several.multi().identity().store_id().0, 7);
    several.multi().identity().reserve_counter(500).unwrap();
    several.multi().identity().note_exported(400).unwrap();
    several.restart();
    let multi = several.multi();
    assert_eq!(
        (multi.identity().reserved_counter(), multi.identity().exported_counter()),
        (500, 400)
    );
}

#[test]
fn all_engines_are_verified_and_damage_in_any_is_found() {
    let several = Several::new(&["t=tree"]);
    several.put("t/a", "key", b"value");
    several.put("default/a", "key", &[7; 3_000]);
    several.put("default/b", "key", &[7; 3_000]);
    several.multi().sync().unwrap();
    several.executions.iter().for_each(step_all);
    let (mut place, mut byte_count, mut rounds) = (None, 0, 0);
    loop {
        let verified = several.multi().verify(place, 100).unwrap();
        byte_count += verified.byte_count;
        assert!(verified.damaged.is_empty());
        rounds += 1;
        match verified.next {
            Some(next) => place = Some(next),
            None => break,
        }
    }
    assert!(byte_count > 3_000 && rounds > 2, "{byte_count} bytes in {rounds} rounds");
}

#[test]
fn closing_closes_all_and_what_comes_later_fails() {
    let several = Several::new(&["t=tree"]);
    several.multi().close().unwrap();
    for bucket in ["t/a", "default/a"] {
        let error = with_record(bucket, "key", |at| several.multi().head(at).unwrap_err());
        assert!(matches!(error, StoreError::Closed), "{error}");
    }
    assert!(matches!(several.multi().close(), Err(StoreError::Closed)));
    assert!(matches!(several.multi().identity().reserve_counter(1), Err(StoreError::Closed)));
    let fold = several.multi().fold(Partition(3), Identity(0), 10, false);
    assert!(matches!(fold, Err(StoreError::Closed)));
    assert!(several.multi().list_keys(KeyRange::All, None, 10).is_err());
}
