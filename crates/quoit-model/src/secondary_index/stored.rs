//! Index entries of objects in their stored form.

use super::sorted;
use crate::codec::{ObjectError, decode_clock, decode_description};
use crate::cursor::Cursor;
use crate::data_type::pages::PagedObject;
use crate::object::{IndexEntry, Sibling};
use quoit_planted::planted;

/// Decodes the index entries of a stored object, whole or in pages, with the same result as
/// [`Object::index_entries`]. Values are skipped.
///
/// # Errors
///
/// As [`Object::decode`].
pub fn index_entries_of(stored: &[u8]) -> Result<Vec<IndexEntry>, ObjectError> {
    let mut cursor = Cursor::borrowing(stored);
    if PagedObject::is_paged(stored) {
        // The stored form of the object follows the format byte and the generation.
        cursor.u8()?;
        cursor.varint()?;
    }
    let clock = decode_clock(&mut cursor)?;
    let mut entries = Vec::new();
    let sibling_count = cursor.count()?;
    let indexed_count = if planted!(IndexesFirstSibling) { 1 } else { sibling_count };
    for _ in 0..sibling_count.min(indexed_count) {
        let mut sibling = Sibling::default();
        decode_description(&mut cursor, &clock, &mut sibling)?;
        cursor.counted_slice()?;
        if !sibling.deleted {
            entries.append(&mut sibling.meta.indexes);
        }
    }
    Ok(sorted(entries))
}
