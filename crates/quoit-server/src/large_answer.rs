//! Answers with large values, which are sent from the buffers that the values are in.

use crate::memory::MemoryReservation;
use crate::pace::{PaceSettings, PacedTransfer};
use crate::socket::{MOVED_BYTES_MIN, PIECE_BYTES, Socket, within};
use bytes::{Buf, Bytes};
use quoit_wire::SharedParts;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a client reads nothing before the rest of a half-read answer moves to a smaller buffer. A
/// client that keeps reading costs no copy.
const MOVE_DELAY: Duration = Duration::from_secs(1);
/// Number of pieces that are offered to the system at once. A value has one piece before it and one behind.
const SLICE_COUNT_MAX: usize = 8;

/// An answer that is being sent.
struct LargeAnswer {
    pieces: VecDeque<Bytes>,
    left_bytes: usize,
    /// Size of the buffers of `pieces`.
    held_bytes: usize,
}

impl LargeAnswer {
    fn new(pieces: VecDeque<Bytes>) -> Self {
        let left_bytes = pieces.iter().map(Bytes::len).sum();
        Self { pieces, left_bytes, held_bytes: left_bytes }
    }

    /// Writes as much as the system takes at once, at most [`PIECE_BYTES`].
    #[expect(clippy::indexing_slicing, reason = "`count` is at most the number of slices")]
    fn poll_write(
        &self,
        socket: &mut Socket,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICE_COUNT_MAX];
        let (mut room_bytes, mut count) = (PIECE_BYTES, 0);
        for (piece, slice) in self.pieces.iter().zip(&mut slices) {
            if room_bytes == 0 {
                break;
            }
            let part = piece.get(..room_bytes).unwrap_or(piece);
            *slice = IoSlice::new(part);
            room_bytes -= part.len();
            count += 1;
        }
        socket.poll_write_slices(context, &slices[..count])
    }

    /// Removes bytes that were written, and frees the buffers of which nothing is left.
    fn advance(&mut self, count: usize) {
        self.left_bytes -= count;
        let mut written = count;
        while written > 0
            && let Some(first) = self.pieces.front_mut()
        {
            let taken = written.min(first.len());
            first.advance(taken);
            written -= taken;
            if first.is_empty() {
                self.pieces.pop_front();
            }
        }
        debug_assert_eq!(written, 0, "no more is written than there is");
    }

    /// True if moving the rest to a buffer of its size would free at least half of the memory.
    const fn is_worth_moving(&self) -> bool {
        self.left_bytes >= MOVED_BYTES_MIN && self.left_bytes <= self.held_bytes / 2
    }

    /// Moves the rest to a buffer of its size.
    fn move_rest(&mut self) {
        let mut rest = Vec::with_capacity(self.left_bytes);
        for piece in mem::take(&mut self.pieces) {
            rest.extend_from_slice(&piece);
        }
        debug_assert_eq!(rest.len(), self.left_bytes, "the rest is all that is left");
        self.pieces.push_back(rest.into());
        self.held_bytes = self.left_bytes;
    }
}

impl Socket {
    /// Writes `out` and the values of `shared` in it, and empties both. When a client has read half of the
    /// answer and then reads nothing for a second, the rest moves to a buffer of its size, and the other
    /// memory of `reservation` is given back.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the client does not read.
    pub(crate) async fn write_large(
        &mut self,
        out: &mut Vec<u8>,
        shared: &mut SharedParts,
        reservation: &mut MemoryReservation,
        pace: PaceSettings,
    ) -> io::Result<()> {
        let mut answer = LargeAnswer::new(mem::take(shared).into_pieces(mem::take(out)));
        let mut transfer = None;
        while answer.left_bytes > 0 {
            let at_once = poll_fn(|context| Poll::Ready(answer.poll_write(self, context))).await;
            let count = match at_once {
                Poll::Ready(count) => count?,
                Poll::Pending => {
                    let transfer = transfer.get_or_insert_with(|| PacedTransfer::begin(pace));
                    self.write_late(&mut answer, reservation, transfer.deadline()).await?
                }
            };
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            answer.advance(count);
            if let Some(transfer) = &mut transfer {
                transfer.moved(count);
            }
            self.spend(count).await;
        }
        reservation.keep(0);
        match self.is_tls() {
            true => self.flush_tls(&mut transfer, pace).await,
            false => Ok(()),
        }
    }

