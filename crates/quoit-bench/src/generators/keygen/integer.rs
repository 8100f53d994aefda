//! Generators of integers.

use super::Exhausted;
use super::insertion::Insertions;
use super::sequence::Sequence;
use super::zipf::{Zipf, scrambled};
use crate::random::Random;

/// Shape parameter of the Pareto distribution.
const PARETO_SHAPE: f64 = 1.5;

/// Integers of a distribution or a sequence.
#[derive(Debug, Clone)]
pub enum Integers {
    /// A finite sequence.
    Sequence(Sequence),
    /// 0, 1, 2, ... without end.
    Counter(i64),
    /// Uniform in `start..start + count`.
    Uniform {
        /// The smallest integer.
        start: i64,
        /// Number of integers; not 0.
        count: u64,
    },
    /// A shifted Pareto (Lomax) distribution of shape 1.5 and mean 0.2 `max`.
    Pareto {
        /// The scale parameter, half of the mean.
        scale: f64,
        /// The `Max` of the configuration.
        max: i64,
        /// True if draws above `max` become `max`.
        is_truncated: bool,
    },
    /// Uniform in the first fifth with probability 0.8, otherwise uniform in the rest.
    EightyTwenty {
        /// A fifth of the range; not 0.
        fifth: u64,
    },
    /// Zipf's distribution over `0..count`.
    Zipfian {
        /// Distribution of the ranks.
        zipf: Zipf,
        /// Number of integers; not 0.
        count: u64,
        /// True if ranks are scattered over the integers by a hash. Otherwise the smallest integers are the
        /// most frequent.
        is_scrambled: bool,
    },
    /// Zipf's distribution over the age of keys: the most recently inserted keys are the most frequent.
    Latest {
        /// Distribution of the ages.
        zipf: Zipf,
        /// Insertions of the run, from which the number of existing keys is known.
        insertions: Insertions,
    },
    /// Keys that do not exist yet, numbered consecutively over all workers.
    Inserted {
        /// Insertions, which number the keys.
        insertions: Insertions,
        /// Number of the last key, while its insertion is in progress.
        number: Option<u64>,
    },
}

impl Integers {
    /// The Pareto generator with maximum `max`.
    pub fn pareto(max: i64, is_truncated: bool) -> Self {
        let mean = (0.2 * max as f64).trunc();
        Self::Pareto { scale: mean * (PARETO_SHAPE - 1.0), max, is_truncated }
    }

    /// Number of distinct integers, if it is known. Estimated as in basho_bench.
    pub fn dimension(&self) -> Option<u64> {
        match *self {
            Self::Sequence(ref sequence) => Some(sequence.count()),
            Self::Uniform { count, .. } | Self::Zipfian { count, .. } => Some(count),
            Self::Latest { ref insertions, .. } => Some(insertions.count()),
            Self::Pareto { max, is_truncated: true, .. } => u64::try_from(max).ok(),
            Self::Counter(_)
            | Self::Pareto { .. }
            | Self::EightyTwenty { .. }
            | Self::Inserted { .. } => None,
        }
    }

    /// Draws the next integer.
    #[inline]
    pub fn draw(&mut self, random: &mut Random) -> Result<i64, Exhausted> {
        Ok(match self {
            Self::Sequence(sequence) => sequence.next()?,
            Self::Counter(next) => {
                let integer = *next;
                *next = next.wrapping_add(1);
                integer
            }
            Self::Uniform { start, count } => {
                start.wrapping_add_unsigned(random.uniform(*count) - 1)
            }
            Self::Pareto { scale, max, is_truncated } => {
                let fraction = 1.0 - random.fraction();
                let drawn =
                    quoit_number::whole_i64((fraction.powf(-1.0 / PARETO_SHAPE) - 1.0) * *scale);
                if *is_truncated { drawn.min(*max) } else { drawn }
            }
            Self::EightyTwenty { fifth } => {
                let drawn = if random.fraction() < 0.8 {
                    random.uniform(*fifth)
                } else {
                    *fifth + random.uniform(4 * *fifth)
                };
                drawn.cast_signed()
            }
            Self::Zipfian { zipf, count, is_scrambled } => {
                let place = zipf.draw(*count, random) - 1;
                let place = if *is_scrambled { scrambled(place) % *count } else { place };
                place.cast_signed()
            }
            Self::Latest { zipf, insertions } => {
                let count = insertions.count();
                (count - zipf.draw(count, random)).cast_signed()
            }
            Self::Inserted { insertions, number } => {
                // An operation that starts over draws another key, so the number of the abandoned one is
                // settled here.
                if let Some(given_up) = number.take() {
                    insertions.end(given_up);
                }
                let begun = insertions.begin();
                *number = Some(begun);
                begun.cast_signed()
            }
        })
    }
}
