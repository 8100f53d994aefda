//! `state.json`: the progress of a campaign, so that a second call continues it.

use super::error::CampaignError;
use super::file::Campaign;
use super::scale::CampaignScale;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Name of the file in the directory of a campaign.
pub(super) const STATE_FILE: &str = "state.json";
/// Name of the file that is locked while a process runs a campaign in the directory.
const LOCK_FILE: &str = ".lock";
/// Version of the format.
const FORMAT: u32 = 1;

/// The progress of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CampaignState {
    format: u32,
    /// Name of the campaign.
    campaign: String,
    /// SHA-256 of the campaign's text.
    sha256: String,
    scale: String,
    /// The cells that were attempted, in the order in which they ended.
    pub(super) cells: Vec<CellRecord>,
}

/// The end of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CellEnd {
    /// The cell has complete results.
    Done,
    /// The cell ended early or could not start. The next call tries it again.
    Failed,
    /// The machine has too little free disk space or memory for the cell. The next call tries it again.
    Skipped,
}

impl CellEnd {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// A cell that was attempted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CellRecord {
    pub(super) label: String,
    pub(super) end: CellEnd,
    /// The reason of a failure or a skip, or a note for readers of the results.
    pub(super) note: Option<String>,
    /// Time of the start, in RFC 3339.
    pub(super) started_at: String,
    /// Duration in seconds, including start and stop of the servers.
    pub(super) seconds: f64,
}

impl CampaignState {
    /// Reads the state of the campaign in a directory, or creates a new state if there is no file.
    pub(super) fn open(
        directory: &Path,
        campaign: &Campaign,
        scale: CampaignScale,
    ) -> Result<Self, CampaignError> {
        let new = Self {
            format: FORMAT,
            campaign: campaign.name.clone(),
            sha256: digest(&campaign.text),
            scale: scale.to_string(),
            cells: Vec::new(),
        };
        let path = directory.join(STATE_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(new),
            Err(error) => return Err(CampaignError::io(&path, "reading")(error)),
        };
        let fault = |problem: String| CampaignError::State { path: path.clone(), problem };
        let held: Self = serde_json::from_slice(&text).map_err(|error| fault(error.to_string()))?;
        if held.format > FORMAT {
            return Err(fault(format!("format {} is newer than this program", held.format)));
        }
        if (&held.campaign, &held.sha256, &held.scale) == (&new.campaign, &new.sha256, &new.scale) {
            return Ok(held);
        }
        let is_edited = held.campaign == new.campaign && held.scale == new.scale;
        let wanted = if is_edited { "another version of it".to_owned() } else { new.told() };
        Err(CampaignError::Occupied { directory: directory.to_owned(), held: held.told(), wanted })
    }

    fn told(&self) -> String {
        format!("the campaign {} at scale {}", self.campaign, self.scale)
    }

    /// The record of a cell, if it was attempted.
    pub(super) fn record(&self, label: &str) -> Option<&CellRecord> {
        self.cells.iter().find(|record| record.label == label)
    }

    /// True if a cell has complete results.
    pub(super) fn is_done(&self, label: &str) -> bool {
        self.record(label).is_some_and(|record| record.end == CellEnd::Done)
    }

    /// Records the end of a cell in place of an earlier record, and rewrites the file atomically.
    pub(super) fn note(
        &mut self,
        directory: &Path,
        record: CellRecord,
    ) -> Result<(), CampaignError> {
        self.cells.retain(|other| other.label != record.label);
        self.cells.push(record);
        self.write(directory)
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), CampaignError> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("it has no map with other keys");
        bytes.push(b'\n');
        write_whole(&directory.join(STATE_FILE), &bytes)
    }
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file atomically: after a kill it has either the old or the new contents.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CampaignError> {
    let part = path.with_extension("part");
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(CampaignError::io(path, "writing"))
}

/// A lock on a directory that lasts until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Unlock explicitly. Closing the file is not enough, because a server that another thread is
        // starting has inherited it until it executes its program. If unlocking fails, the lock ends with
        // the last close.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    /// Locks the directory.
    pub(super) fn take(directory: &Path) -> Result<Self, CampaignError> {
        let path: PathBuf = directory.join(LOCK_FILE);
        let file = File::create(&path).map_err(CampaignError::io(&path, "writing"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(CampaignError::Running(directory.to_owned())),
            Err(TryLockError::Error(error)) => Err(CampaignError::io(&path, "locking")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(title: &str) -> Campaign {
        let text = format!("{{title, \"{title}\"}}. {{server, []}}. {{run, [{{driver, null}}]}}.");
        Campaign::parse("some.campaign".as_ref(), text.as_bytes()).expect("a campaign")
    }

    fn record(label: &str, end: CellEnd) -> CellRecord {
        let started_at = "2026-01-01T00:00:00Z".to_owned();
        CellRecord { label: label.to_owned(), end, note: None, started_at, seconds: 1.0 }
    }

    #[test]
    fn a_second_call_finds_the_cells_that_are_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, scale) = (folder.path(), CampaignScale::parse("0.5").expect("a scale"));
        let mut state = CampaignState::open(path, &campaign("a"), scale).expect("a new one");
        assert!(!state.is_done("x"));
        state.note(path, record("x", CellEnd::Failed)).expect("written");
        state.note(path, record("y", CellEnd::Done)).expect("written");
        state.note(path, record("x", CellEnd::Done)).expect("written");
        let again = CampaignState::open(path, &campaign("a"), scale).expect("the same");
        assert_eq!(again, state);
        assert_eq!(again.cells.len(), 2, "a later record takes the place of the earlier one");
        assert!(again.is_done("x") && again.is_done("y"));
    }

    #[test]
    fn another_campaign_or_scale_is_refused_with_both_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, scale) = (folder.path(), CampaignScale::parse("0.5").expect("a scale"));
        let state = CampaignState::open(path, &campaign("a"), scale).expect("a new one");
        state.write(path).expect("written");
        let told = |campaign: &Campaign, scale| {
            CampaignState::open(path, campaign, scale).expect_err("another").to_string()
        };
        let other_scale = told(&campaign("a"), CampaignScale::WHOLE);
        assert!(other_scale.contains("some at scale 0.5, and this is"), "{other_scale}");
        assert!(other_scale.contains("with -d"), "{other_scale}");
        let edited = told(&campaign("b"), scale);
        assert!(edited.contains("another version of it"), "{edited}");
        fs::write(path.join(STATE_FILE), "{").expect("written");
        let broken = told(&campaign("a"), scale);
        assert!(
            broken.contains("state.json") && broken.contains("remove the directory"),
            "{broken}"
        );
    }

    #[test]
    fn one_process_works_in_a_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = DirectoryLock::take(folder.path()).expect("free");
        let told = DirectoryLock::take(folder.path()).expect_err("taken").to_string();
        assert!(told.contains("is running"), "{told}");
        drop(held);
        DirectoryLock::take(folder.path()).expect("free again");
    }
}
