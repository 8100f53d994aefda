//! The journal of an import: a file with its progress, so that an interrupted import can continue.
//!
//! The journal is replaced as a whole, some four times a second. Its positions only cover records that the
//! cluster has acknowledged. A resumed import therefore sends some records again, which the cluster merges,
//! but misses none.

use super::recent::{KeptCopies, RecentCopies, name_hash};
use super::tally::Tally;
use super::verify::Verified;
use anyhow::{Context, Result, bail};
use quoit_model::bitcask_key::BitcaskKey;
use quoit_riak_files::{Partition, Position, StoredRecord};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Shortest time between two writes of the journal.
const INTERVAL: Duration = Duration::from_millis(250);
/// The pause between two writes is at least this many times the duration of a write. The journal of very
/// many buckets is thus written less often.
const SHARE: u32 = 10;

/// Most records that are noted for sending again. If more are behind, the next run sends all records.
const AGAIN_MAX: usize = 100_000;

/// Progress in one partition.
#[derive(Clone, Serialize, Deserialize, Default)]
struct PartitionProgress {
    position: Position,
    done: bool,
}

/// Progress of one pass over all partitions.
#[derive(Clone, Serialize, Deserialize, Default)]
pub(super) struct PassProgress {
    /// Progress by the partition's directory.
    partitions: BTreeMap<String, PartitionProgress>,
    copies: Vec<KeptCopies>,
}

impl PassProgress {
    pub(super) fn is_done(&self, partition: &Partition) -> bool {
        self.partitions.get(&name_of(partition)).is_some_and(|reached| reached.done)
    }

    /// Position from which the pass continues in the partition.
    pub(super) fn position(&self, partition: &Partition) -> Position {
        let reached = self.partitions.get(&name_of(partition));
        reached.map(|reached| reached.position.clone()).unwrap_or_default()
    }

    pub(super) fn reached(&mut self, partition: &Partition, position: Position) {
        self.partitions.insert(name_of(partition), PartitionProgress { position, done: false });
    }

    pub(super) fn done(&mut self, partition: &Partition) {
        self.partitions.entry(name_of(partition)).or_default().done = true;
    }

    /// Starts over in this partition.
    fn forget(&mut self, partition: &str) {
        self.partitions.remove(partition);
    }

    pub(super) fn copies(&self) -> &[KeptCopies] {
        &self.copies
    }

    /// Records the state of the files of copies, which have been synced.
    pub(super) fn keep(&mut self, recent: &RecentCopies) {
        self.copies = recent.kept();
    }
}

/// Contents of the journal.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct Contents {
    /// Address of the cluster.
    to: String,
    /// Progress of sending: records that the cluster has acknowledged.
    pub(super) sent: PassProgress,
    pub(super) tally: Tally,
    /// Progress of verification: records that the cluster was asked about.
    pub(super) checked: PassProgress,
    pub(super) verified: Verified,
    /// Records that the previous run found to be behind; this run handles only these. `None` if this run
    /// handles all records.
    #[serde(default)]
    again: Option<ResendSet>,
}

/// Records to send again, and the partitions that hold them.
#[derive(Clone, Serialize, Deserialize, Default)]
pub(super) struct ResendSet {
    /// Hashes of the records' names. Another record with the same hash is sent again too, which is
    /// harmless.
    names: BTreeSet<u64>,
    partitions: BTreeSet<String>,
    is_too_many: bool,
}

impl ResendSet {
    /// Notes a record that is behind.
    pub(super) fn note(&mut self, partition: &Partition, key: &BitcaskKey) {
        self.partitions.insert(name_of(partition));
        match self.names.len() < AGAIN_MAX {
            true => drop(self.names.insert(name_hash(key))),
            false => self.is_too_many = true,
        }
    }

    /// True if the record is to be sent again.
    pub(super) fn has(&self, record: &StoredRecord) -> bool {
        self.names.contains(&name_hash(&record.key))
    }
}

impl Contents {
    /// The records that this run handles; `None` for all.
    pub(super) fn again(&self) -> Option<ResendSet> {
        self.again.clone()
    }
}

/// The open journal of an import.
pub(super) struct Journal {
    path: PathBuf,
    pub(super) contents: Contents,
    is_resumed: bool,
    written_at: Instant,
    writing_took: Duration,
}

