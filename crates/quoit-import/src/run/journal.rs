//! The file that tells how far an import is.

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

/// How often it is written at least.
const INTERVAL: Duration = Duration::from_millis(250);
/// Share of the time that writing it takes at most: a journal of very many buckets is written less often.
const SHARE: u32 = 10;

/// Most records that are remembered to be sent again. When more are behind, the next run sends everything.
const AGAIN_MAX: usize = 100_000;

/// How far one partition is.
#[derive(Clone, Serialize, Deserialize, Default)]
struct Reached {
    position: Position,
    done: bool,
}

/// How far a walk through all partitions is.
#[derive(Clone, Serialize, Deserialize, Default)]
pub(super) struct Walked {
    /// By the partitions' directories.
    partitions: BTreeMap<String, Reached>,
    copies: Vec<KeptCopies>,
}

impl Walked {
    pub(super) fn is_done(&self, partition: &Partition) -> bool {
        self.partitions.get(&name_of(partition)).is_some_and(|reached| reached.done)
    }

    /// Where the walk goes on in the partition.
    pub(super) fn position(&self, partition: &Partition) -> Position {
        let reached = self.partitions.get(&name_of(partition));
        reached.map(|reached| reached.position.clone()).unwrap_or_default()
    }

    pub(super) fn reached(&mut self, partition: &Partition, position: Position) {
        self.partitions.insert(name_of(partition), Reached { position, done: false });
    }

    pub(super) fn done(&mut self, partition: &Partition) {
        self.partitions.entry(name_of(partition)).or_default().done = true;
    }

    /// Begins anew in this partition.
    fn forget(&mut self, partition: &str) {
        self.partitions.remove(partition);
    }

    pub(super) fn copies(&self) -> &[KeptCopies] {
        &self.copies
    }

    /// Takes note of the files of copies, which have been synced.
    pub(super) fn keep(&mut self, recent: &RecentCopies) {
        self.copies = recent.kept();
    }
}

/// Contents of the file.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct Contents {
    /// The address of the cluster.
    to: String,
    /// Records that the cluster has acknowledged.
    pub(super) sent: Walked,
    pub(super) tally: Tally,
    /// Records of which the cluster was asked.
    pub(super) checked: Walked,
    pub(super) verified: Verified,
    /// Records that the last run has found behind: this one deals with them alone. `None` while all are dealt
    /// with.
    #[serde(default)]
    again: Option<Again>,
}

/// Records that are to be sent again, and the partitions that have them.
#[derive(Clone, Serialize, Deserialize, Default)]
pub(super) struct Again {
    /// By the hashes of their names. Another record with the same hash is sent as well, without harm.
    names: BTreeSet<u64>,
    partitions: BTreeSet<String>,
    is_too_many: bool,
}

impl Again {
    /// Takes note of a record that is behind.
    pub(super) fn note(&mut self, partition: &Partition, key: &BitcaskKey) {
        self.partitions.insert(name_of(partition));
        match self.names.len() < AGAIN_MAX {
            true => drop(self.names.insert(name_hash(key))),
            false => self.is_too_many = true,
        }
    }

    /// Whether the record is one of those.
    pub(super) fn has(&self, record: &StoredRecord) -> bool {
        self.names.contains(&name_hash(&record.key))
    }
}

impl Contents {
    /// The records that this run deals with, if it is not with all.
    pub(super) fn again(&self) -> Option<Again> {
        self.again.clone()
    }
}

/// How far an import is, in a file that is replaced as a whole.
pub(super) struct Journal {
    path: PathBuf,
    pub(super) contents: Contents,
    is_resumed: bool,
    written_at: Instant,
    writing_took: Duration,
}

impl Journal {
    /// The journal of an import that was begun, or a new one.
    pub(super) fn open(path: &Path, to: &str) -> Result<Self> {
        let (contents, is_resumed) = match std::fs::read(path) {
            Ok(bytes) => {
                let contents: Contents = serde_json::from_slice(&bytes).with_context(|| {
                    format!(
                        "{} is no journal of an import; name another file by --journal",
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
        // A place that can't be written is told of before anything is done.
        journal.store()?;
        Ok(journal)
    }

    /// Whether the import goes on with one that was begun before.
    pub(super) const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// A file beside the journal.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// The file of what the first pass through the present partition has found.
    pub(super) fn index_log(&self) -> PathBuf {
        self.beside(".index")
    }

    /// Deletes the file of the first pass, when its partition is done.
    pub(super) fn remove_index_log(&self) -> Result<()> {
        let path = self.index_log();
        match std::fs::remove_file(&path) {
            Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.with_context(|| path.display().to_string()),
        }
    }

    /// Whether it is time to write it.
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
            Ok::<(), anyhow::Error>(())
        };
        write().with_context(|| format!("the journal {} can't be written", self.path.display()))?;
        (self.written_at, self.writing_took) = (Instant::now(), began.elapsed());
        Ok(())
    }

    /// Leaves for the next run the records alone that the second look has found behind; everything, if there
    /// are too many of them.
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

    /// Deletes the file of an import that is done.
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
