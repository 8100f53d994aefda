//! Turns of connections: a connection that has many pipelined requests yields to other tasks after some of
//! them.
//!
//! Each request has a weight by the processor time that it takes. A turn ends when the weights or the bytes
//! of its requests and answers reach a limit.

use crate::socket::Socket;

/// Sum of the weights of the requests in one turn.
const WEIGHT_MAX: u32 = 64;
/// Bytes of requests and answers in one turn.
const BYTES_MAX: isize = 256 << 10;
/// Largest number of turns that one request costs, about that of the largest object.
const TURN_COUNT_MAX: usize = 200;

/// The weight of a request in a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Weight {
    /// A get or put that is answered directly from the read buffer: some microseconds.
    Plain = 1,
    /// Any other request: some tens of microseconds.
    General = 8,
    /// An answer that takes about a millisecond to make: a whole turn.
    Heavy = WEIGHT_MAX,
}

/// The rest of a connection's current turn.
#[derive(Debug)]
pub(crate) struct TurnBudget {
    weight_left: u32,
    /// Below zero when the last request exceeded the rest of the turn.
    bytes_left: isize,
}

impl TurnBudget {
    /// Begins a turn.
    pub(crate) const fn new() -> Self {
        Self { weight_left: WEIGHT_MAX, bytes_left: BYTES_MAX }
    }

    /// Counts a request with the bytes of it and of its answer. Returns true if the turn is over.
    #[inline]
    pub(crate) const fn spend(&mut self, weight: Weight, bytes: usize) -> bool {
        self.weight_left = self.weight_left.saturating_sub(weight as u32);
        self.bytes_left = self.bytes_left.saturating_sub_unsigned(bytes);
        self.weight_left == 0 || self.bytes_left <= 0
    }

    /// Yields to other tasks and begins the next turn. A request with the bytes of several turns yields as
    /// many times.
    pub(crate) async fn pass(&mut self, socket: &Socket) {
        let turn_count = self.turn_count();
        *self = Self::new();
        for _ in 0..turn_count {
            socket.yield_to_ready_tasks().await;
        }
    }

    /// Number of turns that the last request costs.
    fn turn_count(&self) -> usize {
        let further = self.bytes_left.min(0).unsigned_abs() / BYTES_MAX.unsigned_abs();
        (1 + further).min(TURN_COUNT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_in_turn(weight: Weight, bytes: usize) -> u32 {
        let mut turn = TurnBudget::new();
        let mut count = 1;
        while !turn.spend(weight, bytes) {
            count += 1;
        }
        count
    }

    #[test]
    fn a_turn_ends_by_requests_by_their_weight_and_by_bytes() {
        assert_eq!(count_in_turn(Weight::Plain, 100), 64);
        assert_eq!(count_in_turn(Weight::General, 100), 8);
        assert_eq!(count_in_turn(Weight::Heavy, 100), 1);
        assert_eq!(count_in_turn(Weight::Plain, 64 << 10), 4);
        assert_eq!(count_in_turn(Weight::Plain, 50 << 20), 1);
    }

    #[test]
    fn a_large_request_is_paid_for_with_as_many_turns_as_it_has_bytes_for() {
        for (bytes, turn_count) in [(100, 1), (256 << 10, 1), (10 << 20, 40), (1 << 30, 200)] {
            let mut turn = TurnBudget::new();
            turn.spend(Weight::Heavy, bytes);
            assert_eq!(turn.turn_count(), turn_count, "{bytes} bytes");
        }
    }
}
