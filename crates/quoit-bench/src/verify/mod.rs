//! Verification: checks that acknowledged writes are still there, and that reads return what was written.
//!
//! The user of a [`Verifier`] reports every operation to it before and after. The verifier makes the
//! values, which identify the write that they belong to, and keeps for each key which values a read may
//! find. It depends on nothing else in this crate, so tests of clusters can use it with any client.
//! `docs/design/verification.md` has the rules, and the faults that are not detected.
//!
//! ```
//! use quoit_bench::verify::{Verifier, VerifySettings};
//!
//! let verifier = Verifier::new(VerifySettings::default(), &std::env::temp_dir())?;
//! let write = verifier.begin_put(b"key", None);
//! let value = write.value(100);
//! // Send it. Acknowledged, or, when the write is dropped, in doubt:
//! write.acknowledge();
//!
//! let read = verifier.begin_read(b"key");
//! // The values in the server's answer: no value, one, or siblings.
//! read.found([value.as_slice()]);
//! assert!(verifier.report().is_clean());
//!
//! let read = verifier.begin_read(b"key");
//! read.found([]);
//! assert!(!verifier.report().is_clean(), "the write was lost");
//! # Ok::<(), std::io::Error>(())
//! ```

mod history;
mod journal;
#[cfg(test)]
mod model;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod value;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use history::{FoundValue, Sequences, Snapshot, Violation, WriteKind};
pub use journal::WrittenKeys;
pub use report::{Fault, FaultCase, VerifyReport};
use smallvec::SmallVec;
use table::KeyTable;
pub use value::VALUE_SIZE_BYTES_MIN;
use value::{DecodedValue, WriteIdentity, decode, key_hash, write_value};

/// The semantics of a key for its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Semantics {
    /// One value; the later of two writes wins (`allow_mult = false`, `last_write_wins = true`).
    #[default]
    Register,
    /// A write replaces the values that its context covers; other values become siblings (`allow_mult =
    /// true`).
    Siblings,
}

/// Settings of a verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifySettings {
    /// The semantics of a key for its clients.
    pub semantics: Semantics,
    /// True if no key has a value before the run. Otherwise older values are accepted until a write of the
    /// run has replaced them.
    pub is_fresh: bool,
    /// True if reads may be behind acknowledged writes, because the quorums of reads and writes do not
    /// overlap. Such reads are only counted; the read-back at the end must find the newest values.
    pub may_read_behind: bool,
    /// Maximum number of faults that are kept as cases.
    pub cases_max: usize,
}

impl Default for VerifySettings {
    fn default() -> Self {
        Self {
            semantics: Semantics::Register,
            is_fresh: false,
            may_read_behind: false,
            cases_max: 20,
        }
    }
}

/// Records the writes of a run and checks its reads. Can be used from any number of threads.
///
/// An operation takes the lock of a stripe of keys twice, for a short time. It allocates nothing but the
/// value, as long as operations on one key do not overlap.
#[derive(Debug)]
pub struct Verifier {
    settings: VerifySettings,
    run: u32,
    clock: AtomicU64,
    table: KeyTable,
    counts: Counts,
    outcome: Mutex<VerifyReport>,
}

#[derive(Debug, Default)]
struct Counts {
    reads_checked: AtomicU64,
    writes_acknowledged: AtomicU64,
    writes_in_doubt: AtomicU64,
    reads_behind: AtomicU64,
}

/// The versions that a read found, as the context of a write that replaces them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context(Sequences);

