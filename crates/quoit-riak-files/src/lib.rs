//! Readers of the directories in which Riak KV keeps its data.
//!
//! A [`Partition`] is the directory of one partition, written by Bitcask, LevelDB or leveled. A
//! walk through it shows the newest version of each record that Riak would find there, once, and
//! each piece of a file that can't be read, with file and offset. Damage does not prevent reading
//! what is around it. Nothing is written to the directory, and no lock is taken: [`live_process`]
//! tells whether a process has the directory open.
//!
//! ```no_run
//! use quoit_riak_files::{Finding, Position, discover};
//! use std::ops::ControlFlow;
//!
//! let found = discover("/var/lib/riak".as_ref())?;
//! for partition in &found.partitions {
//!     partition.read(&Position::default(), None, &mut |seen, _| {
//!         match seen {
//!             Finding::Record(record) => println!("{} bytes", record.object.len()),
//!             Finding::Damage(damage) => println!("{damage}"),
//!             Finding::Torn(_) | Finding::Nothing => {}
//!         }
//!         ControlFlow::Continue(())
//!     })?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The reader of leveled is tested with directories that Riak 3.2 has written; files of other
//! formats are refused. This crate does not decode objects; see `quoit_model::riak_object`.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod bitcask;
mod damage;
mod discover;
mod hint;
mod index_log;
mod leveldb;
mod leveled;
mod newest;
mod position;
mod process;
mod ring;
mod sext;
mod source;
mod tiers;

pub use bitcask::{BitcaskScan, fuzz_bitcask_data};
pub use damage::Damage;
pub use discover::{DiscoveredPartitions, Engine, Partition, discover, is_riak_directory};
pub use hint::fuzz_bitcask_hint;
pub use leveldb::{fuzz_leveldb_log, fuzz_leveldb_table};
pub use leveled::fuzz_leveled_journal;
pub use position::{Position, PositionError};
pub use process::live_process;
pub use ring::ring_size_of_files;
pub use sext::fuzz_sext;
pub use tiers::join_tiers;

use bytes::Bytes;
use quoit_model::bitcask_key::BitcaskKey;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Maximum size of an object in bytes; a greater length counts as damage. Riak's own limit is 50 MB
/// by default.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;

/// A record as the backend stores it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredRecord {
    /// Name of the record.
    pub key: BitcaskKey,
    /// The object in Riak's stored form.
    pub object: Bytes,
    /// Time at which the backend wrote the record, in seconds since 1970; known for Bitcask, and for records
    /// that LevelDB wrote while its expiry was on.
    pub written_secs: Option<u32>,
    /// Time from which on the backend hides the record while its expiry is on, in microseconds since 1970;
    /// known for LevelDB only, and for records that were written with such a time.
    pub expires_at_us: Option<u64>,
    /// The file that contains the record.
    pub file: Arc<Path>,
    /// Offset in bytes of the record, or of the block that contains it.
    pub offset: u64,
}

/// A finding of a walk through a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The newest version of a record.
    Record(StoredRecord),
    /// A piece of a file that can't be read.
    Damage(Damage),
    /// The end of the file that Bitcask was writing when the node ended. It is not a whole record,
    /// and does not count as damage.
    Torn(Damage),
    /// Some megabytes without the newest version of any key, so that a walk that ends here can
    /// continue after them.
    Nothing,
}

/// Number of bytes without a newest version after which [`Finding::Nothing`] is shown.
const NOTHING_BYTES: u64 = 16 << 20;

/// Callback of a walk. It receives each finding with the position after it, and may end the walk.
pub type VisitFn<'v> = dyn FnMut(Finding, &Position) -> ControlFlow<()> + 'v;

/// Error of reading a directory of Riak.
#[derive(Debug, Error)]
pub enum RiakFilesError {
    /// The system refuses to read or write.
    #[error("{path}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The directory has no data of Riak.
    #[error(
        "{path} holds no data of Riak: it has neither bitcask, leveldb nor leveled, nor is it one of these \
         with a directory for each partition", path = .path.display()
    )]
    NothingFound {
        /// The directory.
        path: PathBuf,
    },
    /// The partition has more keys than the walk has memory for.
    #[error(
        "{path} has more than {keys_max} keys, and an import takes no larger partition: move the data of \
         this node by replication (quoit import plan)", path = .path.display()
    )]
    TooManyKeys {
        /// Directory of the partition.
        path: PathBuf,
        /// Maximum number of keys.
        keys_max: usize,
    },
}

impl RiakFilesError {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
