//! The control file: one `redb` database with the node's identity, its log and its state.
//! `docs/design/control-plane.md` describes the format.
//!
//! Each method that changes the file does so in one durable transaction: an entry is synced before
//! it is acknowledged, and changes become durable together with the position in the log up to
//! which they are applied.

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
use quoit_seam::third_party;
use redb::{Builder, Database, DatabaseError, StorageError, TableDefinition, WriteTransaction};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "control.redb";
/// Name of the file while it is being created.
const NEW_FILE_NAME: &str = "control.new";
/// Format that this version writes. It also reads format 1, the file of a single node without a log.
const FORMAT: u32 = 2;
/// Format of a file with rules of security. Versions that do not know such rules would serve all clients,
/// so they must refuse to open the file.
const FORMAT_WITH_RULES: u32 = 3;
/// Bytes of memory for the database's page cache. Small, because the decoded state is in memory anyway.
const CACHE_BYTES: usize = 4 << 20;

const NODE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("quoit_node");
const RAFT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("raft");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const LAYOUTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("layouts");
const MEMBERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("members");
/// The latest known start of each other node: its number of starts, and its boot id.
const STARTS: TableDefinition<'_, &[u8], (u64, u64)> = TableDefinition::new("starts");
/// The last opening of each of this node's stores, by name: store id, number of the opening, incarnation.
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

/// The control file. After a failed write its content is unknown until it is opened again.
pub(crate) struct ControlFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// `None` if the file is closed. All operations lock it for reading, writers too: `redb` orders
    /// writers itself. Only closing and opening the file lock it for writing.
    database: RwLock<Option<Database>>,
}

impl ControlFile {
    /// Opens the file, or creates it if it does not exist, and counts the start.
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

    /// Opens an existing file and changes nothing in it.
    pub(crate) fn open_existing(disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let path = Path::new(&disk.path()).join(FILE_NAME);
        let file = Self { disk, path, database: RwLock::new(None) };
        file.reopen()?;
        Ok(file)
    }

    /// Returns true if the file belongs to a member of a cluster, that is, if its format is newer than 1.
    pub(crate) fn has_log(&self) -> Result<bool, OpenError> {
        Ok(self.identity()?.format > 1)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file. Tasks that still use it get errors.
    pub(crate) fn close(&self) {
        self.database.write().take();
    }

    /// Opens the file again and checks all of its checksums.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        let mut database = self.database.write();
        // Close the old handle first: two handles would cache different versions of the same pages.
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

    /// Runs a function that reads the file. `redb` panics on some damaged files instead of returning an
    /// error. A panic becomes an error, and the database that was being used is dropped.
    fn guarded<T>(&self, look: impl FnOnce() -> T) -> Result<T, OpenError> {
        third_party::catch(look).map_err(|thrown| {
            let words = third_party::panic_message(&thrown);
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

/// Runs one durable transaction.
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

/// Converts an error of locking the data directory.
pub(crate) fn lock_error(disk: &dyn Disk, error: DiskError) -> OpenError {
    let path = Path::new(&disk.path()).join(FILE_NAME);
    match error {
        DiskError::Locked { .. } => OpenError::InUse { path },
        error => OpenError::Io { path, fault: io_error(error) },
    }
}
