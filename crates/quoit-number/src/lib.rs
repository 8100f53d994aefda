//! Conversions between numbers whose names say what happens to a value that does not fit.
//!
//! `as` is silent about it: it cuts off high bits, changes signs or saturates, depending on the types. The
//! crates of this workspace refuse such casts (clippy's `cast_possible_truncation`, `cast_possible_wrap` and
//! `cast_sign_loss`). They use `From` where every value fits, `TryFrom` where a value that does not fit is an
//! error, and these functions where it can't occur, saturates, or is cut off on purpose. They cost no
//! more than the cast and, where the name says so, the comparison.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "this crate names these casts"
)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::string_slice))]

/// Quoit needs a 64-bit processor: lengths and offsets of 64 bits are indexes in memory.
const _: () = assert!(usize::BITS == 64);

/// Returns `number` as an index or a length in memory. Every value fits.
#[must_use]
#[inline]
pub const fn index(number: u64) -> usize {
    number as usize
}

/// Returns the low 32 bits of `number`, for example of a hash. Higher bits are cut off on purpose.
#[must_use]
#[inline]
pub const fn low_u32(number: u64) -> u32 {
    number as u32
}

/// Returns the low 16 bits of `number`. Higher bits are cut off on purpose.
#[must_use]
#[inline]
pub const fn low_u16(number: u64) -> u16 {
    number as u16
}

/// Returns the low 8 bits of `number`. Higher bits are cut off on purpose.
#[must_use]
#[inline]
pub const fn low_u8(number: u64) -> u8 {
    number as u8
}

/// Returns the low 64 bits of `number`. Higher bits are cut off on purpose.
#[must_use]
#[inline]
pub const fn low_u64(number: u128) -> u64 {
    number as u64
}

/// Returns `number`, or [`u64::MAX`] if it is greater.
#[must_use]
#[inline]
pub const fn saturating_u64(number: u128) -> u64 {
    if number > u64::MAX as u128 { u64::MAX } else { number as u64 }
}

/// Returns `number`, or [`u32::MAX`] if it is greater.
#[must_use]
#[inline]
pub const fn saturating_u32(number: u64) -> u32 {
    if number > u32::MAX as u64 { u32::MAX } else { number as u32 }
}

/// Returns `number`, or [`i64::MAX`] if it is greater.
#[must_use]
#[inline]
pub const fn saturating_i64(number: u64) -> i64 {
    if number > i64::MAX as u64 { i64::MAX } else { number as i64 }
}

/// Returns `number`, or zero if it is negative.
#[must_use]
#[inline]
pub const fn or_zero(number: i64) -> u64 {
    if number < 0 { 0 } else { number as u64 }
}

/// Returns the whole part of `number`: zero for a negative number and for NaN, [`u64::MAX`] for a greater
/// one.
#[must_use]
#[inline]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

/// Returns the number nearest to `number` that is whole: zero for a negative number and for NaN, [`u64::MAX`]
/// for a greater one.
#[must_use]
#[inline]
pub const fn rounded(number: f64) -> u64 {
    number.round() as u64
}

/// Returns a length that is stored in 32 bits and is known to fit.
///
/// # Panics
///
/// If there are more than [`u32::MAX`] bytes: a stored length that is cut off would lose data.
#[must_use]
#[inline]
pub const fn length_u32(length: usize) -> u32 {
    assert!(length <= u32::MAX as usize, "a length that is stored in 32 bits");
    length as u32
}

/// Returns the whole part of `number`, which may be negative: zero for NaN, [`i64::MIN`] or [`i64::MAX`] for
/// a number beyond.
#[must_use]
#[inline]
pub const fn whole_i64(number: f64) -> i64 {
    number as i64
}

/// Returns the whole part of `number`, which may be negative: zero for NaN, [`i128::MIN`] or [`i128::MAX`]
/// for a number beyond.
#[must_use]
#[inline]
pub const fn whole_i128(number: f64) -> i128 {
    number as i128
}

/// Returns the number of 32 bits nearest to `number`, which is infinite for a number beyond [`f32::MAX`].
#[must_use]
#[inline]
pub const fn nearest_f32(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_fit_stay_as_they_are() {
        assert_eq!(index(u64::MAX), usize::MAX);
        assert_eq!((low_u32(7), low_u16(7), low_u8(7), low_u64(7)), (7, 7, 7, 7));
        assert_eq!(saturating_u64(u128::from(u64::MAX)), u64::MAX);
        assert_eq!(saturating_u32(u64::from(u32::MAX)), u32::MAX);
        assert_eq!((saturating_i64(7), or_zero(7)), (7, 7));
        assert_eq!((whole(7.9), rounded(7.5), length_u32(7)), (7, 8, 7));
        assert_eq!((whole_i64(-7.9), whole_i128(-7.9)), (-7, -7));
        assert_eq!(nearest_f32(0.1).to_bits(), 0.1_f32.to_bits());
    }

    #[test]
    fn numbers_that_do_not_fit_are_cut_off_or_saturate_as_the_name_says() {
        assert_eq!(low_u32(u64::MAX - 1), u32::MAX - 1);
        assert_eq!(low_u16(0x1_0002), 2);
        assert_eq!(low_u8(0x103), 3);
        assert_eq!(low_u64(1 << 64), 0);
        assert_eq!(saturating_u64(1 << 64), u64::MAX);
        assert_eq!(saturating_u32(1 << 32), u32::MAX);
        assert_eq!(saturating_i64(u64::MAX), i64::MAX);
        assert_eq!(or_zero(-1), 0);
        assert_eq!((whole(-1.0), whole(f64::NAN), whole(1e30)), (0, 0, u64::MAX));
        assert_eq!((rounded(-0.6), rounded(f64::INFINITY)), (0, u64::MAX));
        assert_eq!(
            (whole_i64(-1e30), whole_i64(f64::NAN), whole_i64(1e30)),
            (i64::MIN, 0, i64::MAX)
        );
        assert_eq!((whole_i128(-1e40), whole_i128(f64::NAN)), (i128::MIN, 0));
        assert!(nearest_f32(-1e40) < f32::MIN);
    }

    #[test]
    #[should_panic(expected = "stored in 32 bits")]
    fn lengths_beyond_32_bits_are_not_cut_off() {
        let _ = length_u32(1 << 32);
    }
}
