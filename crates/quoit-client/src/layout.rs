//! The cluster's layout as a client keeps it: a table from keys to replicas.
//!
//! The client computes a key's partition by the same hash as the servers. The first `n_val` primaries of the
//! partition are the key's replicas. `n_val` and the hash are those of the bucket's rule, which comes with
//! the layout.

use bytes::Bytes;
use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_wire::messages::{RpbGetLayoutResp, RpbLayoutRule};
use std::collections::HashMap;
use thiserror::Error;

/// A table from keys to replicas, as one node of the cluster knew it when the client asked.
///
/// An outdated layout costs one hop inside the cluster and has no other effect, since every node serves
/// every key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    tag: Bytes,
    ring_size: RingSize,
    nodes: Vec<LayoutNode>,
    /// Indexes into `nodes`, `positions` of them for each partition.
    primaries: Vec<u16>,
    positions: usize,
    types: HashMap<Bytes, TypeRules>,
}

/// A node of a [`Layout`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutNode {
    /// The node's name.
    pub name: Bytes,
    /// `host:port` of its Protocol Buffers interface; empty if it has no such interface.
    pub address: String,
}

/// The number of replicas of the keys of a bucket, and the hash by which they are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    n_val: usize,
    placement: PlacementRule,
}

/// Rule for buckets of unknown types.
const RULE_DEFAULT: Rule = Rule { n_val: 3, placement: PlacementRule::BucketAndKey };

/// The rule of a bucket type, and of its buckets that have a rule of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TypeRules {
    all: Rule,
    buckets: HashMap<Bytes, Rule>,
}

impl Default for TypeRules {
    fn default() -> TypeRules {
        TypeRules { all: RULE_DEFAULT, buckets: HashMap::new() }
    }
}

/// The fault of an answer that should be a layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The answer has no layout, although the client did not say that it already has one.
    #[error("the answer has no layout, although one was requested")]
    Nothing,
    /// The number of partitions is not valid.
    #[error("{0} partitions: not a power of two from 8 to 4096")]
    RingSize(u32),
    /// The number of primaries is not a multiple of the number of partitions.
    #[error("{size_bytes} bytes of primaries are not as many for each of {partitions} partitions")]
    Primaries {
        /// Size of the list of primaries, in bytes.
        size_bytes: usize,
        /// Number of partitions.
        partitions: u16,
    },
    /// A primary refers to a node that is not listed.
    #[error("a primary refers to node {place}, but the answer lists {count} nodes")]
    NoSuchNode {
        /// The node's index, counted from 0.
        place: u16,
        /// Number of listed nodes.
        count: usize,
    },
}

impl Layout {
    /// Decodes the answer of a node. `None` if the answer says that the client's layout is still current.
    ///
    /// # Errors
    ///
    /// A [`LayoutError`] if the answer contradicts itself.
    pub fn from_wire(answer: RpbGetLayoutResp) -> Result<Option<Layout>, LayoutError> {
        let Some(count) = answer.ring_size else { return Ok(None) };
        let ring_size = u16::try_from(count).ok().and_then(RingSize::new);
        let ring_size = ring_size.ok_or(LayoutError::RingSize(count))?;
        let partitions = ring_size.get();
        let bytes = answer.primaries.unwrap_or_default();
        if !bytes.len().is_multiple_of(2 * usize::from(partitions)) {
            return Err(LayoutError::Primaries { size_bytes: bytes.len(), partitions });
        }
        let (pairs, _) = bytes.as_chunks::<2>();
        let primaries: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
        let count = answer.nodes.len();
        if let Some(&place) = primaries.iter().find(|place| usize::from(**place) >= count) {
            return Err(LayoutError::NoSuchNode { place, count });
        }
        let nodes = answer.nodes.into_iter().map(|node| LayoutNode {
            name: node.name,
            address: String::from_utf8_lossy(&node.address).into_owned(),
        });
        let positions = primaries.len() / usize::from(partitions);
        Ok(Some(Layout {
            tag: answer.tag,
            ring_size,
            nodes: nodes.collect(),
            primaries,
            positions,
            types: types(answer.rules),
        }))
    }

    /// The layout's tag. Layouts with equal tags are equal.
    #[must_use]
    pub fn tag(&self) -> &Bytes {
        &self.tag
    }

    /// Number of partitions, a power of two from 8 to 4096.
    #[must_use]
    pub fn ring_size(&self) -> u16 {
        self.ring_size.get()
    }

    /// The nodes of the layout. A node without a client interface has an empty address.
    #[must_use]
    pub fn nodes(&self) -> &[LayoutNode] {
        &self.nodes
    }

    /// The nodes that hold a key, most preferred first, as indexes into [`nodes`](Self::nodes). Empty for
    /// names that no key can have.
    ///
    /// Costs two hash lookups and one hash of the names. Allocates if the names have more than 188 bytes
    /// together.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "`from_wire` refuses tables that lack positions of a partition"
    )]
    pub fn replicas(&self, key: KeyRef<'_>) -> &[u16] {
        if key.check().is_err() {
            return &[];
        }
        let rule = self.rule(key.bucket);
        let hash = KeyHash::of(&key.encoded(), key.bucket, rule.placement);
        let partition = usize::from(self.ring_size.partition(hash.placement).0);
        let first = partition * self.positions;
        &self.primaries[first..first + rule.n_val.min(self.positions)]
    }

    fn rule(&self, bucket: BucketRef<'_>) -> Rule {
        let Some(rules) = self.types.get(bucket.bucket_type) else { return RULE_DEFAULT };
        if rules.buckets.is_empty() {
            return rules.all;
        }
        rules.buckets.get(bucket.bucket).copied().unwrap_or(rules.all)
    }
}

