//! The control file: one `redb` database of three tables, described in
//! `docs/design/bucket-properties.md`.

use crate::NodeId;
use crate::command::Change;
use crate::error::{OpenError, StoreError};
use quoit_model::hash::RingSize;
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::props::{BucketProps, BucketType, TypeState};
use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableDefinition, TableError,
};
use serde_json::{Map, Value, json};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Format of the file that this version reads and writes.
const FORMAT: u32 = 1;
/// Memory that the database may use for pages; everything is in memory as values anyway.
const CACHE_BYTES: usize = 4 << 20;

const NODE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("quoit_node");
const BUCKET_TYPES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bucket_types");
const BUCKET_PROPS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bucket_props");

const KEY_FORMAT: &str = "format";
const KEY_NODE_ID: &str = "node_id";
const KEY_RING_SIZE: &str = "ring_size";

/// What is fixed when the file is made.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    pub node_id: NodeId,
    pub ring_size: RingSize,
}

/// What the file holds: bucket types before buckets.
#[derive(Debug)]
pub struct Stored {
    pub identity: Identity,
    pub changes: Vec<Change>,
}

/// Opens the database of a file that is there.
pub type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// The file. After a failed write it is closed, and what it holds is unknown until it is read
/// again.
pub struct Store {
    path: PathBuf,
    opener: Opener,
    database: Option<Database>,
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the file, making it first when there is none.
    pub fn open(path: &Path, identity: Identity) -> Result<Self, OpenError> {
        match fs::symlink_metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(path, identity)?;
            }
            Err(source) => return Err(OpenError::Io { path: path.to_owned(), source }),
        }
        Self::open_by(path, Box::new(|path| builder().open(path)))
    }

    /// Opens a file that is there.
    pub fn open_by(path: &Path, opener: Opener) -> Result<Self, OpenError> {
        let mut store = Self { path: path.to_owned(), opener, database: None };
        store.database = Some(store.open_database()?);
        Ok(store)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file and checks all of it.
    fn open_database(&self) -> Result<Database, OpenError> {
        let opened = self.guarded(|| {
            let mut database = (self.opener)(&self.path)?;
            let is_sound = database.check_integrity()?;
            Ok(is_sound.then_some(database))
        })?;
        match opened {
            Ok(Some(database)) => Ok(database),
            Ok(None) => Err(corrupt(&self.path, "its check sums are wrong")),
            Err(error) => Err(open_error(&self.path, error)),
        }
    }

    /// Runs what looks at the file's bytes. `redb` panics on some damaged files instead of returning an
    /// error; nothing that it leaves behind is used after that.
    fn guarded<T>(&self, look: impl FnOnce() -> T) -> Result<T, OpenError> {
        catch_unwind(AssertUnwindSafe(look)).map_err(|panic| {
            let detail = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no details");
            let reason = format!("its pages contradict each other ({detail})");
            corrupt(&self.path, &reason)
        })
    }

    /// Reads everything.
    pub fn read(&self) -> Result<Stored, OpenError> {
        self.guarded(|| self.read_unguarded())?
    }

    fn read_unguarded(&self) -> Result<Stored, OpenError> {
        let database = self.database.as_ref().ok_or_else(|| corrupt(&self.path, "it is closed"))?;
        let fault = |error: &dyn fmt::Display| corrupt(&self.path, &error.to_string());
        let transaction = database.begin_read().map_err(|error| fault(&error))?;
        let identity = self.read_identity(&transaction)?;
        let mut changes = self.entries(&transaction, BUCKET_TYPES, decode_type)?;
        changes.extend(self.entries(&transaction, BUCKET_PROPS, decode_bucket)?);
        Ok(Stored { identity, changes })
    }

    fn read_identity(&self, transaction: &ReadTransaction) -> Result<Identity, OpenError> {
        let path = || self.path.clone();
        let table = transaction.open_table(NODE).map_err(|error| {
            let reason = format!("it has no table {NODE}: {error}");
            OpenError::Foreign { path: path(), reason }
        })?;
        let get = |key: &str| -> Result<Vec<u8>, OpenError> {
            let found = table.get(key).map_err(|error| corrupt(&self.path, &error.to_string()))?;
            let missing = || corrupt(&self.path, &format!("{key} is missing"));
            Ok(found.ok_or_else(missing)?.value().to_vec())
        };
        let wrong = |key: &str| corrupt(&self.path, &format!("{key} is no possible value"));
        let format = get(KEY_FORMAT)?;
        let format = <[u8; 4]>::try_from(format).map_err(|_| wrong(KEY_FORMAT))?;
        let found = u32::from_be_bytes(format);
        if found != FORMAT {
            return Err(OpenError::Format { path: path(), found, known: FORMAT });
        }
        let node_id = <[u8; 16]>::try_from(get(KEY_NODE_ID)?).map_err(|_| wrong(KEY_NODE_ID))?;
        let ring_size = <[u8; 2]>::try_from(get(KEY_RING_SIZE)?)
            .ok()
            .and_then(|bytes| RingSize::new(u16::from_be_bytes(bytes)))
            .ok_or_else(|| wrong(KEY_RING_SIZE))?;
        Ok(Identity { node_id: NodeId(node_id), ring_size })
    }

    fn entries(
        &self,
        transaction: &ReadTransaction,
        definition: TableDefinition<'_, &[u8], &[u8]>,
        decode: fn(&[u8], &[u8]) -> Result<Change, String>,
    ) -> Result<Vec<Change>, OpenError> {
        let fault = |error: &dyn fmt::Display| corrupt(&self.path, &error.to_string());
        let table = match transaction.open_table(definition) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(fault(&error)),
        };
        let mut changes = Vec::new();
        for entry in table.iter().map_err(|error| fault(&error))? {
            let (name, value) = entry.map_err(|error| fault(&error))?;
            let change = decode(name.value(), value.value()).map_err(|error| fault(&error))?;
            changes.push(change);
        }
        Ok(changes)
    }

    /// Opens the file again after a failed write and reads what it holds; `None` when nothing
    /// failed.
    pub fn recover(&mut self) -> Result<Option<Stored>, StoreError> {
        if self.database.is_some() {
            return Ok(None);
        }
        self.database = Some(self.open_database().map_err(|error| self.error(&error))?);
        match self.read() {
            Ok(stored) => Ok(Some(stored)),
            Err(error) => {
                self.database = None;
                Err(self.error(&error))
            }
        }
    }

    /// Writes a change down, durably.
    pub fn write(&mut self, change: &Change) -> Result<(), StoreError> {
        let written = match &self.database {
            Some(database) => commit(database, |transaction| put(transaction, change)),
            None => Err(redb::Error::DatabaseClosed),
        };
        written.map_err(|error| {
            self.database = None;
            self.error(&error)
        })
    }

    fn error(&self, reason: &dyn fmt::Display) -> StoreError {
        StoreError { path: self.path.clone(), reason: reason.to_string() }
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Makes the file under another name and renames it, so that a file that is there is whole.
fn create(path: &Path, identity: Identity) -> Result<(), OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    let new_path = path.with_extension("new");
    match fs::remove_file(&new_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
        _ => {}
    }
    let database = builder().create(&new_path).map_err(|error| open_error(path, error))?;
    commit(&database, |transaction| {
        let mut node = transaction.open_table(NODE)?;
        node.insert(KEY_FORMAT, FORMAT.to_be_bytes().as_slice())?;
        node.insert(KEY_NODE_ID, identity.node_id.0.as_slice())?;
        node.insert(KEY_RING_SIZE, identity.ring_size.get().to_be_bytes().as_slice())?;
        transaction.open_table(BUCKET_TYPES)?;
        transaction.open_table(BUCKET_PROPS)?;
        Ok(())
    })
    .map_err(|error| io_error(io::Error::other(error)))?;
    drop(database);
    fs::rename(&new_path, path).map_err(io_error)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(io_error)
}

