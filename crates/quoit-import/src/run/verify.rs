//! The second pass of an import: verifies that the cluster has every record that was read.

use super::batch_size::BatchSize;
use super::journal::{Journal, ResendSet};
use super::pace::Pace;
use super::recent::RecentCopies;
use super::sender::{Batch, BatchRequest, deliver};
use super::{BATCH_BYTES, NAMED_MAX, RecordPosition};
use crate::api::{Api, segment};
use anyhow::Result;
use bytes::Bytes;
use quoit_model::key::BucketRef;
use quoit_model::record_batch::put_record;
use quoit_model::riak_clock::encode_riak_clock;
use quoit_model::riak_object::decode_riak_object;
use quoit_progress::{Progress, Unit};
use quoit_riak_files::{Finding, Partition, Position, StoredRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

/// Findings of the second pass.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Verified {
    pub(super) checked_count: u64,
    pub(super) behind_count: u64,
    /// The first of the records that are missing in the cluster or have an older version there.
    pub(super) behind: Vec<String>,
    /// All such records, for the next run.
    #[serde(default)]
    again: ResendSet,
    /// Number of live records and sum of their versions' digests, by type and bucket.
    #[serde(with = "by_bucket")]
    buckets: BTreeMap<(Vec<u8>, Vec<u8>), (u64, String)>,
    /// The bucket of the last record. Consecutive records are usually of one bucket.
    #[serde(skip)]
    last: Option<(Bytes, Bytes)>,
}

/// Serialisation of the table of buckets in the journal.
mod by_bucket {
    use super::super::tally::{BucketFigure, list_of, table_of};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    type Table = BTreeMap<(Vec<u8>, Vec<u8>), (u64, String)>;

