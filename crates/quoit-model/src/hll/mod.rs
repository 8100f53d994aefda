//! HyperLogLog: estimates the number of different elements in a few kilobytes, however many elements there
//! are.
//!
//! The SHA-1 of an element selects one of 2^p registers. A register keeps the longest run of zero
//! bits that it has seen (Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the analysis of a
//! near-optimal cardinality estimation algorithm", 2007). Hash and registers are those of Riak's
//! data, so states convert without loss. [`estimate`](HyperLogLog::estimate) computes the number of
//! elements from the registers.
//!
//! ```
//! use quoit_model::hll::{HyperLogLog, Precision};
//!
//! let mut visitors = HyperLogLog::new(Precision::DEFAULT);
//! for name in ["ann", "bob", "ann"] {
//!     visitors.insert(name.as_bytes());
//! }
//! assert_eq!(visitors.estimate(), 2);
//! ```

mod codec;
mod estimate;

pub use codec::HllError;

use quoit_number::{low_u8, low_u16};
use sha1::{Digest, Sha1};

/// The precision p of a HyperLogLog with 2^p registers. The standard error is about 1.04 / 2^(p/2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Precision(u8);

impl Precision {
    /// 16 registers: a standard error of 26 %.
    pub const MIN: Self = Self(4);
    /// 65 536 registers: a standard error of 0.4 %.
    pub const MAX: Self = Self(16);
    /// 16 384 registers: a standard error of 0.8 %.
    pub const DEFAULT: Self = Self(14);

    /// The precision of this many bits; `None` below 4 and above 16.
    #[must_use]
    pub fn new(bits: u8) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&bits).then_some(Self(bits))
    }

    /// Number of hash bits that select the register.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Number of registers.
    #[must_use]
    pub fn register_count(self) -> usize {
        1 << self.0
    }

    /// Maximum value of a register: p + 1, since at most p bits are examined.
    #[must_use]
    pub fn value_max(self) -> u8 {
        self.0 + 1
    }

    /// Maximum number of registers that are kept as a list. A list of that length takes no more
    /// memory than the array of all registers.
    fn listed_max(self) -> usize {
        self.register_count() / 4
    }

    /// The register of an element, with the value that the element gives it.
    fn register_of(self, element: &[u8]) -> Register {
        let hash = Sha1::digest(element);
        let front = hash.first_chunk().expect("a SHA-1 has 20 bytes");
        let front = u64::from_be_bytes(*front);
        // At most 16 bits remain of the index, and a run is at most 64 bits long.
        let index = low_u16(front >> (u64::BITS - u32::from(self.0)));
        let run = low_u8((front << self.0).leading_zeros().into());
        Register { index, value: run.min(self.0) + 1 }
    }

    /// Converts a register of the higher precision `finer` to this precision.
    fn register_from(self, register: Register, finer: Self) -> Register {
        // The lowest bits of the finer index come first among the bits that are examined at this
        // precision.
        debug_assert!(self <= finer, "a register is converted to a lower precision");
        let moved = finer.0 - self.0;
        let index = register.index >> moved;
        let low = u32::from(register.index) & ((1 << moved) - 1);
        let run = if low == 0 {
            moved + register.value - 1
        } else {
            moved - low_u8((u32::BITS - low.leading_zeros()).into())
        };
        Register { index, value: run.min(self.0) + 1 }
    }
}

impl Default for Precision {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A register that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register {
    /// Index of the register, from 0.
    pub index: u16,
    /// Value of the register, from 1.
    pub value: u8,
}

/// A HyperLogLog. Few registers are kept as a list, many as an array. The form depends on the
/// registers alone, so equal HyperLogLogs compare equal and have equal encodings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HyperLogLog {
    precision: Precision,
    registers: Registers,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Registers {
    /// At most [`Precision::listed_max`] registers, by ascending index.
    Listed(Vec<Register>),
    /// Values of all registers; 0 for an empty one.
    All(Box<[u8]>),
}

impl HyperLogLog {
    /// A HyperLogLog without elements.
    #[must_use]
    pub fn new(precision: Precision) -> Self {
        Self { precision, registers: Registers::Listed(Vec::new()) }
    }

    /// Makes a HyperLogLog from registers in any order. Of several values for one index the highest counts.
    /// Returns `None` if an index or value is not possible at this precision.
    #[must_use]
    pub fn from_registers(
        precision: Precision,
        registers: impl IntoIterator<Item = Register>,
    ) -> Option<Self> {
        let mut all = vec![0; precision.register_count()];
        for register in registers {
            if !(1..=precision.value_max()).contains(&register.value) {
                return None;
            }
            let kept = all.get_mut(usize::from(register.index))?;
            *kept = register.value.max(*kept);
        }
        Some(Self::of_values(precision, all.into()))
    }

