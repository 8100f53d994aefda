//! An engine on a faulty disk, with a random workload and restarts at bad moments.

use super::model::{End, Model, ModelState, meta_of};
use crate::bitcask::{BitcaskEngine, BitcaskSettings, OpenReport, SNAPSHOT_WORKER};
use crate::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Fetch, IoMode, KeyRange, LargeChange, Maintenance,
    PointAccess, RecordAt, RecordRef, ScanAccess, Ticket, TransactionFn,
};
use crate::error::StoreError;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, EncodedKey, KeyRef};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution, NextStep, Random};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Number of keys of a run.
const KEYS: u8 = 40;

const PARTITIONS: u16 = 8;

/// Parameters of a run.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) rounds: u64,
    pub(super) operations_max: u64,
    /// True to inject failing writes and syncs, and to fill the disk.
    pub(super) faults: bool,
    pub(super) settings: BitcaskSettings,
    pub(super) forget_syncs: bool,
    /// True if some values have index entries. Each run sets it at random.
    pub(super) indexes: bool,
}

/// The engine under test on its faulty disk. Restarts the engine and runs its background work.
pub(super) struct World {
    disk: FaultyDisk,
    execution: ManualExecution,
    hands: Workload,
    incarnation: u64,
    /// True after a failed sync: writes in memory may never reach the disk.
    sync_failed: bool,
}

/// Sends requests to the engine and checks the answers against the model. Lent to the hook that runs during
/// background work, so that requests also arrive in the middle of it.
struct Workload {
    random: Random,
    plan: Plan,
    clock: Arc<ManualClock>,
    engine: Option<Arc<BitcaskEngine>>,
    model: Model,
    operation: u64,
    last_ticket: u64,
    /// True if requests may fail.
    may_fail: bool,
}

struct WorldName {
    key: [u8; 2],
    encoded: EncodedKey,
    identity: Identity,
    partition: Partition,
}

impl WorldName {
    fn new(key: u8) -> Self {
        let bytes = [b'k', key];
        let encoded = key_ref(&bytes).encoded();
        let hash = KeyHash::of(&encoded, key_ref(&bytes).bucket, PlacementRule::BucketAndKey);
        // Two of each eight keys have the same identity.
        let identity = if key % 8 < 2 { Identity(u64::from(key / 8)) } else { hash.identity };
        let partition = Partition(u16::from(key / 8) % PARTITIONS);
        Self { key: bytes, encoded, identity, partition }
    }

    fn at(&self) -> RecordAt<'_> {
        RecordAt {
            key: key_ref(&self.key),
            encoded: &self.encoded,
            identity: self.identity,
            partition: self.partition,
        }
    }
}

fn key_ref(key: &[u8]) -> KeyRef<'_> {
    let bucket: &[u8] = if key[1].is_multiple_of(3) { b"one" } else { b"another" };
    BucketRef::untyped(bucket).key(key)
}

impl World {
    /// Runs one seed to its end.
    pub(super) fn run(seed: u64, plan: &Plan) -> Result<(), String> {
        let mut random = Random(seed ^ 0x5eed);
        let mut plan = plan.clone();
        // Half of the seeds keep some bytes of the disk free, the others use all of it. Some runs merge
        // early, others leave much garbage.
        plan.settings.reserved_disk_bytes = seed % 2 * 2_000;
        let merge = &mut plan.settings.merge;
        merge.frag_threshold_percent = [25, 50, 80][random.below(3) as usize];
        merge.frag_merge_trigger_percent = merge.frag_threshold_percent + 15;
        plan.indexes = random.below(2) == 0;
        let rounds = plan.rounds;
        let hands = Workload {
            random,
            plan,
            clock: Arc::new(ManualClock::at(1_700_000_000_000_000)),
            engine: None,
            model: Model::default(),
            operation: 0,
            last_ticket: 0,
            may_fail: false,
        };
        let mut world = Self {
            disk: FaultyDisk::new(seed),
            execution: ManualExecution::default(),
            hands,
            incarnation: 0,
            sync_failed: false,
        };
        world.open(true)?;
        for _ in 0..rounds {
            world.round()?;
        }
        Ok(())
    }

