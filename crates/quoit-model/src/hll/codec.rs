//! Quoit's encoding of a HyperLogLog.
//!
//! A version byte (1), a byte with the precision, and the registers in one of two forms, which
//! depends on the number of registers that are not empty:
//!
//! - at most a quarter: byte 0, their number as a varint, and for each by ascending index a varint
//!   of 32 times the number of empty registers before it, plus its value;
//! - more: byte 1, and five bits for each register, the first one in the highest bits.
//!
//! Equal HyperLogLogs have equal bytes; any other form is refused.

use super::{HyperLogLog, Precision, Register, Registers, filled};
use crate::cursor::{Cursor, Truncated, put_varint};
use quoit_number::low_u16;
use thiserror::Error;

const VERSION: u8 = 1;
const LISTED: u8 = 0;
const ALL: u8 = 1;
/// Bits of a register's value, which is at most 17.
const VALUE_BITS: u8 = 5;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;

/// Error of decoding a HyperLogLog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HllError {
    /// The bytes end too early, or a length in them exceeds the bytes that follow.
    #[error("HyperLogLog is cut off at byte {at}; take the record from another replica")]
    Truncated {
        /// Offset in bytes of the part that does not fit.
        at: usize,
    },
    /// The version is unknown; a later release may have written it.
    #[error("HyperLogLog has version {version}; this program knows version {VERSION}")]
    UnknownVersion {
        /// The version byte.
        version: u8,
    },
    /// The bytes are not what an encoder writes.
    #[error("HyperLogLog is damaged at byte {at}; take the record from another replica")]
    Damaged {
        /// Offset in bytes of the fault.
        at: usize,
    },
}

impl From<Truncated> for HllError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated { at: truncated.at }
    }
}

impl HyperLogLog {
    /// Appends the encoding.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, self.precision.bits()]);
        match &self.registers {
            Registers::Listed(listed) => {
                out.push(LISTED);
                put_varint(out, listed.len() as u64);
                let mut next = 0;
                for register in listed {
                    let empty_count = u64::from(register.index) - next;
                    put_varint(out, empty_count << VALUE_BITS | u64::from(register.value));
                    next = u64::from(register.index) + 1;
                }
            }
            Registers::All(values) => {
                out.push(ALL);
                // Eight values take five bytes. The number of registers is a multiple of eight.
                for values in values.chunks_exact(8) {
                    let join = |bits, value: &u8| bits << VALUE_BITS | u64::from(*value);
                    let bits = values.iter().fold(0u64, join);
                    out.extend_from_slice(&bits.to_be_bytes()[3..]);
                }
            }
        }
    }

    /// Decodes a HyperLogLog, which must be the whole input.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, or are not what [`HyperLogLog::encode_into`]
    /// writes.
    pub fn decode(input: &[u8]) -> Result<Self, HllError> {
        let mut cursor = Cursor::borrowing(input);
        let version = cursor.u8()?;
        if version != VERSION {
            return Err(HllError::UnknownVersion { version });
        }
        let precision = Precision::new(cursor.u8()?).ok_or(HllError::Damaged { at: 1 })?;
        let form = cursor.u8()?;
        let registers = match form {
            LISTED => read_listed(&mut cursor, precision)?,
            ALL => read_all(&mut cursor, precision)?,
            _ => return Err(HllError::Damaged { at: 2 }),
        };
        if cursor.remaining() > 0 {
            return Err(HllError::Damaged { at: cursor.at() });
        }
        Ok(Self { precision, registers })
    }
}

fn read_listed(cursor: &mut Cursor<'_>, precision: Precision) -> Result<Registers, HllError> {
    let damaged = HllError::Damaged { at: cursor.at() };
    let before = cursor.at();
    let count = cursor.count()?;
    if count > precision.listed_max() || cursor.at() - before != varint_bytes(count as u64) {
        return Err(damaged);
    }
    let mut listed = Vec::with_capacity(count);
    let mut next = 0u64;
    for _ in 0..count {
        let damaged = HllError::Damaged { at: cursor.at() };
        let before = cursor.at();
        let entry = cursor.varint()?;
        if cursor.at() - before != varint_bytes(entry) {
            return Err(damaged);
        }
        let value = (entry & VALUE_MASK) as u8;
        let index = next + (entry >> VALUE_BITS);
        let known = (1..=precision.value_max()).contains(&value);
        if !known || index >= precision.register_count() as u64 {
            return Err(damaged);
        }
        listed.push(Register { index: low_u16(index), value });
        next = index + 1;
    }
    Ok(Registers::Listed(listed))
}

/// Length in bytes of the shortest encoding of a varint. Longer encodings are refused.
fn varint_bytes(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()).div_ceil(7).max(1) as usize
}

fn read_all(cursor: &mut Cursor<'_>, precision: Precision) -> Result<Registers, HllError> {
    let damaged = HllError::Damaged { at: cursor.at() };
    let packed = cursor.slice(precision.register_count() / 8 * usize::from(VALUE_BITS))?;
    let mut values = Vec::with_capacity(precision.register_count());
    for bytes in packed.chunks_exact(5) {
        let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let places = (0..8).rev().map(|place| place * VALUE_BITS);
        values.extend(places.map(|place| (bits >> place & VALUE_MASK) as u8));
    }
    let known = values.iter().all(|value| *value <= precision.value_max());
    if !known || filled(&values).count() <= precision.listed_max() {
        return Err(damaged);
    }
    Ok(Registers::All(values.into()))
}
