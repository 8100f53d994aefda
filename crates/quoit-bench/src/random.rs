//! The random stream of a worker. Operations, keys, values and pauses are drawn from it in program order,
//! so one seed always gives the same sequence.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// The generator of a run's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RandomKind {
    /// The generator xoshiro256++, seeded from the triple and the number of the worker.
    #[default]
    Xoshiro,
    /// The generator of old Erlang releases (Wichmann and Hill's AS 183), which repeats the key sequences
    /// of old runs.
    As183,
}

/// The seed of a run. Worker `i` adds `i` to each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [i64; 3]);

impl Default for Seed {
    fn default() -> Self {
        Self([42, 23, 12])
    }
}

/// The stream of one worker. A draw costs a few nanoseconds and never allocates.
#[derive(Debug, Clone)]
pub enum Random {
    /// See [`RandomKind::Xoshiro`].
    Xoshiro(Xoshiro256PlusPlus),
    /// See [`RandomKind::As183`].
    As183(As183),
}

impl Random {
    /// The stream of worker `worker` (from 1).
    pub fn new(kind: RandomKind, seed: Seed, worker: u32) -> Self {
        let Seed(triple) = seed;
        let triple = triple.map(|number| number.wrapping_add(i64::from(worker)));
        match kind {
            RandomKind::As183 => Self::As183(As183::new(triple)),
            RandomKind::Xoshiro => {
                // The worker's number is mixed in once more, because the triples of two seeds can overlap.
                let words = triple.into_iter().map(i64::cast_unsigned).chain([u64::from(worker)]);
                let seed = words.fold(0, |hash, word| mix(hash ^ word));
                Self::Xoshiro(Xoshiro256PlusPlus::seed_from_u64(seed))
            }
        }
    }

    /// A uniform number in the open interval (0, 1).
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        match self {
            Self::Xoshiro(generator) => {
                let bits = generator.next_u64() >> 11;
                (bits as f64 + 0.5) * 2_f64.powi(-53)
            }
            // The sum could be a whole number and its fraction 0, which has no logarithm.
            Self::As183(generator) => generator.draw().max(f64::MIN_POSITIVE),
        }
    }

    /// A uniform integer of `1..=n`; `n` must not be 0.
    #[inline]
    pub fn uniform(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0, "a uniform draw needs a range of at least one value");
        match self {
            Self::Xoshiro(generator) => {
                let wide = u128::from(generator.next_u64()) * u128::from(n);
                quoit_number::low_u64(wide >> 64) + 1
            }
            Self::As183(generator) => quoit_number::whole(generator.draw() * n as f64) + 1,
        }
    }

    /// A uniform index into `count` elements, by one uniform draw; `count` must not be 0.
    #[inline]
    pub(crate) fn index(&mut self, count: usize) -> usize {
        quoit_number::index(self.uniform(count as u64) - 1)
    }

    /// One of the items, by one uniform draw; there must be an item.
    #[expect(clippy::indexing_slicing, reason = "`index` returns a number below that of the items")]
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// A uniform printable character of ASCII, by one uniform draw.
    #[inline]
    pub(crate) fn printable(&mut self) -> u8 {
        b' ' + quoit_number::low_u8(self.uniform(95) - 1)
    }

    /// An exponentially distributed number with the given mean. It divides by the rate as basho_bench does,
    /// because the last bit of a product would differ.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.fraction().ln() / (1.0 / mean)
    }

    /// 64 uniform bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        match self {
            Self::Xoshiro(generator) => generator.next_u64(),
            Self::As183(_) => (0..4).fold(0, |bits, _| (bits << 16) | (self.uniform(1 << 16) - 1)),
        }
    }

    /// Sixteen uniform hexadecimal digits.
    pub fn hex_digits(&mut self) -> [u8; 16] {
        match self {
            Self::Xoshiro(generator) => hex(generator.next_u64()),
            // One draw for each digit, as in basho_bench's generator.
            Self::As183(_) => std::array::from_fn(|_| hex_digit(self.uniform(16) - 1)),
        }
    }
}

const HEX_DIGITS: [u8; 16] = *b"0123456789abcdef";

/// The hexadecimal digit of the lowest four bits.
#[expect(clippy::indexing_slicing, reason = "four bits are the number of a digit")]
fn hex_digit(bits: u64) -> u8 {
    HEX_DIGITS[quoit_number::index(bits & 15)]
}

/// The sixteen hexadecimal digits of `bits`, the highest first.
pub(crate) fn hex(bits: u64) -> [u8; 16] {
    std::array::from_fn(|place| hex_digit(bits >> (60 - 4 * place)))
}

