//! Whether the node answers clients.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the node answers clients, as connections see it. It does at first.
#[derive(Debug, Default)]
pub struct ReadinessGate {
    is_closed: AtomicBool,
    reason: Mutex<Option<Arc<str>>>,
}

impl ReadinessGate {
    /// Has clients' requests refused with these words, until [`ReadinessGate::open`].
    pub fn close(&self, reason: Arc<str>) {
        *self.reason.lock() = Some(reason);
        self.is_closed.store(true, Ordering::Release);
    }

    /// Has clients' requests answered.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::Release);
    }

    /// Why clients' requests are refused; `None` when they are answered. Costs an atomic load then.
    pub fn refusal(&self) -> Option<Arc<str>> {
        if !self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        self.reason.lock().clone()
    }
}
