//! Helpers shared by the tests of engines.

pub mod expired;
pub mod files;
pub mod indexes;
pub mod ordered;

use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, EncodedKey, KeyRef};
use quoit_seam::{FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, OpenReport};
use quoit_store::compare::{Digests, Leaf, compared_digest, hour_of};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, Fetch, IoMode, KeyRange, Maintenance, RecordAt,
    RecordMeta, RecordRef, Ticket,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that a store may stay behind with merges.
const SYNC_PATIENCE: Duration = Duration::from_secs(60);

pub const BUCKET: BucketRef<'static> = BucketRef::untyped(b"bucket");

/// The output function of SplitMix64. Its pseudorandom numbers are the same in every run.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The name of a record in [`BUCKET`].
pub struct Name {
    key: Vec<u8>,
    encoded: EncodedKey,
}

impl Name {
    pub fn new(key: &str) -> Self {
        let encoded = BUCKET.key(key.as_bytes()).encoded();
        Self { key: key.as_bytes().to_vec(), encoded }
    }

    pub fn at(&self) -> RecordAt<'_> {
        let hash = KeyHash::of(&self.encoded, BUCKET, PlacementRule::BucketAndKey);
        RecordAt {
            key: BUCKET.key(&self.key),
            encoded: &self.encoded,
            identity: hash.identity,
            partition: RingSize::DEFAULT.partition(hash.placement),
        }
    }
}

/// Makes all writes durable. Waits if the store is behind with merges, as a store with small buffers may be
/// on a busy machine.
pub fn sync(engine: &dyn Engine) {
    let began = Instant::now();
    while let Err(error) = engine.sync() {
        assert!(matches!(error, StoreError::Overloaded), "{error}");
        assert!(began.elapsed() < SYNC_PATIENCE, "the store stays behind");
        std::thread::yield_now();
    }
}

pub fn try_put(
    engine: &dyn Engine,
    key: &str,
    value: &[u8],
    meta: RecordMeta,
) -> Result<Ticket, StoreError> {
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(value);
        Decision::Put(meta)
    };
    match engine.update(&Name::new(key).at(), BeforeImage::Read, IoMode::Wait, change)? {
        Applied::Written(ticket) => Ok(ticket),
        applied => panic!("{applied:?}"),
    }
}

pub fn put(engine: &dyn Engine, key: &str, value: &[u8]) -> Ticket {
    try_put(engine, key, value, RecordMeta { digest: 9, ..RecordMeta::default() }).unwrap()
}

pub fn remove(engine: &dyn Engine, key: &str) {
    let change = &mut |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
    let applied =
        engine.update(&Name::new(key).at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    assert!(matches!(applied, Applied::Written(_)), "{key} was {applied:?}");
}

pub fn get(engine: &dyn Engine, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    match engine.get(&Name::new(key).at(), IoMode::Wait)? {
        Fetch::Found(record) => Ok(Some(record.value.to_vec())),
        Fetch::Missing => Ok(None),
        Fetch::WouldBlock => panic!("waited"),
    }
}

pub fn value(engine: &dyn Engine, key: &str) -> Option<Vec<u8>> {
    get(engine, key).unwrap()
}

pub fn keys(engine: &dyn Engine) -> Vec<String> {
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let page = engine.list_keys(KeyRange::Bucket(BUCKET), after.as_deref(), 7).unwrap();
        let bytes = page.entries.iter().map(|(key, _)| key[4 + 7 + 6..].to_vec());
        keys.extend(bytes.map(|key| String::from_utf8(key).unwrap()));
        match page.next {
            Some(next) => after = Some(next),
            None => return keys,
        }
    }
}

/// Checks that the counts and digests match the stored records.
pub fn check_sums(engine: &dyn Engine) {
    let mut key_count = 0;
    for number in 0..RingSize::DEFAULT.get() {
        let partition = Partition(number);
        let mut expected = Digests::default();
        let mut from = Some(Identity(0));
        while let Some(start) = from {
            let page = engine.fold(partition, start, 100, false).unwrap();
            for (encoded, record) in &page.entries {
                key_count += 1;
                let key = KeyRef::decode(encoded).unwrap();
                let name = Name::new(std::str::from_utf8(key.key).unwrap());
                let tag = Tag::of(name.at().identity);
                let meta = record.meta;
                let leaf = Leaf { tag, digest: compared_digest(&meta), tombstone: meta.tombstone };
                expected.toggle(meta.n_val_class, &leaf);
            }
            from = page.next;
        }
        let hour_min = hour_of(1_700_000_000);
        let compared = engine.compared().unwrap();
        assert_eq!(compared.digests(partition, hour_min).unwrap(), expected, "{partition:?}");
    }
    assert_eq!(engine.stats().key_count, key_count);
    let page = engine.list_keys(KeyRange::All, None, usize::MAX).unwrap();
    assert_eq!(page.entries.len() as u64, key_count);
}

/// A Bitcask engine on a faulty disk.
pub struct Faulty {
    pub disk: FaultyDisk,
    pub clock: Arc<ManualClock>,
    pub execution: ManualExecution,
    pub settings: BitcaskSettings,
    engine: Option<BitcaskEngine>,
}

impl Faulty {
    /// A new store with segments of about `segment_bytes`.
    pub fn new(segment_bytes: u64) -> Self {
        Self::with_id(segment_bytes, 7)
    }

    /// A new store with the given id.
    pub fn with_id(segment_bytes: u64, id: u64) -> Self {
        // The nearly full disks of some tests have only some thousand bytes.
        let settings = BitcaskSettings {
            max_file_size_bytes: segment_bytes,
            reserved_disk_bytes: 0,
            ..BitcaskSettings::new(id)
        };
        let mut faulty = Self {
            disk: FaultyDisk::new(1),
            clock: Arc::new(ManualClock::at(1_700_000_000_000_000)),
            execution: ManualExecution::default(),
            settings,
            engine: None,
        };
        faulty.open().unwrap();
        faulty
    }

    pub fn engine(&self) -> &BitcaskEngine {
        self.engine.as_ref().unwrap()
    }

    pub fn open(&mut self) -> Result<OpenReport, StoreError> {
        let disk = Arc::new(self.disk.clone());
        let clock = Arc::clone(&self.clock);
        let settings = self.settings.clone();
        let (engine, report) = BitcaskEngine::open(disk, clock, &self.execution, settings)?;
        self.engine = Some(engine);
        Ok(report)
    }

    pub fn close(&mut self) {
        self.engine().close().unwrap();
        self.engine = None;
    }

    pub fn kill(&mut self) {
        self.engine = None;
        self.disk = self.disk.kill();
    }

    pub fn crash(&mut self) {
        self.engine = None;
        self.disk = self.disk.crash();
    }

    /// Deletes the snapshot and the key files, so that the next opening reads the segments.
    pub fn forget_indexes(&self) {
        for name in self.names() {
            if name == "INDEX" || name.ends_with(".keys") {
                self.disk.delete(&name);
            }
        }
    }

    pub fn names(&self) -> Vec<String> {
        quoit_seam::Disk::list(&self.disk).unwrap()
    }

    /// Names of the segments that have records.
    pub fn segments(&self) -> Vec<String> {
        let has_records = |name: &String| self.disk.bytes(name).unwrap().len() > 64;
        self.names().into_iter().filter(|name| name.ends_with(".log")).filter(has_records).collect()
    }
}
