//! Bucket types, and buckets with properties of their own.

mod listed;

pub use listed::{ChosenBackend, Placements, PropsEntry, TypeStatus};

use super::State;
use super::raises::Raised;
use crate::change::Change;
use crate::error::NoSuchType;
use crate::outdated::MembersOutdated;
use foldhash::fast::RandomState;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::props::{BucketProps, BucketType, TypeState};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of bucket types up to which the number of buckets is checked in debug builds.
const CHECKED_TYPE_COUNT_MAX: usize = 16;

type ByName<T> = HashMap<Arc<[u8]>, T, RandomState>;

/// All bucket types, and all buckets with properties of their own.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    untyped_defaults: Arc<BucketProps>,
    untyped: ByName<OwnProps>,
    types: ByName<Arc<TypeEntry>>,
    buckets_with_props: usize,
    /// True if any bucket has had compression enabled since the state was read.
    may_compress: bool,
    /// Number of changes since the state was read that have lowered the `n_val` of a bucket.
    lowering_count: u64,
    /// Raises of an `n_val` since the last call of [`Buckets::take_raised`].
    raised: Vec<Raised>,
}

#[derive(Clone, Debug)]
struct TypeEntry {
    bucket_type: BucketType,
    buckets: ByName<OwnProps>,
}

#[derive(Clone, Debug)]
struct OwnProps {
    own: Arc<BucketProps>,
    /// The own properties, completed by those of the type.
    effective: Arc<BucketProps>,
}

impl OwnProps {
    fn new(own: Arc<BucketProps>, below: &BucketProps) -> Self {
        let effective = own.over(below);
        let effective = if effective == *own { Arc::clone(&own) } else { Arc::new(effective) };
        Self { own, effective }
    }
}

impl State {
    /// Returns the effective properties of a bucket. For the request path: at most two hash lookups, none
    /// for untyped buckets while no such bucket has properties of its own; no lock, no allocation.
    ///
    /// # Errors
    ///
    /// [`NoSuchType`] if the bucket's type does not exist or is not active.
    pub fn bucket_props(&self, bucket: BucketRef<'_>) -> Result<&Arc<BucketProps>, NoSuchType> {
        let (type_props, buckets) = if bucket.is_untyped() {
            (&self.buckets.untyped_defaults, &self.buckets.untyped)
        } else {
            let entry = self.active_type(bucket.bucket_type)?;
            (&entry.bucket_type.props, &entry.buckets)
        };
        if buckets.is_empty() {
            return Ok(type_props);
        }
        Ok(buckets.get(bucket.bucket).map_or(type_props, |own| &own.effective))
    }

    /// Returns true if values of the bucket are compressed when they are stored. For the request path: one
    /// test of a flag while no bucket has compression enabled, else the cost of [`State::bucket_props`].
    #[must_use]
    pub fn compresses(&self, bucket: BucketRef<'_>) -> bool {
        self.buckets.may_compress && self.bucket_props(bucket).is_ok_and(|props| props.compresses())
    }

    /// Returns the properties that buckets of an active type inherit.
    ///
    /// # Errors
    ///
    /// [`NoSuchType`] if the type does not exist or is not active.
    pub fn type_props(&self, name: &[u8]) -> Result<&Arc<BucketProps>, NoSuchType> {
        if name == DEFAULT_BUCKET_TYPE {
            return Ok(&self.buckets.untyped_defaults);
        }
        Ok(&self.active_type(name)?.bucket_type.props)
    }

    /// Returns the state of a bucket type.
    #[must_use]
    pub fn type_state(&self, name: &[u8]) -> TypeState {
        if name == DEFAULT_BUCKET_TYPE {
            return TypeState::Active;
        }
        let present = self.bucket_type(name);
        present.map_or(TypeState::Undefined, |present| self.state_of(name, present))
    }

    /// Returns the state of a type. A type that some members would misunderstand is reported as created,
    /// not ready.
    fn state_of(&self, name: &[u8], present: &BucketType) -> TypeState {
        match self.lacking(name, present) {
            Some(_) => TypeState::Created,
            None => present.state,
        }
    }

    fn lacking(&self, name: &[u8], present: &BucketType) -> Option<MembersOutdated> {
        let waits = present.state != TypeState::Active;
        waits.then(|| self.check_members_speak(name, &present.props).err()).flatten()
    }

