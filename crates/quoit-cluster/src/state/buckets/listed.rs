//! Bucket types and buckets as clients and operators see them, and lists of all of them.

use crate::error::NoSuchType;
use crate::outdated::MembersOutdated;
use crate::state::State;
use quoit_model::hash::PlacementRule;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::props::{BucketProps, TypeState};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A bucket type, as shown to operators.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeStatus {
    /// State of the type; never [`TypeState::Undefined`].
    pub state: TypeState,
    /// The type's properties, with the read-only ones: `active` and `claimant`.
    pub props: Map<String, Value>,
    /// Reason why the type cannot be activated yet.
    pub lacking: Option<MembersOutdated>,
}

/// The storage engine that a bucket type or a bucket chooses by its property `backend`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChosenBackend<'s> {
    /// The bucket type.
    pub bucket_type: &'s [u8],
    /// The bucket; `None` for all buckets of the type that choose no engine themselves.
    pub bucket: Option<&'s [u8]>,
    /// The engine's name.
    pub name: &'s str,
}

/// A bucket type or a bucket, and its properties.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PropsEntry<'s> {
    /// The bucket type.
    pub bucket_type: &'s [u8],
    /// The bucket; `None` for the type itself.
    pub bucket: Option<&'s [u8]>,
    /// All properties.
    pub props: &'s BucketProps,
}

/// Placement of the keys of a bucket, or of the buckets of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placements<'s> {
    /// The bucket type.
    pub bucket_type: &'s [u8],
    /// The bucket; `None` for all buckets of the type that are not listed themselves.
    pub bucket: Option<&'s [u8]>,
    /// The number of primaries of each key.
    pub n_val: u32,
    /// Rule of placement.
    pub rule: PlacementRule,
}

impl<'s> Placements<'s> {
    fn new(bucket_type: &'s [u8], bucket: Option<&'s [u8]>, props: &BucketProps) -> Self {
        Self { bucket_type, bucket, n_val: props.n_val, rule: props.chash_keyfun }
    }
}

impl State {
    /// Returns all bucket types with their states: `default` first, the others by name.
    #[must_use]
    pub fn list_types(&self) -> Vec<(Arc<[u8]>, TypeState)> {
        let mut listed: Vec<_> = self
            .buckets
            .types
            .iter()
            .map(|(name, entry)| (Arc::clone(name), self.state_of(name, &entry.bucket_type)))
            .collect();
        listed.sort();
        listed.insert(0, (Arc::from(DEFAULT_BUCKET_TYPE), TypeState::Active));
        listed
    }

    /// Returns a bucket type as shown to operators, active or not; `None` if it does not exist.
    #[must_use]
    pub fn type_status(&self, name: &[u8]) -> Option<TypeStatus> {
        if name == DEFAULT_BUCKET_TYPE {
            let props = self.buckets.untyped_defaults.to_json();
            return Some(TypeStatus { state: TypeState::Active, props, lacking: None });
        }
        let bucket_type = self.bucket_type(name)?;
        let mut props = bucket_type.props.to_json();
        self.add_read_only(&mut props, bucket_type.state);
        let lacking = self.lacking(name, bucket_type);
        Some(TypeStatus { state: self.state_of(name, bucket_type), props, lacking })
    }

    /// Returns the effective properties of a bucket as shown to clients: with `name`, and for typed
    /// buckets with `active` and `claimant`.
    ///
    /// # Errors
    ///
    /// [`NoSuchType`] if the bucket's type does not exist or is not active.
    pub fn bucket_props_json(
        &self,
        bucket: BucketRef<'_>,
    ) -> Result<Map<String, Value>, NoSuchType> {
        let mut props = self.bucket_props(bucket)?.to_json();
        props.insert("name".to_owned(), String::from_utf8_lossy(bucket.bucket).into());
        if !bucket.is_untyped() {
            self.add_read_only(&mut props, TypeState::Active);
        }
        Ok(props)
    }

