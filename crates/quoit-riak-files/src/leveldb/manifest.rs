//! Manifests: logs of changes of the set of tables.

use super::LEVELS;
use super::block::{counted, varint};
use super::log::{LogItem, records};

/// Tags of the fields of a change.
mod tag {
    pub(super) const COMPARATOR: u64 = 1;
    pub(super) const LOG_NUMBER: u64 = 2;
    pub(super) const NEXT_FILE: u64 = 3;
    pub(super) const LAST_SEQUENCE: u64 = 4;
    pub(super) const COMPACT_POINTER: u64 = 5;
    pub(super) const DELETED_TABLE: u64 = 6;
    pub(super) const NEW_TABLE: u64 = 7;
    pub(super) const NEW_EXPIRING_TABLE: u64 = 8;
    pub(super) const PREVIOUS_LOG_NUMBER: u64 = 9;
}

/// Number of figures about the expiry of a table's entries, which are skipped.
const EXPIRY_FIGURES: usize = 3;

/// A table with its smallest key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TableFile {
    pub(super) number: u64,
    smallest: Vec<u8>,
}

/// The set of tables and logs that are in use.
#[derive(Default, Debug)]
pub(super) struct Version {
    /// Tables of each level, in the order of their keys.
    pub(super) levels: [Vec<TableFile>; LEVELS],
    pub(super) log_number: u64,
    pub(super) previous_log_number: u64,
}

/// A change of the set of tables.
#[derive(Default)]
pub(super) struct Edit {
    log_number: Option<u64>,
    previous_log_number: Option<u64>,
    deleted: Vec<(usize, u64)>,
    new: Vec<(usize, TableFile)>,
}

impl Version {
    /// The version after all changes of a manifest; `None` if one of them is damaged.
    pub(super) fn read(manifest: &[u8]) -> Option<Self> {
        let mut version = Self::default();
        let mut is_empty = true;
        for logged in records(manifest) {
            let LogItem::Record { bytes, .. } = logged else { return None };
            version.take(Self::read_edit(&bytes)?)?;
            is_empty = false;
        }
        for tables in &mut version.levels {
            tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        }
        (!is_empty).then_some(version)
    }

    /// Makes a change; returns `None` if it names a level that there is not.
    fn take(&mut self, edit: Edit) -> Option<()> {
        self.log_number = edit.log_number.unwrap_or(self.log_number);
        self.previous_log_number = edit.previous_log_number.unwrap_or(self.previous_log_number);
        for (level, number) in edit.deleted {
            self.levels.get_mut(level)?.retain(|table| table.number != number);
        }
        for (level, table) in edit.new {
            self.levels.get_mut(level)?.push(table);
        }
        Some(())
    }

    /// Decodes a change; returns `None` if it is damaged.
    pub(super) fn read_edit(record: &[u8]) -> Option<Edit> {
        let mut input = record;
        let mut edit = Edit::default();
        while !input.is_empty() {
            match varint(&mut input)? {
                tag::COMPARATOR => {
                    counted(&mut input)?;
                }
                tag::LOG_NUMBER => edit.log_number = Some(varint(&mut input)?),
                tag::PREVIOUS_LOG_NUMBER => edit.previous_log_number = Some(varint(&mut input)?),
                tag::NEXT_FILE | tag::LAST_SEQUENCE => {
                    varint(&mut input)?;
                }
                tag::COMPACT_POINTER => {
                    level(&mut input)?;
                    counted(&mut input)?;
                }
                tag::DELETED_TABLE => edit.deleted.push((level(&mut input)?, varint(&mut input)?)),
                tag @ (tag::NEW_TABLE | tag::NEW_EXPIRING_TABLE) => {
                    let level = level(&mut input)?;
                    let number = varint(&mut input)?;
                    varint(&mut input)?;
                    let smallest = counted(&mut input)?.to_vec();
                    counted(&mut input)?;
                    if tag == tag::NEW_EXPIRING_TABLE {
                        (0..EXPIRY_FIGURES).try_for_each(|_| varint(&mut input).map(drop))?;
                    }
                    edit.new.push((level, TableFile { number, smallest }));
                }
                _ => return None,
            }
        }
        Some(edit)
    }
}

fn level(input: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint(input)?).ok().filter(|level| *level < LEVELS)
}