/// One durable transaction.
fn commit(
    database: &Database,
    fill: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    fill(&transaction)?;
    transaction.commit()?;
    Ok(())
}

fn put(transaction: &redb::WriteTransaction, change: &Change) -> Result<(), redb::Error> {
    match change {
        Change::PutType { name, bucket_type } => {
            let value = encode_type(bucket_type);
            transaction.open_table(BUCKET_TYPES)?.insert(&**name, value.as_bytes())?;
        }
        Change::PutBucket { bucket_type, bucket, props } => {
            let value = Value::Object(props.to_json()).to_string();
            let key = bucket_key(bucket_type, bucket);
            transaction.open_table(BUCKET_PROPS)?.insert(key.as_slice(), value.as_bytes())?;
        }
        Change::RemoveBucket { bucket_type, bucket } => {
            let key = bucket_key(bucket_type, bucket);
            transaction.open_table(BUCKET_PROPS)?.remove(key.as_slice())?;
        }
    }
    Ok(())
}

/// Length of the type's name (16-bit big-endian), the type's name, the bucket's name.
fn bucket_key(bucket_type: &[u8], bucket: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + bucket_type.len() + bucket.len());
    key.extend_from_slice(&(bucket_type.len() as u16).to_be_bytes());
    key.extend_from_slice(bucket_type);
    key.extend_from_slice(bucket);
    key
}

