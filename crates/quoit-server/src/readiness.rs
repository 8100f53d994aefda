//! Switch that determines whether the node serves clients.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Switch that determines whether the node serves clients. Connections check it for each request. It is open
/// at first.
#[derive(Debug, Default)]
pub struct ReadinessGate {
    is_closed: AtomicBool,
    reason: Mutex<Option<Arc<str>>>,
}

impl ReadinessGate {
    /// Makes requests of clients fail with `reason`, until [`ReadinessGate::open`].
    pub fn close(&self, reason: Arc<str>) {
        *self.reason.lock() = Some(reason);
        self.is_closed.store(true, Ordering::Release);
    }

    /// Makes requests of clients succeed again.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::Release);
    }

    /// The reason for refusing clients' requests; `None` when they are answered. Costs one atomic load in
    /// that case.
    pub fn refusal(&self) -> Option<Arc<str>> {
        if !self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        self.reason.lock().clone()
    }
}