    fn active_type(&self, name: &[u8]) -> Result<&TypeEntry, NoSuchType> {
        match self.buckets.types.get(name) {
            Some(entry) if entry.bucket_type.state == TypeState::Active => Ok(entry),
            _ => Err(NoSuchType),
        }
    }

    /// Returns the name and the properties of each active bucket type except `default`, in no particular
    /// order.
    pub(crate) fn active_types(&self) -> impl Iterator<Item = (&[u8], &BucketProps)> {
        let types = self.buckets.types.iter();
        let active = types.filter(|(_, entry)| entry.bucket_type.state == TypeState::Active);
        active.map(|(name, entry)| (&**name, &*entry.bucket_type.props))
    }

    /// Returns the name and the effective properties of each bucket with properties of its own, in no
    /// particular order. Buckets of inactive types are left out.
    pub(crate) fn all_bucket_props(&self) -> impl Iterator<Item = (&[u8], &BucketProps)> {
        let types = self.buckets.types.values();
        let active = types.filter(|entry| entry.bucket_type.state == TypeState::Active);
        let all = std::iter::once(&self.buckets.untyped).chain(active.map(|entry| &entry.buckets));
        all.flatten().map(|(name, own)| (&**name, &*own.effective))
    }

    pub(crate) fn bucket_type(&self, name: &[u8]) -> Option<&BucketType> {
        self.buckets.types.get(name).map(|entry| &entry.bucket_type)
    }

    pub(crate) fn type_count(&self) -> usize {
        self.buckets.types.len()
    }

    pub(crate) const fn buckets_with_props(&self) -> usize {
        self.buckets.buckets_with_props
    }

    /// Returns a bucket's own properties; `None` if it has none.
    pub(crate) fn own_props(&self, bucket: BucketRef<'_>) -> Option<&Arc<BucketProps>> {
        let BucketRef { bucket_type, bucket } = bucket;
        let buckets = if bucket_type == DEFAULT_BUCKET_TYPE {
            &self.buckets.untyped
        } else {
            &self.buckets.types.get(bucket_type)?.buckets
        };
        buckets.get(bucket).map(|own| &own.own)
    }

    /// Returns the `n_val`s of all buckets, ascending. Never empty.
    #[must_use]
    pub fn n_vals(&self) -> Vec<u32> {
        let mut n_vals: Vec<u32> = self.placements().iter().map(|each| each.n_val).collect();
        n_vals.sort_unstable();
        n_vals.dedup();
        n_vals
    }

    /// Returns true if a bucket has properties of its own.
    #[must_use]
    pub fn has_own_props(&self, bucket: BucketRef<'_>) -> bool {
        self.own_props(bucket).is_some()
    }
}

impl Buckets {
    pub(super) fn new(untyped_defaults: Arc<BucketProps>) -> Self {
        Self {
            may_compress: untyped_defaults.compresses(),
            untyped_defaults,
            untyped: HashMap::default(),
            types: HashMap::default(),
            buckets_with_props: 0,
            lowering_count: 0,
            raised: Vec::new(),
        }
    }

    pub(super) const fn lowering_count(&self) -> u64 {
        self.lowering_count
    }

    /// Returns the raises of an `n_val` since the last call.
    pub(super) fn take_raised(&mut self) -> Vec<Raised> {
        std::mem::take(&mut self.raised)
    }

    pub(super) const fn untyped_defaults(&self) -> &Arc<BucketProps> {
        &self.untyped_defaults
    }

    pub(super) fn put_bucket(
        &mut self,
        bucket_type: &[u8],
        bucket: &Arc<[u8]>,
        props: &Arc<BucketProps>,
    ) {
        self.may_compress |= props.compresses();
        if let Some((type_props, buckets)) = self.buckets_of(bucket_type) {
            let own = OwnProps::new(Arc::clone(props), &type_props);
            let n_val = own.effective.n_val;
            let before = buckets.insert(Arc::clone(bucket), own);
            let n_val_before = before.as_ref().map_or(type_props.n_val, |own| own.effective.n_val);
            self.buckets_with_props += usize::from(before.is_none());
            self.lowering_count += u64::from(n_val < n_val_before);
            if n_val > n_val_before {
                let bucket = Some(Arc::clone(bucket));
                self.raised.push((bucket_type.into(), bucket, n_val_before));
            }
        }
        self.assert_count();
    }

