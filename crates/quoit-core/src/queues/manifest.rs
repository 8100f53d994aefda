//! Manifest: the file that lists the source queues and how far each has been consumed.
//!
//! The file has lines of text; the last line is a checksum of all lines before. It is replaced as a
//! whole, by a rename, when queues change, and once a second while entries are confirmed.
//!
//! ```text
//! quoit source queues 1
//! next 1234
//! boot 8f3a
//! stopped yes
//! queue 7 1200 command active q1 any
//! sink 7 00112233445566778899aabbccddeeff
//! stale 7
//! missed 7 1700000000000000 1700000060000000
//! removed q2
//! sum 0123456789abcdef
//! ```
//!
//! A `queue` line has the queue's number, the lowest sequence number that it still needs, its origin
//! (`configuration` or `command`), its state (`active` or `suspended`), its name and its filter. It may
//! be followed by: `sink`, the id of the cluster that consumed it last; `stale`, or `accepted` once an
//! operator has dealt with that; and `missed`, the times of the first and the last delete that
//! full-sync has to bring to its sinks, in microseconds since 1970.

use super::entry::{EntrySequence, VisitedCluster};
use super::filter::QueueFilter;
use super::journal::QueueNumber;
use super::queue::Staleness;
use crate::machine_boot::MachineBoot;
use quoit_seam::{Disk, replace_file};
use quoit_store::error::StoreError;
use std::fmt::Write as _;
use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "QUEUES";
const TITLE: &str = "quoit source queues 1";
/// Maximum number of bytes that are read from the file.
const BYTES_MAX: u64 = 1 << 20;

/// A queue in the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ManifestQueue {
    pub(super) number: QueueNumber,
    pub(super) needed: EntrySequence,
    /// True if a command has defined the queue, so that the configuration no longer applies to it.
    pub(super) by_command: bool,
    pub(super) is_suspended: bool,
    pub(super) staleness: Staleness,
    /// Cluster that consumed it last.
    pub(super) sink: Option<VisitedCluster>,
    /// Times of the first and the last delete that full-sync has to bring to its sinks.
    pub(super) missed_us: Option<(u64, u64)>,
    pub(super) name: String,
    pub(super) filter: QueueFilter,
}

/// Content of the manifest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Manifest {
    /// Lowest sequence number that was not given to an entry.
    pub(super) next: EntrySequence,
    /// Boot of the machine during which the file was written.
    pub(super) boot: MachineBoot,
    /// True if the process has stopped in good order since.
    pub(super) is_stopped: bool,
    pub(super) queues: Vec<ManifestQueue>,
    /// Configured queues that a command has removed.
    pub(super) removed: Vec<String>,
}

