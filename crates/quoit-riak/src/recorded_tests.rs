//! Tests against hashes, segments and trees that a Riak node has computed.

use crate::erlang_hash::TermHasher;
use crate::{Tree, TreeEntry};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::segments::{BRANCH_LEAVES, Segments, TreePosition, TreeSize};
use serde_json::Value;
use std::collections::BTreeMap;

const RECORDED: &str = include_str!("../../../tests/golden/replication/aae-hash-vectors.json");

/// A record with its clock.
struct Vector {
    bucket_type: Vec<u8>,
    bucket: Vec<u8>,
    key: Vec<u8>,
    clock: Vec<(Vec<u8>, u128, u128)>,
    segment: u32,
    value: u32,
    hash: u32,
}

impl Vector {
    fn bucket(&self) -> BucketRef<'_> {
        BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket }
    }

    /// The clock in the form of this crate; `None` if a counter has more than 64 bits.
    fn to_clock(&self) -> Option<VersionVector> {
        let dot = |(actor, counter, time): &(Vec<u8>, u128, u128)| {
            let (counter, time_secs) = ((*counter).try_into().ok()?, (*time).try_into().ok()?);
            Some(Dot { actor: Actor(actor.as_slice().into()), counter, time_secs })
        };
        let entries: Option<Vec<Dot>> = self.clock.iter().map(dot).collect();
        entries.map(VersionVector::from_entries)
    }

    fn entry(&self, salt: Option<u32>) -> TreeEntry {
        match (self.to_clock(), salt) {
            (Some(clock), None) => TreeEntry::new(self.bucket(), &self.key, &clock),
            (Some(clock), Some(salt)) => TreeEntry::salted(self.bucket(), &self.key, &clock, salt),
            (None, salt) => {
                let place = TreePosition::of(self.bucket(), &self.key);
                TreeEntry { segment: place.segment, value: place.mask ^ self.hash_by_terms(salt) }
            }
        }
    }

    fn hash_by_terms(&self, salt: Option<u32>) -> u32 {
        let mut hasher = TermHasher::default();
        if let Some(salt) = salt {
            hasher.tuple(2);
            hasher.integer(salt.into());
        }
        let mut sorted = self.clock.clone();
        sorted.sort();
        for (actor, counter, time) in sorted {
            hasher.tuple(2);
            hasher.binary(&actor);
            hasher.tuple(2);
            for number in [counter, time] {
                match u64::try_from(number) {
                    Ok(number) => hasher.integer(number),
                    Err(_) => hasher.digits(&[number as u64, (number >> 64) as u64]),
                }
            }
        }
        hasher.list_end();
        hasher.finish()
    }
}

fn recorded() -> Value {
    serde_json::from_str(RECORDED).expect("recorded vectors are JSON")
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().expect("text")).expect("Base64")
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|number| number.try_into().ok()).expect("a number of 32 bits")
}

fn bucket_type(of: &Value) -> Vec<u8> {
    of["type"].as_str().map_or(DEFAULT_BUCKET_TYPE, str::as_bytes).to_vec()
}

fn clock_entry(entry: &Value) -> (Vec<u8>, u128, u128) {
    let decimal = |place: usize| entry[place].as_str().and_then(|text| text.parse().ok());
    let (counter, time) = decimal(1).zip(decimal(2)).expect("two numbers");
    (bytes(&entry[0]), counter, time)
}

fn vectors(recorded: &Value) -> Vec<Vector> {
    let vectors = recorded["vectors"].as_array().expect("a list");
    let vector = |vector: &Value| {
        let entries = vector["clock"].as_array().expect("a list");
        Vector {
            bucket_type: bucket_type(vector),
            bucket: bytes(&vector["bucket"]),
            key: bytes(&vector["key"]),
            clock: entries.iter().map(clock_entry).collect(),
            segment: number(&vector["segment_id"]),
            value: number(&vector["segment_hash"]),
            hash: number(&vector["h"]),
        }
    };
    vectors.iter().map(vector).collect()
}

#[test]
fn each_clock_has_the_hash_that_riak_computed() {
    let vectors = vectors(&recorded());
    for vector in &vectors {
        assert_eq!(vector.hash_by_terms(None), vector.hash, "{:?}", vector.clock);
        let entry = vector.entry(None);
        assert_eq!((entry.segment, entry.value), (vector.segment, vector.value));
    }
    let beyond_64_bits = vectors.iter().filter(|vector| vector.to_clock().is_none()).count();
    assert_eq!((vectors.len(), beyond_64_bits), (240, 2));
}

/// True if a record belongs to a recorded tree.
fn is_in_tree(vector: &Vector, tree: &Value) -> bool {
    if vector.bucket_type != bucket_type(tree) || vector.bucket != bytes(&tree["bucket"]) {
        return false;
    }
    let range = &tree["key_range"];
    if range.is_array() {
        let (start, end) = (range[0].as_str(), range[1].as_str());
        let keys = start.map(str::as_bytes).zip(end.map(str::as_bytes)).expect("two keys");
        if !(keys.0..=keys.1).contains(&&vector.key[..]) {
            return false;
        }
    }
    let filter = &tree["segment_filter"];
    if filter.is_object() {
        let size = filter["tree_size"].as_str().and_then(|name| name.parse().ok()).expect("size");
        let numbers = filter["segments"].as_array().expect("a list").iter().map(number).collect();
        let segments = Segments::new(size, numbers).expect("few segments");
        return segments.has(vector.bucket(), &vector.key);
    }
    true
}

/// The 4-byte numbers in some bytes that are not zero, by index.
fn nonzero(bytes: &[u8]) -> BTreeMap<String, u32> {
    let numbers = bytes
        .chunks_exact(4)
        .map(|four| four.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)));
    let placed = numbers.enumerate().filter(|(_, number)| *number != 0);
    placed.map(|(place, number)| (place.to_string(), number)).collect()
}

fn told(numbers: &Value) -> BTreeMap<String, u32> {
    let members = numbers.as_object().expect("an object").iter();
    members.map(|(place, value)| (place.clone(), number(value))).collect()
}

#[test]
fn each_tree_is_the_one_that_riak_made() {
    let recorded = recorded();
    let vectors = vectors(&recorded);
    let trees = recorded["trees"].as_array().expect("a list");
    assert_eq!(trees.len(), 46);
    for recorded in trees {
        let size: TreeSize =
            recorded["size"].as_str().and_then(|name| name.parse().ok()).expect("a size");
        let salt = recorded["hash_iv"].as_u64().map(|salt| u32::try_from(salt).expect("32 bits"));
        let members: Vec<&Vector> =
            vectors.iter().filter(|vector| is_in_tree(vector, recorded)).collect();
        assert_eq!(members.len() as u64, recorded["keys"].as_u64().expect("a number"));
        let mut tree = Tree::empty(size);
        members.iter().for_each(|vector| tree.toggle(vector.entry(salt)));
        assert_eq!(nonzero(&tree.root()), told(&recorded["level1"]), "{size} {salt:?}");
        for branch in 0..size.branch_count() {
            let told = recorded["branches"].get(branch.to_string()).map(told).unwrap_or_default();
            assert_eq!(nonzero(&tree.branch(branch)), told, "{size} {salt:?} {branch}");
        }
        assert_eq!(tree.compressed_branches().count(), number(&recorded["level2_count"]) as usize);
        assert_eq!(
            u64::from(size.branch_count()) * 4,
            recorded["level1_len"].as_u64().expect("bytes")
        );
        assert!(tree.leaves().all(|(leaf, _)| leaf < size.branch_count() * BRANCH_LEAVES));
    }
}
