//! `quoit import run`: reads directories of Riak and writes their records into a cluster.
//!
//! One thread reads the partitions in the order of the ring and fills batches. Several threads send the
//! batches. About four times a second the journal is written: the position up to which the cluster has
//! acknowledged the records of a partition without a gap, and the figures so far. An import that was killed
//! continues from there: it sends the records of a second or two again, which the cluster merges.
//! Byte-identical copies of a record are sent once. This takes little memory, because the copies of a
//! record lie in consecutive partitions.
//!
//! After sending, a second pass ([`verify`]) asks the cluster if it has each record in this version or a
//! later one.

mod batch_size;
mod expiry;
mod journal;
mod known_types;
mod pace;
mod recent;
mod report;
mod sender;
mod tally;
mod verify;

use crate::Format;
use crate::api::Api;
use crate::inspect::{open, refuse_others};
use crate::output::{note, shown};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use expiry::Expiry;
use journal::{Contents, Journal, ResendSet};
use known_types::KnownTypes;
use pace::Pace;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::record_batch::put_record;
use quoit_model::riak_object::decode_riak_object;
use quoit_progress::{Progress, Unit};
use quoit_riak_files::{Finding, Partition, Position, StoredRecord};
use recent::RecentCopies;
use sender::{Batch, BatchProgress, Sender};
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of a batch's body at which it is sent, in bytes. A larger object is sent in a batch of its own.
const BATCH_BYTES: usize = 1 << 20;
/// Most records of a batch.
const BATCH_RECORDS_MAX: usize = 1000;
/// End of the message about a record or piece at which the import ends.
const SKIP_HINT: &str = "; give --skip-damaged to continue without damaged or refused records";
/// Damaged pieces and refused records that are named one by one.
const NAMED_MAX: usize = 1000;

/// Treatment of tombstones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Tombstones {
    /// Import tombstones; the cluster removes them by its delete_mode. Needed if other directories, or the
    /// cluster, have older copies of deleted records.
    Keep,
    /// Leave tombstones out.
    Skip,
}

/// Arguments of `quoit import run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Data directories of stopped Riak nodes: of one node, or of all.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// HTTP address of a Quoit node.
    #[arg(long, default_value = "http://127.0.0.1:8098", value_name = "URL")]
    to: String,
    /// File in which the import notes its progress, to continue after an interruption. It is deleted at the
    /// end.
    #[arg(long, default_value = "quoit-import.journal", value_name = "FILE")]
    journal: PathBuf,
    /// Do not create missing bucket types; the import stops at the first record of a missing type.
    #[arg(long)]
    no_types: bool,
    /// Continue after damaged or refused records, which are listed. Without it, the import ends at the first.
    #[arg(long)]
    skip_damaged: bool,
    /// Treatment of tombstones.
    #[arg(long, value_enum, default_value = "keep")]
    tombstones: Tombstones,
    /// Leave out records that Bitcask, or LevelDB with its expiry on, wrote longer ago than this: the expiry
    /// or retention time of Riak's settings, in seconds.
    #[arg(long, value_name = "SECONDS")]
    expire_after: Option<u64>,
    /// Leave out records of LevelDB whose own time of expiry has passed. Give it if Riak had
    /// leveldb.expiration on: otherwise Riak still served them.
    #[arg(long)]
    leveldb_expiry: bool,
    /// Number of batches to send at the same time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Most records per second to send, and to read back afterwards, so that clients of the cluster are not
    /// slowed down [default: no limit].
    #[arg(long, value_name = "RECORDS")]
    rate: Option<NonZeroU32>,
    /// Time in seconds for which to retry while the cluster can't accept records, because a node is down or a
    /// disk is full.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    patience: u64,
    /// Do not read the directories a second time to check that the cluster has all records.
    #[arg(long)]
    no_verify: bool,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// A running import.
struct Import<'a> {
    args: &'a RunArgs,
    types: KnownTypes<'a>,
    sender: Sender,
    pace: Pace,
    journal: Journal,
    recent: RecentCopies,
    /// The records to send, if not all.
    again: Option<ResendSet>,
    progress: Progress,
    /// Size of the partitions that are done, in bytes.
    done_bytes: u64,
    expiry: Expiry,
}

