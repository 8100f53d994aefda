//! Memory of the process that values in the memory engine take.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use quoit_model::hash::{KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::ManualClock;
use quoit_store::engine::{
    BeforeImage, Decision, IoMode, PointAccess, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::sync::Arc;

const VALUES: usize = 10_000;
const VALUE_BYTES: usize = 6000;
/// Capacity of the buffer that holds a value before it is stored.
const BUFFER_BYTES: usize = 12_000;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

/// The only test of this program, because it measures the whole process.
#[test]
fn values_take_the_memory_of_their_size_not_of_the_buffer_that_they_were_written_in() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let ring_size = RingSize::new(8).unwrap();
    let engine = MemoryEngine::new(MemorySettings::default(), ring_size, clock);
    let before = resident_bytes();
    for number in 0..VALUES {
        let name = number.to_string();
        let key = BucketRef::untyped(b"values").key(name.as_bytes());
        let mut encoded = Vec::new();
        key.encode_into(&mut encoded);
        let rule = PlacementRule::BucketAndKey;
        let identity = KeyHash::of(&encoded, key.bucket, rule).identity;
        let at = RecordAt { key, encoded: &encoded, identity, partition: Partition(0) };
        let mut change = |_: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
            value.resize(BUFFER_BYTES, 7);
            value.truncate(VALUE_BYTES);
            Decision::Put(RecordMeta::default())
        };
        engine.update(&at, BeforeImage::Skip, IoMode::Wait, &mut change).unwrap();
    }
    let taken = resident_bytes() - before;
    let needed = VALUES * VALUE_BYTES;
    assert!(taken < needed * 3 / 2, "{taken} bytes are resident for {needed} bytes of values");
}
