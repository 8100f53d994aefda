//! Partitions of LevelDB with tiered storage (`leveldb.tiered`), whose tables are in two
//! directories. The fast one has the manifest, the logs and the first levels; the slow one has only
//! the other levels.

use crate::leveldb::{LevelDbScan, is_slow_tree};
use crate::{Engine, Partition, RiakFilesError};

/// Joins slow directories to the partitions that their tables belong to: those with the same index
/// that miss tables which the slow directory has. Slow directories that match no partition stay in
/// the list.
///
/// # Errors
///
/// Returns an error if the system refuses to read a directory or a manifest.
pub fn join_tiers(partitions: Vec<Partition>) -> Result<Vec<Partition>, RiakFilesError> {
    let is_slow = |partition: &Partition| {
        partition.engine == Engine::LevelDb && is_slow_tree(&partition.directory)
    };
    let (slow, mut joined): (Vec<_>, Vec<_>) = partitions.into_iter().partition(is_slow);
    for slow in slow {
        let place = missing_its_tables(&joined, &slow)?;
        match place.and_then(|place| joined.get_mut(place)) {
            Some(partition) => partition.slow_directory = Some(slow.directory),
            None => joined.push(slow),
        }
    }
    Ok(joined)
}

/// The partition that lacks most of the tables of this slow directory.
fn missing_its_tables(
    partitions: &[Partition],
    slow: &Partition,
) -> Result<Option<usize>, RiakFilesError> {
    let mut best = (0, None);
    for (place, partition) in partitions.iter().enumerate() {
        let may_match = partition.engine == Engine::LevelDb
            && partition.index == slow.index
            && partition.slow_directory.is_none();
        if may_match {
            let alone = LevelDbScan::open(&partition.directory, None)?.missing_tables();
            let both = LevelDbScan::open(&partition.directory, Some(&slow.directory))?;
            let found = alone.saturating_sub(both.missing_tables());
            if found > best.0 {
                best = (found, Some(place));
            }
        }
    }
    Ok(best.1)
}