impl Manifest {
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{TITLE}\nnext {}\nboot {:x}\n", self.next.0, self.boot.0);
        text.push_str(if self.is_stopped { "stopped yes\n" } else { "stopped no\n" });
        for queue in &self.queues {
            let by = if queue.by_command { "command" } else { "configuration" };
            let state = if queue.is_suspended { "suspended" } else { "active" };
            let ManifestQueue { number, needed, name, filter, .. } = queue;
            // Writing to a string can't fail.
            let _ = writeln!(text, "queue {} {} {by} {state} {name} {filter}", number.0, needed.0);
            if let Some(sink) = queue.sink {
                let _ = writeln!(text, "sink {} {:032x}", number.0, u128::from_be_bytes(sink));
            }
            let _ = match queue.staleness {
                Staleness::Fresh => Ok(()),
                Staleness::Stale => writeln!(text, "stale {}", number.0),
                Staleness::Accepted => writeln!(text, "accepted {}", number.0),
            };
            if let Some((first_us, last_us)) = queue.missed_us {
                let _ = writeln!(text, "missed {} {first_us} {last_us}", number.0);
            }
        }
        for name in &self.removed {
            let _ = writeln!(text, "removed {name}");
        }
        let sum = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "sum {sum:016x}");
        text
    }

    /// Reads the text; `None` if it is damaged or of a newer release.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let (content, sum) = text.trim_end_matches('\n').rsplit_once('\n')?;
        let content = format!("{content}\n");
        let sum = u64::from_str_radix(sum.strip_prefix("sum ")?, 16).ok()?;
        if sum != xxh3_64(content.as_bytes()) {
            return None;
        }
        let mut lines = content.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut manifest = Self::default();
        for line in lines {
            let (word, rest) = line.split_once(' ')?;
            match word {
                "next" => manifest.next = EntrySequence(rest.parse().ok()?),
                "boot" => manifest.boot = MachineBoot(u64::from_str_radix(rest, 16).ok()?),
                "stopped" => manifest.is_stopped = rest == "yes",
                "removed" => manifest.removed.push(rest.to_owned()),
                "queue" => manifest.queues.push(queue_of(rest)?),
                "sink" => {
                    let (number, sink) = rest.split_once(' ')?;
                    let sink = u128::from_str_radix(sink, 16).ok()?.to_be_bytes();
                    manifest.queue_numbered(number)?.sink = Some(sink);
                }
                "missed" => {
                    let (number, span) = rest.split_once(' ')?;
                    let (first, last) = span.split_once(' ')?;
                    let span_us: (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                    if span_us.0 > span_us.1 {
                        return None;
                    }
                    manifest.queue_numbered(number)?.missed_us = Some(span_us);
                }
                "stale" => manifest.queue_numbered(rest)?.staleness = Staleness::Stale,
                "accepted" => manifest.queue_numbered(rest)?.staleness = Staleness::Accepted,
                _ => return None,
            }
        }
        Some(manifest)
    }

    fn queue_numbered(&mut self, number: &str) -> Option<&mut ManifestQueue> {
        let number = QueueNumber(number.parse().ok()?);
        self.queues.iter_mut().find(|queue| queue.number == number)
    }

    /// Reads the file. Returns the manifest, and true if the file was damaged. If it is damaged or
    /// missing, the manifest is empty.
    ///
    /// # Errors
    ///
    /// Disk faults.
    pub(super) fn load(disk: &dyn Disk) -> Result<(Self, bool), StoreError> {
        if !disk.list()?.iter().any(|name| name == NAME) {
            return Ok((Self::default(), false));
        }
        let file = disk.open(NAME, false)?;
        let mut bytes = vec![0; file.size_bytes()?.min(BYTES_MAX) as usize];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        let manifest = String::from_utf8(bytes).ok().and_then(|text| Self::of_text(&text));
        if manifest.is_none() {
            tracing::error!(
                "{}/{NAME} is damaged: all that the source queues' files have is sent again, and queues that \
                 were defined by command have to be defined again",
                disk.path()
            );
        }
        let is_damaged = manifest.is_none();
        Ok((manifest.unwrap_or_default(), is_damaged))
    }

    /// Replaces the file durably.
    ///
    /// # Errors
    ///
    /// Disk faults: the old file then stays valid.
    pub(super) fn store(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        debug_assert_eq!(
            Self::of_text(&self.to_text()).as_ref(),
            Some(self),
            "the next process reads the manifest as it was written"
        );
        Ok(replace_file(disk, NAME, self.to_text().as_bytes()).map(drop)?)
    }
}

fn queue_of(line: &str) -> Option<ManifestQueue> {
    let mut parts = line.splitn(6, ' ');
    let number = QueueNumber(parts.next()?.parse().ok()?);
    let needed = EntrySequence(parts.next()?.parse().ok()?);
    let by_command = parts.next()? == "command";
    let is_suspended = parts.next()? == "suspended";
    let name = parts.next()?.to_owned();
    let filter = parts.next()?.parse().ok()?;
    Some(ManifestQueue {
        number,
        needed,
        by_command,
        is_suspended,
        staleness: Staleness::Fresh,
        sink: None,
        missed_us: None,
        name,
        filter,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_comes_back_as_it_was_and_damage_is_noticed() {
        let queue = |number, name: &str, filter: &str, is_suspended| ManifestQueue {
            number: QueueNumber(number),
            needed: EntrySequence(u64::from(number) * 10),
            by_command: number % 2 == 0,
            is_suspended,
            staleness: if number == 2 { Staleness::Stale } else { Staleness::Accepted },
            sink: (number == 2).then_some([number as u8; 16]),
            missed_us: (number == 2).then_some((5, 9)),
            name: name.to_owned(),
            filter: filter.parse().expect("a filter"),
        };
        let manifest = Manifest {
            next: EntrySequence(77),
            boot: MachineBoot(0xABC),
            is_stopped: true,
            queues: vec![
                queue(1, "q1", "any", false),
                queue(2, "b", "bucketname.a name with  spaces", true),
            ],
            removed: vec!["q9".to_owned()],
        };
        let text = manifest.to_text();
        assert_eq!(Manifest::of_text(&text), Some(manifest));
        assert_eq!(Manifest::of_text(&text.replace("next 77", "next 78")), None);
        assert_eq!(Manifest::of_text(""), None);
    }
}
