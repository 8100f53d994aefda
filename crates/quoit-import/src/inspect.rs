//! `quoit import inspect`: reports the contents of directories of Riak.

use crate::Format;
use crate::output::{note, say, shown};
use anyhow::{Result, bail};
use clap::Args;
use quoit_model::etf::ETF_VERSION;
use quoit_model::object::Object;
use quoit_model::riak_object::decode_riak_object;
use quoit_progress::{Progress, Unit};
use quoit_riak_files::{
    Damage, DiscoveredPartitions, Finding, Position, StoredRecord, discover, join_tiers,
    live_process,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Most damaged pieces that are listed.
const DAMAGE_SHOWN_MAX: usize = 1000;

/// Arguments of `quoit import inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// Data directories of stopped Riak nodes.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Finds the partitions in all given directories. Fails if a running process has one of the directories
/// open.
pub(crate) fn open(directories: &[PathBuf]) -> Result<DiscoveredPartitions> {
    let mut all = DiscoveredPartitions::default();
    for directory in directories {
        let found = discover(directory)?;
        if let Some((pid, name)) = live_process(directory) {
            bail!(
                "{} belongs to a running process ({name}, pid {pid}); stop that node first, or move its data \
                 while it runs by replication",
                directory.display()
            );
        }
        for folder in &found.others {
            note(format_args!("{} has partitions as well", folder.display()));
        }
        for folder in &found.unread {
            note(format_args!(
                "{} can't be listed: partitions below it would be left out",
                folder.display()
            ));
        }
        all.partitions.extend(found.partitions);
        all.others.extend(found.others);
        all.unread.extend(found.unread);
        all.ring_size = all.ring_size.max(found.ring_size);
    }
    all.partitions = join_tiers(all.partitions)?;
    all.partitions.sort_by_cached_key(|partition| {
        (partition.index.len(), partition.index.clone(), partition.directory.clone())
    });
    Ok(all)
}

/// Refuses directories with partitions that the command line does not name. A forgotten copy of an engine's
/// directory may hold records that have been deleted since.
pub(crate) fn refuse_others(found: &DiscoveredPartitions) -> Result<()> {
    let Some(other) = found.others.first() else { return Ok(()) };
    bail!(
        "{} has partitions as well: if it is a backend of multi_backend, name each directory of \
         partitions to import instead of their parent; if it is a copy, move it away first",
        other.display()
    )
}

/// Figures of one bucket, summed over all copies of its records.
#[derive(Default)]
struct BucketFigures {
    copies: u64,
    bytes: u64,
    tombstones: u64,
    with_siblings: u64,
    with_index_entries: u64,
    data_types: BTreeMap<String, u64>,
}

#[derive(Default)]
struct InspectFigures {
    buckets: BTreeMap<(Vec<u8>, Vec<u8>), BucketFigures>,
    old_format: u64,
    damages: Vec<Damage>,
    damage_count: u64,
    /// Incomplete ends of files that Riak was writing when it stopped, which are not damage.
    torn: Vec<Damage>,
}

impl InspectFigures {
    fn take(&mut self, seen: Finding) {
        match seen {
            Finding::Nothing => {}
            Finding::Damage(damage) => self.damaged(damage),
            Finding::Torn(end) => self.torn.push(end),
            Finding::Record(record) => match decode_riak_object(&record.object) {
                Ok(object) => self.record(&record, &object),
                Err(fault) => self.damaged(Damage {
                    file: record.file.to_path_buf(),
                    offset: record.offset,
                    len: record.object.len() as u64,
                    description: fault.to_string(),
                }),
            },
        }
    }

    fn damaged(&mut self, damage: Damage) {
        self.damage_count += 1;
        if self.damages.len() < DAMAGE_SHOWN_MAX {
            self.damages.push(damage);
        }
    }

    fn record(&mut self, record: &StoredRecord, object: &Object) {
        let name = (record.key.bucket_type.to_vec(), record.key.bucket.to_vec());
        let bucket = self.buckets.entry(name).or_default();
        bucket.copies += 1;
        bucket.bytes += record.object.len() as u64;
        bucket.tombstones += u64::from(object.is_tombstone());
        bucket.with_siblings += u64::from(object.siblings.len() > 1);
        bucket.with_index_entries += u64::from(object.has_index_entries());
        self.old_format += u64::from(record.object.first() == Some(&ETF_VERSION));
        let content_type =
            object.siblings.first().and_then(|first| first.meta.content_type.as_deref());
        let kind = content_type.and_then(|text| text.strip_prefix(b"application/riak_"));
        if let Some(kind) = kind {
            *bucket.data_types.entry(shown(kind)).or_default() += 1;
        }
    }
}

pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let found = open(&args.directories)?;
    let sizes: Vec<u64> = found.partitions.iter().map(|partition| partition.size_bytes()).collect();
    let mut progress = Progress::on_stderr("reading", Unit::Bytes, Some(sizes.iter().sum()));
    let (mut figures, mut done_bytes, mut copies) = (InspectFigures::default(), 0, 0);
    for (partition, size) in found.partitions.iter().zip(&sizes) {
        partition.read(&Position::default(), None, &mut |seen, position| {
            copies += u64::from(matches!(seen, Finding::Record(_)));
            let at = done_bytes + position.bytes().min(*size);
            progress.show(at, || format!("{copies} records"));
            figures.take(seen);
            ControlFlow::Continue(())
        })?;
        done_bytes += size;
    }
    progress.clear();
    let document = document(&found, &figures, done_bytes);
    match args.format {
        Format::Json => say!("{document}"),
        Format::Human => print(&document, &figures),
    }
    if figures.damage_count > 0 {
        bail!(
            "{} pieces are damaged; their records may be whole in other nodes' directories",
            figures.damage_count
        );
    }
    Ok(())
}

