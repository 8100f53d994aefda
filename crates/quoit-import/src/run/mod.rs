//! `quoit import run`: reads directories of Riak's and writes what they hold into a cluster.
//!
//! One thread reads partition after partition, in the order of the ring, and fills batches; several threads
//! send these. What the cluster has acknowledged of each partition is written into the journal once a second,
//! so an import that was killed sends at most the records of some seconds twice, which the cluster merges.
//! Copies of a record that are the same to the byte are sent once: its partitions follow each other.

mod journal;
mod known_types;
mod recent;
mod sender;
mod verify;

use crate::Format;
use crate::api::Api;
use crate::inspect::open;
use crate::output::{note, say, shown};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use journal::Journal;
use known_types::KnownTypes;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::record_batch::put_record;
use quoit_model::riak_object::decode_riak_object;
use quoit_progress::{Progress, Unit};
use quoit_riak_files::{Partition, Seen, StoredRecord};
use recent::RecentCopies;
use sender::{Batch, Sender};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Size from which a batch is sent, in bytes; a larger object goes by itself.
const BATCH_BYTES: usize = 1 << 20;
/// Most records of a batch.
const BATCH_RECORDS_MAX: usize = 1000;
/// How often the journal is written.
const JOURNAL_INTERVAL: Duration = Duration::from_secs(1);
/// Damaged pieces and refused records that are named one by one.
const NAMED_MAX: usize = 1000;

/// Treatment of tombstones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Tombstones {
    /// They are written, and reaped by the cluster's delete_mode: needed where records were deleted while
    /// other copies of them live on.
    Keep,
    /// They are left out.
    Skip,
}

/// Arguments of `quoit import run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Data directories of stopped nodes: of one, or of all.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// HTTP address of a node of the cluster.
    #[arg(long, default_value = "http://127.0.0.1:8098", value_name = "URL")]
    to: String,
    /// File that tells how far the import is; deleted when it is done.
    #[arg(long, default_value = "quoit-import.journal", value_name = "FILE")]
    journal: PathBuf,
    /// Do not create bucket types that are missing; the import then ends at the first record of one.
    #[arg(long)]
    no_types: bool,
    /// Go on behind what is damaged or refused, which is listed. Without it, the import ends there.
    #[arg(long)]
    skip_damaged: bool,
    /// Treatment of tombstones.
    #[arg(long, value_enum, default_value = "keep")]
    tombstones: Tombstones,
    /// Leave out what Bitcask wrote longer ago: its expiry setting in seconds.
    #[arg(long, value_name = "SECONDS")]
    expire_after: Option<u64>,
    /// Batches that are sent at the same time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Do not read everything a second time to see that the cluster has it.
    #[arg(long)]
    no_verify: bool,
    /// Form of the output.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Figures of the import.
#[derive(Default)]
struct Figures {
    read: u64,
    sent: u64,
    copies: u64,
    tombstones_skipped: u64,
    expired_skipped: u64,
    buckets: BucketCounts,
    damaged: Vec<String>,
    damaged_count: u64,
}

/// An import under way.
struct Import<'a> {
    args: &'a RunArgs,
    types: KnownTypes,
    sender: Sender,
    journal: Journal,
    recent: RecentCopies,
    figures: Figures,
    progress: Progress,
    done_bytes: u64,
    written_at: Instant,
    oldest_secs: Option<u64>,
}

pub(crate) fn import(args: &RunArgs) -> Result<()> {
    let found = open(&args.directories)?;
    let api = Api::new(&args.to);
    api.done(api.get("admin/v1/ping")?)?;
    let journal = Journal::open(&args.journal, api.base())?;
    let sizes: Vec<u64> = found.partitions.iter().map(Partition::size_bytes).collect();
    let done = |partition: &Partition| journal.is_done(partition);
    let before = found.partitions.iter().zip(&sizes).filter(|(partition, _)| done(partition));
    let before_bytes = before.map(|(_, size)| size).sum();
    let now_secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let began = Instant::now();
    let mut import = Import {
        args,
        types: KnownTypes::new(api.clone(), !args.no_types),
        sender: Sender::start(&api, usize::from(args.connections)),
        journal,
        recent: RecentCopies::default(),
        figures: Figures::default(),
        progress: Progress::on_stderr("importing", Unit::Bytes, Some(sizes.iter().sum()))
            .beginning_at(before_bytes),
        done_bytes: before_bytes,
        written_at: Instant::now(),
        oldest_secs: args.expire_after.map(|secs| now_secs.saturating_sub(secs)),
    };
    for (partition, size) in found.partitions.iter().zip(&sizes) {
        if import.journal.is_done(partition) {
            continue;
        }
        import.partition(partition, *size)?;
    }
    import.progress.clear();
    let secs = began.elapsed().as_secs_f64();
    let Import { mut figures, journal, oldest_secs, .. } = import;
    let is_wanted = |record: &StoredRecord| !is_expired(record, oldest_secs);
    let verified = match args.no_verify {
        true => None,
        false => Some(verify::verify(&api, &found.partitions, &is_wanted)?),
    };
    let document = document(&mut figures, &journal, verified.as_ref(), secs);
    match args.format {
        Format::Json => say!("{document}"),
        Format::Human => print(&document, &figures),
    }
    if let Some(verified) = verified.filter(|verified| verified.behind_count > 0) {
        bail!(
            "{} records are not stored as they should be; start the same import again",
            verified.behind_count
        );
    }
    journal.remove()?;
    match figures.damaged_count {
        0 => Ok(()),
        count => bail!(
            "{count} pieces were damaged or refused and are not in the cluster; they are listed"
        ),
    }
}

