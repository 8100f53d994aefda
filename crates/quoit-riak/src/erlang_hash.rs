//! Erlang's portable hash of terms (`phash2`), as far as clocks need it.
//!
//! The parts of a term are fed into one state in order: of a tuple its size and then its elements, of a
//! list its elements and then its end. Each part is mixed with a constant of its type. The result has
//! 27 bits.

use quoit_number::low_u32;

/// The golden ratio as 32 bits. All constants are multiples of it.
const RATIO: u32 = 0x9e37_79b9;
/// Hash of an empty list that is not part of another term.
const EMPTY_LIST: u32 = 3_468_870_702;
/// Number that stands for the end of a list within a term.
const LIST_END: u32 = 2;
/// Largest integer that is hashed as one word; larger ones are hashed as digits.
const SMALL_MAX: u64 = (1 << 27) - 1;
/// Bits of the result.
const RANGE_MASK: u32 = (1 << 27) - 1;

/// The constant of a type.
const fn constant(multiple: u32) -> u32 {
    multiple.wrapping_mul(RATIO)
}

/// State of a hash. Parts of a term are fed in order.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TermHasher(u32);

impl TermHasher {
    /// Feeds the head of a tuple with `arity` elements, which have to follow.
    pub(crate) const fn tuple(&mut self, arity: u32) {
        self.words([arity, 0], constant(9));
    }

    /// Feeds the end of a list, after its elements. Lists of small integers have another form in
    /// Erlang, which is not supported.
    pub(crate) const fn list_end(&mut self) {
        if self.0 == 0 {
            self.0 = EMPTY_LIST;
        } else {
            self.words([LIST_END, 0], constant(2));
        }
    }

    /// Feeds a binary.
    pub(crate) fn binary(&mut self, bytes: &[u8]) {
        let initial = constant(13).wrapping_add(self.0);
        self.0 = if bytes.is_empty() { initial } else { block(bytes, initial) };
    }

    /// Feeds an integer that is not negative.
    pub(crate) fn integer(&mut self, integer: u64) {
        if integer <= SMALL_MAX {
            self.words([low_u32(integer), 0], RATIO);
        } else {
            self.digits(&[integer]);
        }
    }

    /// Feeds an integer of 2^27 or more by its 64-bit digits, lowest first.
    pub(crate) fn digits(&mut self, digits: &[u64]) {
        for digit in digits {
            self.words([low_u32(*digit), (digit >> 32) as u32], constant(11));
        }
    }

    /// Hash of what was fed: a number below 2^27.
    pub(crate) const fn finish(self) -> u32 {
        self.0 & RANGE_MASK
    }

    const fn words(&mut self, [low, high]: [u32; 2], constant: u32) {
        let [_, _, mixed] = mix([constant.wrapping_add(low), constant.wrapping_add(high), self.0]);
        self.0 = mixed;
    }
}

/// Hash of a block of bytes.
fn block(bytes: &[u8], initial: u32) -> u32 {
    let mut state = [RATIO, RATIO, initial];
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        for (word, bytes) in state.iter_mut().zip(chunk.chunks_exact(4)) {
            *word = word.wrapping_add(little_endian(bytes));
        }
        state = mix(state);
    }
    let rest = chunks.remainder();
    let (first, behind) = rest.split_at(rest.len().min(8));
    let (low, high) = first.split_at(first.len().min(4));
    state[0] = state[0].wrapping_add(little_endian(low));
    state[1] = state[1].wrapping_add(little_endian(high));
    // The lowest byte of the last word is reserved for the length.
    state[2] = state[2].wrapping_add(low_u32(bytes.len() as u64));
    state[2] = state[2].wrapping_add(little_endian(behind) << 8);
    mix(state)[2]
}

/// Up to four bytes as a number, lowest byte first.
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Mixes three words, after Bob Jenkins (1996).
#[expect(clippy::indexing_slicing, reason = "the round is below the number of rounds")]
const fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    const SHIFTS: [[u32; 3]; 3] = [[13, 8, 13], [12, 16, 5], [3, 10, 15]];
    let mut round = 0;
    while round < SHIFTS.len() {
        let [right, left, last] = SHIFTS[round];
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> right);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << left);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> last);
        round += 1;
    }
    [a, b, c]
}
