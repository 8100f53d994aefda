//! The file `ROUTES`, which records the engine of each bucket.
//!
//! It has lines of words: `default ENGINE`, `type TYPE ENGINE`, `bucket TYPE BUCKET ENGINE`,
//! `kept TYPE BUCKET ENGINE`, and a last line `sum` with the XXH3-64 of all lines before, in 16 hexadecimal
//! digits. Bucket types and buckets are written as an `x` and hexadecimal digits. A `kept` line is a bucket
//! that stays in the engine that has its records, although it is assigned to another.

use super::assignments::Assignments;
use crate::error::StoreError;
use crate::output::Output;
use quoit_seam::Disk;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Name of the file.
const ROUTES_NAME: &str = "ROUTES";

/// Contents of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RoutesFile {
    pub(super) default: String,
    pub(super) assignments: Assignments,
    /// Buckets that have another engine than they are assigned to.
    pub(super) buckets: BTreeMap<(Vec<u8>, Vec<u8>), String>,
}

impl RoutesFile {
    fn text(&self) -> String {
        let mut text = format!("default {}\n", self.default);
        for (bucket_type, engine) in &self.assignments.types {
            text += &format!("type {} {engine}\n", hex(bucket_type));
        }
        for (word, buckets) in [("bucket", &self.assignments.buckets), ("kept", &self.buckets)] {
            for ((bucket_type, bucket), engine) in buckets {
                text += &format!("{word} {} {} {engine}\n", hex(bucket_type), hex(bucket));
            }
        }
        let sum = xxh3_64(text.as_bytes());
        text + &format!("sum {sum:016x}\n")
    }

    fn read(text: &str) -> Option<Self> {
        let end = text.rfind("sum ")?;
        let (lines, sum) = text.split_at_checked(end)?;
        let sum = sum.strip_prefix("sum ")?.strip_suffix('\n')?;
        if u64::from_str_radix(sum, 16).ok()? != xxh3_64(lines.as_bytes()) {
            return None;
        }
        let mut kept = Self::default();
        for line in lines.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["default", engine] => engine.clone_into(&mut kept.default),
                ["type", bucket_type, engine] => {
                    kept.assignments.types.insert(unhex(bucket_type)?, engine.to_owned());
                }
                [word @ ("bucket" | "kept"), bucket_type, bucket, engine] => {
                    let buckets = match word {
                        "kept" => &mut kept.buckets,
                        _ => &mut kept.assignments.buckets,
                    };
                    buckets.insert((unhex(bucket_type)?, unhex(bucket)?), engine.to_owned());
                }
                _ => return None,
            }
        }
        Some(kept)
    }
}

/// Reads the file; `None` if it is missing or damaged.
pub(super) fn read(disk: &dyn Disk) -> Result<Option<RoutesFile>, StoreError> {
    if !disk.list()?.iter().any(|name| name == ROUTES_NAME) {
        return Ok(None);
    }
    let file = disk.open(ROUTES_NAME, false)?;
    let size_bytes = usize::try_from(file.size_bytes()?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; size_bytes];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    let kept = std::str::from_utf8(&bytes).ok().and_then(RoutesFile::read);
    if kept.is_none() {
        tracing::warn!(path = disk.path(), "the file {ROUTES_NAME} is damaged and is made again");
    }
    Ok(kept)
}

/// Names of the engines that buckets have, according to the file.
///
/// # Errors
///
/// If the disk fails.
pub fn engines_in_use(disk: &dyn Disk) -> Result<BTreeSet<String>, StoreError> {
    let Some(kept) = read(disk)? else { return Ok(BTreeSet::new()) };
    let Assignments { types, buckets } = kept.assignments;
    let assigned = types.into_values().chain(buckets.into_values());
    Ok(assigned.chain(kept.buckets.into_values()).chain([kept.default]).collect())
}

/// Writes the file durably.
pub(super) fn write(disk: &dyn Disk, kept: &RoutesFile) -> Result<(), StoreError> {
    let mut output = Output::create(disk, ROUTES_NAME)?;
    output.push(kept.text().as_bytes())?;
    output.finish()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(word: &str) -> Option<Vec<u8>> {
    let digits = word.strip_prefix('x')?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;
    use quoit_seam::FaultyDisk;

    fn kept() -> impl Strategy<Value = RoutesFile> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..4);
        let engine = || "[a-z]{1,3}".prop_map(String::from);
        let buckets = || prop::collection::btree_map((bytes(), bytes()), engine(), 0..4);
        let types = prop::collection::btree_map(bytes(), engine(), 0..4);
        (engine(), types, buckets(), buckets()).prop_map(|(default, types, of_buckets, buckets)| {
            let assignments = Assignments { types, buckets: of_buckets };
            RoutesFile { default, assignments, buckets }
        })
    }

    proptest! {
        #[test]
        fn routes_are_read_as_they_were_written(kept in kept()) {
            let disk = FaultyDisk::new(1);
            prop_assert_eq!(read(&disk).unwrap(), None);
            write(&disk, &RoutesFile::default()).unwrap();
            write(&disk, &kept).unwrap();
            prop_assert_eq!(read(&disk).unwrap(), Some(kept));
        }

        #[test]
        fn damage_is_found(kept in kept(), place: prop::sample::Index, bit in 0..7u8) {
            let mut text = kept.text().into_bytes();
            let place = place.index(text.len() - 1);
            text[place] ^= 1 << bit;
            let read = String::from_utf8(text).ok().and_then(|text| RoutesFile::read(&text));
            // A hexadecimal digit of the sum may be upper case as well.
            prop_assert!(read.is_none_or(|read| read == kept));
        }
    }
}
