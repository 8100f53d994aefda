//! One reader of the read-back: reads written keys and passes their values to the verifier.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::Driver;
use crate::output::RunLog;
use crate::term::Term;
use crate::verify::{Read, Verifier, WrittenKeys};
use crate::worker_place::WorkerPlace;

/// Number of attempts before a key counts as unread.
const ATTEMPT_COUNT: u32 = 5;

/// Pause between attempts at a key.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The passes of a read-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// First pass: its reads let the server repair replicas that are behind.
    Repair,
    /// Last pass: its findings count.
    Final,
}

/// Everything that one reader needs, apart from its driver.
pub(crate) struct KeyReader {
    pub(super) place: WorkerPlace,
    /// The keys that no reader has taken yet.
    pub(super) keys: Rc<RefCell<WrittenKeys>>,
    pub(super) verifier: Arc<Verifier>,
    pub(super) pass: Pass,
    pub(super) log: Arc<RunLog>,
}

impl KeyReader {
    /// Takes the next key; `None` if all are taken, or the keys cannot be read from their file.
    fn next_key(&self) -> Option<Vec<u8>> {
        self.keys.borrow_mut().next()?.ok()
    }

    fn begin(&self, key: &[u8]) -> Read {
        match self.pass {
            Pass::Repair => self.verifier.begin_read(key),
            Pass::Final => self.verifier.begin_read_back(key),
        }
    }

    fn report_unread(&self, key: &[u8], reason: &Term) {
        let key = key.escape_ascii();
        self.log.error(&format!("the read-back cannot read {key}: {reason}"));
    }
}

/// Connects, and reads keys until all are read.
pub(super) async fn read_keys<D: Driver>(plan: &D::Plan, reader: &KeyReader) {
    let Ok(mut driver) = D::connect(plan, reader.place).await else { return };
    while let Some(key) = reader.next_key() {
        let mut attempt = 1;
        while let Err(reason) = driver.read_back(plan, &key, reader.begin(&key)).await {
            if attempt == ATTEMPT_COUNT {
                reader.report_unread(&key, &reason);
                break;
            }
            attempt += 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}
