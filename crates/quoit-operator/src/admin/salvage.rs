//! `engine set-aside` and `engine salvage`: damaged stores of stopped nodes.

use super::engine::{StoppedNode, StoppedNodeArgs};
use super::print;
use anyhow::{Context, Result};
use clap::Args;
use quoit_cli::{Format, say};
use quoit_data_dir::engines::DamagedStore;
use quoit_progress::{Progress, Unit};
use quoit_store::error::StoreError;
use quoit_store::ordered::{RecordFate, SalvageEvent, Salvaged};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval of progress output.
const PRINT_INTERVAL: Duration = Duration::from_secs(1);

/// Number of lines about unreadable parts that are printed; the list has all of them.
const PRINTED_COUNT_MAX: u64 = 20;

#[derive(Args, Debug)]
pub(crate) struct SetAsideArgs {
    #[command(flatten)]
    node: StoppedNodeArgs,
    /// Also set aside the data of a node that is alone; the node continues without the records.
    #[arg(long)]
    force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SalvageArgs {
    #[command(flatten)]
    node: StoppedNodeArgs,
}

/// Moves a store aside.
pub(super) fn set_aside(args: &SetAsideArgs, format: Format) -> Result<()> {
    let StoppedNode { data_dir, settings, control } = args.node.open()?;
    let named = args.node.engine.as_deref();
    let store = DamagedStore::find(&data_dir, named, &settings, &control)?;
    let aside = store.set_aside(args.force, &utc_now())?;
    let document = json!({"directory": store.directory, "set_aside": aside});
    print(&document, format, |_| {
        format!(
            "{} is {} now; nothing of it was removed.\n\
             Start the node: it tells the cluster that its records are lost, and gets them from the other \
             nodes.\n\
             `quoit admin status` shows as incomplete_copies what is still to come. Remove {} when nothing \
             is, unless buckets have n_val = 1.",
            store.directory.display(),
            aside.display(),
            aside.display()
        )
    });
    Ok(())
}

/// Salvages a store.
pub(super) fn salvage(args: &SalvageArgs, format: Format) -> Result<()> {
    let StoppedNode { data_dir, settings, control } = args.node.open()?;
    let named = args.node.engine.as_deref();
    let store = DamagedStore::find(&data_dir, named, &settings, &control)?;
    let time = utc_now();
    let mut teller = SalvageProgress::new(list_path(&store.directory, &time), format);
    let Some((salvaged, aside)) = store.salvage(&time, &mut |event| teller.take(event))? else {
        let document = json!({"directory": store.directory});
        print(&document, format, |_| {
            format!("The salvage is finished; start the node on {}.", store.directory.display())
        });
        return Ok(());
    };
    let list = teller.finish()?;
    report(&store.directory, &salvaged, &aside, list.as_deref(), format);
    Ok(())
}

fn list_path(directory: &Path, time: &str) -> PathBuf {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    directory.with_file_name(format!("{}.salvage-{time}.txt", name.unwrap_or_default()))
}

/// Prints the progress of a salvage, and lists the parts that could not be read.
struct SalvageProgress {
    list_path: PathBuf,
    /// Created with its first line.
    list: Option<BufWriter<File>>,
    format: Format,
    progress: Progress,
    printed: Option<Instant>,
    told_count: u64,
}

/// Records that a salvage has saved, and their size.
struct SavedAmount {
    record_count: u64,
    byte_count: u64,
}

impl SalvageProgress {
    fn new(list_path: PathBuf, format: Format) -> Self {
        let progress = Progress::on_stderr("saving", Unit::Bytes, None);
        Self { list_path, list: None, format, progress, printed: None, told_count: 0 }
    }

    fn take(&mut self, event: &SalvageEvent<'_>) -> Result<(), StoreError> {
        match event {
            SalvageEvent::Progress { record_count, byte_count } => {
                self.print(SavedAmount { record_count: *record_count, byte_count: *byte_count });
                Ok(())
            }
            SalvageEvent::Unread(stretch) => {
                let at = match (stretch.start, stretch.end) {
                    (start, end) if start < end => format!(" bytes {start} to {end}"),
                    (0, 0) => String::new(),
                    (start, _) => format!(" byte {start}"),
                };
                self.tell(&format!("unread {}{at}: {}", stretch.path, stretch.reason))
            }
            SalvageEvent::Record { key, fate } => {
                let part = |bytes: &[u8]| bytes.escape_ascii().to_string();
                let (bucket_type, bucket) = (part(key.bucket.bucket_type), part(key.bucket.bucket));
                let fate = match fate {
                    RecordFate::Lost => "lost",
                    RecordFate::Older => "older",
                    RecordFate::Removed => "removed again",
                };
                self.tell(&format!("{fate}: {bucket_type}/{bucket}/{}", part(key.key)))
            }
        }
    }

