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
        self.is_over()
    }

    #[inline]
    const fn is_over(&self) -> bool {
        self.weight_left == 0 || self.bytes_left <= 0
    }

    /// Begins a turn after a read that had to wait, because other tasks ran meanwhile. Otherwise continues
    /// the turn of the last request: a client that never stops sending has to yield to others, however few
    /// of its requests arrive with one read.
    #[inline]
    pub(crate) async fn go_on(&mut self, socket: &mut Socket) {
        if socket.take_has_waited() {
            *self = Self::new();
        } else if self.is_over() {
            self.pass(socket).await;
        }
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
    use bytes::BytesMut;
    use std::sync::Arc;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;
    use tokio::task::yield_now;

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

    #[tokio::test]
    async fn a_turn_goes_on_until_it_is_over_or_a_read_has_to_wait() {
        const ROOM: usize = 1024;
        let (mut client, stream) = UnixStream::pair().expect("two sockets");
        let mut socket = Socket::new(stream, Arc::default());
        let mut input = BytesMut::with_capacity(ROOM);
        let mut turn = TurnBudget::new();
        client.write_all(&[7; 3 * ROOM]).await.expect("it can be written to");
        // The first read waits until the runtime has polled the network.
        socket.read(&mut input, ROOM).await.expect("bytes have arrived");
        turn.go_on(&mut socket).await;

        turn.spend(Weight::General, 0);
        input.clear();
        socket.read(&mut input, ROOM).await.expect("more bytes are there");
        turn.go_on(&mut socket).await;
        assert_eq!(turn.weight_left, WEIGHT_MAX - Weight::General as u32, "nothing has waited");

        turn.spend(Weight::Heavy, 0);
        input.clear();
        socket.read(&mut input, ROOM).await.expect("more bytes are there");
        turn.go_on(&mut socket).await;
        assert_eq!(turn.weight_left, WEIGHT_MAX, "it was over");

        turn.spend(Weight::General, 0);
        input.clear();
        let send = async {
            yield_now().await;
            client.write_all(&[7]).await
        };
        let (read, sent) = tokio::join!(socket.read(&mut input, ROOM), send);
        read.and(sent.map(drop)).expect("a byte arrives");
        turn.go_on(&mut socket).await;
        assert_eq!(turn.weight_left, WEIGHT_MAX, "the read had to wait");
    }
}