fn encode_type(bucket_type: &BucketType) -> String {
    json!({"state": bucket_type.state.as_str(), "props": bucket_type.props.to_json()}).to_string()
}

fn decode_type(name: &[u8], value: &[u8]) -> Result<Change, String> {
    let shown = String::from_utf8_lossy(name);
    let object = decode_object(value).map_err(|error| format!("bucket type {shown}: {error}"))?;
    let state = object
        .get("state")
        .and_then(Value::as_str)
        .and_then(TypeState::from_stored)
        .ok_or_else(|| format!("bucket type {shown} has no state"))?;
    let props = object
        .get("props")
        .and_then(Value::as_object)
        .ok_or_else(|| format!("bucket type {shown} has no properties"))?;
    let props = BucketProps::typed_from_json(props)
        .map_err(|error| format!("bucket type {shown}: {error}"))?;
    let bucket_type = BucketType { state, props: Arc::new(props) };
    Ok(Change::PutType { name: name.into(), bucket_type })
}

fn decode_bucket(key: &[u8], value: &[u8]) -> Result<Change, String> {
    let (bucket_type, bucket) = key
        .split_first_chunk::<2>()
        .and_then(|(length, names)| names.split_at_checked(u16::from_be_bytes(*length).into()))
        .ok_or_else(|| "the name of a bucket is cut off".to_owned())?;
    let shown = || String::from_utf8_lossy(bucket);
    let object = decode_object(value).map_err(|error| format!("bucket {}: {error}", shown()))?;
    let props = if bucket_type == DEFAULT_BUCKET_TYPE {
        BucketProps::untyped_from_json(&object)
    } else {
        BucketProps::typed_from_json(&object)
    };
    let props = props.map_err(|error| format!("bucket {}: {error}", shown()))?;
    Ok(Change::PutBucket {
        bucket_type: bucket_type.into(),
        bucket: bucket.into(),
        props: Arc::new(props),
    })
}

fn decode_object(value: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_slice(value)
}

fn corrupt(path: &Path, reason: &str) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), reason: reason.to_owned() }
}

fn open_error(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        DatabaseError::Storage(StorageError::Io(source)) => match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                OpenError::Foreign { path, reason: source.to_string() }
            }
            _ => OpenError::Io { path, source },
        },
        DatabaseError::UpgradeRequired(version) => OpenError::Foreign {
            path,
            reason: format!("its database format {version} is of another time"),
        },
        error => OpenError::Corrupt { path, reason: error.to_string() },
    }
}
