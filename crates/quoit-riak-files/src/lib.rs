//! Readers of the directories in which Riak KV keeps its data.
//!
//! A [`Partition`] is the directory of one partition, kept by Bitcask, LevelDB or leveled. Going through it
//! shows each record that Riak would find there, once, in the newest version, and each piece of a file that
//! can't be read, with file and offset; what is around the damage is shown all the same. Nothing is ever
//! written, and no lock is taken: [`live_process`] tells whether a process has the directory open.
//!
//! ```no_run
//! use quoit_riak_files::{Position, Seen, discover};
//! use std::ops::ControlFlow;
//!
//! let found = discover("/var/lib/riak".as_ref())?;
//! for partition in &found.partitions {
//!     partition.read(&Position::default(), None, &mut |seen, _| {
//!         match seen {
//!             Seen::Record(record) => println!("{} bytes", record.object.len()),
//!             Seen::Damage(damage) => println!("{damage}"),
//!             Seen::Torn(_) | Seen::Nothing => {}
//!         }
//!         ControlFlow::Continue(())
//!     })?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reading leveled is proved by directories that Riak 3.2 has written; others are refused. What an object
//! means is not looked at here: see `quoit_model::riak_object`.

mod bitcask;
mod damage;
mod discover;
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

pub use bitcask::{BitcaskScan, fuzz_bitcask_data, fuzz_bitcask_hint};
pub use damage::Damage;
pub use discover::{Discovered, Engine, Partition, discover, is_riak_directory};
pub use leveldb::{fuzz_leveldb_log, fuzz_leveldb_table};
pub use leveled::fuzz_leveled_journal;
pub use position::{BadPosition, Position};
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

/// Largest object that is read, in bytes; a length above it is damage. Riak's own limit is 50 MB by default.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;

/// A record as a backend keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredRecord {
    /// Its name.
    pub key: BitcaskKey,
    /// The object in Riak's stored form.
    pub object: Bytes,
    /// When the backend wrote it, seconds since 1970; only Bitcask tells.
    pub written_secs: Option<u32>,
    /// The file that it is in.
    pub file: Arc<Path>,
    /// Where in the file the record, or the block that has it, begins.
    pub offset: u64,
}

/// One thing found on the way through a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A record, in its newest version.
    Record(StoredRecord),
    /// A piece that can't be read.
    Damage(Damage),
    /// The end of the file that Bitcask was writing when the node ended: no whole record, and no damage.
    Torn(Damage),
    /// Some megabytes in which no record is the newest version of its key: a walk that is ended here goes on
    /// behind them.
    Nothing,
}

/// Bytes without a newest version after which [`Seen::Nothing`] is shown.
const NOTHING_BYTES: u64 = 16 << 20;

/// Callback of a walk: it is shown each finding, with the position behind it, and may end the walk.
pub type Visit<'v> = dyn FnMut(Seen, &Position) -> ControlFlow<()> + 'v;

/// Why a directory can't be read.
#[derive(Debug, Error)]
pub enum RiakFilesError {
    /// The system refuses.
    #[error("{path}", path = .path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Nothing of Riak's is there.
    #[error(
        "{path} holds no data of Riak: it has neither bitcask, leveldb nor leveled, nor is it one of these \
         with a directory for each partition", path = .path.display()
    )]
    NothingFound {
        /// The directory.
        path: PathBuf,
    },
    /// More keys than the memory that the walk may use has room for.
    #[error(
        "{path} has more than {keys_max} keys, and an import takes no larger partition: move the data of \
         this node by replication (quoit import plan)", path = .path.display()
    )]
    TooManyKeys {
        /// Directory of the partition.
        path: PathBuf,
        /// Most keys.
        keys_max: usize,
    },
}

impl RiakFilesError {
    fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