/// One step of SplitMix64 followed by its finalizer (Steele, Lea, Flood 2014).
pub(crate) fn mix(word: u64) -> u64 {
    let mut mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Wichmann and Hill's algorithm AS 183 (Applied Statistics 31, 1982).
#[derive(Debug, Clone)]
pub struct As183 {
    state: [u32; 3],
}

const AS183_MULTIPLIERS: [u32; 3] = [171, 172, 170];
const AS183_MODULI: [u32; 3] = [30_269, 30_307, 30_323];

impl As183 {
    fn new(triple: [i64; 3]) -> Self {
        let mut state = [1; 3];
        for ((part, seed), modulus) in state.iter_mut().zip(triple).zip(AS183_MODULI) {
            let modulus = u64::from(modulus - 1);
            *part = u32::try_from(seed.unsigned_abs() % modulus + 1).unwrap_or(1);
        }
        Self { state }
    }

    /// The next number in [0, 1).
    fn draw(&mut self) -> f64 {
        let mut sum = 0.0;
        let factors = AS183_MULTIPLIERS.into_iter().zip(AS183_MODULI);
        for (part, (multiplier, modulus)) in self.state.iter_mut().zip(factors) {
            *part = *part * multiplier % modulus;
            sum += f64::from(*part) / f64::from(modulus);
        }
        sum.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as183_gives_erlangs_numbers() {
        // random:seed(42,23,12), then random:uniform() three times, computed by hand from the definition:
        // state (43,24,13), then (7353,4128,2210), (16334,12955,11824), ...
        let mut generator = As183::new([42, 23, 12]);
        assert_eq!(generator.state, [43, 24, 13]);
        let first = generator.draw();
        assert_eq!(generator.state, [7353, 4128, 2210]);
        let expected: f64 = 7353.0 / 30_269.0 + 4128.0 / 30_307.0 + 2210.0 / 30_323.0;
        assert_eq!(first, expected.fract());
        generator.draw();
        let a = 7353 * 171 % 30_269;
        let b = 4128 * 172 % 30_307;
        let c = 2210 * 170 % 30_323;
        assert_eq!(generator.state, [a, b, c]);
    }

    #[test]
    fn a_worker_draws_the_sequence_of_its_seed() {
        // Worker 1 of the default seed has the seed (43, 24, 13), which seeding turns into the state (44,
        // 25, 14). These are the next states. Each number is 171, 172 or 170 times the one above, modulo
        // its prime:
        let states = [
            [7524_u32, 4300, 2380],
            [15_306, 12_232, 10_401],
            [14_192, 12_721, 9436],
            [5312, 5908, 27_324],
        ];
        let fraction_of = |[a, b, c]: [u32; 3]| {
            (f64::from(a) / 30_269.0 + f64::from(b) / 30_307.0 + f64::from(c) / 30_323.0).fract()
        };
        let mut random = Random::new(RandomKind::As183, Seed::default(), 1);
        for state in states {
            assert_eq!(random.fraction(), fraction_of(state));
        }
        // The same fractions as an operation of nine, a key of 100000, an operation, a key.
        let mut random = Random::new(RandomKind::As183, Seed::default(), 1);
        let drawn = [9, 100_000, 9, 100_000].map(|n| random.uniform(n));
        assert_eq!(drawn, [5, 25_228, 2, 27_153]);
    }

    #[test]
    fn as183_seeds_take_absolute_values_modulo_the_primes() {
        assert_eq!(As183::new([-42, 30_306, 30_323]).state, [43, 1, 2]);
    }

    #[test]
    fn one_seed_gives_one_sequence_and_workers_differ() {
        for kind in [RandomKind::Xoshiro, RandomKind::As183] {
            let draws = |seed: [i64; 3], worker| -> Vec<u64> {
                let mut random = Random::new(kind, Seed(seed), worker);
                (0..20).map(|_| random.uniform(1_000_000)).collect()
            };
            assert_eq!(draws([1, 2, 3], 1), draws([1, 2, 3], 1));
            assert_ne!(draws([1, 2, 3], 1), draws([1, 2, 3], 2));
            assert_ne!(draws([1, 2, 3], 1), draws([1, 2, 4], 1));
        }
    }

    #[test]
    fn the_sequence_of_the_default_generator_is_fixed() {
        let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
        let draws: Vec<u64> = (0..5).map(|_| random.uniform(100)).collect();
        assert_eq!(draws, [90, 19, 77, 51, 59]);
    }

    #[test]
    fn uniform_draws_fill_their_range_evenly() {
        for kind in [RandomKind::Xoshiro, RandomKind::As183] {
            let mut random = Random::new(kind, Seed::default(), 3);
            let mut counts = [0_u32; 10];
            for _ in 0..10_000 {
                counts[random.uniform(10) as usize - 1] += 1;
            }
            let chi_square: f64 =
                counts.iter().map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0).sum();
            // The 99.9 % quantile for nine degrees of freedom.
            assert!(chi_square < 27.9, "{kind:?} {counts:?}");
        }
    }

    #[test]
    fn exponential_draws_have_their_mean() {
        for kind in [RandomKind::Xoshiro, RandomKind::As183] {
            let mut random = Random::new(kind, Seed::default(), 1);
            let sum: f64 = (0..20_000).map(|_| random.exponential(200.0)).sum();
            let mean = sum / 20_000.0;
            assert!((mean - 200.0).abs() < 6.0, "{kind:?} {mean}");
        }
    }

    #[test]
    fn hex_digits_are_the_digits_of_the_bits() {
        assert_eq!(&hex(0x0123_4567_89ab_cdef), b"0123456789abcdef");
    }
}
