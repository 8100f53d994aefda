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
    /// Switch off for good a machine that has handed over everything, or that has lost its directory.
    SwitchOff(usize),
    /// Take a machine's whole directory while its process is down.
    Wipe {
        /// The machine.
        place: usize,
        /// True if no message gets to the machine or from it from then on.
        is_isolated: bool,
    },
    /// Hold all messages to a machine and from it back, whatever other faults there are, or release them.
    Isolate {
        /// The machine.
        place: usize,
        /// True to hold the messages back.
        is_isolated: bool,
    },
    /// Hold the messages of a machine to another one back, or release them.
    Cut {
        /// The machine that sends the messages.
        from: usize,
        /// The machine to which the messages go.
        to: usize,
        /// True to hold the messages back.
        is_cut: bool,
    },
    /// Start the process of a machine, if it is down.
    Start(usize),
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