    fn print(&mut self, saved: SavedAmount) {
        let SavedAmount { record_count, byte_count } = saved;
        if self.format == Format::Human {
            return self.progress.show(byte_count, || format!("{record_count} records"));
        }
        if self.printed.is_none_or(|printed| printed.elapsed() >= PRINT_INTERVAL) {
            self.printed = Some(Instant::now());
            say!("{}", json!({"records": record_count, "bytes": byte_count}));
        }
    }

    /// Writes a line to the list, and prints it if it is one of the first.
    fn tell(&mut self, line: &str) -> Result<(), StoreError> {
        let path = &self.list_path;
        let failed = |error: std::io::Error| StoreError::Io {
            action: "write",
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        let list = match &mut self.list {
            Some(list) => list,
            none => none.insert(BufWriter::new(File::create(path).map_err(failed)?)),
        };
        writeln!(list, "{line}").map_err(failed)?;
        self.told_count += 1;
        if self.format == Format::Human && self.told_count <= PRINTED_COUNT_MAX {
            self.progress.clear();
            say!("{line}");
        }
        Ok(())
    }

    /// Completes the list, and returns its path.
    fn finish(self) -> Result<Option<PathBuf>> {
        let Some(list) = self.list else { return Ok(None) };
        let file = list.into_inner().map_err(|error| error.into_error());
        file.and_then(|file| file.sync_all()).context("writing the list of unreadable data")?;
        Ok(Some(self.list_path))
    }
}

fn report(
    directory: &Path,
    salvaged: &Salvaged,
    aside: &Path,
    list: Option<&Path>,
    format: Format,
) {
    let Salvaged { record_count, unread_count, lost_count, older_count, removed_count, .. } =
        salvaged;
    let document = json!({
        "directory": directory,
        "set_aside": aside,
        "records": record_count,
        "bytes": salvaged.byte_count,
        "whole": salvaged.is_whole,
        "unread_stretches": unread_count,
        "lost": lost_count,
        "older": older_count,
        "removed_again": removed_count,
        "may_have_deleted": salvaged.may_have_deleted,
        "list": list,
    });
    print(&document, format, |_| {
        let mut lines = vec![format!("{record_count} records saved in {}.", directory.display())];
        if salvaged.is_whole {
            lines.push("Nothing is missing.".to_owned());
        } else {
            lines.push(format!(
                "{unread_count} stretches can't be read; known by name: {lost_count} records lost, \
                 {older_count} in an older version, {removed_count} that had been removed and were removed \
                 again."
            ));
        }
        if salvaged.may_have_deleted {
            lines.push(
                "The names of the records could not all be read: records may be older than told here, and \
                 records may be back that were deleted."
                    .to_owned(),
            );
        }
        lines.extend(list.map(|list| format!("All of that is listed in {}.", list.display())));
        lines.push(format!("The old data is in {}; nothing of it was removed.", aside.display()));
        lines.push("Start the node.".to_owned());
        if !salvaged.is_whole {
            lines.push(
                "A node that is alone says possibly incomplete in `quoit admin status` until you run `quoit \
                 admin accept-losses`."
                    .to_owned(),
            );
        }
        lines.join("\n")
    });
}

/// The time for use in a file name: 20260131T235959Z.
fn utc_now() -> String {
    let secs = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    utc(secs)
}

fn utc(unix_secs: u64) -> String {
    let (days, secs) = (unix_secs / 86_400, unix_secs % 86_400);
    // Days to civil date (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"): years begin in
    // March, so that the leap day is at their end. The first cycle of 400 years begins 719,468 days before
    // the Unix epoch.
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * cycle + year_of_cycle + u64::from(month <= 2);
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}{month:02}{day_of_month:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "19700101T000000Z");
        assert_eq!(utc(951_782_399), "20000228T235959Z");
        assert_eq!(utc(951_782_400), "20000229T000000Z");
        assert_eq!(utc(1_704_067_199), "20231231T235959Z");
        assert_eq!(utc(4_107_542_400), "21000301T000000Z");
    }
}