impl Verifier {
    /// Creates a verifier. It keeps the written keys in a temporary file in `folder`.
    ///
    /// # Errors
    ///
    /// When that file cannot be created.
    pub fn new(settings: VerifySettings, folder: &Path) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            settings,
            run: rand::random(),
            clock: AtomicU64::new(1),
            table: KeyTable::new(!settings.is_fresh, folder)?,
            counts: Counts::default(),
            outcome: Mutex::default(),
        }))
    }

    /// The settings of the verifier.
    pub fn settings(&self) -> &VerifySettings {
        &self.settings
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::AcqRel)
    }

    /// Begins a put; to be called before it is sent. `context` belongs to the read on whose answer the put
    /// is based, if there was one.
    pub fn begin_put(self: &Arc<Self>, key: &[u8], context: Option<&Context>) -> Write {
        self.begin_write(key, WriteKind::Put, context)
    }

    /// Begins a delete without a context; to be called before it is sent.
    pub fn begin_delete(self: &Arc<Self>, key: &[u8]) -> Write {
        self.begin_write(key, WriteKind::Delete, None)
    }

    fn begin_write(
        self: &Arc<Self>,
        key: &[u8],
        kind: WriteKind,
        context: Option<&Context>,
    ) -> Write {
        let key_hash = key_hash(key);
        let context = context.map(|Context(sequences)| sequences.as_slice());
        let semantics = self.settings.semantics;
        // Take the stamp under the lock of the key, so that writes of the key start in the order of their
        // stamps.
        let (sequence, is_new) = self.table.with(key_hash, |history| {
            let sequence = self.tick();
            history.begin_write(semantics, sequence, kind, context);
            (sequence, !std::mem::replace(&mut history.is_noted, true))
        });
        if is_new {
            self.table.keep(key);
        }
        Write { verifier: self.clone(), key_hash, sequence, is_open: true }
    }

    /// Begins a read; to be called before it is sent.
    pub fn begin_read(self: &Arc<Self>, key: &[u8]) -> Read {
        let key_hash = key_hash(key);
        let snapshot = self.table.with(key_hash, |history| history.begin_read(self.tick()));
        let (verifier, key) = (self.clone(), SmallVec::from_slice(key));
        Read { verifier, key, key_hash, snapshot, by_read_back: false, is_open: true }
    }

    /// As [`begin_read`](Self::begin_read), for a read of the final read-back, which must not be behind.
    pub fn begin_read_back(self: &Arc<Self>, key: &[u8]) -> Read {
        let mut read = self.begin_read(key);
        read.by_read_back = true;
        read
    }

    /// The written keys, for a read-back when no operation is in flight any more.
    ///
    /// # Errors
    ///
    /// When the keys could not be stored, for instance because the disk was full.
    pub fn written_keys(&self) -> io::Result<WrittenKeys> {
        self.table.written_keys()
    }

    /// Counts keys that the read-back could not read.
    pub fn note_unread(&self, key_count: u64) {
        self.outcome().keys_unread += key_count;
    }

    /// The findings so far.
    pub fn report(&self) -> VerifyReport {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        VerifyReport {
            reads_checked: load(&self.counts.reads_checked),
            writes_acknowledged: load(&self.counts.writes_acknowledged),
            writes_in_doubt: load(&self.counts.writes_in_doubt),
            reads_behind: load(&self.counts.reads_behind),
            keys_written: self.table.key_count(),
            ..self.outcome().clone()
        }
    }

    fn outcome(&self) -> MutexGuard<'_, VerifyReport> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_fault(&self, case: FaultCase) {
        let mut outcome = self.outcome();
        *outcome.faults.entry(case.fault).or_default() += 1;
        if outcome.cases.len() < self.settings.cases_max {
            outcome.cases.push(case);
        }
    }
}

/// A put or delete in flight. If it is dropped without an acknowledgement it is in doubt.
#[must_use = "a write that is dropped is in doubt"]
#[derive(Debug)]
pub struct Write {
    verifier: Arc<Verifier>,
    key_hash: u64,
    sequence: u64,
    is_open: bool,
}

impl Write {
    /// The value to put. Its size is `size_bytes`, but at least [`VALUE_SIZE_BYTES_MIN`].
    pub fn value(&self, size_bytes: usize) -> Vec<u8> {
        let mut value = Vec::new();
        self.write_value(size_bytes, &mut value);
        value
    }

    /// Writes the value to put into a buffer, which can be reused.
    pub fn write_value(&self, size_bytes: usize, value: &mut Vec<u8>) {
        let Self { key_hash, sequence, .. } = *self;
        let identity = WriteIdentity { run: self.verifier.run, key_hash, sequence };
        write_value(value, identity, size_bytes);
    }

    /// Reports that the server has acknowledged the write.
    pub fn acknowledge(mut self) {
        self.is_open = false;
        let verifier = &self.verifier;
        verifier.counts.writes_acknowledged.fetch_add(1, Ordering::Relaxed);
        verifier.table.with(self.key_hash, |history| {
            history.acknowledge(verifier.settings.semantics, self.sequence, verifier.tick());
        });
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if self.is_open {
            self.verifier.counts.writes_in_doubt.fetch_add(1, Ordering::Relaxed);
            self.verifier.table.with(self.key_hash, |history| history.doubt(self.sequence));
        }
    }
}

/// A read in flight. If it is dropped, nothing is checked.
#[derive(Debug)]
pub struct Read {
    verifier: Arc<Verifier>,
    key: SmallVec<[u8; 64]>,
    key_hash: u64,
    snapshot: Snapshot,
    by_read_back: bool,
    is_open: bool,
}