    fn open(&mut self, clean: bool) -> Result<(), String> {
        let plan = &self.hands.plan;
        if plan.forget_syncs {
            self.disk.set_faults(|faults| faults.forgets_syncs = true);
        }
        let settings = BitcaskSettings {
            ring_size: RingSize::new(PARTITIONS).expect("8 is a ring size"),
            ..plan.settings.clone()
        };
        let disk = Arc::new(self.disk.clone());
        let clock = Arc::clone(&self.hands.clock);
        let opened = BitcaskEngine::open(disk, clock, &self.execution, settings);
        let (engine, report) = opened.map_err(|error| format!("does not open: {error}"))?;
        self.check_report(clean, &report)?;
        self.hands.engine = Some(Arc::new(engine));
        self.sync_failed = false;
        Ok(())
    }

    fn check_report(&mut self, clean: bool, report: &OpenReport) -> Result<(), String> {
        if clean && !report.clean {
            return Err(format!("closed in good order, but {report:?}"));
        }
        if !clean && report.incarnation <= self.incarnation {
            return Err(format!("incarnation {} came again", report.incarnation));
        }
        if let Some(loss) = &report.loss {
            return Err(format!("nothing durable is gone, but {loss:?}"));
        }
        if !report.foreign_files.is_empty() || report.meta_rebuilt {
            return Err(format!("only our own files are there, but {report:?}"));
        }
        self.incarnation = report.incarnation;
        Ok(())
    }

    fn round(&mut self) -> Result<(), String> {
        let one_in = self.hands.random.below(4);
        self.disk.set_faults(|faults| faults.would_block_one_in = one_in);
        let dies = self.hands.random.below(2) == 0;
        if dies {
            let left = self.hands.random.below(400);
            self.disk.set_faults(|faults| faults.operations_left = Some(left));
        }
        self.hands.may_fail = dies || self.hands.plan.faults;
        for _ in 0..self.hands.random.below(self.hands.plan.operations_max) {
            if self.hands.plan.faults && self.hands.random.below(20) == 0 {
                self.inject_fault();
            }
            if self.hands.random.below(4) == 0 {
                self.background()?;
            } else {
                self.hands.step()?;
            }
        }
        self.restart(dies)
    }

    fn inject_fault(&mut self) {
        let random = &mut self.hands.random;
        let (kind, count) = (random.below(4), random.below(3) + 1);
        let capacity = 10_000 + random.below(100_000);
        self.sync_failed |= kind == 1;
        self.disk.set_faults(|faults| match kind {
            0 => faults.failing_writes = count,
            1 => faults.failing_syncs = 1,
            2 => faults.capacity_bytes = Some(capacity),
            _ => faults.capacity_bytes = None,
        });
    }

    fn lend(&mut self) -> Workload {
        let nobody = Workload {
            random: Random(0),
            plan: self.hands.plan.clone(),
            clock: Arc::clone(&self.hands.clock),
            engine: None,
            model: Model::default(),
            operation: 0,
            last_ticket: 0,
            may_fail: false,
        };
        std::mem::replace(&mut self.hands, nobody)
    }

    /// Lets a random worker do one step, with requests in the middle of it.
    fn background(&mut self) -> Result<(), String> {
        let names = self.execution.names();
        let name = names[self.hands.random.below(names.len() as u64) as usize];
        let lent = Arc::new(Mutex::new((Some(self.lend()), Ok(()))));
        let borrower = Arc::clone(&lent);
        self.execution.set_pause_hook(Some(Box::new(move |_| {
            let mut borrowed = borrower.lock();
            let (Some(hands), result) = &mut *borrowed else {
                return;
            };
            for _ in 0..hands.random.below(3) {
                *result = std::mem::replace(result, Ok(())).and_then(|()| hands.step());
            }
        })));
        self.execution.step(name);
        self.execution.set_pause_hook(None);
        let (hands, result) = std::mem::replace(&mut *lent.lock(), (None, Ok(())));
        self.hands = hands.expect("they were lent");
        result?;
        self.hands.note_durable();
        Ok(())
    }
}

impl Workload {
    fn engine(&self) -> &BitcaskEngine {
        self.engine.as_ref().expect("the engine runs between restarts")
    }

    fn step(&mut self) -> Result<(), String> {
        self.operation += 1;
        let key = self.random.below(u64::from(KEYS)) as u8;
        match self.random.below(32) {
            0..=14 => self.put(key),
            15..=18 => self.remove(key),
            19..=20 => self.batch(),
            21 => self.transact(),
            22..=25 => self.read(key),
            26 => self.list(),
            27 => self.drop_partition(key),
            28 => {
                if self.engine().sync().is_ok() {
                    self.model.note_durable(self.last_ticket);
                }
                Ok(())
            }
            29..=30 => self.query(false),
            _ => {
                self.clock.advance_us(self.random.below(2_000_000));
                Ok(())
            }
        }
    }

