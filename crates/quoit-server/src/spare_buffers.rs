//! Buffers for requests and answers that the connections of a thread share.
//!
//! A connection that waits for its next request holds no buffers. It takes them from its thread when bytes
//! arrive, and gives them back when it has to wait with nothing left to answer. Thus ten thousand idle
//! connections hold no buffers, and a busy thread uses the same few buffers for all of its connections,
//! without an allocation for each request. Taking and giving back cost no lock and no system call.

use bytes::BytesMut;
use std::cell::RefCell;

/// Space in a buffer for the first bytes of a request.
const READ_BYTES: usize = 8 * 1024;
/// A larger buffer of a request is freed instead of given back, in bytes. The part of a buffer that stored
/// values refer to does not count.
const READ_BYTES_MAX: usize = 16 * 1024;
/// Buffers of answers up to this size stay with their connection, in bytes. Answers to puts need no more,
/// and many puts wait for a sync at the same time.
const OWN_ANSWER_BYTES_MAX: usize = 512;
/// A larger buffer of answers is freed instead of given back, in bytes, so that a few do not use up the space
/// for all buffers of requests.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all spare buffers of a thread. Further buffers are freed.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Empty buffers of a thread; the one that was used last comes last.
#[derive(Debug)]
struct SpareBuffers {
    requests: Vec<BytesMut>,
    answers: Vec<Vec<u8>>,
    /// Sum of the capacities.
    spare_bytes: usize,
}

thread_local! {
    static SPARE: RefCell<SpareBuffers> = const {
        RefCell::new(SpareBuffers { requests: Vec::new(), answers: Vec::new(), spare_bytes: 0 })
    };
}

impl SpareBuffers {
    /// Counts a buffer that is given back. Returns false if it exceeds the limit of the thread.
    const fn takes(&mut self, capacity: usize) -> bool {
        let takes = capacity <= SPARE_BYTES_MAX - self.spare_bytes;
        if takes {
            self.spare_bytes += capacity;
        }
        takes
    }
}

/// Gives `input`, which is empty, space for the first bytes of a request.
#[inline]
pub(crate) fn make_room(input: &mut BytesMut) {
    debug_assert!(input.is_empty(), "a request has begun");
    if input.capacity() == 0 {
        SPARE.with_borrow_mut(|spare| {
            if let Some(buffer) = spare.requests.pop() {
                spare.spare_bytes -= buffer.capacity();
                *input = buffer;
            }
        });
    }
    input.reserve(READ_BYTES);
}

/// Gives `out` a buffer if the thread has one and `out` has none.
#[inline]
pub(crate) fn take_answer_buffer(out: &mut Vec<u8>) {
    if out.capacity() == 0 {
        SPARE.with_borrow_mut(|spare| {
            if let Some(buffer) = spare.answers.pop() {
                spare.spare_bytes -= buffer.capacity();
                *out = buffer;
            }
        });
    }
}

/// Gives the buffer of `input` to the thread if nothing is left in it.
#[inline]
pub(crate) fn give_back_input(input: &mut BytesMut) {
    if !input.is_empty() {
        return;
    }
    let mut buffer = std::mem::take(input);
    // The capacity counts only what is behind the bytes that were taken out.
    let is_large = buffer.try_reclaim(READ_BYTES_MAX + 1);
    // While a value that was stored refers to the front of the buffer, only the rest can be used again.
    if !is_large && buffer.try_reclaim(READ_BYTES) {
        SPARE.with_borrow_mut(|spare| {
            if spare.takes(buffer.capacity()) {
                spare.requests.push(buffer);
            }
        });
    }
}