impl Journal {
    /// Opens the journal of an interrupted import, or creates a new one.
    pub(super) fn open(path: &Path, to: &str) -> Result<Self> {
        let (contents, is_resumed) = match std::fs::read(path) {
            Ok(bytes) => {
                let contents: Contents = serde_json::from_slice(&bytes).with_context(|| {
                    format!(
                        "{} is not a journal of an import; name another file by --journal",
                        path.display()
                    )
                })?;
                (contents, true)
            }
            Err(fault) if fault.kind() == ErrorKind::NotFound => {
                (Contents { to: to.to_owned(), ..Contents::default() }, false)
            }
            Err(fault) => return Err(fault).with_context(|| path.display().to_string()),
        };
        if contents.to != to {
            bail!(
                "{} is the journal of an import into {}; delete it, or name another file by --journal",
                path.display(),
                contents.to
            );
        }
        let mut journal = Self {
            path: path.to_owned(),
            contents,
            is_resumed,
            written_at: Instant::now(),
            writing_took: Duration::ZERO,
        };
        // Write the journal now, so that a path that can't be written is reported before any work is done.
        journal.store()?;
        Ok(journal)
    }

    /// True if this import continues an interrupted one.
    pub(super) const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The path of a file in the journal's directory, named after the journal.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// The file with the results of the first pass over the current partition. Some engines' partitions are
    /// read in two passes.
    pub(super) fn index_log(&self) -> PathBuf {
        self.beside(".index")
    }

    /// Deletes the file of the first pass, once its partition is done.
    pub(super) fn remove_index_log(&self) -> Result<()> {
        let path = self.index_log();
        match std::fs::remove_file(&path) {
            Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| path.display().to_string()),
        }
    }

    /// True if the journal should be written again.
    pub(super) fn is_due(&self) -> bool {
        self.written_at.elapsed() >= INTERVAL.max(self.writing_took * SHARE)
    }

    pub(super) fn store(&mut self) -> Result<()> {
        let began = Instant::now();
        let beside = self.beside(".new");
        let write = || {
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(&serde_json::to_vec_pretty(&self.contents)?)?;
            file.sync_data()?;
            std::fs::rename(&beside, &self.path)?;
            let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok::<(), anyhow::Error>(())
        };
        write().with_context(|| format!("the journal {} can't be written", self.path.display()))?;
        (self.written_at, self.writing_took) = (Instant::now(), began.elapsed());
        Ok(())
    }

    /// Ends this run with records behind: the journal keeps only those records for the next run. If there
    /// are too many of them, the journal is deleted, so that the next run sends all records.
    pub(super) fn begin_again(mut self) -> Result<()> {
        let again = self.contents.verified.begin_again();
        if again.is_too_many {
            return self.remove();
        }
        for partition in &again.partitions {
            self.contents.sent.forget(partition);
            self.contents.checked.forget(partition);
        }
        self.contents.again = Some(again);
        self.store()
    }

    /// Deletes the journal of a finished import.
    pub(super) fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path).with_context(|| self.path.display().to_string())
    }
}

fn name_of(partition: &Partition) -> String {
    let absolute = std::path::absolute(&partition.directory);
    absolute.unwrap_or_else(|_| partition.directory.clone()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_riak_files::Engine;

    #[test]
    fn an_import_goes_on_where_it_was_and_only_into_the_same_cluster() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("journal");
        let partition = Partition {
            index: "0".to_owned(),
            engine: Engine::Bitcask,
            directory: "bitcask/0".into(),
            slow_directory: None,
        };
        let reached: Position =
            serde_json::from_str(r#"{"file":"1.bitcask.data","offset":17}"#).expect("a position");
        let mut journal = Journal::open(&path, "http://a").expect("a new journal");
        assert!(!journal.is_resumed());
        journal.contents.sent.reached(&partition, reached.clone());
        journal.contents.tally.damaged("a piece".to_owned());
        journal.store().expect("written");
        let again = Journal::open(&path, "http://a").expect("the journal");
        assert!(again.is_resumed() && !again.contents.sent.is_done(&partition));
        assert_eq!(again.contents.sent.position(&partition), reached);
        assert!(again.contents.checked.position(&partition).is_start());
        assert_eq!(again.contents.tally.damaged, ["a piece"]);
        assert!(Journal::open(&path, "http://b").is_err());
        again.remove().expect("removed");
        assert!(!path.exists());
    }
}
