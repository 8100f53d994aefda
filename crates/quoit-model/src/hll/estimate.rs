//! Estimate of the number of elements from the registers.
//!
//! The original formula of HyperLogLog is inaccurate if few or nearly all registers are filled.
//! Riak corrects the lower end by tables of biases measured for each precision (HyperLogLog++).
//! Quoit uses the estimator of Ertl ("New cardinality estimation algorithms for HyperLogLog
//! sketches", 2017, algorithm 6). It corrects both ends by two series, needs no tables, has no jump
//! between formulas, and agrees with linear counting where that is accurate.

use super::{HyperLogLog, Precision};
use quoit_number::{length_u32, rounded};

/// Number of possible values of a register at the highest precision, 0 included.
const VALUE_COUNT: usize = 18;

impl HyperLogLog {
    /// Estimates the number of different elements that were inserted. The standard error is 1.04 /
    /// 2^(p/2) up to about 2^(2p-2) elements. When all registers have their highest value, the
    /// estimate stays at the highest number that registers can represent.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "no register is above the highest value, 17 at most"
    )]
    pub fn estimate(&self) -> u64 {
        let mut counts = [0u32; VALUE_COUNT];
        for register in self.registers() {
            counts[usize::from(register.value)] += 1;
        }
        counts[0] = length_u32(self.precision.register_count()) - counts.iter().sum::<u32>();
        let highest = usize::from(self.precision.value_max());
        debug_assert!(
            counts[highest + 1..].iter().all(|count| *count == 0),
            "no register is above the highest value"
        );
        if counts[highest] as usize == self.precision.register_count() {
            counts[highest] -= 1;
            counts[highest - 1] += 1;
        }
        rounded(estimate_of(self.precision, &counts))
    }
}

/// The estimate if `counts[v]` registers have the value v. Not all registers may have the highest
/// value.
#[expect(clippy::indexing_slicing, reason = "the highest value is 17 at most")]
fn estimate_of(precision: Precision, counts: &[u32; VALUE_COUNT]) -> f64 {
    let register_count = precision.register_count() as f64;
    let highest = usize::from(precision.value_max());
    let below_highest = 1.0 - f64::from(counts[highest]) / register_count;
    let mut sum = register_count * tau(below_highest);
    for count in counts[1..highest].iter().rev() {
        sum = 0.5 * (sum + f64::from(*count));
    }
    sum += register_count * sigma(f64::from(counts[0]) / register_count);
    register_count * register_count / (2.0 * std::f64::consts::LN_2 * sum)
}

/// x + x^2 + 2 x^4 + 4 x^8 + ..., for x from 0 to 1; infinite at 1.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let mut factor = 1.0;
    let mut sum = x;
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor *= 2.0;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - (1 - x^(1/2))^2 / 2 - (1 - x^(1/4))^2 / 4 - ...) / 3, for x from 0 to 1.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let mut factor = 1.0;
    let mut sum = 1.0 - x;
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}