    /// Writes once, when the client reads again.
    async fn write_late(
        &mut self,
        answer: &mut LargeAnswer,
        reservation: &mut MemoryReservation,
        deadline: Instant,
    ) -> io::Result<usize> {
        if answer.is_worth_moving() {
            let moves_at = deadline.min(Instant::now() + MOVE_DELAY);
            let write = poll_fn(|context| answer.poll_write(self, context));
            match within(moves_at, write).await {
                Err(fault) if fault.kind() == io::ErrorKind::TimedOut => {}
                written => return written,
            }
            answer.move_rest();
            reservation.keep(answer.left_bytes);
        }
        within(deadline, poll_fn(|context| answer.poll_write(self, context))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::reservation_of;
    use proptest::prelude::*;
    use std::pin::pin;
    use std::sync::Arc;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::{pause, timeout};

    /// Longer than any time limit, for paused clocks.
    const LONG: Duration = Duration::from_secs(10_000);

    async fn pair() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let client = TcpSocket::new_v4().expect("a socket");
        // The system would otherwise take most of an answer that the client does not read.
        client.set_recv_buffer_size(64 * 1024).expect("it is not connected yet");
        let client = client.connect(address).await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("somebody connects");
        (client, Socket::new(stream, Arc::default()))
    }

    /// An answer of this many bytes between a head and an end.
    fn answer_of(value_bytes: usize) -> (Vec<u8>, SharedParts, Vec<u8>) {
        let value: Bytes = (0..value_bytes).map(|place| (place * place / 7) as u8).collect();
        let whole = [b"head", &value[..], b"end"].concat();
        let mut shared = SharedParts::new();
        shared.push(4, value);
        (b"headend".to_vec(), shared, whole)
    }

    #[tokio::test]
    async fn a_value_is_sent_between_the_bytes_around_it_and_its_memory_goes_back() {
        for value_bytes in [1, PIECE_BYTES - 4, PIECE_BYTES, PIECE_BYTES + 1, 5_000_000] {
            let (mut client, mut socket) = pair().await;
            let (mut out, mut shared, whole) = answer_of(value_bytes);
            let mut reservation = reservation_of(1 << 30);
            reservation.hold(whole.len()).expect("there is room");
            let mut read = vec![0; whole.len()];
            let pace = PaceSettings::default();
            let writing = socket.write_large(&mut out, &mut shared, &mut reservation, pace);
            let (written, came) = tokio::join!(writing, client.read_exact(&mut read));
            written.expect("the client reads");
            came.expect("all of it came");
            assert!(read == whole, "{value_bytes} bytes");
            assert!(out.is_empty() && shared.is_empty() && reservation.held_bytes() == 0);
        }
    }

    #[tokio::test]
    async fn memory_goes_back_when_a_client_stops_in_the_middle() {
        const ANSWER_BYTES: usize = 32 << 20;
        let (mut client, mut socket) = pair().await;
        let (mut out, mut shared, whole) = answer_of(ANSWER_BYTES);
        let mut reservation = reservation_of(1 << 30);
        reservation.hold(whole.len()).expect("there is room");
        let mut first = vec![0; ANSWER_BYTES * 3 / 4];
        let pace = PaceSettings { stall_limit: LONG, bytes_per_sec_min: 0 };
        {
            let mut writing =
                pin!(socket.write_large(&mut out, &mut shared, &mut reservation, pace));
            tokio::select! {
                biased;
                written = &mut writing => panic!("nobody has read all of it: {written:?}"),
                read = client.read_exact(&mut first) => drop(read.expect("it is sent")),
            }
            pause();
            let stalled = timeout(MOVE_DELAY * 3, writing).await;
            assert!(stalled.is_err(), "the client reads no more");
        }
        assert!(first == whole[..first.len()]);
        let held_bytes = reservation.held_bytes();
        assert!(held_bytes <= ANSWER_BYTES as u64 / 4, "{held_bytes}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (client, mut socket) = pair().await;
        let (mut out, mut shared, _) = answer_of(32 << 20);
        let mut reservation = reservation_of(1 << 30);
        let pace = PaceSettings::default();
        let written = socket.write_large(&mut out, &mut shared, &mut reservation, pace);
        let written = timeout(LONG, written).await.expect("it has a time limit");
        assert_eq!(written.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    proptest! {
        #[test]
        fn the_rest_of_an_answer_is_the_same_after_it_has_moved(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..6),
            steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..8),
        ) {
            let mut left = pieces.concat();
            let mut answer = LargeAnswer::new(pieces.into_iter().map(Bytes::from).collect());
            for (count, moves) in steps {
                let count = count.index(left.len() + 1);
                left.drain(..count);
                answer.advance(count);
                if moves {
                    answer.move_rest();
                    prop_assert_eq!(answer.held_bytes, left.len());
                }
                prop_assert_eq!(answer.left_bytes, left.len());
                let rest: Vec<u8> = answer.pieces.iter().flatten().copied().collect();
                prop_assert_eq!(&rest, &left);
            }
        }
    }
}
