//! Writes of several records in one step.

use crate::error::StoreError;
use crate::record::{Record, RecordAt, RecordMeta};

/// One write of an atomic batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchWrite<'a> {
    /// Store `value`.
    Put {
        /// Where.
        at: RecordAt<'a>,
        /// Metadata for the engine.
        meta: RecordMeta,
        /// The bytes.
        value: &'a [u8],
    },
    /// Remove the record.
    Remove {
        /// Where.
        at: RecordAt<'a>,
    },
}

/// Reads and changes of records of one partition that count all or not at all. See
/// [`PointAccess::transact`](super::PointAccess::transact).
pub trait Transaction {
    /// The record as it was before the transaction.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], which the body has to hand on.
    ///
    /// # Panics
    ///
    /// When the record belongs to another partition.
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted>;

    /// Stores a value when the transaction ends. Of several writes of one record the last one counts.
    ///
    /// # Errors
    ///
    /// As [`Transaction::get`].
    ///
    /// # Panics
    ///
    /// As [`Transaction::get`].
    fn put(&mut self, at: &RecordAt<'_>, meta: RecordMeta, value: &[u8])
    -> Result<(), Interrupted>;

    /// Removes a record when the transaction ends, without a trace.
    ///
    /// # Errors
    ///
    /// As [`Transaction::get`].
    ///
    /// # Panics
    ///
    /// As [`Transaction::get`].
    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted>;
}

/// Why a transaction can't go on: its engine knows.
#[derive(Debug)]
pub struct Interrupted(pub(crate) Interruption);

impl Interrupted {
    /// The body has more to do than a call that must not wait should take: the transaction answers
    /// [`Applied::WouldBlock`](super::Applied::WouldBlock). Only where waiting is not allowed.
    #[must_use]
    pub const fn by_long_work() -> Self {
        Self(Interruption::Cold)
    }
}

#[derive(Debug)]
pub(crate) enum Interruption {
    /// Where waiting is allowed there is more to be had: a record that has to come from the disk.
    Cold,
    /// A record can't be read.
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self(Interruption::Failed(error))
    }
}

/// Body of a transaction.
pub type Body<'f> = dyn FnMut(&mut dyn Transaction) -> Result<(), Interrupted> + 'f;
