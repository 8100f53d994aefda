//! Deletes of another cluster that this one has missed. They are repeated here after an operator has
//! decided that the other cluster is right.

use super::Replication;
use crate::coordinator::put::{DeleteOutcome, DeleteRequest};
use crate::error::RequestError;
use crate::options::Precondition;
use bytes::Bytes;
use quoit_model::context::decode_context;
use quoit_model::key::KeyRef;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Number of records that are deleted at the same time.
const CONCURRENT_COUNT: usize = 32;

/// A record with the clock that it was seen with, in the form that clients get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordVersion {
    /// Encoded name.
    pub key: Bytes,
    /// Clock.
    pub clock: Bytes,
}

/// Outcome of the deletes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeletesOutcome {
    /// Number of records that were deleted.
    pub deleted_count: u64,
    /// Number of records that could not be deleted.
    pub failed_count: u64,
    /// The first fault.
    pub fault: Option<String>,
}

impl Replication {
    /// Deletes the records that are still as they were seen. A record that was written in the meantime
    /// stays.
    pub async fn delete_seen(self: &Arc<Self>, records: Vec<RecordVersion>) -> DeletesOutcome {
        let (mut outcome, mut tasks) = (DeletesOutcome::default(), JoinSet::new());
        let mut records = records.into_iter();
        loop {
            while tasks.len() < CONCURRENT_COUNT
                && let Some(record) = records.next()
            {
                let replication = Arc::clone(self);
                tasks.spawn(async move { replication.delete_one_seen(&record).await });
            }
            let Some(ended) = tasks.join_next().await else { return outcome };
            match ended {
                Ok(Ok(DeleteOutcome::Done)) => outcome.deleted_count += 1,
                // A client has deleted or written it in the meantime.
                Ok(Ok(DeleteOutcome::Missing) | Err(RequestError::Unmet(_))) => {}
                Ok(Err(fault)) => {
                    outcome.failed_count += 1;
                    outcome.fault.get_or_insert_with(|| fault.to_string());
                }
                // The runtime shuts down.
                Err(_) => outcome.failed_count += 1,
            }
        }
    }

    async fn delete_one_seen(&self, record: &RecordVersion) -> Result<DeleteOutcome, RequestError> {
        let key = KeyRef::decode(&record.key)?;
        let clock = decode_context(&record.clock)?;
        let precondition = Precondition { clock: Some(clock.clone()), ..Precondition::default() };
        let request =
            DeleteRequest { context: Some(clock), precondition, ..DeleteRequest::of(key) };
        self.coordinator.delete(&request).await
    }
}
