//! The file that tells how far an import is.

use anyhow::{Context, Result, bail};
use quoit_riak_files::Partition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How far one partition is.
#[derive(Clone, Copy, Serialize, Deserialize, Default)]
struct Reached {
    /// Records of its walk that the cluster has acknowledged.
    records: u64,
    done: bool,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    /// The address of the cluster.
    to: String,
    /// By the partitions' directories.
    partitions: BTreeMap<String, Reached>,
}

/// How far an import is, in a file that is replaced as a whole.
pub(super) struct Journal {
    path: PathBuf,
    contents: Contents,
    is_resumed: bool,
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
                (Contents { to: to.to_owned(), partitions: BTreeMap::new() }, false)
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
        let journal = Self { path: path.to_owned(), contents, is_resumed };
        // A place that can't be written is told of before anything is done.
        journal.store()?;
        Ok(journal)
    }

    /// Whether the import goes on with one that was begun before.
    pub(super) const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    pub(super) fn is_done(&self, partition: &Partition) -> bool {
        self.reached(partition).done
    }

    /// Records of the partition that the cluster has acknowledged.
    pub(super) fn sent(&self, partition: &Partition) -> u64 {
        self.reached(partition).records
    }

    fn reached(&self, partition: &Partition) -> Reached {
        self.contents.partitions.get(&name_of(partition)).copied().unwrap_or_default()
    }

    pub(super) fn write(&mut self, partition: &Partition, records: u64, done: bool) -> Result<()> {
        self.contents.partitions.insert(name_of(partition), Reached { records, done });
        self.store()
    }

    fn store(&self) -> Result<()> {
        let beside = self.path.with_extension("new");
        let write = || {
            std::fs::write(&beside, serde_json::to_vec_pretty(&self.contents)?)?;
            std::fs::rename(&beside, &self.path)?;
            Ok::<(), anyhow::Error>(())
        };
        write().with_context(|| format!("the journal {} can't be written", self.path.display()))
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
        };
        let mut journal = Journal::open(&path, "http://a").expect("a new journal");
        assert!(!journal.is_resumed());
        journal.write(&partition, 17, false).expect("written");
        let again = Journal::open(&path, "http://a").expect("the journal");
        assert!(again.is_resumed() && !again.is_done(&partition));
        assert_eq!(again.sent(&partition), 17);
        assert!(Journal::open(&path, "http://b").is_err());
        again.remove().expect("removed");
        assert!(!path.exists());
    }
}
