//! The facts about records that key files keep.

use super::keys::ActiveKeys;
use super::record::{RecordHeader, RecordKind};
use crate::keyfile::{KeyWrite, WriteKind};
use quoit_number::{index, length_u32};

/// Adds the facts about a record that its key file needs.
pub(super) fn note_key(keys: &ActiveKeys, key: &[u8], header: &RecordHeader, offset: u64) {
    match header.kind {
        RecordKind::Put => keys.push(key, &facts_of(header, WriteKind::Put, offset)),
        RecordKind::Remove => keys.push(key, &facts_of(header, WriteKind::Remove, offset)),
        RecordKind::DropPartition => {
            let facts = facts_of(header, WriteKind::DropPartition, offset);
            keys.push(&KeyWrite::DROP_KEY.encoded(), &facts);
        }
        RecordKind::Batch => {}
    }
}

/// The facts about a record that its key file keeps.
pub(super) fn facts_of(header: &RecordHeader, kind: WriteKind, offset: u64) -> KeyWrite {
    KeyWrite {
        kind,
        identity: header.identity,
        partition: header.partition,
        sequence: header.sequence,
        offset_bytes: offset,
        size_bytes: length_u32(index(header.record_bytes())),
        meta: header.meta,
    }
}
