//! The end of a verified run: every written key is read once more.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::JoinSet;

use super::RunError;
use super::key_reader::{KeyReader, Pass};
use super::shared::Shared;
use super::signals::Signals;
use crate::verify::Verifier;
use crate::worker_place::WorkerPlace;

/// Maximum number of connections of the read-back.
const READER_COUNT_MAX: u32 = 128;

/// Reads every written key. If reads may be behind, the keys are read twice, so that the first pass can
/// trigger read repair. SIGINT and SIGTERM end the read-back early; the remaining keys count as unread.
///
/// # Errors
///
/// When the keys cannot be read from their file, or the operating system provides no event loop.
pub(super) fn read_back(shared: &Shared, verifier: &Arc<Verifier>) -> Result<(), RunError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(RunError::Thread)?;
    runtime.block_on(async {
        if verifier.settings().may_read_behind {
            read_all(shared, verifier, Pass::Repair).await?;
        }
        read_all(shared, verifier, Pass::Final).await
    })
}

async fn read_all(shared: &Shared, verifier: &Arc<Verifier>, pass: Pass) -> Result<(), RunError> {
    let keys = verifier.written_keys().map_err(RunError::WrittenKeys)?;
    let keys = Rc::new(RefCell::new(keys));
    let mut readers = JoinSet::new();
    for number in 1..=shared.worker_count.min(READER_COUNT_MAX) {
        let place = WorkerPlace { number, count: shared.worker_count };
        let (keys, verifier, log) = (keys.clone(), verifier.clone(), shared.log.clone());
        let reader = KeyReader { place, keys, verifier, pass, log };
        readers.spawn_local(shared.driver.clone().read_back(reader));
    }
    let mut signals = Signals::listen().map_err(RunError::Thread)?;
    loop {
        tokio::select! {
            joined = readers.join_next() => if joined.is_none() { break },
            () = signals.next() => readers.abort_all(),
        }
    }
    if pass == Pass::Final {
        // Count keys that no worker reached, and reads that were cut off.
        let report = verifier.report();
        verifier.note_unread(
            report.keys_written.saturating_sub(report.keys_read_back + report.keys_unread),
        );
    }
    Ok(())
}