    fn note_durable(&mut self) {
        let durable = self.engine().poll_durable(Ticket(self.last_ticket), Waker::noop());
        if matches!(durable, Poll::Ready(Ok(()))) {
            self.model.note_durable(self.last_ticket);
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let size = match self.random.below(10) {
            0 => self.random.below(4_000),
            1 => 0,
            _ => self.random.below(200),
        };
        if self.plan.indexes && self.random.below(3) == 0 {
            return super::indexes::indexed_value(&mut self.random, self.operation, size);
        }
        let mut value = self.operation.to_be_bytes().to_vec();
        let mut filler = Random(self.operation);
        value.extend((0..size).map(|_| filler.number() as u8));
        value
    }

    fn put(&mut self, key: u8) -> Result<(), String> {
        let value = self.value();
        let before = [BeforeImage::Read, BeforeImage::Skip][self.random.below(2) as usize];
        let expected = self.model.now(key);
        let mut seen = None;
        // Every fourth operation hands over the end of its value in a buffer of its own, as large values do.
        let shared_bytes = if self.operation.is_multiple_of(4) { value.len() * 2 / 3 } else { 0 };
        let (front, rest) = value.split_at(value.len() - shared_bytes);
        let applied = match shared_bytes {
            0 => self.update(key, before, &mut |stored, out| {
                seen = Some(stored.map(|record| record.value.to_vec()));
                out.extend_from_slice(&value);
                Decision::Put(meta_of(&value))
            }),
            _ => self.update_large(key, before, &mut |stored, out, shared| {
                seen = Some(stored.map(|record| record.value.to_vec()));
                out.extend_from_slice(front);
                *shared = Bytes::copy_from_slice(rest);
                Decision::Put(meta_of(&value))
            }),
        };
        if before == BeforeImage::Read && seen.as_ref().is_some_and(|seen| *seen != expected) {
            return Err(format!("key {key}: an update saw {seen:?} instead of {expected:?}"));
        }
        self.note(&[(key, Some(value))], applied)
    }

    fn remove(&mut self, key: u8) -> Result<(), String> {
        let applied = self.update(key, BeforeImage::Read, &mut |_, _| Decision::Remove);
        if matches!(applied, Ok(Applied::Kept)) {
            let expected = self.model.now(key);
            return match expected {
                None => Ok(()),
                Some(_) => Err(format!("key {key} is there, but a removal left it alone")),
            };
        }
        self.note(&[(key, None)], applied)
    }

    fn update(
        &self,
        key: u8,
        before: BeforeImage,
        change: &mut dyn FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>) -> Decision,
    ) -> Result<Applied, StoreError> {
        let name = WorldName::new(key);
        match self.engine().update(&name.at(), before, IoMode::NoWait, change)? {
            Applied::WouldBlock => self.engine().update(&name.at(), before, IoMode::Wait, change),
            applied => Ok(applied),
        }
    }

    fn update_large(
        &self,
        key: u8,
        before: BeforeImage,
        change: &mut LargeChange<'_>,
    ) -> Result<Applied, StoreError> {
        let name = WorldName::new(key);
        match self.engine().update_large(&name.at(), before, IoMode::NoWait, change)? {
            Applied::WouldBlock => {
                self.engine().update_large(&name.at(), before, IoMode::Wait, change)
            }
            applied => Ok(applied),
        }
    }

    fn batch(&mut self) -> Result<(), String> {
        let count = self.random.below(5) + 2;
        let mut writes: BTreeMap<u8, ModelState> = BTreeMap::new();
        for _ in 0..count {
            let key = self.random.below(u64::from(KEYS)) as u8;
            let removes = self.random.below(4) == 0;
            writes.insert(key, if removes { None } else { Some(self.value()) });
        }
        let names: Vec<WorldName> = writes.keys().map(|key| WorldName::new(*key)).collect();
        let batch: Vec<BatchWrite<'_>> = names
            .iter()
            .zip(writes.values())
            .map(|(name, state)| match state {
                Some(value) => BatchWrite::Put { at: name.at(), meta: meta_of(value), value },
                None => BatchWrite::Remove { at: name.at() },
            })
            .collect();
        let applied = self.engine().batch(&batch).map(Applied::Written);
        let writes: Vec<_> = writes.into_iter().collect();
        self.note(&writes, applied)
    }