fn types(rules: Vec<RpbLayoutRule>) -> HashMap<Bytes, TypeRules> {
    let mut types: HashMap<Bytes, TypeRules> = HashMap::new();
    for told in rules {
        let by_bucket = told.bucket_only == Some(true);
        let placement =
            if by_bucket { PlacementRule::BucketOnly } else { PlacementRule::BucketAndKey };
        let rule = Rule { n_val: told.n_val as usize, placement };
        let rules = types.entry(told.bucket_type).or_default();
        match told.bucket {
            Some(bucket) => drop(rules.buckets.insert(bucket, rule)),
            None => rules.all = rule,
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_wire::messages::RpbLayoutNode;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    /// Five nodes. The primaries of partition p are the nodes p, p + 1, p + 2 and p + 3, modulo 5.
    fn answer() -> RpbGetLayoutResp {
        let node = |number: u32| RpbLayoutNode {
            name: Bytes::from(format!("n{number}")),
            address: Bytes::from(format!("10.0.0.{number}:8087")),
        };
        let primaries = (0..64u16).flat_map(|p| (p..p + 4).map(|place| place % 5));
        let rule = |bucket_type, bucket: Option<&'static str>, n_val, bucket_only| RpbLayoutRule {
            bucket_type: bytes(bucket_type),
            bucket: bucket.map(bytes),
            n_val,
            bucket_only,
        };
        RpbGetLayoutResp {
            tag: bytes("tag"),
            ring_size: Some(64),
            nodes: (0..5).map(node).collect(),
            primaries: Some(primaries.flat_map(u16::to_be_bytes).collect()),
            rules: vec![
                rule("default", None, 3, None),
                rule("t", None, 2, None),
                rule("t", Some("wide"), 7, None),
                rule("t", Some("whole"), 1, Some(true)),
            ],
        }
    }

    fn layout() -> Layout {
        Layout::from_wire(answer()).unwrap().unwrap()
    }

    /// The partition of a key as the servers compute it.
    fn partition(bucket: BucketRef<'_>, key: &[u8], rule: PlacementRule) -> u16 {
        let hash = KeyHash::of(&bucket.key(key).encoded(), bucket, rule);
        RingSize::DEFAULT.partition(hash.placement).0
    }

    #[test]
    fn replicas_are_the_first_primaries_of_the_partition_as_many_as_the_bucket_has() {
        let layout = layout();
        let typed = |bucket| BucketRef { bucket_type: b"t", bucket };
        for key in [&b"a"[..], b"b", b"c"] {
            let p = partition(BucketRef::untyped(b"b"), key, PlacementRule::BucketAndKey);
            let three = [p % 5, (p + 1) % 5, (p + 2) % 5];
            assert_eq!(layout.replicas(BucketRef::untyped(b"b").key(key)), three);
            let p = partition(typed(b"b"), key, PlacementRule::BucketAndKey);
            assert_eq!(layout.replicas(typed(b"b").key(key)), [p % 5, (p + 1) % 5]);
            let wide = layout.replicas(typed(b"wide").key(key));
            assert_eq!(wide.len(), 4, "as many as are told");
            let p = partition(typed(b"whole"), b"any", PlacementRule::BucketOnly);
            assert_eq!(layout.replicas(typed(b"whole").key(key)), [p % 5]);
        }
    }

    #[test]
    fn unknown_types_have_three_replicas_and_impossible_names_none() {
        let layout = layout();
        let new = BucketRef { bucket_type: b"new", bucket: b"b" };
        assert_eq!(layout.replicas(new.key(b"k")).len(), 3);
        for (bucket_type, bucket, key) in
            [(&b""[..], &b"b"[..], &b"k"[..]), (b"t", b"", b"k"), (b"t", b"b", b"")]
        {
            let name = BucketRef { bucket_type, bucket }.key(key);
            assert_eq!(layout.replicas(name), [0u16; 0]);
        }
        let long = vec![b'k'; 1 << 17];
        assert_eq!(layout.replicas(BucketRef::untyped(b"b").key(&long)), [0u16; 0]);
    }

    #[test]
    fn an_answer_without_a_ring_says_that_nothing_changed() {
        let same = RpbGetLayoutResp { tag: bytes("tag"), ..Default::default() };
        assert_eq!(Layout::from_wire(same), Ok(None));
    }

    #[test]
    fn answers_that_contradict_themselves_are_refused() {
        let refused = |answer| Layout::from_wire(answer).unwrap_err();
        for count in [0, 4, 65, 8192, 1 << 16 | 64] {
            let answer = RpbGetLayoutResp { ring_size: Some(count), ..answer() };
            assert_eq!(refused(answer), LayoutError::RingSize(count));
        }
        let torn = Some(Bytes::from(vec![0; 64 * 8 - 1]));
        let error = refused(RpbGetLayoutResp { primaries: torn, ..answer() });
        assert_eq!(error, LayoutError::Primaries { size_bytes: 511, partitions: 64 });
        let error = refused(RpbGetLayoutResp { nodes: Vec::new(), ..answer() });
        assert_eq!(error, LayoutError::NoSuchNode { place: 0, count: 0 });
    }

    #[test]
    fn a_layout_without_primaries_knows_no_replicas() {
        let answer = RpbGetLayoutResp { primaries: None, nodes: Vec::new(), ..answer() };
        let layout = Layout::from_wire(answer).unwrap().unwrap();
        assert_eq!(layout.replicas(BucketRef::untyped(b"b").key(b"k")), [0u16; 0]);
    }
}