impl Read {
    /// Reports the values that the server returned: no value, one, or siblings. Tombstones are not values.
    /// Returns the context for a put that is based on the answer.
    pub fn found<'v>(mut self, values: impl IntoIterator<Item = &'v [u8]>) -> Context {
        self.is_open = false;
        let verifier = &self.verifier;
        verifier.counts.reads_checked.fetch_add(1, Ordering::Relaxed);
        if self.by_read_back {
            verifier.outcome().keys_read_back += 1;
        }
        let mut found: SmallVec<[FoundValue; 2]> = SmallVec::new();
        let mut fault = None;
        let mut texts: SmallVec<[DecodedValue; 2]> = SmallVec::new();
        for value in values {
            let decoded = decode(value, verifier.run);
            texts.push(decoded);
            match self.version_of(decoded) {
                Ok(version) => found.push(version),
                Err(of_value) => fault = fault.or(Some(of_value)),
            }
        }
        let VerifySettings { semantics, may_read_behind, .. } = verifier.settings;
        let is_whole = fault.is_none() && !may_read_behind;
        let violation = verifier.table.with(self.key_hash, |history| {
            history.end_read();
            let violation = history.check(semantics, &self.snapshot, &found);
            if violation.is_none() && is_whole && semantics == Semantics::Siblings {
                history.forget_removed(&self.snapshot, &found);
            }
            violation
        });
        match (fault, violation) {
            (None, None) => {}
            (Some(fault), _) => self.fail(fault, &texts),
            (None, Some(violation)) => self.violated(violation, &texts),
        }
        let mut context: Sequences = found.iter().filter_map(FoundValue::sequence).collect();
        if fault.is_some() || violation.is_some() {
            // The vector clock of a faulty answer may cover more versions than the answer shows.
            context.extend(self.snapshot.sequences());
        }
        Context(context)
    }

    /// The version that a value belongs to, or the fault of the value itself.
    fn version_of(&self, decoded: DecodedValue) -> Result<FoundValue, Fault> {
        match decoded {
            DecodedValue::Own { key_hash, .. } if key_hash != self.key_hash => {
                Err(Fault::ForeignKey)
            }
            DecodedValue::Own { sequence, .. }
                if sequence >= self.verifier.clock.load(Ordering::Acquire) =>
            {
                Err(Fault::NeverWritten)
            }
            DecodedValue::Own { sequence, .. } => Ok(FoundValue::Version(sequence)),
            DecodedValue::OtherRun | DecodedValue::Unknown if self.snapshot.has_before() => {
                Ok(FoundValue::Before)
            }
            DecodedValue::OtherRun => Err(Fault::NeverWritten),
            DecodedValue::Unknown | DecodedValue::Damaged => Err(Fault::Corrupt),
        }
    }

    fn violated(&self, violation: Violation, texts: &[DecodedValue]) {
        let fault = match violation {
            Violation::Lost(_) => Fault::Lost,
            Violation::Stale(_) => Fault::Stale,
            Violation::Resurrected(_) => Fault::Resurrected,
            Violation::Siblings(_) => Fault::Siblings,
        };
        if self.verifier.settings.may_read_behind && !self.by_read_back && fault != Fault::Siblings
        {
            self.verifier.counts.reads_behind.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.fail(fault, texts);
    }

    #[cold]
    fn fail(&self, fault: Fault, texts: &[DecodedValue]) {
        let words: Vec<String> = texts.iter().map(|decoded| self.text_of(*decoded)).collect();
        self.verifier.add_fault(FaultCase {
            fault,
            key: report::key_text(&self.key),
            expected: self.snapshot.expected(),
            found: if words.is_empty() { "nothing".to_owned() } else { words.join(" and ") },
            by_read_back: self.by_read_back,
        });
    }

    fn text_of(&self, decoded: DecodedValue) -> String {
        match decoded {
            DecodedValue::Own { key_hash, sequence } if key_hash == self.key_hash => {
                format!("write {sequence}")
            }
            DecodedValue::Own { sequence, .. } => format!("write {sequence} of another key"),
            DecodedValue::OtherRun => "a value of another run".to_owned(),
            DecodedValue::Damaged => "a value with changed bytes".to_owned(),
            DecodedValue::Unknown => "bytes of no verified run".to_owned(),
        }
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        if self.is_open {
            self.verifier.table.with(self.key_hash, |history| history.end_read());
        }
    }
}