pub(crate) fn import(args: &RunArgs) -> Result<()> {
    let found = open(&args.directories)?;
    refuse_others(&found)?;
    let api = Api::new(&args.to).with_patience(Duration::from_secs(args.patience));
    api.done(api.get("admin/v1/ping")?)?;
    let journal = Journal::open(&args.journal, api.base())?;
    let expiry = Expiry::now(args.expire_after, args.leveldb_expiry);
    let began = Instant::now();
    let is_resumed = journal.is_resumed();
    let again = journal.contents.again();
    let mut journal = send_all(args, &api, &found.partitions, journal, expiry)?;
    let is_wanted = |record: &StoredRecord| {
        !expiry.is_over(record) && again.as_ref().is_none_or(|again| again.has(record))
    };
    if !args.no_verify {
        let pace = Pace::new(args.rate);
        verify::verify(&api, &found.partitions, &is_wanted, pace, &mut journal)?;
    }
    let Contents { tally, verified, .. } = &journal.contents;
    let verified = Some(verified).filter(|_| !args.no_verify);
    let figures = report::ImportFigures {
        tally: tally.clone(),
        verified,
        is_resumed,
        secs: began.elapsed().as_secs_f64(),
    };
    let damaged_count = figures.tally.damaged_count;
    let behind_count = verified.map_or(0, |verified| verified.behind_count);
    report::report(figures, args.format);
    if behind_count > 0 {
        journal.begin_again()?;
        bail!(
            "{behind_count} records are not stored as they should be; start the same import again"
        );
    }
    journal.remove()?;
    match damaged_count {
        0 => Ok(()),
        count => bail!(
            "{count} pieces were damaged or refused and are not in the cluster; they are listed"
        ),
    }
}

/// Sends all partitions that are not done yet, and returns the journal.
fn send_all(
    args: &RunArgs,
    api: &Api,
    partitions: &[Partition],
    journal: Journal,
    expiry: Expiry,
) -> Result<Journal> {
    let sizes: Vec<u64> = partitions.iter().map(Partition::size_bytes).collect();
    let sent = &journal.contents.sent;
    let reached = |(partition, size): (&Partition, &u64)| match sent.is_done(partition) {
        true => *size,
        false => sent.position(partition).bytes().min(*size),
    };
    let before_bytes = partitions.iter().zip(&sizes).map(reached).sum();
    let recent = RecentCopies::open(journal.beside(".copies"), sent.copies())?;
    let mut import = Import {
        args,
        types: KnownTypes::new(api.clone(), !args.no_types, partitions),
        sender: Sender::start(api, usize::from(args.connections), args.skip_damaged),
        pace: Pace::new(args.rate),
        again: journal.contents.again(),
        journal,
        recent,
        progress: Progress::on_stderr("importing", Unit::Bytes, Some(sizes.iter().sum()))
            .beginning_at(before_bytes),
        done_bytes: 0,
        expiry,
    };
    for (number, (partition, size)) in partitions.iter().zip(&sizes).enumerate() {
        if !import.journal.contents.sent.is_done(partition) {
            import.recent.begin(number)?;
            import.types.begin(number);
            import.partition(partition, *size)?;
        }
        import.done_bytes += size;
    }
    import.progress.clear();
    let Import { mut journal, recent, .. } = import;
    recent.remove()?;
    journal.contents.sent.keep(&RecentCopies::open(journal.beside(".copies"), &[])?);
    journal.store()?;
    Ok(journal)
}

