//! Losses of data on a disk that no process uses: of files, or of everything newer than an older copy.

use crate::random::Random;
use quoit_seam::{Disk, FaultyDisk};

/// Suffix of the names of segments of the log.
const SEGMENT: &str = ".log";

/// True if a file with this name is a segment of the log.
pub(crate) fn is_segment(name: &str) -> bool {
    name.ends_with(SEGMENT)
}

/// A copy of all files of a directory.
#[derive(Debug, Clone, Default)]
pub struct DirectoryCopy(Vec<(String, Vec<u8>)>);

impl DirectoryCopy {
    /// Copies the files as they are now.
    #[must_use]
    pub fn of(disk: &FaultyDisk) -> Self {
        let files = names(disk).into_iter();
        Self(files.filter_map(|name| disk.bytes(&name).map(|bytes| (name, bytes))).collect())
    }

    /// Replaces the files of a disk with those of the copy.
    pub fn restore(&self, disk: &FaultyDisk) {
        names(disk).iter().for_each(|name| disk.delete(name));
        for (name, bytes) in &self.0 {
            disk.put(name, bytes.clone());
        }
    }
}

/// A loss of data.
pub struct DiskLoss {
    /// Description of the loss for people.
    pub told: String,
    /// True if the node can notice the loss.
    pub is_noticed: bool,
}

/// Removes segments of a log, and cuts others short. A node can't notice a cut of the last segment, because
/// the marks that show how much of it was durable may be cut off as well.
pub fn lose_segments(disk: &FaultyDisk, random: &mut Random) -> DiskLoss {
    let segments: Vec<String> = names(disk).into_iter().filter(|name| is_segment(name)).collect();
    let (mut done, mut is_noticed) = (Vec::new(), true);
    // Often the newest segments are lost, and records that they replaced or removed are still there.
    let newest_from = match random.percent(50) {
        true => random.index_below(segments.len()),
        false => 0,
    };
    let kept_percent = if newest_from > 0 { 0 } else { *random.pick(&[0, 50, 80]) };
    for (place, name) in segments.iter().enumerate() {
        // The last segment is lost if no other one is, so that the store goes back to an older state.
        let is_last = place + 1 == segments.len();
        if place < newest_from || random.percent(kept_percent) && !(is_last && done.is_empty()) {
            continue;
        }
        let bytes = disk.bytes(name).unwrap_or_default();
        if random.percent(30) {
            let kept_bytes = random.index_below(bytes.len());
            disk.put(name, bytes[..kept_bytes].to_vec());
            is_noticed &= !is_last;
            done.push(format!("{name} is cut to {kept_bytes} bytes"));
        } else {
            disk.delete(name);
            done.push(format!("{name} is gone"));
        }
    }
    DiskLoss { told: done.join(", "), is_noticed }
}

fn names(disk: &FaultyDisk) -> Vec<String> {
    disk.list().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_directory_has_the_files_of_the_copy_and_no_others() {
        let disk = FaultyDisk::new(1);
        disk.put("1.log", vec![1]);
        disk.put("STORE", vec![2]);
        let copy = DirectoryCopy::of(&disk);
        disk.put("STORE", vec![3]);
        disk.put("2.log", vec![4]);
        copy.restore(&disk);
        assert_eq!(disk.list().expect("no fault"), ["1.log", "STORE"]);
        assert_eq!(disk.bytes("STORE"), Some(vec![2]));
    }

    #[test]
    fn lost_segments_are_gone_or_shorter_and_nothing_else_is_touched() {
        for seed in 0..50 {
            let disk = FaultyDisk::new(1);
            for name in ["1.log", "2.log", "STORE", "1.keys"] {
                disk.put(name, vec![7; 100]);
            }
            let loss = lose_segments(&disk, &mut Random::new(seed, "losses", 0));
            let is_whole = |name| disk.bytes(name).is_some_and(|bytes| bytes.len() == 100);
            assert!(is_whole("STORE") && is_whole("1.keys"));
            assert!(!(is_whole("1.log") && is_whole("2.log")), "{}", loss.told);
            assert_eq!(loss.is_noticed, !loss.told.contains("2.log is cut"), "{}", loss.told);
        }
    }
}
