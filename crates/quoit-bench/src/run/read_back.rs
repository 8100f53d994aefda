//! The end of a verified run: every written key is read once more.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::JoinSet;

use super::RunError;
use super::boxed::boxed;
use super::signals::Signals;
use super::worker::Shared;
use crate::driver::Driver;
use crate::verify::{Verifier, WrittenKeys};
use crate::worker_place::WorkerPlace;

/// Number of attempts before a key counts as unread.
const ATTEMPT_COUNT: u32 = 5;

/// Pause between attempts at a key.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of connections of the read-back.
const READER_COUNT_MAX: u32 = 128;

/// The passes of a read-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// First pass: its reads let the server repair replicas that are behind.
    Repair,
    /// Last pass: its findings count.
    Final,
}

/// Reads every written key. If reads may be behind, the keys are read twice, so that the first pass can
/// trigger read repair. SIGINT and SIGTERM end the read-back early; the remaining keys count as unread.
///
/// # Errors
///
/// When the keys cannot be read from their file, or the operating system provides no event loop.
pub(super) fn read_back<D: Driver>(
    shared: &Arc<Shared<D>>,
    verifier: &Arc<Verifier>,
) -> Result<(), RunError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(RunError::Thread)?;
    runtime.block_on(boxed(async {
        if verifier.settings().may_read_behind {
            read_all(shared, verifier, Pass::Repair).await?;
        }
        read_all(shared, verifier, Pass::Final).await
    }))
}

async fn read_all<D: Driver>(
    shared: &Arc<Shared<D>>,
    verifier: &Arc<Verifier>,
    pass: Pass,
) -> Result<(), RunError> {
    let keys = verifier.written_keys().map_err(RunError::WrittenKeys)?;
    let keys = Rc::new(RefCell::new(keys));
    let mut readers = JoinSet::new();
    for number in 1..=shared.worker_count.min(READER_COUNT_MAX) {
        let place = WorkerPlace { number, count: shared.worker_count };
        let (shared, verifier, keys) = (shared.clone(), verifier.clone(), keys.clone());
        readers.spawn_local(boxed(async move {
            if let Ok(mut driver) = D::connect(&shared.plan, place).await {
                read_some(&shared, &verifier, &keys, &mut driver, pass).await;
            }
        }));
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

/// Reads keys until all are read.
async fn read_some<D: Driver>(
    shared: &Shared<D>,
    verifier: &Arc<Verifier>,
    keys: &RefCell<WrittenKeys>,
    driver: &mut D,
    pass: Pass,
) {
    loop {
        let next = keys.borrow_mut().next();
        let Some(Ok(key)) = next else { return };
        let mut attempt = 1;
        loop {
            let read = match pass {
                Pass::Repair => verifier.begin_read(&key),
                Pass::Final => verifier.begin_read_back(&key),
            };
            match driver.read_back(&shared.plan, &key, read).await {
                Ok(()) => break,
                Err(_) if attempt < ATTEMPT_COUNT => {
                    attempt += 1;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(reason) => {
                    let key = key.escape_ascii();
                    shared.log.error(&format!("the read-back cannot read {key}: {reason}"));
                    break;
                }
            }
        }
    }
}
