//! The control file: one `redb` database with the node's identity, its log and its state, described in
//! `docs/design/control-plane.md`.

mod backend;
mod epoch;
mod found;
mod load;
mod rows;

pub(crate) use found::Founding;
pub(crate) use rows::{Applied, CommitError};

use crate::error::OpenError;
use backend::{Backend, io_error};
use parking_lot::RwLock;
use quoit_seam::Disk;
use quoit_seam::DiskError;
use quoit_seam::rented;
use redb::{Builder, Database, DatabaseError, StorageError, TableDefinition, WriteTransaction};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "control.redb";
/// The file while it is made.
const NEW_FILE_NAME: &str = "control.new";
/// Format of the file that this version writes. It reads format 1 as well: the file of a node alone,
/// without a log.
const FORMAT: u32 = 2;
/// Format of a file with rules of security. Versions that know no rules, and would serve all clients, don't
/// open it.
const FORMAT_WITH_RULES: u32 = 3;
/// Memory that the database may use for pages; everything is in memory as values anyway.
const CACHE_BYTES: usize = 4 << 20;

const NODE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("quoit_node");
const RAFT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("raft");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const LAYOUTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("layouts");
const MEMBERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("members");
/// The latest start of each other node that this one knows of: starts and boot id.
const STARTS: TableDefinition<'_, &[u8], (u64, u64)> = TableDefinition::new("starts");
/// The last opening of each of this node's stores, by name: id, number and incarnation.
const STORES: TableDefinition<'_, &str, (u64, u64, u64)> = TableDefinition::new("stores");
const BUCKET_TYPES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bucket_types");
/// Rules of security by key, as JSON.
const RULES: TableDefinition<'_, &str, &str> = TableDefinition::new("security");
const BUCKET_PROPS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bucket_props");

const KEY_FORMAT: &str = "format";
const KEY_NODE_ID: &str = "node_id";
const KEY_RING_SIZE: &str = "ring_size";
const KEY_CLUSTER_ID: &str = "cluster_id";
const KEY_STARTS: &str = "starts";
const KEY_TIME: &str = "time";

const KEY_BALLOT: &str = "ballot";
const KEY_PURGED: &str = "purged";
const KEY_APPLIED: &str = "applied";
const KEY_ELECTORATE: &str = "electorate";
const KEY_CLUSTER: &str = "cluster";
const KEY_VERSION: &str = "version";
const KEY_REVISION: &str = "revision";

/// The file. After a failed write what it holds is unknown until it is opened again.
pub(crate) struct ControlFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// `None` = closed. Readers share it with the writer, which waits for the disk.
    database: RwLock<Option<Database>>,
}

impl ControlFile {
    /// Opens the file, making it first when there is none, and counts the start.
    pub(crate) fn open(disk: Arc<dyn Disk>, founding: &Founding) -> Result<Self, OpenError> {
        let path = Path::new(&disk.path()).join(FILE_NAME);
        let io = |fault| OpenError::Io { path: path.clone(), fault };
        let names = disk.list().map_err(|error| io(io_error(error)))?;
        if !names.iter().any(|name| name == FILE_NAME) {
            found::create(&*disk, &path, &names, founding)?;
        }
        let file = Self { disk, path, database: RwLock::new(None) };
        file.reopen()?;
        file.upgrade(founding)?;
        Ok(file)
    }

    /// Opens a file that is there, and changes nothing in it.
    pub(crate) fn open_existing(disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let path = Path::new(&disk.path()).join(FILE_NAME);
        let file = Self { disk, path, database: RwLock::new(None) };
        file.reopen()?;
        Ok(file)
    }

    /// Whether the file is of a version that knows of other nodes.
    pub(crate) fn has_log(&self) -> Result<bool, OpenError> {
        Ok(self.identity()?.format > 1)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go of the file: tasks that still work with it get errors.
    pub(crate) fn close(&self) {
        self.database.write().take();
    }

    /// Opens the file again and checks all of it.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let mut database = self.database.write();
        // Two handles would each have their own idea of the pages.
        database.take();
        let io = |error| OpenError::Io { path: self.path.clone(), fault: io_error(error) };
        let file = self.disk.open(FILE_NAME, false).map_err(io)?;
        if file.size_bytes().map_err(io)? == 0 {
            let reason = "it is empty".to_owned();
            return Err(OpenError::Foreign { path: self.path.clone(), reason });
        }
        let opened = self.guarded(|| {
            let mut database = builder().create_with_backend(Backend { file })?;
            let is_sound = database.check_integrity()?;
            Ok(is_sound.then_some(database))
        })?;
        match opened {
            Ok(Some(opened)) => *database = Some(opened),
            Ok(None) => return Err(self.corrupt("its check sums are wrong")),
            Err(error) => return Err(open_error(&self.path, error)),
        }
        Ok(())
    }

    /// Runs what looks at the file's bytes. `redb` panics on some damaged files instead of returning an
    /// error; nothing that it leaves behind is used after that.
    fn guarded<T>(&self, look: impl FnOnce() -> T) -> Result<T, OpenError> {
        rented::catch(look).map_err(|thrown| {
            let words = rented::words_of(&thrown);
            self.corrupt(&format!("its pages contradict each other ({words})"))
        })
    }

    fn corrupt(&self, reason: &str) -> OpenError {
        OpenError::Corrupt { path: self.path.clone(), reason: reason.to_owned() }
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// One durable transaction.
fn commit(
    database: &Database,
    fill: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    fill(&transaction)?;
    transaction.commit()?;
    Ok(())
}

fn open_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        DatabaseError::Storage(StorageError::Io(fault)) => match fault.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                OpenError::Foreign { path, reason: fault.to_string() }
            }
            _ => OpenError::Io { path, fault },
        },
        DatabaseError::UpgradeRequired(version) => OpenError::Foreign {
            path,
            reason: format!("its database format {version} is of another time"),
        },
        error => OpenError::Corrupt { path, reason: error.to_string() },
    }
}

/// Why the directory cannot be taken.
pub(crate) fn lock_error(disk: &dyn Disk, error: DiskError) -> OpenError {
    let path = Path::new(&disk.path()).join(FILE_NAME);
    match error {
        DiskError::Locked { .. } => OpenError::InUse { path },
        error => OpenError::Io { path, fault: io_error(error) },
    }
}
