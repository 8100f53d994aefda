//! Changes that a crash may lose: changes of files and of names that no sync has covered.

use super::random::Random;
use quoit_number::index;
use std::collections::BTreeMap;
use std::ops::Range;

/// Size of the pieces that a crash keeps or loses one by one.
const SECTOR_BYTES: u64 = 512;

/// A file.
#[derive(Default)]
pub(super) struct FileState {
    pub(super) bytes: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Changes since the file was synced.
    pub(super) changes: Vec<UnsyncedChange>,
    /// Ranges of the file that can be neither read nor written.
    pub(super) bad: Vec<Range<u64>>,
}

/// A change of a file.
pub(super) enum UnsyncedChange {
    Write { offset: u64, bytes: Vec<u8> },
    Truncate { size_bytes: u64 },
}

/// A change of the directory.
#[derive(Clone)]
pub(super) enum NameChange {
    Create { name: String, file: u64 },
    Remove { name: String },
    Rename { from: String, to: String },
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            Self::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

impl FileState {
    /// True if some of the bytes can be neither read nor written.
    pub(super) fn is_bad(&self, offset: u64, count: usize) -> bool {
        let end = offset + count as u64;
        self.bad.iter().any(|bad| bad.start < end && offset < bad.end)
    }

    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        write(&mut self.bytes, bytes, offset);
        self.changes.push(UnsyncedChange::Write { offset, bytes: bytes.to_vec() });
    }

    /// Makes all changes since the last sync durable.
    pub(super) fn make_durable(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                UnsyncedChange::Write { offset, bytes } => write(&mut self.durable, &bytes, offset),
                UnsyncedChange::Truncate { size_bytes } => {
                    self.durable.resize(index(size_bytes), 0)
                }
            }
        }
    }

    /// Keeps synced bytes. Of the other changes it keeps all, none, the first ones, or arbitrary
    /// sectors. If `tears_last` is true, it keeps only a part of the last one of all.
    pub(super) fn lose_unsynced(&mut self, random: &mut Random, tears_last: bool) {
        let changes = std::mem::take(&mut self.changes);
        let any_order = random.below(3) == 0;
        let kept = if any_order { changes.len() } else { random.surviving_count(changes.len()) };
        for (number, change) in changes.iter().take(kept).enumerate() {
            let is_last = number + 1 == kept && (tears_last || kept < changes.len());
            match change {
                UnsyncedChange::Write { offset, bytes } if any_order => {
                    write_sectors(&mut self.durable, bytes, *offset, random);
                }
                UnsyncedChange::Write { offset, bytes } => {
                    let size = bytes.len() as u64;
                    let part = if is_last { random.below(size + 1) } else { size };
                    write(&mut self.durable, &bytes[..index(part)], *offset);
                }
                UnsyncedChange::Truncate { size_bytes } => {
                    if !any_order || random.below(2) == 0 {
                        self.durable.resize(index(*size_bytes), 0);
                    }
                }
            }
        }
        self.bytes.clone_from(&self.durable);
    }
}

fn write(target: &mut Vec<u8>, bytes: &[u8], offset: u64) {
    let start = index(offset);
    let end = start + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[start..end].copy_from_slice(bytes);
}

/// Writes some of the sectors that a write touches.
fn write_sectors(target: &mut Vec<u8>, bytes: &[u8], offset: u64, random: &mut Random) {
    let end = offset + bytes.len() as u64;
    let mut start = offset;
    while start < end {
        let next = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
        if random.below(2) == 0 {
            let sector = &bytes[index(start - offset)..index(next - offset)];
            write(target, sector, start);
        }
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that crashes leave of a file whose only write was not synced.
    fn left_bytes(tears_last: bool) -> Vec<u64> {
        let left = (0..50).map(|seed| {
            let mut file = FileState::default();
            file.write(&[1; 100], 0);
            file.lose_unsynced(&mut Random(seed), tears_last);
            file.size()
        });
        left.collect()
    }

    #[test]
    fn a_crash_leaves_a_part_of_the_last_write_only_if_it_may_tear_it() {
        let is_part = |size_bytes: &u64| (1..100).contains(size_bytes);
        assert!(left_bytes(true).iter().any(is_part));
        let left_bytes = left_bytes(false);
        assert!(!left_bytes.iter().any(is_part) && left_bytes.contains(&100));
    }
}
