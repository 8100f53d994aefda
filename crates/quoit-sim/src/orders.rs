//! Orders of the operator to the run, which carries them out on machines.

use parking_lot::Mutex;
use std::sync::Arc;

/// An order of the operator to the run. Machines are identified by their indexes, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Switch on a spare machine.
    SwitchOn(usize),
    /// Destroy a machine with its disks.
    Destroy(usize),
    /// Switch off for good a machine that has handed over everything.
    SwitchOff(usize),
}

/// Queue of orders. Clones share it.
#[derive(Clone, Default)]
pub struct Orders(Arc<Mutex<Vec<Order>>>);

impl Orders {
    /// Takes all orders from the queue.
    #[must_use]
    pub fn take(&self) -> Vec<Order> {
        std::mem::take(&mut self.0.lock())
    }

    pub(crate) fn give(&self, order: Order) {
        self.0.lock().push(order);
    }
}