fn document(found: &DiscoveredPartitions, figures: &InspectFigures, file_bytes: u64) -> Value {
    let engines: BTreeSet<&str> =
        found.partitions.iter().map(|partition| partition.engine.as_str()).collect();
    let buckets: Vec<Value> = figures
        .buckets
        .iter()
        .map(|((bucket_type, bucket), figures)| {
            json!({
                "type": shown(bucket_type),
                "bucket": shown(bucket),
                "copies": figures.copies,
                "bytes": figures.bytes,
                "tombstones": figures.tombstones,
                "with_siblings": figures.with_siblings,
                "with_index_entries": figures.with_index_entries,
                "data_types": figures.data_types,
            })
        })
        .collect();
    json!({
        "engines": engines,
        "ring_size": found.ring_size,
        "partitions": found.partitions.len(),
        "file_bytes": file_bytes,
        "copies": figures.buckets.values().map(|bucket| bucket.copies).sum::<u64>(),
        "tombstones": figures.buckets.values().map(|bucket| bucket.tombstones).sum::<u64>(),
        "old_format": figures.old_format,
        "buckets": buckets,
        "damaged_count": figures.damage_count,
        "damaged": pieces(&figures.damages),
        "torn": pieces(&figures.torn),
    })
}

/// Converts pieces of files to JSON.
fn pieces(pieces: &[Damage]) -> Vec<Value> {
    let entry = |piece: &Damage| {
        json!({
            "file": piece.file.display().to_string(),
            "offset": piece.offset,
            "bytes": piece.len,
            "what": piece.description,
        })
    };
    pieces.iter().map(entry).collect()
}

fn print(document: &Value, figures: &InspectFigures) {
    let engines: Vec<&str> =
        document["engines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let ring_size = match document["ring_size"].as_u64() {
        Some(size) => format!("ring size {size}"),
        None => "ring size unknown".to_owned(),
    };
    say!(
        "{}: {ring_size}, {} partitions, {} copies of records in {} MB of files",
        engines.join(", "),
        document["partitions"],
        document["copies"],
        document["file_bytes"].as_u64().unwrap_or(0) / 1_000_000,
    );
    if figures.old_format > 0 {
        say!("{} copies are in the format of Riak before 1.4", figures.old_format);
    }
    for ((bucket_type, bucket), figures) in &figures.buckets {
        let mut facts =
            vec![format!("{} copies", figures.copies), format!("{} bytes", figures.bytes)];
        let counts = [
            (figures.tombstones, "tombstones"),
            (figures.with_siblings, "with siblings"),
            (figures.with_index_entries, "with index entries"),
        ];
        facts.extend(
            counts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}")),
        );
        facts.extend(
            figures.data_types.iter().map(|(kind, count)| format!("{count} of data type {kind}")),
        );
        say!("  {}/{}: {}", shown(bucket_type), shown(bucket), facts.join(", "));
    }
    for damage in &figures.damages {
        say!("  damaged: {damage}");
    }
    for end in &figures.torn {
        say!("  no damage: {end}");
    }
}