    /// Returns the placement rules of all buckets: the type `default` first, then the other active types
    /// by name, then the buckets whose placement differs from that of their type. Looks at every bucket
    /// with properties of its own.
    #[must_use]
    pub fn placements(&self) -> Vec<Placements<'_>> {
        let untyped = (DEFAULT_BUCKET_TYPE, &*self.buckets.untyped_defaults, &self.buckets.untyped);
        let active = self.buckets.types.iter().filter_map(|(name, entry)| {
            let active = entry.bucket_type.state == TypeState::Active;
            active.then(|| (&**name, &*entry.bucket_type.props, &entry.buckets))
        });
        let (mut types, mut buckets) = (Vec::new(), Vec::new());
        for (bucket_type, props, own) in std::iter::once(untyped).chain(active) {
            let of_type = Placements::new(bucket_type, None, props);
            let own = own
                .iter()
                .map(|(name, own)| Placements::new(bucket_type, Some(name), &own.effective));
            buckets.extend(
                own.filter(|bucket| (bucket.n_val, bucket.rule) != (of_type.n_val, of_type.rule)),
            );
            types.push(of_type);
        }
        if let [_, named @ ..] = types.as_mut_slice() {
            named.sort_unstable_by_key(|each| each.bucket_type);
        }
        buckets.sort_unstable_by_key(|each| (each.bucket_type, each.bucket));
        types.append(&mut buckets);
        types
    }

    /// Returns the storage engines that the property `backend` chooses, for active bucket types and
    /// for buckets with a `backend` of their own, in no particular order. Looks at every bucket
    /// with properties of its own.
    pub fn backends(&self) -> impl Iterator<Item = ChosenBackend<'_>> {
        let untyped = (DEFAULT_BUCKET_TYPE, &*self.buckets.untyped_defaults, &self.buckets.untyped);
        let types = self.buckets.types.iter();
        let active = types.filter(|(_, entry)| entry.bucket_type.state == TypeState::Active);
        let active =
            active.map(|(name, entry)| (&**name, &*entry.bucket_type.props, &entry.buckets));
        std::iter::once(untyped).chain(active).flat_map(|(bucket_type, props, own)| {
            let of_type = props.backend.as_deref();
            let of_type = of_type.map(|name| ChosenBackend { bucket_type, bucket: None, name });
            let of_buckets = own.iter().filter_map(move |(bucket, props)| {
                let name = props.own.backend.as_deref()?;
                Some(ChosenBackend { bucket_type, bucket: Some(bucket), name })
            });
            of_type.into_iter().chain(of_buckets)
        })
    }

    /// Returns the active bucket types except `default`, and all buckets with properties of their own,
    /// with their effective properties. Types come before buckets.
    pub fn all_props(&self) -> impl Iterator<Item = PropsEntry<'_>> {
        let active = self.buckets.types.iter();
        let active = active.filter(|(_, entry)| entry.bucket_type.state == TypeState::Active);
        let of_types = active.clone().map(|(bucket_type, entry)| {
            let props = &*entry.bucket_type.props;
            PropsEntry { bucket_type, bucket: None, props }
        });
        let typed = active.map(|(name, entry)| (&**name, &entry.buckets));
        let untyped = std::iter::once((DEFAULT_BUCKET_TYPE, &self.buckets.untyped));
        let of_buckets = untyped.chain(typed).flat_map(|(bucket_type, buckets)| {
            buckets.iter().map(move |(bucket, props)| {
                let props = &*props.effective;
                PropsEntry { bucket_type, bucket: Some(bucket), props }
            })
        });
        of_types.chain(of_buckets)
    }

    fn add_read_only(&self, props: &mut Map<String, Value>, state: TypeState) {
        props.insert("active".to_owned(), (state == TypeState::Active).into());
        props.insert("claimant".to_owned(), (*self.node_name).into());
    }
}
