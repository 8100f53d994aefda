//! Encoding of layouts, for storage and for exchange between nodes.
//!
//! | piece | form |
//! | --- | --- |
//! | format | byte 1 |
//! | version | varint |
//! | ring size | varint |
//! | rules | `target_n_val`, `target_location_n_val`, a byte each |
//! | locations | varint number, then the names in ascending order, each with a varint length before it |
//! | nodes | varint number, then the nodes in ascending order of their ids |
//! | node | id (16 bytes), varint capacity, varint 0 for no location or 1 + number of the location |
//! | table | for each partition its balanced positions: numbers of nodes |
//!
//! A node's number in the table takes one byte if there are at most 256 nodes, otherwise two,
//! little-endian. There are min(`target_n_val`, nodes) balanced positions. Later positions are not
//! stored, since they are a fixed function of nodes and partition. Equal layouts have equal bytes.

use super::member::{
    CAPACITY_MAX, LOCATION_BYTES_MAX, LayoutMember, LayoutRules, NODES_MAX, checked,
};
use super::{Layout, LayoutDecodeError};
use crate::cursor::{Cursor, Truncated, put_counted, put_varint};
use crate::hash::RingSize;
use crate::node::NodeId;
use std::sync::Arc;

/// First byte of an encoded layout.
pub const LAYOUT_FORMAT_1: u8 = 1;

/// Maximum number of nodes for which a position takes one byte.
const NARROW_NODES_MAX: usize = 256;

impl Layout {
    /// Encodes the layout.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT_FORMAT_1];
        put_varint(&mut out, self.version);
        put_varint(&mut out, u64::from(self.ring_size.get()));
        out.extend([self.rules.target_n_val, self.rules.target_location_n_val]);
        let mut locations: Vec<&Arc<str>> =
            self.members.iter().filter_map(|member| member.location.as_ref()).collect();
        locations.sort_unstable();
        locations.dedup();
        put_varint(&mut out, locations.len() as u64);
        for location in &locations {
            put_counted(&mut out, location.as_bytes());
        }
        put_varint(&mut out, self.members.len() as u64);
        for member in &self.members {
            out.extend(member.id.0);
            put_varint(&mut out, u64::from(member.capacity));
            let number = member.location.as_ref().map_or(0, |location| {
                1 + locations.binary_search(&location).expect("all locations are in the list")
            });
            put_varint(&mut out, number as u64);
        }
        for partition in self.partitions() {
            for node in self.balanced(partition) {
                let [low, high] = node.to_le_bytes();
                out.push(low);
                if self.nodes.len() > NARROW_NODES_MAX {
                    out.push(high);
                }
            }
        }
        out
    }

    /// Decodes a layout. Takes at most as many bytes of memory as the input has, times [`NODES_MAX`], even
    /// for invalid input.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a layout. A decoded layout passes the checks of
    /// members and rules that a computed one passes, and each node is at most once in a partition's
    /// positions.
    pub fn decode(bytes: &[u8]) -> Result<Self, LayoutDecodeError> {
        let mut reader = LayoutReader { cursor: Cursor::borrowing(bytes), size_bytes: bytes.len() };
        let format = reader.u8()?;
        if format != LAYOUT_FORMAT_1 {
            return Err(LayoutDecodeError::UnknownFormat { format });
        }
        let version = reader.varint()?;
        let at = reader.cursor.at();
        let ring_size = u16::try_from(reader.varint()?).ok().and_then(RingSize::new);
        let ring_size = ring_size.ok_or_else(|| reader.damaged(at, "no ring has this size"))?;
        let rules = LayoutRules { target_n_val: reader.u8()?, target_location_n_val: reader.u8()? };
        let locations = reader.locations()?;
        let at = reader.cursor.at();
        let members = reader.members(&locations)?;
        match checked(&members, rules) {
            Ok(sorted) if sorted == members => {}
            Ok(_) => return Err(reader.damaged(at, "the nodes are not in order")),
            Err(_) => return Err(reader.damaged(at, "no layout has such nodes or rules")),
        }
        let balanced = reader.table(ring_size, rules, members.len())?;
        let at = reader.cursor.at();
        if reader.cursor.remaining() > 0 {
            return Err(reader.damaged(at, "it goes on after its end"));
        }
        Ok(Self::from_balanced(version, ring_size, rules, members, &balanced))
    }
}

