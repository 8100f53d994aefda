//! Measures processor time and disk time of puts to `innostore`, in batches of a hundred records of 1 KiB
//! in random order.
//!
//! `cargo run --profile dist -p quoit-store --example tree_commit_cost -- DIRECTORY`

#![allow(clippy::print_stdout, reason = "an example")]

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{Disk, ManualExecution, RealDisk, SystemClock};
use quoit_store::engine::{
    BeforeImage, Decision, Engine, IoMode, Maintenance, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_store::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Instant;

const BATCH_COUNT: u64 = 500;
const BATCH_RECORDS: u64 = 100;

fn put(engine: &dyn Engine, number: u64) -> Result<(), StoreError> {
    let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let name = BucketRef::untyped(b"bucket").key(&key);
    let encoded = name.encoded();
    let hash = KeyHash::of(&encoded, name.bucket, PlacementRule::BucketAndKey);
    let at = RecordAt {
        key: name,
        encoded: &encoded,
        identity: hash.identity,
        partition: RingSize::DEFAULT.partition(hash.placement),
    };
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(&[number as u8; 1_024]);
        Decision::Put(RecordMeta { digest: number, ..RecordMeta::default() })
    };
    engine.update(&at, BeforeImage::Read, IoMode::Wait, change).map(drop)
}

fn processor_us() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

fn main() -> Result<(), StoreError> {
    let directory = std::env::args().nth(1).expect("the first argument is a directory");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory)?);
    let (clock, execution) = (Arc::new(SystemClock::default()), ManualExecution::default());
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_tree = TreeSettings { disk_free_bytes_min: 0, ..TreeSettings::default() };
    let opened = OrderedEngine::open_innostore(&disk, clock, &execution, settings, of_tree);
    let (engine, _) = opened?;
    let (began, began_us) = (Instant::now(), processor_us());
    for batch in 0..BATCH_COUNT {
        for record in 0..BATCH_RECORDS {
            put(&engine, batch * BATCH_RECORDS + record)?;
        }
        engine.sync()?;
    }
    let records = (BATCH_COUNT * BATCH_RECORDS) as f64;
    let processor = (processor_us() - began_us) as f64 / records;
    let elapsed = began.elapsed().as_micros() as f64 / BATCH_COUNT as f64;
    println!("processor: {processor:.2} us a record; elapsed: {elapsed:.0} us a batch");
    Ok(())
}
