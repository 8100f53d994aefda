//! The journals of `fjall`, read before it opens them.
//!
//! `fjall` believes what it reads: a damaged length may ask for more memory than there is, and damage in the
//! middle is taken for the end, or refuses the start. So all journals are checked first, after each stop.
//! Batches that are whole stay. The others are told apart ([`verdict`]): batches that were not durable and
//! that a power failure has taken are cut off, with all behind them; durable ones are lost, and reported, and
//! nothing else is. `fjall` then gets journals of nothing but whole batches.
//!
//! - `batch`: the form of a batch; `groups`: the numbers of the batches.
//! - `survey`: what stands in a journal; `verdict`: what is to become of it; `items`: reading whole batches.
//!
//! That knows the form of `fjall`'s journals; its release is pinned.

mod batch;
mod groups;
mod items;
mod survey;
mod verdict;

#[cfg(test)]
mod tests;

pub(super) use groups::{Mark, SyncedFile};
pub(super) use items::{JournalItem, visit_items};

use crate::error::StoreError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use survey::{Survey, survey};
use verdict::{JournalSurroundings, Lost, Outcome, Step, Verdict, judge};

const BUFFER_BYTES: usize = 1 << 16;

/// The name of a journal that is being made.
const NEW_EXTENSION: &str = "jnl-new";

/// So many lost stretches are told one by one.
const STRETCHES_TOLD_MAX: usize = 4;

/// The journals that were found in a store.
pub(super) struct Journals {
    directory: PathBuf,
    /// The oldest first.
    paths: Vec<PathBuf>,
    verdict: Verdict,
}

/// Reads all journals of a store. Changes nothing.
///
/// # Errors
///
/// When the disk refuses.
pub(super) fn check(directory: &Path, clean: bool, store_id: u64) -> Result<Journals, StoreError> {
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
    /// Description, for operators, of durable data that is lost.
    pub(super) fn loss(&self) -> Option<String> {
        let lost = &self.verdict.lost;
        let of_one = |lost: &Lost| {
            let path = self.paths[lost.journal].display();
            let count = match lost.batch_count {
                Some(count) => format!("{count} batches"),
                None => "one batch or more".to_owned(),
            };
            let Lost { start, end, .. } = lost;
            format!("{count} of writes at bytes {start} to {end} of {path}")
        };
        let mut told: Vec<String> = lost.iter().take(STRETCHES_TOLD_MAX).map(of_one).collect();
        if lost.len() > STRETCHES_TOLD_MAX {
            told.push(format!("{} stretches more", lost.len() - STRETCHES_TOLD_MAX));
        }
        let told = told.join(", ");
        (!lost.is_empty()).then(|| format!("the journal is damaged: lost are {told}"))
    }

    /// The last group that the journals have; `None` when they have no batches.
    pub(super) fn last_group(&self) -> Option<u64> {
        self.verdict.last_group
    }

    /// The last group that was durable, as far as it is known.
    pub(super) fn synced(&self) -> u64 {
        self.verdict.synced
    }

    /// Leaves nothing in the journals but what is to be kept, durably.
    ///
    /// # Errors
    ///
    /// When the disk refuses. The call may be repeated.
    pub(super) fn mend(&self) -> Result<(), StoreError> {
        if let Some((journal, position)) = self.verdict.torn {
            let path = self.paths[journal].display();
            tracing::warn!(%path, position, "the end of a journal was not all written, and is cut off");
        }
        // The newest first: what was never durable must not be kept behind what is cut off.
        for (path, outcome) in self.paths.iter().zip(&self.verdict.outcomes).rev() {
            let made = make(path, outcome).and_then(|is_made| match is_made {
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

/// Makes a journal what it is to be, durably but for the directory. Whether it is another file now.
fn make(path: &Path, outcome: &Outcome) -> io::Result<bool> {
    let only_front = match &outcome.steps[..] {
        [] => Some(0),
        [Step::Copy { start: 0, end }] => Some(*end),
        _ => None,
    };
    match only_front {
        _ if outcome.is_as_it_is => Ok(false),
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
            for step in &outcome.steps {
                write_step(&mut found, step, &mut made)?;
            }
            made.into_inner()?.sync_all()?;
            fs::rename(new_path, path)?;
            Ok(true)
        }
    }
}

fn write_step(
    found: &mut (impl Read + Seek),
    step: &Step,
    made: &mut impl Write,
) -> io::Result<()> {
    let (start, end) = match step {
        Step::Write(bytes) => return made.write_all(bytes),
        Step::Copy { start, end } => (*start, *end),
        Step::CopyBehind { start, end, front } => {
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
