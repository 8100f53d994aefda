//! Names of the bucket types, buckets and keys of a run.

use crate::history::KeyNumber;
use crate::policy::Policy;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::{KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::layout::Layout;
use quoit_model::props::PropUpdates;
use quoit_store::index::Tag;
use serde_json::json;
use std::collections::BTreeSet;

/// Returns the name of a policy's bucket type.
#[must_use]
pub const fn bucket_type(policy: Policy) -> &'static str {
    match policy {
        Policy::Siblings => "siblings",
        Policy::Latest => "latest",
        Policy::LastWriteWins => "last-write-wins",
        Policy::WriteOnce => "write-once",
        Policy::DefaultType => "default",
    }
}

/// Returns the properties of a policy's bucket type with this n_val, and with this `ttl` if values expire.
#[must_use]
pub fn props(policy: Policy, n_val: u32, ttl_secs: Option<u64>) -> PropUpdates {
    let mut props = match policy {
        Policy::Siblings => json!({ "allow_mult": true }),
        Policy::Latest | Policy::DefaultType => json!({ "allow_mult": false }),
        Policy::LastWriteWins => {
            json!({ "allow_mult": false, "last_write_wins": true, "dvv_enabled": false })
        }
        Policy::WriteOnce => json!({ "write_once": true }),
    };
    props["n_val"] = n_val.into();
    if let Some(ttl_secs) = ttl_secs {
        props["ttl"] = ttl_secs.into();
    }
    props.as_object().cloned().unwrap_or_default().into()
}

/// Returns the policies of `key_count` keys, by key number. If `are_mostly_untyped` is true, every second
/// key has the default bucket type.
#[must_use]
pub fn policies(key_count: u64, are_mostly_untyped: bool) -> Vec<Policy> {
    let mut policies = Policy::TYPED;
    if are_mostly_untyped {
        [policies[1], policies[3]] = [Policy::DefaultType; 2];
    }
    policies.into_iter().cycle().take(quoit_number::index(key_count)).collect()
}

/// The full name of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordName {
    policy: Policy,
    key: String,
}

impl RecordName {
    /// Name of the bucket of all keys of a type.
    pub const BUCKET: &[u8] = b"bucket";

    /// Returns the name of a key.
    #[must_use]
    pub fn of(number: KeyNumber, policy: Policy) -> Self {
        Self { policy, key: format!("k{:03}", number.0) }
    }

    /// Parses the name of a key within its bucket; `None` if it is not a name of the run.
    #[must_use]
    pub fn number_of(key: &[u8]) -> Option<KeyNumber> {
        let digits = std::str::from_utf8(key).ok()?.strip_prefix('k')?;
        digits.parse().ok().map(KeyNumber)
    }

    /// Returns the name as requests take it.
    #[must_use]
    pub fn key_ref(&self) -> KeyRef<'_> {
        let bucket_type = bucket_type(self.policy).as_bytes();
        BucketRef { bucket_type, bucket: Self::BUCKET }.key(self.key.as_bytes())
    }

    /// Returns the n_val of the key's bucket as a node knows it; 0 while the node does not know the
    /// bucket type.
    #[must_use]
    pub fn n_val(&self, state: &State) -> u32 {
        state.bucket_props(self.key_ref().bucket).map_or(0, |props| props.n_val)
    }

    /// Returns the partition of the key.
    #[must_use]
    pub fn partition(&self, ring_size: RingSize) -> Partition {
        partition_of(self.key_ref(), ring_size)
    }

    /// Returns the tag of the key in the index of an engine.
    #[must_use]
    pub fn tag(&self) -> Tag {
        Tag::of(hash_of(self.key_ref()).identity)
    }

    /// Returns the primaries of the key in a layout for an n_val, whether they are up or not. Only a
    /// node's own machine can tell which of its peers are up, because each machine has its own clock.
    #[must_use]
    pub fn primaries(&self, layout: &Layout, ring_size: RingSize, n_val: u32) -> BTreeSet<NodeId> {
        primaries_of(self.partition(ring_size), layout, n_val)
    }
}

/// Returns the partition of a key.
pub(crate) fn partition_of(key: KeyRef<'_>, ring_size: RingSize) -> Partition {
    ring_size.partition(hash_of(key).placement)
}

fn hash_of(key: KeyRef<'_>) -> KeyHash {
    KeyHash::of(&key.encoded(), key.bucket, PlacementRule::BucketAndKey)
}

/// Returns the primaries of a partition in a layout for an n_val.
pub(crate) fn primaries_of(partition: Partition, layout: &Layout, n_val: u32) -> BTreeSet<NodeId> {
    let nodes = layout.primaries(partition, n_val).iter();
    nodes.map(|node| layout.nodes()[usize::from(*node)]).collect()
}