    /// Makes a HyperLogLog from the values of all registers, as a list or an array.
    fn of_values(precision: Precision, values: Box<[u8]>) -> Self {
        debug_assert_eq!(values.len(), precision.register_count(), "each register has a value");
        let filled_count = values.iter().filter(|value| **value > 0).count();
        let registers = if filled_count > precision.listed_max() {
            Registers::All(values)
        } else {
            Registers::Listed(filled(&values).collect())
        };
        Self { precision, registers }
    }

    /// The precision.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The registers that are not empty, by ascending index.
    pub fn registers(&self) -> impl Iterator<Item = Register> {
        let (listed, all) = match &self.registers {
            Registers::Listed(listed) => (listed.as_slice(), [].as_slice()),
            Registers::All(values) => ([].as_slice(), &**values),
        };
        listed.iter().copied().chain(filled(all))
    }

    /// Adds an element. Returns true if a register changed.
    pub fn insert(&mut self, element: &[u8]) -> bool {
        self.raise(self.precision.register_of(element))
    }

    #[expect(clippy::indexing_slicing, reason = "the indexes of registers are below their number")]
    fn raise(&mut self, register: Register) -> bool {
        debug_assert!(
            (1..=self.precision.value_max()).contains(&register.value)
                && usize::from(register.index) < self.precision.register_count(),
            "{register:?} is one of precision {}",
            self.precision.bits()
        );
        match &mut self.registers {
            Registers::All(values) => {
                let kept = &mut values[usize::from(register.index)];
                let higher = register.value > *kept;
                *kept = register.value.max(*kept);
                higher
            }
            Registers::Listed(listed) => {
                match listed.binary_search_by_key(&register.index, |listed| listed.index) {
                    Ok(place) => {
                        let kept = &mut listed[place].value;
                        let higher = register.value > *kept;
                        *kept = register.value.max(*kept);
                        return higher;
                    }
                    Err(place) => listed.insert(place, register),
                }
                if listed.len() > self.precision.listed_max() {
                    self.registers = Registers::All(spread(self.precision, listed));
                }
                true
            }
        }
    }

    /// Adds all elements of `other`, with the same result as inserting each of them here. The
    /// result has the lower of the two precisions.
    pub fn merge(&mut self, other: &Self) {
        if other.precision < self.precision {
            *self = self.reduced_to(other.precision);
        }
        let (coarse, fine) = (self.precision, other.precision);
        for register in other.registers() {
            self.raise(coarse.register_from(register, fine));
        }
        self.assert_form();
    }

    /// In debug builds, asserts that the form is the one for this number of registers, on which
    /// comparisons and encodings rely.
    fn assert_form(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let is_listed = match &self.registers {
            Registers::Listed(listed) => {
                assert!(listed.is_sorted_by(|a, b| a.index < b.index), "a list is by index");
                true
            }
            Registers::All(_) => false,
        };
        let count = self.registers().count();
        assert_eq!(is_listed, count <= self.precision.listed_max(), "few registers are listed");
    }

    /// Reduces the precision, with the same result as inserting all elements at the lower
    /// precision. The precision can't be raised; then the result is a copy.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "the indexes of registers are below their number")]
    pub fn reduced_to(&self, precision: Precision) -> Self {
        if precision >= self.precision {
            return self.clone();
        }
        let mut values = vec![0u8; precision.register_count()];
        for register in self.registers() {
            let coarse = precision.register_from(register, self.precision);
            let kept = &mut values[usize::from(coarse.index)];
            *kept = coarse.value.max(*kept);
        }
        Self::of_values(precision, values.into())
    }
}

/// The registers of `values` that are not empty. There are at most 65 536 values.
fn filled(values: &[u8]) -> impl Iterator<Item = Register> {
    let numbered = values.iter().enumerate().filter(|(_, value)| **value > 0);
    numbered.map(|(index, value)| Register { index: low_u16(index as u64), value: *value })
}

/// Values of all registers, from a list.
#[expect(clippy::indexing_slicing, reason = "the indexes of registers are below their number")]
fn spread(precision: Precision, listed: &[Register]) -> Box<[u8]> {
    let mut values = vec![0; precision.register_count()];
    for register in listed {
        values[usize::from(register.index)] = register.value;
    }
    values.into()
}

#[cfg(test)]
mod tests;
