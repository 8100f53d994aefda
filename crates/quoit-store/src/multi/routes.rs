//! Routes: the engine of each bucket.

use super::assignments::Assignments;
use super::file::RoutesFile;
use crate::engine::{Engine, KeyRange};
use crate::error::StoreError;
use bytes::Bytes;
use quoit_model::key::{BucketRef, KeyRef};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The engines of this node.
pub(super) struct NamedEngines {
    pub(super) names: Vec<String>,
    pub(super) engines: Vec<Arc<dyn Engine>>,
    /// Index of the default engine.
    pub(super) default: usize,
}

impl NamedEngines {
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|each| each == name)
    }

    /// Replaces the names of engines that this node does not have by the name of the default engine.
    #[expect(clippy::indexing_slicing, reason = "`default` is the number of an engine")]
    fn resolved(&self, mut assignments: Assignments) -> Assignments {
        let names = assignments.types.values_mut().chain(assignments.buckets.values_mut());
        for name in names.filter(|name| self.place(name).is_none()) {
            name.clone_from(&self.names[self.default]);
        }
        assignments
    }

    /// Index of the engine that a bucket is assigned to.
    fn assigned(&self, assignments: &Assignments, bucket: BucketRef<'_>) -> usize {
        assignments.of(bucket).and_then(|name| self.place(name)).unwrap_or(self.default)
    }
}

/// The engine of the buckets of a bucket type, and exceptions.
#[derive(Default)]
struct TypeRoute {
    engine: usize,
    buckets: HashMap<Box<[u8]>, usize>,
}

/// The engine of each bucket.
pub(super) struct Routes {
    /// Version of the assignments that the routes follow; `None` if the routes are from an earlier start.
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

    /// Index of the engine of a bucket: at most two lookups, and no lookup while no bucket is assigned.
    pub(super) fn of_bucket(&self, bucket: BucketRef<'_>) -> usize {
        if self.types.is_empty() {
            return self.default;
        }
        let Some(of_type) = self.types.get(bucket.bucket_type) else { return self.default };
        of_type.buckets.get(bucket.bucket).copied().unwrap_or(of_type.engine)
    }

    /// Index of the engine of a record. A piece is in the engine of its record.
    pub(super) fn of_key(&self, key: KeyRef<'_>) -> usize {
        self.of_bucket(bucket_of(key.bucket))
    }

    /// Computes the routes for new assignments. A bucket with records in another engine than its assigned
    /// one stays there. Scans the buckets whose assignment has changed, and waits for the disk. Returns the
    /// new routes if they have to be written to the file.
    ///
    /// The caller must exclude writes meanwhile.
    #[expect(clippy::indexing_slicing, reason = "`default` and `place` are numbers of engines")]
    pub(super) fn follow(
        &mut self,
        version: u64,
        assignments: Assignments,
        named: &NamedEngines,
    ) -> Result<Option<RoutesFile>, StoreError> {
        let default = named.names[named.default].clone();
        let assignments = named.resolved(assignments);
        let is_same = self.kept.assignments == assignments && self.kept.default == default;
        // At a start, buckets that stayed in another engine may have become empty.
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

    /// The routes after they were written to the file.
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
        let routes = Self::new(Some(version), kept, named);
        debug_assert!(
            routes.kept.buckets.iter().all(|((bucket_type, bucket), engine)| {
                let route = routes.of_bucket(BucketRef { bucket_type, bucket });
                named.place(engine) == Some(route)
            }),
            "a bucket with records stays in the engine that has them"
        );
        routes
    }

    /// Routes without a file. All buckets have to be scanned.
    pub(super) fn unknown(named: &NamedEngines) -> Self {
        Self::new(None, RoutesFile::default(), named)
    }

    /// The routes in the file.
    pub(super) fn restored(kept: RoutesFile, named: &NamedEngines) -> Self {
        Self::new(None, kept, named)
    }

    /// The buckets that may have records in an engine to which they are no longer assigned.
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

/// The bucket that decides about the engine: for pieces, the bucket of their record.
pub(super) fn bucket_of(bucket: BucketRef<'_>) -> BucketRef<'_> {
    if !bucket.key(&[]).is_piece() {
        return bucket;
    }
    KeyRef::decode(bucket.bucket).map_or(bucket, |record| record.bucket)
}

/// Buckets to scan.
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

/// Almost no key of a bucket is above this one. If one is, the bucket is found twice, which does no harm.
const LAST_KEY: &[u8] = &[0xff; 64];

/// Calls a function for the buckets of a range that have records or tombstones. Costs one listing for each.
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
