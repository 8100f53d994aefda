//! Reader of Riak's LevelDB: sorted tables in the directories `sst_0` to `sst_6`, and logs of
//! entries that are in no table yet.
//!
//! The manifest that `CURRENT` names lists the tables and logs in use. A walk merges all tables in
//! the order of their keys, block by block; the entry of a key with the highest sequence number is
//! its newest version. The walk's memory is one block for each table, and the logs.

mod block;
mod log;
mod manifest;
mod table;

pub use log::fuzz_leveldb_log;
pub use table::fuzz_leveldb_table;

use crate::sext::record_of;
use crate::source::{entries, numbered, read_file};
use crate::{Damage, Finding, NOTHING_BYTES, Position, RiakFilesError, StoredRecord, VisitFn};
use block::Entry;
use bytes::Bytes;
use manifest::Version;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::Table;

/// Number of levels.
const LEVELS: usize = 7;
/// From this level on, no two tables of a level have the same key.
const FIRST_SORTED_LEVEL: usize = 2;

/// The tables and logs of one partition.
#[derive(Clone, Debug)]
pub(crate) struct LevelDbScan {
    /// Runs of tables that are read one after the other.
    runs: Vec<Vec<PathBuf>>,
    logs: Vec<PathBuf>,
    damage: Vec<Damage>,
}

/// True if a directory has directories of levels.
pub(crate) fn has_levels(directory: &Path) -> bool {
    (0..LEVELS).any(|level| directory.join(format!("sst_{level}")).is_dir())
}

/// True if a directory has levels, but neither a manifest nor logs.
pub(crate) fn is_slow_tree(directory: &Path) -> bool {
    let is_of_fast =
        |name: &str| name == "CURRENT" || name.starts_with("MANIFEST-") || name.ends_with(".log");
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    has_levels(directory)
        && !files.into_iter().any(|file| file.file_name().to_str().is_some_and(is_of_fast))
}

impl LevelDbScan {
    /// Opens a partition. Some of its tables may be in the directory `slow`.
    pub(crate) fn open(directory: &Path, slow: Option<&Path>) -> Result<Self, RiakFilesError> {
        let mut damage = Vec::new();
        let version = current_version(directory, &mut damage)?;
        let mut logs: Vec<(u64, PathBuf)> = entries(directory)?
            .into_iter()
            .filter_map(|path| Some((numbered(&path, ".log")?, path)))
            .collect();
        logs.sort();
        let Some(version) = version else {
            // Without a manifest all tables are read. Obsolete tables beside newer ones do no harm,
            // except that keys deleted in between come back.
            let mut runs = Vec::new();
            for level in 0..LEVELS {
                let tables = entries(&directory.join(format!("sst_{level}")))?.into_iter();
                runs.extend(
                    tables.filter(|path| numbered(path, ".sst").is_some()).map(|path| vec![path]),
                );
            }
            let logs = logs.into_iter().map(|(_, path)| path).collect();
            return Ok(Self { runs, logs, damage });
        };
        let mut runs = Vec::new();
        for (level, tables) in version.levels.iter().enumerate() {
            let path = |number: &u64| {
                let in_tree = |tree: &Path| {
                    tree.join(format!("sst_{level}")).join(format!("{number:06}.sst"))
                };
                let in_slow = slow.map(in_tree).filter(|path| path.is_file());
                let own = in_tree(directory);
                in_slow.filter(|_| !own.is_file()).unwrap_or(own)
            };
            let files = tables.iter().map(|table| path(&table.number));
            if level < FIRST_SORTED_LEVEL {
                runs.extend(files.map(|file| vec![file]));
            } else if !tables.is_empty() {
                runs.push(files.collect());
            }
        }
        for path in runs.iter().flatten().filter(|path| !path.is_file()) {
            damage.push(Damage::new(path, 0, missing(path)));
        }
        let counts =
            |number: u64| number >= version.log_number || number == version.previous_log_number;
        let logs = logs.into_iter().filter(|(number, _)| counts(*number)).map(|(_, path)| path);
        Ok(Self { logs: logs.collect(), runs, damage })
    }

    /// Number of tables of the manifest that do not exist.
    pub(crate) fn missing_tables(&self) -> usize {
        self.runs.iter().flatten().filter(|path| !path.is_file()).count()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        let files = self.runs.iter().flatten().chain(&self.logs);
        files.filter_map(|path| path.metadata().ok()).map(|about| about.len()).sum()
    }

