//! The audit log: which user did what, as one JSON object for each line.
//!
//! It records changes by operators (such as security, properties and layout), including refused ones; changes
//! of properties by clients; refused logins and operations of clients; and requests for changes of either
//! kind that are refused before they are examined, for example because a web page sends them. It records at
//! most a few refusals of each kind in a second, so that strangers can't fill the file until all other lines
//! are rotated away. The file is rotated by size, and only the user of the node may read it.
//!
//! The task that makes a change writes its line, with one system call, before the change is answered. The
//! line is not synced: the log may lose its end in a power loss. A line that could not be written is
//! counted and reported in the node's log. The operation continues, because a full disk must not lock
//! operators out.

mod buckets;
mod client_entries;
mod entry;
mod file;

pub use buckets::{AuditedBuckets, AuditedBucketsError};
pub(crate) use client_entries::{PropsChange, REFUSED_BYTES_MAX};
pub use entry::{AuditEntry, AuditOutcome, AuditedInterface};

use crate::refusal_rate::RefusalRate;
use file::RotatedFile;
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Default size in bytes at which the file is rotated.
pub const AUDIT_FILE_BYTES: u64 = 16 << 20;
/// Default number of older files that are kept.
pub const AUDIT_FILES_KEPT: u32 = 10;
/// Settings of an audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Path of the file. Older files have a number as suffix, the newest `.1`.
    pub file: PathBuf,
    /// Size in bytes at which the file is rotated.
    pub file_bytes_max: u64,
    /// Number of older files that are kept.
    pub kept_count: u32,
    /// Buckets for which every operation is recorded while security is on.
    pub buckets: AuditedBuckets,
}

/// An audit log, which may be switched off.
#[derive(Debug, Default)]
pub struct AuditLog {
    file: Option<Mutex<RotatedFile>>,
    buckets: AuditedBuckets,
    recorded_count: AtomicU64,
    lost_count: AtomicU64,
    logins: RefusalRate,
    operations: RefusalRate,
    changes: RefusalRate,
    /// Limit of the records of refused property changes by clients. Separate from `changes`, which limits the
    /// records of refused requests to the administration API.
    props: RefusalRate,
}

impl AuditLog {
    /// Creates a log that records nothing.
    #[must_use]
    pub fn off() -> AuditLog {
        AuditLog::default()
    }

    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn open(settings: AuditSettings) -> io::Result<AuditLog> {
        let AuditSettings { file, file_bytes_max, kept_count, buckets } = settings;
        let file = RotatedFile::open(file, file_bytes_max, kept_count)?;
        Ok(AuditLog { file: Some(Mutex::new(file)), buckets, ..AuditLog::default() })
    }

    /// True if the log records anything.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// True if allowed operations of clients may have to be recorded, because buckets were chosen. Callers
    /// check it first, so that operations cost nothing more otherwise.
    #[inline]
    pub(crate) fn records_allowed(&self) -> bool {
        self.is_on() && !self.buckets.is_empty()
    }

