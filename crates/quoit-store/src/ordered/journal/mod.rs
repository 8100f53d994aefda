//! The journals of `fjall`, checked and repaired before `fjall` opens them.
//!
//! `fjall` trusts what it reads: it may allocate as much memory as a damaged length says, and takes damage
//! in the middle of a journal for its end, or refuses to start. So after each stop Quoit checks all
//! journals first:
//!
//! 1. Whole batches stay.
//! 2. [`analysis`] decides about the rest. Batches that were not durable and that a power failure has torn
//!    are cut off, with all batches after them. Damaged durable batches are lost and reported, and no
//!    others are lost.
//! 3. `fjall` gets journals that consist of whole batches only.
//!
//! The parts:
//!
//! - `batch`: the format of a batch; `groups`: the numbers of the batches.
//! - `survey`: the contents of a journal; `analysis`: the decision about it; `items`: reading whole batches.
//!
//! This depends on the format of `fjall`'s journals, so its version is pinned.

mod analysis;
mod batch;
mod groups;
mod items;
mod survey;

#[cfg(test)]
mod tests;

pub(super) use groups::{Mark, SyncedFile};
pub(super) use items::{JournalItem, visit_items};

use crate::error::StoreError;
use analysis::{
    JournalRewrite, JournalSurroundings, JournalVerdict, LostBatches, RewritePart, judge,
};
use quoit_model::store_opening::StoreId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use survey::{Survey, survey};

const BUFFER_BYTES: usize = 1 << 16;

/// Extension of the name of an unfinished journal.
const NEW_EXTENSION: &str = "jnl-new";

/// Maximum number of lost ranges that a message lists.
const STRETCHES_TOLD_MAX: usize = 4;

/// The journals of a store, with the verdict about them.
pub(super) struct Journals {
    directory: PathBuf,
    /// Paths of the journals, the oldest first.
    paths: Vec<PathBuf>,
    verdict: JournalVerdict,
}

/// Reads all journals of a store. Changes nothing.
///
/// # Errors
///
/// If the disk fails.
pub(super) fn check(
    directory: &Path,
    clean: bool,
    store_id: StoreId,
) -> Result<Journals, StoreError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| StoreError::Io { action: "read", path, reason: error.to_string() }
    };
    let paths = paths_of(directory).map_err(failed(directory))?;
    let synced = SyncedFile::read(directory, store_id).map_err(failed(directory))?;
    let mut surveys: Vec<Survey> = Vec::new();
    let mut above = 0;
    for path in &paths {
        let read = File::open(path).and_then(|file| {
            survey(&mut BufReader::with_capacity(BUFFER_BYTES, file), above, store_id)
        });
        let survey = read.map_err(failed(path))?;
        above = above.max(survey.last_group().unwrap_or(0));
        surveys.push(survey);
    }
    let verdict = judge(&surveys, JournalSurroundings { clean, synced, store_id });
    Ok(Journals { directory: directory.to_owned(), paths, verdict })
}

/// The journals of a directory, the oldest first.
fn paths_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut paths: Vec<(u64, PathBuf)> = Vec::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(".jnl")?.parse().ok());
        paths.extend(number.map(|number| (number, path)));
    }
    paths.sort_unstable();
    Ok(paths.into_iter().map(|(_, path)| path).collect())
}

impl Journals {
    /// Description for operators of the durable data that is lost.
    #[expect(clippy::indexing_slicing, reason = "the verdict has numbers of journals")]
    pub(super) fn loss(&self) -> Option<String> {
        let lost = &self.verdict.lost;
        let of_one = |lost: &LostBatches| {
            let path = self.paths[lost.journal].display();
            let count = match lost.batch_count {
                Some(count) => format!("{count} batches"),
                None => "one batch or more".to_owned(),
            };
            let LostBatches { start, end, .. } = lost;
            format!("{count} of writes at bytes {start} to {end} of {path}")
        };
        let mut told: Vec<String> = lost.iter().take(STRETCHES_TOLD_MAX).map(of_one).collect();
        if lost.len() > STRETCHES_TOLD_MAX {
            told.push(format!("{} stretches more", lost.len() - STRETCHES_TOLD_MAX));
        }
        let told = told.join(", ");
        (!lost.is_empty()).then(|| format!("the journal is damaged; lost: {told}"))
    }

    /// The last group in the journals; `None` if they have no batches.
    pub(super) fn last_group(&self) -> Option<u64> {
        self.verdict.last_group
    }

    /// The last group that is known to have been durable.
    pub(super) fn synced(&self) -> u64 {
        self.verdict.synced
    }

    /// Rewrites the journals so that they have only what the verdict keeps, durably.
    ///
    /// # Errors
    ///
    /// If the disk fails. The call may be repeated.
    #[expect(clippy::indexing_slicing, reason = "the verdict has numbers of journals")]
    pub(super) fn repair(&self) -> Result<(), StoreError> {
        if let Some((journal, position)) = self.verdict.torn {
            let path = self.paths[journal].display();
            tracing::warn!(%path, position, "the end of a journal was not all written, and is cut off");
        }
        // The newest journal comes first, so that a crash in between does not leave batches that were never
        // durable after a cut.
        for (path, rewrite) in self.paths.iter().zip(&self.verdict.rewrites).rev() {
            let made = make(path, rewrite).and_then(|is_made| match is_made {
                true => File::open(&self.directory)?.sync_all(),
                false => Ok(()),
            });
            made.map_err(|error| StoreError::Io {
                action: "repair",
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }
}

/// Rewrites a journal, durably except for the directory. Returns true if it is another file now.
fn make(path: &Path, rewrite: &JournalRewrite) -> io::Result<bool> {
    let only_front = match &rewrite.parts[..] {
        [] => Some(0),
        [RewritePart::Copy { start: 0, end }] => Some(*end),
        _ => None,
    };
    match only_front {
        _ if rewrite.is_unchanged => Ok(false),
        Some(end) => {
            let file = OpenOptions::new().write(true).open(path)?;
            file.set_len(end)?;
            file.sync_all()?;
            Ok(false)
        }
        None => {
            let new_path = path.with_extension(NEW_EXTENSION);
            let mut made = BufWriter::with_capacity(BUFFER_BYTES, File::create(&new_path)?);
            let mut found = File::open(path)?;
            for part in &rewrite.parts {
                write_part(&mut found, part, &mut made)?;
            }
            made.into_inner()?.sync_all()?;
            fs::rename(new_path, path)?;
            Ok(true)
        }
    }
}

fn write_part(
    found: &mut (impl Read + Seek),
    part: &RewritePart,
    made: &mut impl Write,
) -> io::Result<()> {
    let (start, end) = match part {
        RewritePart::Write(bytes) => return made.write_all(bytes),
        RewritePart::Copy { start, end } => (*start, *end),
        RewritePart::CopyWithNewStart { start, end, front } => {
            made.write_all(front)?;
            (start + front.len() as u64, *end)
        }
    };
    found.seek(SeekFrom::Start(start))?;
    let copied_bytes = io::copy(&mut found.by_ref().take(end - start), made)?;
    if copied_bytes != end - start {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}