impl Import<'_> {
    fn partition(&mut self, partition: &Partition, size: u64) -> Result<()> {
        let skip = self.journal.sent(partition);
        self.recent.next_partition();
        self.sender.begin(skip);
        let mut batch = Batch::default();
        let mut fault = None;
        let mut in_partition = 0;
        partition.read(skip, &mut |seen| {
            if let Seen::Record(record) = &seen {
                in_partition += record.object.len() as u64 + record.key.key.len() as u64;
            }
            match self.take(partition, seen, &mut batch) {
                Ok(()) => {
                    let done_bytes = self.done_bytes + in_partition.min(size);
                    let sent = self.figures.sent;
                    self.progress.show(done_bytes, || format!("{sent} records"));
                    ControlFlow::Continue(())
                }
                Err(stop) => {
                    fault = Some(stop);
                    ControlFlow::Break(())
                }
            }
        })?;
        if fault.is_none() {
            fault = self.finish(batch).err();
        }
        self.sender.settle();
        if let Some(fault) = fault {
            self.journal.write(partition, self.sender.acknowledged(), false)?;
            self.progress.clear();
            return Err(fault).context("the import ended here; started again, it goes on");
        }
        self.done_bytes += size;
        self.journal.write(partition, self.sender.acknowledged(), true)
    }

    fn finish(&mut self, batch: Batch) -> Result<()> {
        self.send(batch)?;
        self.sender.settle();
        self.refused()
    }

    fn take(&mut self, partition: &Partition, seen: Seen, batch: &mut Batch) -> Result<()> {
        let record = match seen {
            Seen::Damage(damage) => return self.damaged(damage.to_string()),
            Seen::Record(record) => record,
        };
        self.figures.read += 1;
        batch.position += 1;
        if self.is_left_out(&record)? {
            return Ok(());
        }
        if !self.recent.is_new(&record) {
            self.figures.copies += 1;
            return Ok(());
        }
        self.types.ensure(&record)?;
        self.figures.buckets.add(&record);
        put_record(record.key.as_key_ref(), &record.object, &mut batch.body);
        batch.places.push(Place::of(&record));
        self.figures.sent += 1;
        if batch.body.len() >= BATCH_BYTES || batch.places.len() >= BATCH_RECORDS_MAX {
            self.send(std::mem::take(batch))?;
        }
        if self.written_at.elapsed() >= JOURNAL_INTERVAL {
            self.written_at = Instant::now();
            self.journal.write(partition, self.sender.acknowledged(), false)?;
        }
        Ok(())
    }

    /// Whether the record is one of those that are to be left out.
    fn is_left_out(&mut self, record: &StoredRecord) -> Result<bool> {
        if let Err(fault) = record.key.as_key_ref().check() {
            self.damaged(format!("{}: {fault}", Place::of(record)))?;
            return Ok(true);
        }
        if is_expired(record, self.oldest_secs) {
            self.figures.expired_skipped += 1;
            return Ok(true);
        }
        if self.args.tombstones == Tombstones::Skip
            && decode_riak_object(&record.object).is_ok_and(|object| object.is_tombstone())
        {
            self.figures.tombstones_skipped += 1;
            return Ok(true);
        }
        Ok(false)
    }

    fn send(&mut self, batch: Batch) -> Result<()> {
        self.sender.send(batch)?;
        self.refused()
    }

    /// Takes note of records that the cluster refuses for good.
    fn refused(&mut self) -> Result<()> {
        if let Some(fault) = self.sender.fault() {
            bail!("{fault}");
        }
        for refused in self.sender.take_refused() {
            self.damaged(refused)?;
        }
        Ok(())
    }

    fn damaged(&mut self, what: String) -> Result<()> {
        self.figures.damaged_count += 1;
        if self.figures.damaged.len() < NAMED_MAX {
            self.figures.damaged.push(what.clone());
        }
        if !self.args.skip_damaged {
            bail!("{what}; give --skip-damaged to go on without what is damaged or refused");
        }
        self.progress.clear();
        note(format_args!("skipped: {what}"));
        Ok(())
    }
}

