//! Shapes of messages, against which bodies are checked before they are decoded.
//!
//! `prost` decodes an absent required field as its default value, and accepts unknown values of
//! enumerations. The protocol has required fields, and a server that took a missing bucket for the
//! empty one would do harm. So each message has a [`MessageSchema`], generated from the same declaration as
//! its struct, and a body is first checked against it. The check allocates nothing and skips the
//! contents of byte fields; it costs some nanoseconds per field.

use crate::error::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_varint, skip_field};

/// Maximum depth of nested messages, which is also the limit of `prost`.
const DEPTH_MAX: u32 = 100;

/// The structure of one message.
#[derive(Debug)]
pub struct MessageSchema {
    /// The message's name in the protocol, as in `RpbGetReq`.
    pub name: &'static str,
    /// Fields by ascending tag; at most 64.
    pub fields: &'static [Field],
}

/// One field of a message.
#[derive(Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The field's number.
    pub tag: u32,
    /// True if a message without the field is malformed.
    pub required: bool,
    /// Kind of the field's content.
    pub kind: FieldKind,
}

/// Kind of a field's content.
#[derive(Debug)]
pub enum FieldKind {
    /// A number or a boolean.
    Varint,
    /// Repeated numbers, either one by one or packed into a byte string.
    Varints,
    /// A byte string.
    Bytes,
    /// An enumeration, with a function that returns true for its values.
    Enumeration(fn(i32) -> bool),
    /// A nested message, as a function, since messages may contain themselves.
    Message(fn() -> &'static MessageSchema),
}

impl MessageSchema {
    /// Checks a body: the wire type of each field, the values of enumerations, and that every
    /// required field is present, in nested messages too. Unknown fields are skipped.
    ///
    /// If a nested message is given in pieces (a singular field that occurs twice), each piece must
    /// be complete. The check of a valid body does not allocate.
    ///
    /// # Errors
    ///
    /// Returns the first fault, with the message and the field.
    pub fn check(&'static self, body: &[u8]) -> Result<(), DecodeError> {
        self.check_nested(body, DEPTH_MAX)
    }

    fn check_nested(&'static self, body: &[u8], depth_left: u32) -> Result<(), DecodeError> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(DecodeError::TooDeep { message: self.name, depth_max: DEPTH_MAX });
        };
        let mut rest = body;
        let mut seen = 0u64;
        // Encoders write fields in the order of their tags, so the search begins at the previous
        // field.
        let mut hint = 0;
        while !rest.is_empty() {
            let key = self.varint(&mut rest, body)?;
            let (tag, wire_type) = self.split_key(key)?;
            match self.find(tag, hint) {
                Some((index, field)) => {
                    hint = index;
                    seen |= 1 << index;
                    self.check_field(field, wire_type, &mut rest, body, depth_left)?;
                }
                None => skip_field(wire_type, tag, &mut rest, DecodeContext::default())
                    .map_err(|source| DecodeError::Malformed { message: self.name, source })?,
            }
        }
        self.check_required(seen)
    }

    /// The field with a tag, and its index. Searches from `hint` on, then before it.
    #[inline]
    fn find(&self, tag: u32, hint: usize) -> Option<(usize, &'static Field)> {
        let (before, from) = self.fields.split_at_checked(hint)?;
        let later = from.iter().enumerate().find(|(_, field)| field.tag == tag);
        let later = later.map(|(place, field)| (hint + place, field));
        later.or_else(|| before.iter().enumerate().find(|(_, field)| field.tag == tag))
    }

    fn check_required(&self, seen: u64) -> Result<(), DecodeError> {
        for (index, field) in self.fields.iter().enumerate() {
            if field.required && seen & (1 << index) == 0 {
                return Err(DecodeError::MissingField {
                    message: self.name,
                    field: field.name,
                    tag: field.tag,
                });
            }
        }
        Ok(())
    }

    #[inline]
    fn check_field(
        &'static self,
        field: &'static Field,
        wire_type: WireType,
        rest: &mut &[u8],
        body: &[u8],
        depth_left: u32,
    ) -> Result<(), DecodeError> {
        let expected = match field.kind {
            FieldKind::Varints if wire_type == WireType::LengthDelimited => wire_type,
            FieldKind::Varint | FieldKind::Varints | FieldKind::Enumeration(_) => WireType::Varint,
            FieldKind::Bytes | FieldKind::Message(_) => WireType::LengthDelimited,
        };
        if wire_type != expected {
            return Err(DecodeError::WrongWireType {
                message: self.name,
                field: field.name,
                tag: field.tag,
                expected: expected as u8,
                got: wire_type as u8,
            });
        }
        match field.kind {
            FieldKind::Varints if wire_type == WireType::LengthDelimited => {
                let mut packed = self.delimited(rest, body)?;
                while !packed.is_empty() {
                    self.varint(&mut packed, body)?;
                }
            }
            FieldKind::Varint | FieldKind::Varints => {
                self.varint(rest, body)?;
            }
            FieldKind::Enumeration(is_valid) => {
                let value = self.varint(rest, body)?;
                if !i32::try_from(value).is_ok_and(is_valid) {
                    return Err(DecodeError::UnknownEnumerationValue {
                        message: self.name,
                        field: field.name,
                        value,
                    });
                }
            }
            FieldKind::Bytes => {
                self.delimited(rest, body)?;
            }
            FieldKind::Message(shape) => {
                let nested = self.delimited(rest, body)?;
                shape().check_nested(nested, depth_left)?;
            }
        }
        Ok(())
    }

    /// Takes a length and that many bytes.
    #[inline]
    fn delimited<'a>(&self, rest: &mut &'a [u8], body: &[u8]) -> Result<&'a [u8], DecodeError> {
        let length_bytes = self.varint(rest, body)?;
        let taken = usize::try_from(length_bytes).ok().and_then(|n| rest.split_at_checked(n));
        let Some((content, after)) = taken else {
            return Err(self.truncated(body, rest.len()));
        };
        *rest = after;
        Ok(content)
    }

    #[inline]
    fn varint(&self, rest: &mut &[u8], body: &[u8]) -> Result<u64, DecodeError> {
        match rest.split_first() {
            Some((&byte, after)) if byte < 0x80 => {
                *rest = after;
                Ok(u64::from(byte))
            }
            Some(_) => decode_varint(rest).map_err(|_| self.truncated(body, rest.len())),
            None => Err(self.truncated(body, rest.len())),
        }
    }

    fn split_key(&self, key: u64) -> Result<(u32, WireType), DecodeError> {
        let wire_type = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::SixtyFourBit,
            2 => WireType::LengthDelimited,
            3 => WireType::StartGroup,
            4 => WireType::EndGroup,
            5 => WireType::ThirtyTwoBit,
            _ => return Err(DecodeError::InvalidKey { message: self.name, key }),
        };
        match u32::try_from(key) {
            Ok(short) if short >> 3 != 0 => Ok((short >> 3, wire_type)),
            _ => Err(DecodeError::InvalidKey { message: self.name, key }),
        }
    }

    fn truncated(&self, body: &[u8], rest_bytes: usize) -> DecodeError {
        DecodeError::Truncated {
            message: self.name,
            at_byte: body.len() - rest_bytes,
            size_bytes: body.len(),
        }
    }
}