impl Import<'_> {
    fn partition(&mut self, partition: &Partition, size: u64) -> Result<()> {
        let from = self.journal.contents.sent.position(partition);
        let index_log = self.journal.index_log();
        let mut batch = Batch::default();
        let mut fault = None;
        partition.read(&from, Some(&index_log), &mut |seen, position| {
            let done_bytes = self.done_bytes + position.bytes().min(size);
            let sent = self.journal.contents.tally.sent;
            self.progress.show(done_bytes, || format!("{sent} records"));
            match self.take(partition, seen, position, &mut batch) {
                Ok(()) => ControlFlow::Continue(()),
                Err(stop) => {
                    fault = Some(stop);
                    ControlFlow::Break(())
                }
            }
        })?;
        if fault.is_none() {
            fault = self.send(batch).err();
        }
        self.sender.settle();
        fault = fault.or(self.refused().err());
        self.take_acknowledged(partition)?;
        if let Some(fault) = fault {
            self.journal.store()?;
            self.progress.clear();
            return Err(fault).context("the import ended here; started again, it goes on");
        }
        self.journal.contents.sent.done(partition);
        self.journal.store()?;
        self.journal.remove_index_log()
    }

    /// Adds one finding to the batch. Sends the batch when it is full or when the journal is due.
    fn take(
        &mut self,
        partition: &Partition,
        seen: Finding,
        position: &Position,
        batch: &mut Batch,
    ) -> Result<()> {
        match seen {
            Finding::Damage(damage) => self.damaged(damage.to_string(), batch)?,
            Finding::Torn(end) => {
                self.progress.clear();
                note(format_args!("no damage: {end}"));
            }
            Finding::Record(record)
                if self.again.as_ref().is_none_or(|again| again.has(&record)) =>
            {
                self.record(&record, batch)?;
            }
            Finding::Record(_) | Finding::Nothing => {}
        }
        batch.stretch.end = Some(position.clone());
        let records_max = self.sender.batch_size().records_max();
        let is_full = batch.body.len() >= BATCH_BYTES || batch.places.len() >= records_max;
        let is_due = self.journal.is_due();
        if is_full || is_due {
            self.send(std::mem::take(batch))?;
        }
        if is_due {
            self.take_acknowledged(partition)?;
            self.journal.store()?;
        }
        Ok(())
    }

    fn record(&mut self, record: &StoredRecord, batch: &mut Batch) -> Result<()> {
        batch.stretch.tally.read += 1;
        if self.is_left_out(record, batch)? {
            return Ok(());
        }
        let Some(hash) = self.recent.take_new(record)? else {
            batch.stretch.tally.copies += 1;
            return Ok(());
        };
        self.types.ensure(record)?;
        batch.stretch.hashes.push(hash);
        batch.stretch.tally.buckets.add(record);
        batch.stretch.tally.sent += 1;
        put_record(record.key.as_key_ref(), &record.object, &mut batch.body);
        batch.places.push(RecordPosition::of(record));
        Ok(())
    }

    /// True if the record is to be left out.
    fn is_left_out(&mut self, record: &StoredRecord, batch: &mut Batch) -> Result<bool> {
        if let Err(fault) = record.key.as_key_ref().check() {
            self.damaged(format!("{}: {fault}", RecordPosition::of(record)), batch)?;
            return Ok(true);
        }
        if self.expiry.is_over(record) {
            batch.stretch.tally.expired_skipped += 1;
            return Ok(true);
        }
        if self.args.tombstones == Tombstones::Skip
            && decode_riak_object(&record.object).is_ok_and(|object| object.is_tombstone())
        {
            batch.stretch.tally.tombstones_skipped += 1;
            return Ok(true);
        }
        Ok(false)
    }

    fn send(&mut self, batch: Batch) -> Result<()> {
        self.pace.wait(batch.places.len());
        self.sender.send(batch)?;
        self.refused()
    }

    /// Notes the records that the cluster refuses permanently. Fails if the sender has a fault.
    fn refused(&mut self) -> Result<()> {
        for refused in self.sender.take_refused() {
            self.skipped(&refused);
        }
        match self.sender.fault() {
            Some(fault) => bail!("{fault}"),
            None => Ok(()),
        }
    }

    /// Adds the progress that the cluster has acknowledged to the journal, without writing it to disk.
    fn take_acknowledged(&mut self, partition: &Partition) -> Result<()> {
        let BatchProgress { end, tally, hashes } = self.sender.take_acknowledged();
        self.recent.keep(&hashes)?;
        let contents = &mut self.journal.contents;
        contents.tally.add(tally);
        contents.sent.keep(&self.recent);
        if let Some(end) = end {
            contents.sent.reached(partition, end);
        }
        Ok(())
    }

    fn damaged(&mut self, what: String, batch: &mut Batch) -> Result<()> {
        if !self.args.skip_damaged {
            bail!("{what}{SKIP_HINT}");
        }
        self.skipped(&what);
        batch.stretch.tally.damaged(what);
        Ok(())
    }

    fn skipped(&mut self, what: &str) {
        self.progress.clear();
        note(format_args!("skipped: {what}"));
    }
}

/// Position of a record. It is formatted only when it is shown to the operator.
#[derive(Clone, Debug)]
struct RecordPosition {
    key: BitcaskKey,
    file: Arc<Path>,
    offset: u64,
}

impl RecordPosition {
    fn of(record: &StoredRecord) -> Self {
        let (key, file) = (record.key.clone(), Arc::clone(&record.file));
        Self { key, file, offset: record.offset }
    }
}

impl Display for RecordPosition {
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