    /// Writes an entry.
    pub fn record(&self, entry: &AuditEntry<'_>) {
        let Some(file) = &self.file else { return };
        match file.lock().append(entry.line().as_bytes()) {
            Ok(()) => {
                self.recorded_count.fetch_add(1, Ordering::Relaxed);
            }
            Err(fault) => {
                if self.lost_count.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
                    tracing::error!(%fault, "a line of the audit log could not be written");
                }
            }
        }
    }

    /// Number of refused logins, operations and requests for changes that exceeded the rate and were not
    /// recorded, since the start.
    #[must_use]
    pub fn passed_over_count(&self) -> u64 {
        let rates = [&self.logins, &self.operations, &self.changes, &self.props];
        rates.iter().map(|rate| rate.passed_over_count()).sum()
    }

    /// Number of lines that were written, and of lines that could not be written, since the start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.recorded_count), count(&self.lost_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn settings(folder: &tempfile::TempDir) -> AuditSettings {
        let file = folder.path().join("audit.log");
        let buckets = AuditedBuckets::default();
        AuditSettings { file, file_bytes_max: 400, kept_count: 2, buckets }
    }

    fn entry(what: &str) -> AuditEntry<'_> {
        AuditEntry {
            user: Some("alice"),
            from: Some([10, 0, 0, 1].into()),
            ..AuditEntry::new(AuditedInterface::Http, what)
        }
    }

    #[test]
    fn a_line_is_json_with_who_what_and_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&folder);
        let log = AuditLog::open(settings.clone()).unwrap();
        log.record(&AuditEntry {
            outcome: AuditOutcome::Refused("no\n\"right\""),
            details: json!({"bucket": "b"}),
            ..entry("riak_kv.get")
        });
        let text = fs::read_to_string(&settings.file).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "one line whatever a name contains");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["what"], "riak_kv.get");
        assert_eq!((&line["user"], &line["from"]), (&json!("alice"), &json!("10.0.0.1")));
        assert_eq!(line["outcome"], "refused");
        assert_eq!(line["reason"], "no\n\"right\"");
        assert_eq!(line["details"]["bucket"], "b");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        let mode = fs::metadata(&settings.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(log.counts(), (1, 0));
    }

    #[test]
    fn names_that_strangers_send_are_cut_also_in_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let settings = AuditSettings { file_bytes_max: 1 << 20, ..settings(&folder) };
        let log = AuditLog::open(settings.clone()).unwrap();
        let name = "\u{e9}n".repeat(10_000);
        let change = PropsChange::of_type(name.as_bytes(), None);
        log.record_refused_props(entry("riak_core.set_bucket_type"), &change, &name);
        let text = fs::read_to_string(&settings.file).unwrap();
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["reason"], line["details"]["type"]);
        assert_eq!(line["reason"], &name[..255]);
    }

    #[test]
    fn files_are_rotated_by_size_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&folder);
        let log = AuditLog::open(settings.clone()).unwrap();
        for number in 0..40 {
            log.record(&entry(&format!("step-{number}")));
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("audit.log").len() <= 400 && read("audit.log").contains("step-39"));
        assert!(read("audit.log.1").len() <= 400 && read("audit.log.2").len() <= 400);
        assert!(!folder.path().join("audit.log.3").exists());
        // A start continues the existing file.
        let before = read("audit.log");
        AuditLog::open(settings).unwrap().record(&entry("again"));
        assert!(read("audit.log").contains("again"));
        assert!(read("audit.log").starts_with(&before) || read("audit.log.1") == before);
    }

    #[test]
    fn a_rotation_that_a_kill_has_ended_loses_no_line() {
        // The steps of a rotation, oldest file first.
        const STEPS: [(&str, &str); 3] = [
            ("audit.log.2", "audit.log.3"),
            ("audit.log.1", "audit.log.2"),
            ("audit.log", "audit.log.1"),
        ];
        const NAMES: [&str; 4] = ["audit.log.3", "audit.log.2", "audit.log.1", "audit.log"];
        for done_count in 0..=STEPS.len() {
            let folder = tempfile::tempdir().unwrap();
            let settings = AuditSettings { kept_count: 3, ..settings(&folder) };
            let log = AuditLog::open(settings.clone()).unwrap();
            let at = |name: &str| folder.path().join(name);
            let mut count = 0;
            let record = |log: &AuditLog, count: &mut u32| {
                log.record(&entry(&format!("step-{count}.")));
                *count += 1;
            };
            while !at("audit.log.2").exists() {
                record(&log, &mut count);
            }
            drop(log);
            for (from, to) in &STEPS[..done_count] {
                fs::rename(at(from), at(to)).unwrap();
            }
            let log = AuditLog::open(settings).unwrap();
            // After the last step, the next rotation removes the oldest file, as intended.
            let length = || fs::metadata(at("audit.log")).map_or(0, |file| file.len());
            let mut before = 0;
            while done_count < STEPS.len() && length() >= before {
                before = length();
                record(&log, &mut count);
            }
            let text = NAMES.map(|name| fs::read_to_string(at(name)).unwrap_or_default()).concat();
            for number in 0..count {
                assert!(
                    text.contains(&format!("step-{number}.")),
                    "{done_count}: {number}, {text}"
                );
            }
        }
    }

    #[test]
    fn a_line_that_a_power_loss_has_cut_short_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&folder);
        fs::write(&settings.file, "{\"what\":\"a\"}\n{\"wha").unwrap();
        fs::set_permissions(&settings.file, Permissions::from_mode(0o644)).unwrap();
        let log = AuditLog::open(settings.clone()).unwrap();
        let mode = fs::metadata(&settings.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "and others of the machine do not read it");
        log.record(&entry("b"));
        log.record(&entry("c"));
        let text = fs::read_to_string(&settings.file).unwrap();
        let whole = |line: &str| serde_json::from_str::<Value>(line).ok();
        let told: Vec<Value> = text.lines().filter_map(whole).collect();
        let told: Vec<&Value> = told.iter().map(|line| &line["what"]).collect();
        assert_eq!(told, ["a", "b", "c"], "{text}");
    }
}
