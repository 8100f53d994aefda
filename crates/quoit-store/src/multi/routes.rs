//! Which engine each bucket has.

use super::assignments::Assignments;
use super::file::RoutesFile;
use crate::engine::{Engine, KeyRange};
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::key::{BucketRef, KeyRef};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The engines that there are.
pub(super) struct NamedEngines {
    pub(super) names: Vec<String>,
    pub(super) engines: Vec<Arc<dyn Engine>>,
    /// The place of the default engine.
    pub(super) default: usize,
}

impl NamedEngines {
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|each| each == name)
    }

    /// The assignments with the default engine's name for names that this node does not have.
    fn resolved(&self, mut assignments: Assignments) -> Assignments {
        let names = assignments.types.values_mut().chain(assignments.buckets.values_mut());
        for name in names.filter(|name| self.place(name).is_none()) {
            name.clone_from(&self.names[self.default]);
        }
        assignments
    }

    /// The place of the engine that a bucket is assigned to.
    fn assigned(&self, assignments: &Assignments, bucket: BucketRef<'_>) -> usize {
        assignments.of(bucket).and_then(|name| self.place(name)).unwrap_or(self.default)
    }
}

/// The engine of a bucket type's buckets.
#[derive(Default)]
struct TypeRoute {
    engine: usize,
    buckets: HashMap<Box<[u8]>, usize>,
}

/// Which engine each bucket has.
pub(super) struct Routes {
    /// Version of the assignments that they follow; `None` = of a former start.
    pub(super) version: Option<u64>,
    kept: RoutesFile,
    default: usize,
    types: HashMap<Box<[u8]>, TypeRoute>,
}

impl Routes {
    fn new(version: Option<u64>, kept: RoutesFile, named: &NamedEngines) -> Self {
        let mut types: HashMap<Box<[u8]>, TypeRoute> = HashMap::new();
        let assigned = kept.assignments.buckets.keys().map(|(bucket_type, _)| bucket_type);
        let pinned = kept.buckets.keys().map(|(bucket_type, _)| bucket_type);
        for bucket_type in kept.assignments.types.keys().chain(assigned).chain(pinned) {
            let name = kept.assignments.types.get(bucket_type);
            let engine = name.and_then(|name| named.place(name)).unwrap_or(named.default);
            types.insert(bucket_type[..].into(), TypeRoute { engine, ..TypeRoute::default() });
        }
        for ((bucket_type, bucket), name) in kept.assignments.buckets.iter().chain(&kept.buckets) {
            let engine = named.place(name).unwrap_or(named.default);
            let of_type = types.get_mut(&bucket_type[..]);
            let of_type = of_type.expect("all types of the two maps were inserted");
            of_type.buckets.insert(bucket[..].into(), engine);
        }
        Self { version, kept, default: named.default, types }
    }

    /// The engine of a bucket: two lookups at most, none while no bucket is assigned.
    pub(super) fn of_bucket(&self, bucket: BucketRef<'_>) -> usize {
        if self.types.is_empty() {
            return self.default;
        }
        let Some(of_type) = self.types.get(bucket.bucket_type) else { return self.default };
        of_type.buckets.get(bucket.bucket).copied().unwrap_or(of_type.engine)
    }

    /// The engine of a record: a piece is where its record is.
    pub(super) fn of_key(&self, key: KeyRef<'_>) -> usize {
        self.of_bucket(bucket_of(key.bucket))
    }

