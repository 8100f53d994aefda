//! Root of a large record: everything that it keeps beside its pages.

use super::branch::{Branch, read_table};
use super::table::PageTable;
use super::written::PAGE_BYTES_TARGET;
use crate::clock::Dot;
use crate::cursor::{Cursor, put_varint};
use crate::data_type::{State, StoredFormError};
use crate::props::Datatype;
use bytes::Bytes;

/// First byte of a stored root of a record without branches.
pub const ROOT_FORMAT_1: u8 = 0x72;

/// First byte of a stored root of a record with branches.
pub const ROOT_FORMAT_2: u8 = 0x73;

/// A large record without its items.
///
/// Stored as [`ROOT_FORMAT_1`], number of pages, number of items, bytes of all pages (varints), the digest of
/// all items (8 bytes, little-endian), and a [`State`] without items. With branches it is [`ROOT_FORMAT_2`],
/// number of pages, number of items, bytes of these pages, bytes of the pages of branches, number of the last
/// branch (varints), and the digest and the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// Whether the record is there, and what it waits for; without any items.
    pub(super) shell: State,
    /// The items.
    pub(super) trunk: Branch,
    /// Number of the branch that was made last, of those that are there; 0 when there is none.
    pub(super) last_branch: u64,
}

impl Root {
    /// One of no items.
    pub(super) fn empty(datatype: Datatype) -> Self {
        let trunk = Branch::empty(datatype, 0);
        Self { shell: State::empty(datatype), trunk, last_branch: 0 }
    }

    /// How the items are divided into pages.
    #[must_use]
    pub const fn table(&self) -> PageTable {
        self.trunk.table
    }

    /// Number of elements of the set, or of fields of the map.
    #[must_use]
    pub const fn item_count(&self) -> u64 {
        self.trunk.item_count
    }

    /// Bytes of all pages, with those of branches.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.trunk.all_bytes()
    }

    /// Whether fields of it have pages of their own.
    #[must_use]
    pub const fn has_branches(&self) -> bool {
        self.last_branch > 0
    }

    /// Number of all pages, about as many as those of branches may be.
    #[must_use]
    pub const fn page_count_about(&self) -> u64 {
        self.trunk.table.page_count() as u64 + self.trunk.inner_bytes / PAGE_BYTES_TARGET
    }

    /// Whether the record is there, as [`State::is_live`].
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shell.is_live() || self.item_count() > 0
    }

    /// The event of the latest update that counts, as [`State::presence`].
    #[must_use]
    pub fn presence(&self) -> Option<&Dot> {
        self.shell.presence()
    }

    /// The digest of the whole state, as [`State::digest`].
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.shell.digest().wrapping_add(self.trunk.digest)
    }

    /// Whether there is nothing to keep but the clock, as [`State::is_void`].
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.shell.is_void() && self.page_bytes() == 0
    }

    /// The type of the record.
    #[must_use]
    pub fn datatype(&self) -> Datatype {
        self.shell.datatype()
    }

    /// Appends the stored form.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(if self.has_branches() { ROOT_FORMAT_2 } else { ROOT_FORMAT_1 });
        put_varint(out, u64::from(self.trunk.table.page_count()));
        put_varint(out, self.trunk.item_count);
        put_varint(out, self.trunk.page_bytes);
        if self.has_branches() {
            put_varint(out, self.trunk.inner_bytes);
            put_varint(out, self.last_branch);
        }
        out.extend_from_slice(&self.trunk.digest.to_le_bytes());
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
        if format != ROOT_FORMAT_1 && format != ROOT_FORMAT_2 {
            return Err(StoredFormError::UnknownFormat { format, expected: ROOT_FORMAT_2 });
        }
        let table = read_table(&mut cursor)?;
        let (item_count, page_bytes) = (cursor.varint()?, cursor.varint()?);
        let (mut inner_bytes, mut last_branch) = (0, 0);
        if format == ROOT_FORMAT_2 {
            (inner_bytes, last_branch) = (cursor.varint()?, cursor.varint()?);
        }
        let digest = u64::from_le_bytes(cursor.array()?);
        let at = cursor.at();
        let bad = |what| StoredFormError::BadForm { what, at };
        if (format == ROOT_FORMAT_2) != (last_branch > 0) {
            return Err(bad("no branches where there should be some"));
        }
        let shell = State::decode(&input.slice(at..))?;
        let content = &shell.record.content;
        if !content.has_items() || content.item_count() > 0 {
            return Err(bad("items beside those of its pages"));
        }
        let empty = Branch::empty(shell.datatype(), 0);
        let trunk = Branch { table, item_count, page_bytes, inner_bytes, digest, ..empty };
        Ok(Self { shell, trunk, last_branch })
    }
}
