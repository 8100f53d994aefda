//! The second look: whether the cluster has every record that was read.

use super::recent::RecentCopies;
use super::sender::{Batch, deliver};
use super::{BATCH_BYTES, BATCH_RECORDS_MAX, NAMED_MAX, Place};
use crate::api::{Api, segment};
use anyhow::Result;
use bytes::Bytes;
use quoit_model::record_batch::put_record;
use quoit_model::riak_clock::encode_riak_clock;
use quoit_model::riak_object::decode_riak_object;
use quoit_progress::{Progress, Unit};
use quoit_riak_files::{Partition, Seen, StoredRecord};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Findings of the second look.
#[derive(Default)]
pub(super) struct Verified {
    pub(super) checked_count: u64,
    pub(super) behind_count: u64,
    /// The first of the records that are missing or of an older version.
    pub(super) behind: Vec<String>,
    /// Live records and the sum of their versions' digests, by type and bucket.
    buckets: BTreeMap<(Vec<u8>, Vec<u8>), (u64, String)>,
    /// The bucket of the last record: most records are of the same as those before them.
    last: Option<(Bytes, Bytes)>,
}

impl Verified {
    pub(super) fn bucket(&self, bucket_type: &[u8], bucket: &[u8]) -> Option<(u64, &str)> {
        let (count, digest) = self.buckets.get(&(bucket_type.to_vec(), bucket.to_vec()))?;
        Some((*count, digest))
    }

    fn note_bucket(&mut self, record: &StoredRecord) {
        let (bucket_type, bucket) = (&record.key.bucket_type, &record.key.bucket);
        if self.last.as_ref().is_some_and(|(known, name)| (known, name) == (bucket_type, bucket)) {
            return;
        }
        self.buckets.entry((bucket_type.to_vec(), bucket.to_vec())).or_default();
        self.last = Some((bucket_type.clone(), bucket.clone()));
    }

    /// Compares what is in the batch and empties it.
    fn compare(&mut self, api: &Api, batch: &mut Batch) -> Result<()> {
        let batch = std::mem::take(batch);
        self.checked_count += batch.places.len() as u64;
        let behind = deliver(api, "admin/v1/import/check", "behind", batch)?;
        self.behind_count += behind.len() as u64;
        let room = NAMED_MAX.saturating_sub(self.behind.len());
        self.behind.extend(behind.into_iter().take(room));
        Ok(())
    }
}

/// Asks the cluster for every live record of the partitions, whether it has this version or a later one,
/// and for the digests of all their buckets. Records that are not wanted are left out. A tombstone may have
/// been reaped meanwhile.
pub(super) fn verify(
    api: &Api,
    partitions: &[Partition],
    is_wanted: &dyn Fn(&StoredRecord) -> bool,
) -> Result<Verified> {
    let mut verified = Verified::default();
    let sizes: Vec<u64> = partitions.iter().map(Partition::size_bytes).collect();
    let mut progress = Progress::on_stderr("comparing", Unit::Bytes, Some(sizes.iter().sum()));
    let mut recent = RecentCopies::default();
    let (mut done_bytes, mut batch) = (0, Batch::default());
    for (partition, size) in partitions.iter().zip(&sizes) {
        recent.next_partition();
        let mut fault = None;
        let mut in_partition = 0;
        partition.read(0, &mut |seen| {
            let Seen::Record(record) = seen else { return ControlFlow::Continue(()) };
            in_partition += record.object.len() as u64;
            let note = || format!("{} records", verified.checked_count);
            progress.show(done_bytes + in_partition.min(*size), note);
            if is_wanted(&record) && recent.is_new(&record) && add_clock(&record, &mut batch) {
                verified.note_bucket(&record);
            }
            if batch.body.len() >= BATCH_BYTES || batch.places.len() >= BATCH_RECORDS_MAX {
                fault = verified.compare(api, &mut batch).err();
            }
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        done_bytes += size;
    }
    verified.compare(api, &mut batch)?;
    progress.clear();
    for ((bucket_type, bucket), figures) in &mut verified.buckets {
        let query = format!("type={}&bucket={}", segment(bucket_type), segment(bucket));
        let document = api.done(api.get_patiently(&format!("admin/v1/import/digest?{query}"))?)?;
        let digest = document["digest"].as_str().unwrap_or_default().to_owned();
        *figures = (document["count"].as_u64().unwrap_or(0), digest);
    }
    Ok(verified)
}

/// Adds the clock of a live record to a batch; whether it is one.
fn add_clock(record: &StoredRecord, batch: &mut Batch) -> bool {
    let Ok(object) = decode_riak_object(&record.object) else { return false };
    if object.is_tombstone() || record.key.as_key_ref().check().is_err() {
        return false;
    }
    let mut clock = Vec::new();
    encode_riak_clock(&object.clock, &mut clock);
    put_record(record.key.as_key_ref(), &clock, &mut batch.body);
    batch.places.push(Place::of(record));
    true
}
