//! An opened store, in the form that all engines have in common.

use crate::bitcask::{BitcaskEngine, OpenReport};
use crate::engine::Engine;
use crate::identity::StoreIdentity;
use crate::multi::{MultiEngine, MultiReport};
use crate::ordered::{OrderedEngine, OrderedReport};
use crate::record_loss::RecordLoss;
use std::sync::Arc;

/// A store that was opened, whatever its engine.
pub struct OpenedStore {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Identity of the store.
    pub identity: Arc<StoreIdentity>,
    /// Whether the store was made new.
    pub created: bool,
    /// Whether the store was closed in good order before, and has all of its records (also true of a new
    /// one).
    pub clean: bool,
    /// Records that were durable and are gone; found now, or before by a node that has not made up for it.
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
    /// The caller, who has opened the engines one by one, adds their losses.
    fn from((engine, report): (MultiEngine, MultiReport)) -> Self {
        let MultiReport { created, clean, key_count } = report;
        let identity = Arc::clone(engine.identity());
        Self { identity, engine: Arc::new(engine), created, clean, loss: None, key_count }
    }
}