    pub(crate) fn read(
        &self,
        from: &Position,
        visit: &mut VisitFn<'_>,
    ) -> Result<(), RiakFilesError> {
        let mut merge = Merge {
            runs: Vec::new(),
            heap: BinaryHeap::new(),
            damage: self.damage.clone(),
            from: from.after_key().cloned(),
        };
        let logged = log::read_logs(&self.logs, &mut merge.damage)?;
        let shown = logged.partition_point(|entry| merge.is_shown(&entry.key));
        let mut logged = logged.into_iter();
        logged.by_ref().take(shown).for_each(drop);
        merge.runs.push(Run::Log(logged));
        for files in &self.runs {
            let files: Vec<_> = files.iter().filter(|path| path.is_file()).rev().cloned().collect();
            merge.runs.push(Run::Tables { files, open: None });
        }
        for run in 0..merge.runs.len() {
            merge.refill(run)?;
        }
        let (mut position, mut bytes, mut shown_bytes) = (from.clone(), from.bytes(), from.bytes());
        loop {
            let found = merge.next_key()?;
            for damage in merge.damage.drain(..) {
                if visit(Finding::Damage(damage), &position).is_break() {
                    return Ok(());
                }
            }
            let Some(Head { entry, .. }) = found else { return Ok(()) };
            bytes += (entry.key.len() + entry.value.as_ref().map_or(0, Bytes::len)) as u64;
            let seen = match (entry.value, record_of(&entry.key)) {
                (Some(object), Some(key)) => Finding::Record(StoredRecord {
                    key,
                    object,
                    written_secs: entry.written_secs,
                    expires_at_us: entry.expires_at_us,
                    file: Arc::clone(&entry.file),
                    offset: entry.at,
                }),
                _ if bytes - shown_bytes < NOTHING_BYTES => continue,
                _ => Finding::Nothing,
            };
            shown_bytes = bytes;
            position = Position::behind(entry.key, bytes);
            if visit(seen, &position).is_break() {
                return Ok(());
            }
        }
    }
}

/// Description of a missing table. With tiered storage, levels are on another path.
fn missing(table: &Path) -> &'static str {
    let has_files =
        |folder: &Path| std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some());
    match table.parent().is_some_and(has_files) {
        true => "the manifest's table is missing",
        false => {
            "the manifest's table is missing, as all of its level: with leveldb.tiered, give the directory \
             of the slow path beside this one, or move the data of this node by replication (quoit import \
             plan)"
        }
    }
}

/// Reads the version in the manifest; returns `None` if it is damaged or missing.
fn current_version(
    directory: &Path,
    damage: &mut Vec<Damage>,
) -> Result<Option<Version>, RiakFilesError> {
    let current = directory.join("CURRENT");
    let Ok(name) = std::fs::read_to_string(&current) else {
        damage.push(Damage::new(
            &current,
            0,
            "CURRENT can't be read; all tables and logs are taken",
        ));
        return Ok(None);
    };
    let path = directory.join(name.trim());
    if name.trim().contains('/') || !path.is_file() {
        damage.push(Damage::new(
            &current,
            0,
            "CURRENT names no manifest; all tables and logs are taken",
        ));
        return Ok(None);
    }
    let version = Version::read(&read_file(&path)?);
    if version.is_none() {
        damage.push(Damage::new(
            &path,
            0,
            "the manifest is damaged; all tables and logs are taken",
        ));
    }
    Ok(version)
}

/// A source of entries in the order of their keys.
enum Run {
    Log(std::vec::IntoIter<Entry>),
    /// Tables that are read one after the other; the next one is the last of the list.
    Tables {
        files: Vec<PathBuf>,
        open: Option<Table>,
    },
}

/// The first entry of a run that was not shown yet. A head with a smaller key, or a higher sequence
/// number, is greater, so that the heap returns it first.
struct Head {
    entry: Entry,
    run: usize,
}

impl Head {
    fn order(&self) -> (std::cmp::Reverse<&Bytes>, u64) {
        (std::cmp::Reverse(&self.entry.key), self.entry.sequence)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// Merge of all runs.
struct Merge {
    runs: Vec<Run>,
    heap: BinaryHeap<Head>,
    damage: Vec<Damage>,
    /// The last key that the previous walk has shown, if this walk continues it.
    from: Option<Bytes>,
}

impl Merge {
    /// True if the previous walk has shown the key.
    fn is_shown(&self, key: &Bytes) -> bool {
        self.from.as_ref().is_some_and(|from| key <= from)
    }

    #[expect(clippy::indexing_slicing, reason = "the merge counts its runs")]
    fn refill(&mut self, run: usize) -> Result<(), RiakFilesError> {
        let next = match &mut self.runs[run] {
            Run::Log(entries) => entries.next(),
            Run::Tables { files, open } => loop {
                if let Some(table) = open.as_mut()
                    && let Some(entry) = table.next_entry(&mut self.damage)?
                {
                    match &self.from {
                        Some(from) if entry.key <= *from => continue,
                        _ => break Some(entry),
                    }
                }
                let Some(file) = files.pop() else { break None };
                *open = Table::open(&file, &mut self.damage)?;
                if let (Some(table), Some(from)) = (open.as_mut(), &self.from) {
                    table.skip_to_after(from)?;
                }
            },
        };
        if let Some(entry) = next {
            self.heap.push(Head { entry, run });
        }
        Ok(())
    }

    /// The latest entry of the next key.
    fn next_key(&mut self) -> Result<Option<Head>, RiakFilesError> {
        let Some(found) = self.heap.pop() else { return Ok(None) };
        self.refill(found.run)?;
        while self.heap.peek().is_some_and(|head| head.entry.key == found.entry.key) {
            if let Some(older) = self.heap.pop() {
                self.refill(older.run)?;
            }
        }
        Ok(Some(found))
    }
}