    pub(super) fn serialize<S: Serializer>(table: &Table, to: S) -> Result<S::Ok, S::Error> {
        list_of(table.clone()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Table, D::Error> {
        Vec::<BucketFigure<_>>::deserialize(from).map(table_of)
    }
}

impl Verified {
    pub(super) fn bucket(&self, name: BucketRef<'_>) -> Option<(u64, &str)> {
        let key = (name.bucket_type.to_vec(), name.bucket.to_vec());
        let (count, digest) = self.buckets.get(&key)?;
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

    /// Asks the cluster about the records of a batch.
    fn compare(
        &mut self,
        api: &Api,
        partition: &Partition,
        body: Vec<u8>,
        places: Vec<RecordPosition>,
    ) -> Result<()> {
        self.checked_count += places.len() as u64;
        let behind = deliver(api, BatchRequest::Check, body, places)?;
        self.behind_count += behind.len() as u64;
        behind.iter().for_each(|record| self.again.note(partition, &record.place.key));
        let room = NAMED_MAX.saturating_sub(self.behind.len());
        self.behind.extend(behind.iter().take(room).map(ToString::to_string));
        Ok(())
    }

    /// Takes the records that are behind: they will be sent and checked again.
    pub(super) fn begin_again(&mut self) -> ResendSet {
        self.checked_count -= std::mem::take(&mut self.behind_count);
        self.behind.clear();
        std::mem::take(&mut self.again)
    }
}

/// A running second pass.
struct VerificationPass<'a> {
    api: &'a Api,
    journal: &'a mut Journal,
    recent: RecentCopies,
    pace: Pace,
    batch: Batch,
    batch_size: BatchSize,
}

impl VerificationPass<'_> {
    fn take(
        &mut self,
        partition: &Partition,
        record: Option<&StoredRecord>,
        position: &Position,
    ) -> Result<()> {
        if let Some(record) = record
            && let Some(hash) = self.recent.take_new(record)?
        {
            self.batch.stretch.hashes.push(hash);
            if add_clock(record, &mut self.batch) {
                self.journal.contents.verified.note_bucket(record);
            }
        }
        self.batch.stretch.end = Some(position.clone());
        let is_full = self.batch.body.len() >= BATCH_BYTES
            || self.batch.places.len() >= self.batch_size.records_max();
        let is_due = self.journal.is_due();
        if is_full || is_due {
            self.compare(partition)?;
        }
        if is_due {
            self.journal.store()?;
        }
        Ok(())
    }

    /// Asks the cluster about the batch, and adds the findings to the journal without writing it to disk.
    fn compare(&mut self, partition: &Partition) -> Result<()> {
        let Batch { body, places, stretch } = std::mem::take(&mut self.batch);
        self.pace.wait(places.len());
        let (record_count, began) = (places.len(), Instant::now());
        self.journal.contents.verified.compare(self.api, partition, body, places)?;
        self.batch_size.took(record_count, began.elapsed());
        self.recent.keep(&stretch.hashes)?;
        let checked = &mut self.journal.contents.checked;
        checked.keep(&self.recent);
        if let Some(end) = stretch.end {
            checked.reached(partition, end);
        }
        Ok(())
    }
}

/// Asks the cluster for each live record of the partitions if it has this version or a later one, and then
/// for the digest of each bucket. The findings are in the journal. Tombstones are left out, since they may
/// have been reaped meanwhile; so are records for which `is_wanted` is false. An interrupted pass continues
/// where it was.
pub(super) fn verify(
    api: &Api,
    partitions: &[Partition],
    is_wanted: &dyn Fn(&StoredRecord) -> bool,
    pace: Pace,
    journal: &mut Journal,
) -> Result<()> {
    let sizes: Vec<u64> = partitions.iter().map(Partition::size_bytes).collect();
    let mut progress = Progress::on_stderr("comparing", Unit::Bytes, Some(sizes.iter().sum()));
    let index_log = journal.index_log();
    let recent = RecentCopies::open(journal.beside(".checked"), journal.contents.checked.copies())?;
    let mut check = VerificationPass {
        api,
        journal,
        recent,
        pace,
        batch: Batch::default(),
        batch_size: BatchSize::default(),
    };
    let mut done_bytes = 0;
    for (number, (partition, size)) in partitions.iter().zip(&sizes).enumerate() {
        if !check.journal.contents.checked.is_done(partition) {
            check.recent.begin(number)?;
            let from = check.journal.contents.checked.position(partition);
            let mut fault = None;
            partition.read(&from, Some(&index_log), &mut |seen, position| {
                let note = || format!("{} records", check.journal.contents.verified.checked_count);
                progress.show(done_bytes + position.bytes().min(*size), note);
                let record = match &seen {
                    Finding::Record(record) => Some(record).filter(|record| is_wanted(record)),
                    Finding::Damage(_) | Finding::Torn(_) | Finding::Nothing => None,
                };
                fault = check.take(partition, record, position).err();
                if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(fault) = fault {
                return Err(fault);
            }
            check.compare(partition)?;
            check.journal.contents.checked.done(partition);
            check.journal.store()?;
            check.journal.remove_index_log()?;
        }
        done_bytes += size;
    }
    progress.clear();
    check.recent.remove()?;
    for ((bucket_type, bucket), figures) in &mut journal.contents.verified.buckets {
        let query = format!("type={}&bucket={}", segment(bucket_type), segment(bucket));
        let document =
            api.done(api.get_with_retries(&format!("admin/v1/import/digest?{query}"))?)?;
        let digest = document.get("digest").and_then(serde_json::Value::as_str).unwrap_or_default();
        let count = document.get("count").and_then(serde_json::Value::as_u64).unwrap_or(0);
        *figures = (count, digest.to_owned());
    }
    Ok(())
}

/// Adds the version vector of a live record to a batch. False if the record is not live or can't be
/// decoded.
fn add_clock(record: &StoredRecord, batch: &mut Batch) -> bool {
    let Ok(object) = decode_riak_object(&record.object) else { return false };
    if object.is_tombstone() || record.key.as_key_ref().check().is_err() {
        return false;
    }
    let mut clock = Vec::new();
    encode_riak_clock(&object.clock, &mut clock);
    put_record(record.key.as_key_ref(), &clock, &mut batch.body);
    batch.places.push(RecordPosition::of(record));
    true
}