    /// In debug builds, asserts that the number of buckets is right, if there are few types.
    fn assert_count(&self) {
        if cfg!(debug_assertions) && self.types.len() <= CHECKED_TYPE_COUNT_MAX {
            let typed: usize = self.types.values().map(|entry| entry.buckets.len()).sum();
            let count = self.untyped.len() + typed;
            assert_eq!(self.buckets_with_props, count, "all buckets with own properties count");
        }
    }

    pub(super) fn remove_bucket(&mut self, bucket: BucketRef<'_>) {
        let BucketRef { bucket_type, bucket } = bucket;
        if let Some((type_props, buckets)) = self.buckets_of(bucket_type)
            && let Some(before) = buckets.remove(bucket)
        {
            self.buckets_with_props -= 1;
            let n_val_before = before.effective.n_val;
            self.lowering_count += u64::from(type_props.n_val < n_val_before);
            if type_props.n_val > n_val_before {
                self.raised.push((bucket_type.into(), Some(bucket.into()), n_val_before));
            }
        }
        self.assert_count();
    }

    pub(super) fn put_type(&mut self, name: &Arc<[u8]>, bucket_type: &BucketType) {
        self.may_compress |= bucket_type.props.compresses();
        let laid_over = |own: &OwnProps| OwnProps::new(Arc::clone(&own.own), &bucket_type.props);
        let mut is_lowered = false;
        let mut raised = Vec::new();
        let buckets = match self.types.get(name) {
            Some(before) => {
                let n_val_before = before.bucket_type.props.n_val;
                is_lowered = bucket_type.props.n_val < n_val_before;
                // Only an active type can have records.
                if before.bucket_type.state == TypeState::Active
                    && bucket_type.props.n_val > n_val_before
                {
                    raised.push((Arc::clone(name), None, n_val_before));
                }
                let laid_over = |(bucket, before): (&Arc<[u8]>, &OwnProps)| {
                    let own = laid_over(before);
                    let (n_val, n_val_before) = (own.effective.n_val, before.effective.n_val);
                    is_lowered |= n_val < n_val_before;
                    if n_val > n_val_before {
                        raised.push((Arc::clone(name), Some(Arc::clone(bucket)), n_val_before));
                    }
                    (Arc::clone(bucket), own)
                };
                before.buckets.iter().map(laid_over).collect()
            }
            None => HashMap::default(),
        };
        self.lowering_count += u64::from(is_lowered);
        self.raised.append(&mut raised);
        let entry = TypeEntry { bucket_type: bucket_type.clone(), buckets };
        self.types.insert(Arc::clone(name), Arc::new(entry));
        self.assert_count();
    }

    /// Returns the properties that buckets of a type inherit, and its buckets with properties of their
    /// own.
    fn buckets_of(&mut self, name: &[u8]) -> Option<(Arc<BucketProps>, &mut ByName<OwnProps>)> {
        if name == DEFAULT_BUCKET_TYPE {
            return Some((Arc::clone(&self.untyped_defaults), &mut self.untyped));
        }
        let entry = Arc::make_mut(self.types.get_mut(name)?);
        Some((Arc::clone(&entry.bucket_type.props), &mut entry.buckets))
    }

    /// Returns the changes that create all of these, sorted by name. Types come before their buckets.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut types: Vec<_> = self.types.iter().collect();
        types.sort_by_key(|(name, _)| *name);
        let mut changes: Vec<_> = types
            .iter()
            .map(|(name, entry)| Change::PutType {
                name: Arc::clone(name),
                bucket_type: entry.bucket_type.clone(),
            })
            .collect();
        changes.extend(own_sets(&Arc::from(DEFAULT_BUCKET_TYPE), &self.untyped));
        for (name, entry) in types {
            changes.extend(own_sets(name, &entry.buckets));
        }
        changes
    }
}

fn own_sets(bucket_type: &Arc<[u8]>, buckets: &ByName<OwnProps>) -> Vec<Change> {
    let mut buckets: Vec<_> = buckets.iter().collect();
    buckets.sort_by_key(|(name, _)| *name);
    let change = |(bucket, props): (&Arc<[u8]>, &OwnProps)| Change::PutBucket {
        bucket_type: Arc::clone(bucket_type),
        bucket: Arc::clone(bucket),
        props: Arc::clone(&props.own),
    };
    buckets.into_iter().map(change).collect()
}
