//! Atomic writes of several records.

use crate::error::StoreError;
use crate::record::{Record, RecordAt, RecordMeta};

/// One write of an atomic batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchWrite<'a> {
    /// Stores `value`.
    Put {
        /// The record.
        at: RecordAt<'a>,
        /// Metadata for the engine.
        meta: RecordMeta,
        /// The new value.
        value: &'a [u8],
    },
    /// Removes the record.
    Remove {
        /// The record.
        at: RecordAt<'a>,
    },
}

/// Reads and writes of several records of one partition, of which all or none take effect. See
/// [`PointAccess::transact`](super::PointAccess::transact).
pub trait Transaction {
    /// The record as it was before the transaction.
    ///
    /// # Errors
    ///
    /// [`Interrupted`]; the body has to return it to the engine, unless it replaces a damaged record
    /// ([`Interrupted::is_damage`]).
    ///
    /// # Panics
    ///
    /// If the record belongs to another partition.
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted>;

    /// Stores a value when the transaction ends. The last write of a record counts.
    ///
    /// # Errors
    ///
    /// As for [`Transaction::get`].
    ///
    /// # Panics
    ///
    /// As for [`Transaction::get`].
    fn put(&mut self, at: &RecordAt<'_>, meta: RecordMeta, value: &[u8])
    -> Result<(), Interrupted>;

    /// Removes a record when the transaction ends, and leaves no tombstone.
    ///
    /// # Errors
    ///
    /// As for [`Transaction::get`].
    ///
    /// # Panics
    ///
    /// As for [`Transaction::get`].
    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted>;
}

/// The reason why a transaction cannot continue, known to the engine only.
#[derive(Debug)]
pub struct Interrupted(pub(crate) Interruption);

impl Interrupted {
    /// For a body whose work is too long for a call that must not wait: the transaction returns
    /// [`Applied::WouldBlock`](super::Applied::WouldBlock). Use it only in a call with
    /// [`IoMode::NoWait`](super::Access::NoWait).
    #[must_use]
    pub const fn needs_wait() -> Self {
        Self(Interruption::NeedsWait)
    }

    /// Whether a record that the body has read is damaged. A body that writes the record anyway replaces it;
    /// any other hands this on.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self.0, Interruption::Failed(StoreError::Corrupt { .. }))
    }
}

#[derive(Debug)]
pub(crate) enum Interruption {
    /// The body needs [`IoMode::Wait`](super::Access::Wait): a record is only on disk, or the work is long.
    NeedsWait,
    /// A record cannot be read.
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self(Interruption::Failed(error))
    }
}

/// Body of a transaction.
pub type TransactionFn<'f> = dyn FnMut(&mut dyn Transaction) -> Result<(), Interrupted> + 'f;
