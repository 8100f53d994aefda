//! File that holds the number of a node's log, and whether the process stopped cleanly.
//!
//! ```text
//! quoit change log 1
//! log 6f1c3a0000000001
//! boot 8f3a
//! stopped yes
//! sum 0123456789abcdef
//! ```

use crate::machine_boot::MachineBoot;
use quoit_seam::{Disk, replace_file};
use quoit_store::error::StoreError;
use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "CHANGES";
const TITLE: &str = "quoit change log 1";
/// Maximum number of bytes that are read from the file.
const BYTES_MAX: u64 = 4096;

/// Content of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChangeLogNote {
    /// Number of the log. It changes when entries are lost.
    pub(super) log: u64,
    /// Boot of the machine during which the file was written.
    pub(super) boot: MachineBoot,
    /// True if the process has stopped in good order since.
    pub(super) is_stopped: bool,
}

impl ChangeLogNote {
    fn to_text(self) -> String {
        let Self { log, boot: MachineBoot(boot), is_stopped } = self;
        let stopped = if is_stopped { "yes" } else { "no" };
        let text = format!("{TITLE}\nlog {log:016x}\nboot {boot:x}\nstopped {stopped}\n");
        let sum = xxh3_64(text.as_bytes());
        format!("{text}sum {sum:016x}\n")
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let log = u64::from_str_radix(lines.next()?.strip_prefix("log ")?, 16).ok()?;
        let boot = u64::from_str_radix(lines.next()?.strip_prefix("boot ")?, 16).ok()?;
        let is_stopped = lines.next()?.strip_prefix("stopped ")? == "yes";
        let note = Self { log, boot: MachineBoot(boot), is_stopped };
        (note.to_text() == text).then_some(note)
    }

    /// Reads the file; `None` if it does not exist or is damaged.
    pub(super) fn load(disk: &dyn Disk) -> Result<Option<Self>, StoreError> {
        if !disk.list()?.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let file = disk.open(NAME, false)?;
        let mut bytes = vec![0; file.size_bytes()?.min(BYTES_MAX) as usize];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(String::from_utf8(bytes).ok().and_then(|text| Self::of_text(&text)))
    }

    /// Replaces the file durably.
    pub(super) fn store(self, disk: &dyn Disk) -> Result<(), StoreError> {
        Ok(replace_file(disk, NAME, self.to_text().as_bytes()).map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_comes_back_as_it_was_and_damage_is_noticed() {
        let note = ChangeLogNote { log: 0x6F1C, boot: MachineBoot(0x8F3A), is_stopped: true };
        let text = note.to_text();
        assert_eq!(ChangeLogNote::of_text(&text), Some(note));
        assert_eq!(ChangeLogNote::of_text(&text.replace("yes", "no")), None);
        assert_eq!(ChangeLogNote::of_text(""), None);
    }
}
