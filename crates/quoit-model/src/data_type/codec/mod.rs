//! Stored forms of states and deltas, as `docs/design/data-types.md` specifies them byte by byte.

mod delta;
mod excerpt;
mod read;
mod write;

pub(super) use excerpt::Excerpt;

use super::{FieldKind, State, StoredFormError};
use crate::cursor::Cursor;
use crate::props::Datatype;
use quoit_number::{low_u8, low_u64};

/// First byte of a stored state. Riak's begins with 69.
pub const STATE_FORMAT_1: u8 = 0x44;

/// First byte of a delta.
pub const DELTA_FORMAT_1: u8 = 0x64;

/// In an item's header: a set of deferred events follows the writes.
const HAS_DEFERRED: u64 = 1;

/// In a change's first byte: a write follows, and a set of undone events follows.
const HAS_WRITE: u8 = 1;
const HAS_UNDONE: u8 = 2;

/// In the byte of a field's kind: the content is a branch, of which only the figures follow.
const IS_BRANCH: u8 = 0x80;

/// Data types and kinds of fields by number. The tables are part of the format.
const DATATYPES: [Datatype; 5] =
    [Datatype::Counter, Datatype::Set, Datatype::Gset, Datatype::Map, Datatype::Hll];
const FIELD_KINDS: [FieldKind; 5] =
    [FieldKind::Counter, FieldKind::Set, FieldKind::Register, FieldKind::Flag, FieldKind::Map];

fn put_datatype(datatype: Datatype, out: &mut Vec<u8>) {
    out.push(number_in(&DATATYPES, &datatype));
}

fn put_field_kind(kind: FieldKind, out: &mut Vec<u8>) {
    out.push(field_kind_number(kind));
}

fn field_kind_number(kind: FieldKind) -> u8 {
    number_in(&FIELD_KINDS, &kind)
}

/// The number of a value in a table of the format, which has each value.
#[inline]
pub(super) fn number_in<T: PartialEq, const N: usize>(table: &[T; N], value: &T) -> u8 {
    let mut numbered = table.iter().zip(0u8..);
    numbered.find(|(known, _)| *known == value).expect("the table has every value").1
}

/// Appends a number in the form of [`put_varint`](crate::cursor::put_varint), with up to 128 bits.
fn put_wide(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(low_u8(low_u64(value)) | 0x80);
        value >>= 7;
    }
    out.push(low_u8(low_u64(value)));
}

fn read_wide(cursor: &mut Cursor<'_>) -> Result<u128, StoredFormError> {
    let mut value = 0u128;
    for place in 0..19 {
        let byte = cursor.u8()?;
        // The 19th byte can hold two bits.
        if place == 18 && byte > 3 {
            break;
        }
        value |= u128::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(bad(cursor, "a number beyond 2^128"))
}

fn bad(cursor: &Cursor<'_>, what: &'static str) -> StoredFormError {
    StoredFormError::BadForm { what, at: cursor.at() }
}

impl State {
    /// The data type of a stored state, from its first two bytes; `None` for other bytes.
    pub(super) fn datatype_of(stored: &[u8]) -> Option<Datatype> {
        read_format(&mut Cursor::borrowing(stored), STATE_FORMAT_1).ok()
    }
}

fn read_format(cursor: &mut Cursor<'_>, format: u8) -> Result<Datatype, StoredFormError> {
    let found = cursor.u8()?;
    if found != format {
        return Err(StoredFormError::UnknownFormat { format: found, expected: format });
    }
    let datatype = DATATYPES.get(usize::from(cursor.u8()?)).copied();
    datatype.ok_or_else(|| bad(cursor, "an unknown type"))
}

fn read_field_kind(cursor: &mut Cursor<'_>) -> Result<FieldKind, StoredFormError> {
    let kind = FIELD_KINDS.get(usize::from(cursor.u8()?)).copied();
    kind.ok_or_else(|| bad(cursor, "an unknown kind of field"))
}

/// Reads the kind of a field in a page and, if its content is a branch, the data type of the
/// branch.
fn read_paged_kind(
    cursor: &mut Cursor<'_>,
) -> Result<(FieldKind, Option<Datatype>), StoredFormError> {
    let byte = cursor.u8()?;
    let kind = FIELD_KINDS.get(usize::from(byte & !IS_BRANCH)).copied();
    let kind = kind.ok_or_else(|| bad(cursor, "an unknown kind of field"))?;
    let datatype = match kind {
        _ if byte & IS_BRANCH == 0 => None,
        FieldKind::Set => Some(Datatype::Set),
        FieldKind::Map => Some(Datatype::Map),
        _ => return Err(bad(cursor, "a branch where nothing has items")),
    };
    Ok((kind, datatype))
}

fn read_end(cursor: &Cursor<'_>) -> Result<(), StoredFormError> {
    if cursor.remaining() == 0 { Ok(()) } else { Err(bad(cursor, "bytes behind its end")) }
}

#[cfg(test)]
mod tests;
