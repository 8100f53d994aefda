//! What a large record keeps beside its pages.

use super::table::PageTable;
use crate::clock::Dot;
use crate::cursor::{Cursor, put_varint};
use crate::data_type::{State, StoredFormError};
use crate::props::Datatype;
use bytes::Bytes;

/// First byte of a stored root.
pub const ROOT_FORMAT_1: u8 = 0x72;

/// A large record without its items.
///
/// Stored as [`ROOT_FORMAT_1`], number of pages, number of items, bytes of all pages (varints), the digest of
/// all items (8 bytes, little-endian), and a [`State`] without items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// Whether the record is there, and what it waits for; without any items.
    pub(super) shell: State,
    pub(super) table: PageTable,
    /// Elements or fields that count.
    pub(super) item_count: u64,
    /// Bytes of all pages.
    pub(super) page_bytes: u64,
    /// What the items add to the state's digest.
    pub(super) digest: u64,
}

impl Root {
    /// How the items are divided into pages.
    #[must_use]
    pub const fn table(&self) -> PageTable {
        self.table
    }

    /// Number of elements of the set, or of fields of the map.
    #[must_use]
    pub const fn item_count(&self) -> u64 {
        self.item_count
    }

    /// Bytes of all pages.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Whether the record is there, as [`State::is_live`].
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shell.is_live() || self.item_count > 0
    }

    /// The event of the latest update that counts, as [`State::presence`].
    #[must_use]
    pub fn presence(&self) -> Option<&Dot> {
        self.shell.presence()
    }

    /// The digest of the whole state, as [`State::digest`].
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.shell.digest().wrapping_add(self.digest)
    }

    /// Whether there is nothing to keep but the clock, as [`State::is_void`].
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.shell.is_void() && self.page_bytes == 0
    }

    /// Whether it knows of no items: as after taking away what all pages hold.
    pub(super) const fn is_bare(&self) -> bool {
        self.item_count == 0 && self.page_bytes == 0 && self.digest == 0
    }

    /// The type of the record.
    #[must_use]
    pub fn datatype(&self) -> Datatype {
        self.shell.datatype()
    }

    /// Appends the stored form.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(ROOT_FORMAT_1);
        put_varint(out, u64::from(self.table.page_count()));
        put_varint(out, self.item_count);
        put_varint(out, self.page_bytes);
        out.extend_from_slice(&self.digest.to_le_bytes());
        self.shell.encode_into(out);
    }

    /// Reads the stored form.
    ///
    /// # Errors
    ///
    /// When the bytes are cut off, of another format, or not what a writer makes.
    pub fn decode(input: &Bytes) -> Result<Self, StoredFormError> {
        let mut cursor = Cursor::new(input);
        let format = cursor.u8()?;
        if format != ROOT_FORMAT_1 {
            return Err(StoredFormError::UnknownFormat { format, expected: ROOT_FORMAT_1 });
        }
        let page_count = cursor.varint()?;
        let table = u32::try_from(page_count).ok().and_then(PageTable::new);
        let bad = |what, at| StoredFormError::BadForm { what, at };
        let table = table.ok_or_else(|| bad("a number of pages that can't be", cursor.at()))?;
        let (item_count, page_bytes) = (cursor.varint()?, cursor.varint()?);
        let digest = u64::from_le_bytes(cursor.array()?);
        let at = cursor.at();
        let shell = State::decode(&input.slice(at..))?;
        let content = &shell.record.content;
        if !content.has_items() || content.item_count() > 0 {
            return Err(bad("items beside those of its pages", at));
        }
        Ok(Self { shell, table, item_count, page_bytes, digest })
    }
}