    /// Writes the keys of a partition in one transaction; removes every third one.
    fn transact(&mut self) -> Result<(), String> {
        let key = self.random.below(u64::from(KEYS)) as u8;
        let partition = WorldName::new(key).partition;
        let keys = (0..KEYS).filter(|key| WorldName::new(*key).partition == partition);
        let removed = self.random.below(3) as usize;
        let mut writes: Vec<(u8, ModelState)> = Vec::new();
        for (number, key) in keys.enumerate() {
            writes.push((key, (number % 3 != removed).then(|| self.value())));
        }
        let mut unexpected = None;
        let body: &mut TransactionFn<'_> = &mut |transaction| {
            for (key, state) in &writes {
                let name = WorldName::new(*key);
                let found = transaction.get(&name.at())?.map(|record| record.value.to_vec());
                if found != self.model.now(*key) {
                    unexpected = Some(format!("key {key}: a transaction saw {found:?}"));
                }
                match state {
                    Some(value) => transaction.put(&name.at(), meta_of(value), value)?,
                    None => transaction.remove(&name.at())?,
                }
            }
            Ok(())
        };
        let mut applied = self.engine().transact(partition, IoMode::NoWait, body);
        if matches!(applied, Ok(Applied::WouldBlock)) {
            applied = self.engine().transact(partition, IoMode::Wait, body);
        }
        match unexpected {
            Some(unexpected) => Err(unexpected),
            None => self.note(&writes, applied),
        }
    }

    fn drop_partition(&mut self, key: u8) -> Result<(), String> {
        let partition = WorldName::new(key).partition;
        let keys = (0..KEYS).filter(|key| WorldName::new(*key).partition == partition);
        let writes: Vec<_> = keys.map(|key| (key, None)).collect();
        let applied = self.engine().drop_partition(partition).map(Applied::Written);
        self.note(&writes, applied)
    }

    /// Records writes of one operation in the model.
    fn note(
        &mut self,
        writes: &[(u8, ModelState)],
        applied: Result<Applied, StoreError>,
    ) -> Result<(), String> {
        let ticket = match applied {
            Ok(Applied::Written(ticket)) if ticket.0 > self.last_ticket => Some(ticket.0),
            Ok(other) => return Err(format!("{other:?} after ticket {}", self.last_ticket)),
            Err(_) => None,
        };
        self.last_ticket = ticket.unwrap_or(self.last_ticket);
        for (key, state) in writes {
            self.model.write(*key, self.operation, state.clone(), ticket);
        }
        Ok(())
    }

    fn read(&self, key: u8) -> Result<(), String> {
        match self.get(key) {
            Ok(found) if found == self.model.now(key) => Ok(()),
            Ok(found) => {
                Err(format!("key {key} reads {found:?} instead of {:?}", self.model.now(key)))
            }
            Err(_) if self.may_fail => Ok(()),
            Err(error) => Err(format!("key {key} can't be read: {error}")),
        }
    }

    fn get(&self, key: u8) -> Result<ModelState, StoreError> {
        let name = WorldName::new(key);
        let mut fetch = self.engine().get(&name.at(), IoMode::NoWait)?;
        if fetch == Fetch::WouldBlock {
            fetch = self.engine().get(&name.at(), IoMode::Wait)?;
        }
        match fetch {
            Fetch::Found(record) => {
                assert_eq!(record.meta, meta_of(&record.value), "meta of key {key}");
                Ok(Some(record.value.to_vec()))
            }
            Fetch::Missing => Ok(None),
            Fetch::WouldBlock => panic!("waited"),
        }
    }

    /// Queries the indexes of all buckets. Unless `has_to_be_complete`, the indexes may be unavailable.
    fn query(&self, has_to_be_complete: bool) -> Result<(), String> {
        for bucket in [b"one".as_slice(), b"another"] {
            let bucket = BucketRef::untyped(bucket);
            let names = self.model.keys_now().into_iter().map(|key| (key, WorldName::new(key)));
            let records: Vec<_> = names
                .filter(|(_, name)| key_ref(&name.key).bucket == bucket)
                .filter_map(|(key, name)| Some((name.key.to_vec(), self.model.now(key)?)))
                .collect();
            match super::indexes::check(self.engine(), bucket, &records) {
                Ok(checked) => checked?,
                Err(StoreError::IndexesUnavailable { .. }) if !has_to_be_complete => {}
                Err(_) if self.may_fail => {}
                Err(error) => return Err(format!("can't be queried: {error}")),
            }
        }
        Ok(())
    }

    fn list(&self) -> Result<(), String> {
        let mut expected = self.model.keys_now();
        expected.sort_by(|one, other| {
            let (one, other) = (WorldName::new(*one), WorldName::new(*other));
            key_ref(&one.key).cmp(&key_ref(&other.key))
        });
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = match self.engine().list_keys(KeyRange::All, after.as_deref(), 5) {
                Ok(page) => page,
                Err(_) if self.may_fail => return Ok(()),
                Err(error) => return Err(format!("can't be listed: {error}")),
            };
            listed.extend(page.entries.iter().map(|(key, _)| key[key.len() - 1]));
            match page.next {
                Some(next) => after = Some(next),
                None if listed == expected => return Ok(()),
                None => return Err(format!("listed {listed:?} instead of {expected:?}")),
            }
        }
    }
}

