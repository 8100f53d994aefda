//! Positions of readers: an offset in the log of each node. Numbers are little-endian. Clients treat a
//! position as opaque text.
//!
//! ```text
//!  0  1  format 1
//!  1  4  period of the feed (property `change_feed`)
//!  5  8  latest time of a change that the reader has received, microseconds since 1970
//! 13     for each node whose log was read:
//!          8 bytes of its id, 8 number of its log, 4 number of the file, 8 offset
//! ```

use super::log::LogPosition;
use crate::little_endian::{u32_at, u64_at};
use crate::queues::Cursor;
use quoit_model::node::NodeId;
use std::collections::BTreeMap;
use thiserror::Error;

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 13;
const NODE_BYTES: usize = 28;
const _: () =
    assert!(HEAD_BYTES == 1 + 4 + 8 && NODE_BYTES == 8 + 8 + 4 + 8, "the sum of the fields");
/// Maximum number of nodes in a position.
const NODE_COUNT_MAX: usize = 4096;

/// Error for a position that can't be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("this is not a position of a change feed: use one that a feed has returned")]
pub struct PositionError;

/// The part of a node's id that positions contain.
pub(super) type NodeMark = [u8; 8];

pub(super) fn mark_of(node: NodeId) -> NodeMark {
    let mut mark = NodeMark::default();
    mark.copy_from_slice(&node.0[..8]);
    mark
}

/// Position of a reader.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct FeedPosition {
    pub(super) period: u32,
    pub(super) reported_us: u64,
    pub(super) places: BTreeMap<NodeMark, LogPosition>,
}

impl FeedPosition {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.places.len() * NODE_BYTES);
        out.push(FORMAT);
        out.extend_from_slice(&self.period.to_le_bytes());
        out.extend_from_slice(&self.reported_us.to_le_bytes());
        for (mark, LogPosition { log, cursor }) in &self.places {
            out.extend_from_slice(mark);
            out.extend_from_slice(&log.to_le_bytes());
            out.extend_from_slice(&cursor.file.to_le_bytes());
            out.extend_from_slice(&cursor.offset.to_le_bytes());
        }
        debug_assert_eq!(
            out.len(),
            HEAD_BYTES + self.places.len() * NODE_BYTES,
            "a position has the length by which it is read"
        );
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PositionError> {
        let (head, nodes) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(PositionError)?;
        let (nodes, rest) = nodes.as_chunks::<NODE_BYTES>();
        if head[0] != FORMAT || !rest.is_empty() || nodes.len() > NODE_COUNT_MAX {
            return Err(PositionError);
        }
        let place = |node: &[u8; NODE_BYTES]| {
            let cursor = Cursor { file: u32_at(node, 16)?, offset: u64_at(node, 20)? };
            Some((*node.first_chunk()?, LogPosition { log: u64_at(node, 8)?, cursor }))
        };
        let places: Option<BTreeMap<_, _>> = nodes.iter().map(place).collect();
        Ok(Self {
            period: u32_at(head, 1).ok_or(PositionError)?,
            reported_us: u64_at(head, 5).ok_or(PositionError)?,
            places: places.ok_or(PositionError)?,
        })
    }
}