    /// Follows assignments, as far as buckets have no records elsewhere: those stay where they are. Looks
    /// through the buckets whose assignment is another one now, and waits for the disk. Whether there is
    /// anything new to be written down.
    ///
    /// There must be no writes meanwhile.
    pub(super) fn follow(
        &mut self,
        version: u64,
        assignments: Assignments,
        named: &NamedEngines,
    ) -> Result<Option<RoutesFile>, StoreError> {
        let default = named.names[named.default].clone();
        let assignments = named.resolved(assignments);
        let is_same = self.kept.assignments == assignments && self.kept.default == default;
        // At a start, buckets that were kept where they are may have become empty.
        if is_same && (self.version.is_some() || self.kept.buckets.is_empty()) {
            self.version = Some(version);
            return Ok(None);
        }
        let mut kept = RoutesFile { default, assignments, buckets: BTreeMap::new() };
        let looked_at = self.reassigned(&kept, named);
        for (place, engine) in named.engines.iter().enumerate() {
            let mut keep = |bucket: BucketRef<'_>| {
                if named.assigned(&kept.assignments, bucket) != place {
                    let bucket = (bucket.bucket_type.to_vec(), bucket.bucket.to_vec());
                    kept.buckets.entry(bucket).or_insert_with(|| named.names[place].clone());
                }
            };
            for range in &looked_at {
                each_bucket(&**engine, range.as_key_range(), &mut keep)?;
            }
        }
        Ok(Some(kept))
    }

    /// The routes after they were written down.
    pub(super) fn followed(version: u64, kept: RoutesFile, named: &NamedEngines) -> Self {
        for ((bucket_type, bucket), engine) in &kept.buckets {
            tracing::warn!(
                bucket_type = %String::from_utf8_lossy(bucket_type),
                bucket = %String::from_utf8_lossy(bucket),
                engine,
                "the bucket has another backend than its properties say: its records are there. It moves \
                 when it is empty"
            );
        }
        Self::new(Some(version), kept, named)
    }

    /// Routes from before nothing is assigned: all buckets have to be looked at.
    pub(super) fn unknown(named: &NamedEngines) -> Self {
        Self::new(None, RoutesFile::default(), named)
    }

    /// Routes as they were written down.
    pub(super) fn restored(kept: RoutesFile, named: &NamedEngines) -> Self {
        Self::new(None, kept, named)
    }

    /// Buckets that may have records where they are not assigned to any more.
    fn reassigned(&self, next: &RoutesFile, named: &NamedEngines) -> Vec<Reassigned> {
        let before = &self.kept;
        if before.default != next.default {
            return vec![Reassigned::All];
        }
        let (old, new) = (&before.assignments, &next.assignments);
        let types = old.types.keys().chain(new.types.keys());
        let differ = types.filter(|name| old.types.get(*name) != new.types.get(*name));
        let types: BTreeSet<&Vec<u8>> = differ.collect();
        let buckets = old.buckets.keys().chain(new.buckets.keys()).chain(before.buckets.keys());
        let is_elsewhere = |(bucket_type, bucket): &&(Vec<u8>, Vec<u8>)| {
            let bucket = BucketRef { bucket_type, bucket };
            self.of_bucket(bucket) != named.assigned(new, bucket) && !types.contains(bucket_type)
        };
        let buckets: BTreeSet<_> = buckets.filter(is_elsewhere).collect();
        let types = types.iter().map(|name| Reassigned::BucketType((*name).clone()));
        types.chain(buckets.into_iter().cloned().map(Reassigned::Bucket)).collect()
    }
}

/// The bucket that decides where records of a bucket are: a piece's is that of its record.
pub(super) fn bucket_of(bucket: BucketRef<'_>) -> BucketRef<'_> {
    if !bucket.key(&[]).is_piece() {
        return bucket;
    }
    KeyRef::decode(bucket.bucket).map_or(bucket, |record| record.bucket)
}

/// Buckets to look at.
enum Reassigned {
    All,
    BucketType(Vec<u8>),
    Bucket((Vec<u8>, Vec<u8>)),
}

impl Reassigned {
    fn as_key_range(&self) -> KeyRange<'_> {
        match self {
            Self::All => KeyRange::All,
            Self::BucketType(name) => KeyRange::BucketType(name),
            Self::Bucket((bucket_type, bucket)) => {
                KeyRange::Bucket(BucketRef { bucket_type, bucket })
            }
        }
    }
}

/// Hardly a key comes after this one in its bucket. Where one does, the bucket is seen once more.
const LAST_KEY: &[u8] = &[0xff; 64];

/// Shows the buckets of a range that have records, tombstones included. One listing for each.
fn each_bucket(
    engine: &dyn Engine,
    range: KeyRange<'_>,
    show: &mut dyn FnMut(BucketRef<'_>),
) -> Result<(), StoreError> {
    let mut after: Option<Bytes> = None;
    loop {
        let page = engine.list_keys(range, after.as_deref(), 1)?;
        let found = page.entries.first().and_then(|(encoded, _)| KeyRef::decode(encoded).ok());
        let Some(key) = found else {
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
            continue;
        };
        show(key.bucket);
        let Some(next) = page.next else { return Ok(()) };
        let last = key.bucket.key(LAST_KEY);
        let is_before = key.key < LAST_KEY && last.check().is_ok();
        after = Some(if is_before { Bytes::copy_from_slice(&last.encoded()) } else { next });
    }
}