/// Whether Bitcask wrote a record before this second.
fn is_expired(record: &StoredRecord, oldest_secs: Option<u64>) -> bool {
    let written_secs = record.written_secs.map(u64::from);
    oldest_secs.zip(written_secs).is_some_and(|(oldest, written)| written < oldest)
}

/// Where a record is, for people. It is put into words only where somebody has to know.
#[derive(Clone)]
struct Place {
    key: BitcaskKey,
    file: Arc<Path>,
    offset: u64,
}

impl Place {
    fn of(record: &StoredRecord) -> Self {
        let (key, file) = (record.key.clone(), Arc::clone(&record.file));
        Self { key, file, offset: record.offset }
    }
}

impl Display for Place {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}/{}/{} in {} at byte {}",
            shown(&self.key.bucket_type),
            shown(&self.key.bucket),
            shown(&self.key.key),
            self.file.display(),
            self.offset
        )
    }
}

/// Records sent, by type and bucket.
#[derive(Default)]
struct BucketCounts {
    counts: BTreeMap<(Vec<u8>, Vec<u8>), u64>,
    /// The bucket of the last record and the records of it that are not in the table yet: most records are of
    /// the same bucket as those before them.
    last: Option<(Bytes, Bytes)>,
    of_last: u64,
}

impl BucketCounts {
    fn add(&mut self, record: &StoredRecord) {
        let (bucket_type, bucket) = (&record.key.bucket_type, &record.key.bucket);
        if self.last.as_ref().is_none_or(|(known, name)| (known, name) != (bucket_type, bucket)) {
            self.settle();
            self.last = Some((bucket_type.clone(), bucket.clone()));
        }
        self.of_last += 1;
    }

    fn settle(&mut self) {
        if let Some((bucket_type, bucket)) = &self.last {
            let name = (bucket_type.to_vec(), bucket.to_vec());
            *self.counts.entry(name).or_default() += std::mem::take(&mut self.of_last);
        }
    }

    /// The counts of all records so far.
    fn counts(&mut self) -> &BTreeMap<(Vec<u8>, Vec<u8>), u64> {
        self.settle();
        &self.counts
    }
}

fn document(
    figures: &mut Figures,
    journal: &Journal,
    verified: Option<&verify::Verified>,
    secs: f64,
) -> Value {
    let buckets: Vec<Value> = figures
        .buckets
        .counts()
        .iter()
        .map(|((bucket_type, bucket), sent)| {
            let stored = verified.and_then(|verified| verified.bucket(bucket_type, bucket));
            json!({
                "type": shown(bucket_type),
                "bucket": shown(bucket),
                "sent": sent,
                "stored": stored.map(|(count, _)| count),
                "digest": stored.map(|(_, digest)| digest),
            })
        })
        .collect();
    json!({
        "read": figures.read,
        "sent": figures.sent,
        "same_copies": figures.copies,
        "tombstones_skipped": figures.tombstones_skipped,
        "expired_skipped": figures.expired_skipped,
        "resumed": journal.is_resumed(),
        "seconds": (secs * 10.0).round() / 10.0,
        "buckets": buckets,
        "damaged_count": figures.damaged_count,
        "damaged": figures.damaged,
        "verified": verified.map(|verified| json!({
            "checked": verified.checked_count,
            "behind_count": verified.behind_count,
            "behind": verified.behind,
        })),
    })
}

fn print(document: &Value, figures: &Figures) {
    say!(
        "{} copies read, {} records sent in {} s; {} copies were the same as others",
        figures.read,
        figures.sent,
        document["seconds"],
        figures.copies
    );
    if figures.tombstones_skipped + figures.expired_skipped > 0 {
        say!(
            "left out: {} tombstones, {} expired",
            figures.tombstones_skipped,
            figures.expired_skipped
        );
    }
    for bucket in document["buckets"].as_array().into_iter().flatten() {
        let name = |part: &str| bucket[part].as_str().unwrap_or_default().to_owned();
        let stored = match bucket["stored"].as_u64() {
            Some(count) => format!(", {count} live records stored, digest {}", name("digest")),
            None => String::new(),
        };
        say!("  {}/{}: {} sent{stored}", name("type"), name("bucket"), bucket["sent"]);
    }
    match &document["verified"] {
        Value::Null => say!("not verified"),
        verified => say!(
            "verified: {} of {} records are stored in this version or a later one",
            verified["checked"].as_u64().unwrap_or(0)
                - verified["behind_count"].as_u64().unwrap_or(0),
            verified["checked"]
        ),
    }
    for what in document["verified"]["behind"].as_array().into_iter().flatten() {
        say!("  behind: {}", what.as_str().unwrap_or_default());
    }
    for what in &figures.damaged {
        say!("  not imported: {what}");
    }
}
