//! The engine of a node, with its source of events and its lost records.

use quoit_cluster::{ControlPlane, StoreError as ControlError};
use quoit_core::{DotSequence, VolatileCounters};
use quoit_model::store_opening::{LastOpening, StoreId};
use quoit_store::bitcask::RecordLoss;
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_store::{OpenedStore, StoreIdentity};
use std::sync::Arc;
use thiserror::Error;

/// An opened engine.
pub struct NodeEngine {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Source of events for its records.
    pub dots: DotSequence,
    /// Durable records that are lost, if any.
    pub loss: Option<FoundLoss>,
}

/// Durable records that are lost, with the stores that report the loss until the node has recovered from it.
pub struct FoundLoss {
    loss: RecordLoss,
    reported_by: Vec<Arc<StoreIdentity>>,
}

impl NodeEngine {
    /// An engine that keeps nothing across restarts. Each start is a new store with the random id
    /// `entropy`.
    #[must_use]
    pub fn in_memory(engine: Arc<dyn Engine>, entropy: u64) -> Self {
        let actor = StoreIdentity::actor_of(StoreId(entropy), 1);
        Self { engine, dots: DotSequence::new(actor, Box::new(VolatileCounters)), loss: None }
    }
}

impl From<OpenedStore> for NodeEngine {
    fn from(opened: OpenedStore) -> Self {
        let loss = FoundLoss::of(&opened);
        Self { dots: DotSequence::of_store(&opened.identity), engine: opened.engine, loss }
    }
}

impl FoundLoss {
    /// A loss that no store has recorded. It ends when the node has recovered from it.
    #[must_use]
    pub fn unreported(reason: impl Into<String>) -> Self {
        Self { loss: RecordLoss { reason: reason.into() }, reported_by: Vec::new() }
    }

    /// The loss that a store has found, if any.
    #[must_use]
    pub fn of(opened: &OpenedStore) -> Option<Self> {
        let loss = opened.loss.clone()?;
        Some(Self { loss, reported_by: vec![Arc::clone(&opened.identity)] })
    }

    /// Joins several losses into one, with the reason of the first.
    #[must_use]
    pub fn merge_all(losses: impl IntoIterator<Item = Self>) -> Option<Self> {
        losses.into_iter().reduce(|mut first, other| {
            first.reported_by.extend(other.reported_by);
            first
        })
    }

    /// Reason why the node assumes that records are lost, for operators.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.loss.reason
    }

    /// Records durably, in each store that has reported the loss, that the node has recovered from it.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        self.reported_by.iter().try_for_each(|identity| identity.mark_loss_repaired())
    }
}

/// Error of reading or writing a store's last opening in the control plane's file.
#[derive(Debug, Error)]
pub enum NotedOpeningError {
    /// The last opening can't be read.
    #[error("reading the recorded openings of the store")]
    Read(#[source] ControlError),
    /// The current opening can't be written.
    #[error("recording the opening of the store")]
    Write(#[source] ControlError),
}

/// Opens the store `name` with the record of its last opening, and durably records the new opening. A store
/// that was restored from a copy is older than that record, and detects this.
///
/// # Errors
///
/// If `open` fails, or the control plane's file can't be read or written.
pub fn open_noted<E: From<NotedOpeningError>>(
    control: &ControlPlane,
    name: &str,
    open: impl FnOnce(Option<LastOpening>) -> Result<OpenedStore, E>,
) -> Result<OpenedStore, E> {
    let last = control.store_opening(name).map_err(NotedOpeningError::Read)?;
    let opened = open(last)?;
    let noted = control.note_store_opening(name, opened.identity.opening());
    noted.map_err(NotedOpeningError::Write)?;
    Ok(opened)
}
