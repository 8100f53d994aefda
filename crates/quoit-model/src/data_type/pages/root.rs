//! Root of a large record: all parts of the record that are not in pages.

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
/// The stored form is [`ROOT_FORMAT_1`], number of pages, number of items, bytes of all pages
/// (varints), the digest of all items (8 bytes, little-endian), and a [`State`] without items. A
/// record with branches has [`ROOT_FORMAT_2`], number of pages, number of items, bytes of these
/// pages, bytes of the pages of branches, number of the last branch (varints), then the digest and
/// the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// Presence and deferred events of the record, without items.
    pub(super) shell: State,
    /// Figures of the items.
    pub(super) trunk: Branch,
    /// Highest number of a branch; 0 if there is no branch.
    pub(super) last_branch: u64,
}

impl Root {
    /// A root without items.
    pub(super) fn empty(datatype: Datatype) -> Self {
        let trunk = Branch::empty(datatype, 0);
        Self { shell: State::empty(datatype), trunk, last_branch: 0 }
    }

    /// The division of the items into pages.
    #[must_use]
    pub const fn table(&self) -> PageTable {
        self.trunk.table
    }

    /// Number of live elements of the set, or live fields of the map.
    #[must_use]
    pub const fn item_count(&self) -> u64 {
        self.trunk.item_count
    }

    /// Size of all pages in bytes, including those of branches.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.trunk.all_bytes()
    }

    /// True if fields have pages of their own.
    #[must_use]
    pub const fn has_branches(&self) -> bool {
        self.last_branch > 0
    }

    /// Approximate number of all pages; that of branches is estimated from their size.
    #[must_use]
    pub const fn page_count_about(&self) -> u64 {
        self.trunk.table.page_count() as u64 + self.trunk.inner_bytes / PAGE_BYTES_TARGET
    }

    /// True if the record exists, as [`State::is_live`].
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shell.is_live() || self.item_count() > 0
    }

    /// The event of an update that counts, as [`State::presence`].
    #[must_use]
    pub fn presence(&self) -> Option<&Dot> {
        self.shell.presence()
    }

    /// Digest of the whole state, as [`State::digest`].
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.shell.digest().wrapping_add(self.trunk.digest)
    }

    /// True if the root can be dropped, as [`State::is_void`].
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.shell.is_void() && self.page_bytes() == 0
    }

    /// Data type of the record.
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

    /// Decodes the stored form.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, have another format, or hold something that no
    /// encoder writes.
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
