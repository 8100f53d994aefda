//! Construction of binaries from their segments.

use super::Term;

/// Maximum size of a binary in a configuration, in bits.
const SIZE_BITS_MAX: u128 = 8 << 20;

/// The type of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentKind {
    Integer,
    Float,
    Utf8,
    Utf16,
    Utf32,
}

/// The encoding of a segment.
#[derive(Debug, Clone, Copy)]
struct Layout {
    kind: SegmentKind,
    is_little_endian: bool,
    size_bits: u128,
}

/// Collects the bits of a binary, which must be whole bytes in the end.
#[derive(Debug, Default)]
pub(super) struct BinaryBuilder {
    bytes: Vec<u8>,
    /// Bits of an incomplete byte, in its high bits.
    partial: u8,
    partial_bits: u32,
}

impl BinaryBuilder {
    /// Adds a segment. A string is a segment for each of its characters.
    pub(super) fn push(
        &mut self,
        value: &Term,
        size: Option<u128>,
        types: &[String],
    ) -> Result<(), String> {
        let is_text = matches!(value, Term::String(_));
        let layout = Layout::of(size, types, is_text)?;
        match value {
            Term::String(text) => text
                .chars()
                .try_for_each(|c| self.push_one(&Term::Integer(i128::from(u32::from(c))), layout)),
            value => self.push_one(value, layout),
        }
    }

    fn push_one(&mut self, value: &Term, layout: Layout) -> Result<(), String> {
        let scalar = || {
            let code = value.as_integer().and_then(|code| u32::try_from(code).ok());
            code.and_then(char::from_u32)
                .ok_or_else(|| format!("{value} is not a character of Unicode"))
        };
        match layout.kind {
            SegmentKind::Utf8 => {
                let mut buffer = [0; 4];
                self.push_bytes(scalar()?.encode_utf8(&mut buffer).as_bytes());
            }
            SegmentKind::Utf16 => {
                let mut buffer = [0; 2];
                for unit in scalar()?.encode_utf16(&mut buffer) {
                    let little = layout.is_little_endian;
                    self.push_bytes(&if little { unit.to_le_bytes() } else { unit.to_be_bytes() });
                }
            }
            SegmentKind::Utf32 => {
                let code = u32::from(scalar()?);
                let little = layout.is_little_endian;
                self.push_bytes(&if little { code.to_le_bytes() } else { code.to_be_bytes() });
            }
            SegmentKind::Float => self.push_float(value, layout)?,
            SegmentKind::Integer => {
                let Some(integer) = value.as_integer() else {
                    return Err(format!("{value} is a float: give it the type /float"));
                };
                self.push_integer(integer, layout)?;
            }
        }
        Ok(())
    }

    fn push_float(&mut self, value: &Term, layout: Layout) -> Result<(), String> {
        let Some(number) = value.as_number() else {
            return Err(format!("{value} is not a number"));
        };
        let mut bytes = match layout.size_bits {
            64 => number.to_be_bytes().to_vec(),
            32 => {
                let nearest = quoit_number::nearest_f32(number);
                if nearest.is_infinite() {
                    return Err(format!("{value} does not fit into a float of 32 bits: write 64"));
                }
                nearest.to_be_bytes().to_vec()
            }
            other => return Err(format!("a float of {other} bits: write 32 or 64")),
        };
        if layout.is_little_endian {
            bytes.reverse();
        }
        self.push_bytes(&bytes);
        Ok(())
    }

    /// Adds the low `size_bits` bits of the integer in two's complement.
    fn push_integer(&mut self, value: i128, layout: Layout) -> Result<(), String> {
        let size_bits = layout.size_bits;
        if size_bits > SIZE_BITS_MAX {
            return Err(format!(
                "a segment of {size_bits} bits is over the {SIZE_BITS_MAX} bits \
                                that are read"
            ));
        }
        let bit_at = |position: u128| {
            let shift = u32::try_from(position.min(127)).unwrap_or(127);
            (value >> shift) & 1 == 1
        };
        if layout.is_little_endian {
            // Whole bytes from the low end; the remaining bits are the highest ones.
            let whole_bytes = size_bits / 8;
            for byte in 0..whole_bytes {
                (0..8).rev().for_each(|bit| self.push_bit(bit_at(byte * 8 + bit)));
            }
            (whole_bytes * 8..size_bits).rev().for_each(|bit| self.push_bit(bit_at(bit)));
        } else {
            (0..size_bits).rev().for_each(|bit| self.push_bit(bit_at(bit)));
        }
        Ok(())
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        if self.partial_bits == 0 {
            self.bytes.extend_from_slice(bytes);
        } else {
            for byte in bytes {
                (0..8).rev().for_each(|bit| self.push_bit((byte >> bit) & 1 == 1));
            }
        }
    }

    fn push_bit(&mut self, bit: bool) {
        self.partial |= u8::from(bit) << (7 - self.partial_bits);
        self.partial_bits += 1;
        if self.partial_bits == 8 {
            self.bytes.push(self.partial);
            self.partial = 0;
            self.partial_bits = 0;
        }
    }

    /// The bytes, or an error if the last one is incomplete.
    pub(super) fn finish(self) -> Result<Vec<u8>, String> {
        match self.partial_bits {
            0 => Ok(self.bytes),
            odd => Err(format!("its bits are {odd} more than whole bytes: fill up to 8")),
        }
    }
}

impl Layout {
    fn of(size: Option<u128>, types: &[String], is_text: bool) -> Result<Self, String> {
        let mut kind = None;
        let mut is_little_endian = false;
        let mut unit_bits: Option<u128> = None;
        let mut words = types.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "integer" => kind = Some(SegmentKind::Integer),
                "float" => kind = Some(SegmentKind::Float),
                "utf8" => kind = Some(SegmentKind::Utf8),
                "utf16" => kind = Some(SegmentKind::Utf16),
                "utf32" => kind = Some(SegmentKind::Utf32),
                "little" => is_little_endian = true,
                "native" => is_little_endian = cfg!(target_endian = "little"),
                "big" | "signed" | "unsigned" => {}
                "unit" => {
                    let bits = words.next().and_then(|bits| bits.parse().ok());
                    unit_bits =
                        Some(bits.filter(|bits| (1..=256).contains(bits)).ok_or(
                            "a unit is from 1 to 256 bits, as in /integer-unit:8".to_owned(),
                        )?);
                }
                other => return Err(format!("`{other}` is not a type of a segment")),
            }
        }
        let kind = kind.unwrap_or(SegmentKind::Integer);
        let is_utf = matches!(kind, SegmentKind::Utf8 | SegmentKind::Utf16 | SegmentKind::Utf32);
        if is_utf && size.is_some() {
            return Err("a utf8, utf16 or utf32 segment has no size".to_owned());
        }
        if is_text && kind == SegmentKind::Float {
            return Err("a string cannot be a float segment".to_owned());
        }
        let default_size = if kind == SegmentKind::Float { 64 } else { 8 };
        let size_bits = size.unwrap_or(default_size).saturating_mul(unit_bits.unwrap_or(1));
        Ok(Self { kind, is_little_endian, size_bits })
    }
}