/// Restarts.
impl World {
    fn restart(&mut self, died: bool) -> Result<(), String> {
        let way = self.hands.random.below(5);
        let mut clean = false;
        if way == 0 && !died {
            clean = self.hands.engine().close().is_ok();
            if clean {
                self.hands.model.note_durable(self.hands.last_ticket);
            }
        }
        self.hands.engine = None;
        let mut end = End::Crash;
        if way <= 2 && !self.sync_failed {
            self.disk = self.disk.kill();
            end = End::Kill;
        } else {
            self.disk = self.disk.crash();
        }
        self.lose_derived_files();
        if self.hands.random.below(4) == 0 {
            self.die_while_opening(end)?;
        } else {
            self.open(clean)?;
        }
        self.hands.may_fail = false;
        let mut found = BTreeMap::new();
        for key in 0..KEYS {
            let state = self.hands.get(key).map_err(|error| format!("key {key}: {error}"))?;
            found.insert(key, state);
        }
        self.hands.model.restart(end, &found)?;
        let names =
            (0..KEYS).map(WorldName::new).map(|name| (name.encoded.to_vec(), name.identity));
        super::digests::check(self.hands.engine(), PARTITIONS, &names.collect())?;
        // Tickets continue, or start again below the lost ones.
        self.hands.last_ticket = 0;
        self.hands.list()?;
        self.query()?;
        let key_count = self.hands.engine().stats().key_count;
        let expected = self.hands.model.keys_now().len() as u64;
        if key_count != expected {
            let entries = self.hands.engine().entries();
            return Err(format!("counts {key_count} keys instead of {expected}: {entries:#?}"));
        }
        Ok(())
    }

    /// Queries the indexes, after rebuilding them if necessary.
    fn query(&mut self) -> Result<(), String> {
        self.hands.query(false)?;
        let range =
            |engine: &BitcaskEngine| super::indexes::check(engine, BucketRef::untyped(b"one"), &[]);
        if let Err(StoreError::IndexesUnavailable { .. }) = range(self.hands.engine()) {
            while self.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
        }
        self.hands.query(true)
    }

    /// Sometimes removes files that the engine can rebuild.
    fn lose_derived_files(&mut self) {
        let which = self.hands.random.below(6);
        for name in self.disk.list().unwrap_or_default() {
            let is_index = name == "INDEX";
            let is_tree = name == "SECONDARY";
            if which == 0 && is_index
                || which == 2 && is_tree
                || which == 1 && (is_index || name.ends_with(".keys"))
            {
                self.disk.delete(&name);
            }
        }
    }

    /// Opens the store, crashes or kills it while it opens (the same way as before), and opens it again.
    fn die_while_opening(&mut self, end: End) -> Result<(), String> {
        let left = self.hands.random.below(60);
        self.disk.set_faults(|faults| faults.operations_left = Some(left));
        let incarnation = self.incarnation;
        // The opening may have succeeded before the process died. An opened store has its own incarnation.
        let _ = self.open(false);
        self.hands.engine = None;
        self.disk = if end == End::Crash { self.disk.crash() } else { self.disk.kill() };
        self.incarnation = 0;
        self.open(false)?;
        if self.incarnation < incarnation {
            return Err(format!("incarnation {} after {incarnation}", self.incarnation));
        }
        Ok(())
    }
}
