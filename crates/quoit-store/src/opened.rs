//! An opened store, in the form that all engines share.

use crate::bitcask::{BitcaskEngine, OpenReport};
use crate::engine::Engine;
use crate::identity::StoreIdentity;
use crate::multi::{MultiEngine, MultiReport};
use crate::ordered::{OrderedEngine, OrderedReport};
use crate::record_loss::RecordLoss;
use std::sync::Arc;

/// A store that was opened, with any engine.
pub struct OpenedStore {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Identity of the store.
    pub identity: Arc<StoreIdentity>,
    /// True if the store was created by this opening.
    pub created: bool,
    /// True if the last stop was clean and the store has all of its records, and for a new store.
    pub clean: bool,
    /// Loss of durable records, found by this opening or by an earlier one, that the node has not repaired
    /// yet.
    pub loss: Option<RecordLoss>,
    /// Records in the store, tombstones included.
    pub key_count: u64,
}

impl From<(BitcaskEngine, OpenReport)> for OpenedStore {
    fn from((engine, report): (BitcaskEngine, OpenReport)) -> Self {
        Self {
            identity: Arc::clone(engine.identity()),
            engine: Arc::new(engine),
            created: report.created,
            clean: report.clean && !report.lost_after_clean_stop,
            loss: report.loss,
            key_count: report.key_count,
        }
    }
}

impl From<(OrderedEngine, OrderedReport)> for OpenedStore {
    fn from((engine, report): (OrderedEngine, OrderedReport)) -> Self {
        let OrderedReport { created, clean, loss, key_count, .. } = report;
        let identity = Arc::clone(engine.identity());
        Self { identity, engine: Arc::new(engine), created, clean, loss, key_count }
    }
}

impl From<(MultiEngine, MultiReport)> for OpenedStore {
    /// Leaves out losses: the caller opened the single engines and adds their losses.
    fn from((engine, report): (MultiEngine, MultiReport)) -> Self {
        let MultiReport { created, clean, key_count } = report;
        let identity = Arc::clone(engine.identity());
        Self { identity, engine: Arc::new(engine), created, clean, loss: None, key_count }
    }
}