/// Gives the buffer of `out` to the thread if nothing is left in it and it is not small.
#[inline]
pub(crate) fn give_back_answer_buffer(out: &mut Vec<u8>) {
    if !out.is_empty() || out.capacity() <= OWN_ANSWER_BYTES_MAX {
        return;
    }
    let buffer = std::mem::take(out);
    SPARE.with_borrow_mut(|spare| {
        if buffer.capacity() <= ANSWER_BYTES_MAX && spare.takes(buffer.capacity()) {
            spare.answers.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    fn spare_bytes() -> usize {
        SPARE.with_borrow(|spare| spare.spare_bytes)
    }

    /// A buffer of a request, and where it is in memory.
    fn input_with(bytes: &[u8]) -> (BytesMut, *const u8) {
        let mut input = BytesMut::new();
        make_room(&mut input);
        let place = input.as_ptr();
        input.extend_from_slice(bytes);
        (input, place)
    }

    #[test]
    fn the_next_connection_uses_the_buffer_of_the_one_before() {
        let (mut input, place) = input_with(b"request");
        give_back_input(&mut input);
        assert_ne!(input.capacity(), 0, "it is not answered yet");
        drop(input.split());
        give_back_input(&mut input);
        assert_eq!((input.capacity(), spare_bytes()), (0, READ_BYTES));
        let (mut next, next_place) = input_with(&[7; READ_BYTES]);
        assert_eq!((next_place, spare_bytes()), (place, 0));
        next.advance(READ_BYTES);
        give_back_input(&mut next);
        assert_eq!(spare_bytes(), READ_BYTES, "a request that has filled the buffer");
    }

    #[test]
    fn a_buffer_with_a_stored_value_or_a_large_one_is_not_given_back() {
        let (mut input, _) = input_with(b"value");
        let stored = input.split().freeze();
        give_back_input(&mut input);
        assert_eq!((input.capacity(), spare_bytes()), (0, 0));
        assert_eq!(&stored[..], b"value");
        let mut large = BytesMut::with_capacity(READ_BYTES_MAX + 1);
        give_back_input(&mut large);
        assert_eq!((large.capacity(), spare_bytes()), (0, 0));
        let mut nearly_full = BytesMut::zeroed(10 * READ_BYTES_MAX);
        nearly_full.advance(nearly_full.len() - READ_BYTES);
        drop(nearly_full.split());
        nearly_full.reserve(READ_BYTES);
        give_back_input(&mut nearly_full);
        assert_eq!((nearly_full.capacity(), spare_bytes()), (0, 0));
    }

    #[test]
    fn an_answer_buffer_is_given_back_when_it_is_sent_and_not_small() {
        let mut small = Vec::with_capacity(OWN_ANSWER_BYTES_MAX);
        give_back_answer_buffer(&mut small);
        assert_ne!(small.capacity(), 0);
        let mut out = Vec::with_capacity(4096);
        out.push(1);
        give_back_answer_buffer(&mut out);
        assert_eq!(out.capacity(), 4096, "it is not sent yet");
        out.clear();
        give_back_answer_buffer(&mut out);
        assert_eq!((out.capacity(), spare_bytes()), (0, 4096));
        take_answer_buffer(&mut small);
        assert_eq!(small.capacity(), OWN_ANSWER_BYTES_MAX, "it has one");
        take_answer_buffer(&mut out);
        assert_eq!((out.capacity(), spare_bytes()), (4096, 0));
        let mut large = Vec::with_capacity(ANSWER_BYTES_MAX + 1);
        give_back_answer_buffer(&mut large);
        assert_eq!((large.capacity(), spare_bytes()), (0, 0));
    }

    #[test]
    fn a_thread_keeps_spare_buffers_up_to_a_limit() {
        let mut inputs: Vec<BytesMut> =
            (0..2 * SPARE_BYTES_MAX / READ_BYTES).map(|_| input_with(b"").0).collect();
        inputs.iter_mut().for_each(give_back_input);
        assert_eq!(spare_bytes(), SPARE_BYTES_MAX);
        assert!(inputs.iter().all(|input| input.capacity() == 0), "the others are freed");
        let mut out = vec![0; 1024];
        out.clear();
        give_back_answer_buffer(&mut out);
        assert_eq!((out.capacity(), spare_bytes()), (0, SPARE_BYTES_MAX));
    }
}
