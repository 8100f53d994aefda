//! Objects a second of a MapReduce job on one node: `map_object_value`, then `reduce_count_inputs`.
//!
//! ```text
//! cargo xtask bench mapreduce [OBJECTS] [VALUE_BYTES] [RUNS]
//! ```
//!
//! One node in this process, with the memory engine, holds OBJECTS (one million) objects of VALUE_BYTES
//! (1024).
//! The job runs RUNS (5) times on one thread; the rate of each run is printed, and what the job kept at most.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use bytes::Bytes;
use quoit_cluster::memory_network::MemoryNetwork;
use quoit_cluster::{ControlPlane, Internode, InternodeSettings, NodeId, Settings};
use quoit_core::{
    Blocking, DotSequence, JobInputs, JobSettings, PutRequest, ReplicatedStore, StoreSettings,
    Unreserved, WriteOptions,
};
use quoit_mapreduce::{BucketName, Job};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::Quorum;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::seam::{Clock, FaultyDisk, SystemClock};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const JOB: &[u8] = br#"{"inputs": "test", "timeout": 3600000, "query": [
    {"map": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}},
    {"reduce": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "reduce_count_inputs"}}]}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (object_count, value_bytes, run_count) = (next(1_000_000)?, next(1024)?, next(5)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = open()?;
        let value = Bytes::from(vec![b'v'; usize::try_from(value_bytes)?]);
        for number in 0..object_count {
            let key = number.to_string();
            let key = BucketRef::untyped(b"test").key(key.as_bytes());
            let options = WriteOptions { dw: Some(Quorum::Count(0)), ..WriteOptions::default() };
            store.put(PutRequest { options, ..PutRequest::of(key, value.clone()) }).await?;
        }
        let job = Job::from_json(JOB)?;
        let settings = JobSettings { held_bytes_max: 64 << 20, scripts: None };
        for run in 1..=run_count {
            let bucket_type = Bytes::from_static(b"default");
            let bucket = BucketName { bucket_type, bucket: Bytes::from_static(b"test") };
            let begun = Instant::now();
            let mut job_run =
                store.begin_job(&job, JobInputs::Bucket(bucket, None), &settings).await?;
            let (mut outputs, mut held_bytes_max) = (Vec::new(), 0);
            while let Some(more) = job_run.next().await? {
                held_bytes_max = held_bytes_max.max(job_run.progress().held_bytes());
                outputs.extend(more);
            }
            let secs = begun.elapsed().as_secs_f64();
            let rate = object_count as f64 / secs;
            println!(
                "run {run}: {rate:.0} objects/s, {} bytes kept at most, result {:?}",
                held_bytes_max, outputs
            );
        }
        Ok(())
    })
}

fn open() -> Result<Arc<ReplicatedStore>, Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ring_size = RingSize::new(64).ok_or("a ring size")?;
    let id = NodeId([1; 16]);
    let settings = Settings { ring_size: Some(ring_size), ..Settings::new("bench@test", id) };
    let control = Arc::new(ControlPlane::open(Arc::new(FaultyDisk::new(1)), settings)?);
    let engine = MemoryEngine::new(MemorySettings::default(), ring_size, Arc::clone(&clock));
    let host = MemoryNetwork::default().host("n1");
    let internode = Internode::new(InternodeSettings::new(id, "bench@test", 1, 1), host);
    Ok(Arc::new(ReplicatedStore::new(
        Arc::new(engine),
        control,
        internode,
        clock,
        DotSequence::new(Actor(b"actor-01"[..].into()), Box::new(Unreserved)),
        StoreSettings { blocking: Blocking::Inline, ..StoreSettings::default() },
    )))
}