struct LayoutReader<'a> {
    cursor: Cursor<'a>,
    size_bytes: usize,
}

impl LayoutReader<'_> {
    fn damaged(&self, at: usize, what: &'static str) -> LayoutDecodeError {
        LayoutDecodeError::Damaged { size_bytes: self.size_bytes, at, what }
    }

    fn whole<T>(&self, read: Result<T, Truncated>) -> Result<T, LayoutDecodeError> {
        read.map_err(|cut| self.damaged(cut.at, "it ends too early"))
    }

    fn u8(&mut self) -> Result<u8, LayoutDecodeError> {
        let read = self.cursor.u8();
        self.whole(read)
    }

    fn varint(&mut self) -> Result<u64, LayoutDecodeError> {
        let read = self.cursor.varint();
        self.whole(read)
    }

    fn count(&mut self) -> Result<usize, LayoutDecodeError> {
        let at = self.cursor.at();
        let read = self.cursor.count();
        let count = self.whole(read)?;
        if count > NODES_MAX {
            return Err(self.damaged(at, "more than any layout has"));
        }
        Ok(count)
    }

    fn locations(&mut self) -> Result<Vec<Arc<str>>, LayoutDecodeError> {
        let count = self.count()?;
        let mut locations: Vec<Arc<str>> = Vec::with_capacity(count);
        for _ in 0..count {
            let at = self.cursor.at();
            let read = self.cursor.counted_slice();
            let name = std::str::from_utf8(self.whole(read)?);
            let name = name.map_err(|_| self.damaged(at, "a location's name is not UTF-8"))?;
            if name.len() > LOCATION_BYTES_MAX {
                return Err(self.damaged(at, "a location's name is too long"));
            }
            if locations.last().is_some_and(|before| &**before >= name) {
                return Err(self.damaged(at, "the locations are not in order"));
            }
            locations.push(name.into());
        }
        Ok(locations)
    }

    fn members(&mut self, locations: &[Arc<str>]) -> Result<Vec<LayoutMember>, LayoutDecodeError> {
        let count = self.count()?;
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            let read = self.cursor.array::<16>();
            let id = NodeId(self.whole(read)?);
            let at = self.cursor.at();
            let capacity = u32::try_from(self.varint()?).unwrap_or(CAPACITY_MAX + 1);
            let location = match self.varint()? {
                0 => None,
                number => {
                    let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
                    let name = locations.get(place);
                    Some(name.ok_or_else(|| self.damaged(at, "no such location"))?.clone())
                }
            };
            members.push(LayoutMember { id, location, capacity });
        }
        Ok(members)
    }

    fn table(
        &mut self,
        ring_size: RingSize,
        rules: LayoutRules,
        node_count: usize,
    ) -> Result<Vec<u16>, LayoutDecodeError> {
        let width = rules.balanced_count(node_count);
        let cell_count = usize::from(ring_size.get()) * width;
        let at = self.cursor.at();
        let cells: Vec<u16> = if node_count <= NARROW_NODES_MAX {
            let read = self.cursor.slice(cell_count);
            self.whole(read)?.iter().map(|byte| u16::from(*byte)).collect()
        } else {
            let read = self.cursor.slice(2 * cell_count);
            let pairs = self.whole(read)?.as_chunks::<2>().0;
            pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect()
        };
        for row in cells.chunks_exact(width) {
            let is_wrong = |(place, node): (usize, &u16)| {
                usize::from(*node) >= node_count
                    || row.iter().take(place).any(|other| other == node)
            };
            if row.iter().enumerate().any(is_wrong) {
                return Err(self.damaged(at, "a partition's positions are not distinct nodes"));
            }
        }
        Ok(cells)
    }
}
