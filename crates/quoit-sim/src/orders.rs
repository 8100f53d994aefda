//! Orders of the operator to the run: what befalls machines because somebody wants it.

use parking_lot::Mutex;
use std::sync::Arc;

/// An order of the operator to the run. Machines are told by their places, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Switch on a spare machine.
    SwitchOn(usize),
    /// Destroy a machine with its disks.
    Destroy(usize),
    /// Switch off a machine for ever that has handed over all that it had.
    SwitchOff(usize),
}

/// Orders that wait. Clones are the same orders.
#[derive(Clone, Default)]
pub struct Orders(Arc<Mutex<Vec<Order>>>);

impl Orders {
    /// Takes the orders that wait.
    #[must_use]
    pub fn take(&self) -> Vec<Order> {
        std::mem::take(&mut self.0.lock())
    }

    pub(crate) fn give(&self, order: Order) {
        self.0.lock().push(order);
    }
}
