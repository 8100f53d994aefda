//! A naive model of one engine: all its records, and the writes that are not known to be durable.
//!
//! A loss of power may cut off the end of an engine's log. A process that opens the store again must find
//! the records as they were after some write, in the order of writes. That write must not come before the
//! last one that the engine has called durable, and a batch must be there as a whole or not at all. While
//! a process runs, each read must show the last write of the record, and each page of a fold must show the
//! last writes of all records in its range. The model checks both, at each start and at each read. So it
//! finds faults of an engine that other replicas hide from clients.
//!
//! The model leaves out records that expire, because they vanish by themselves. After a loss of files, a
//! flipped bit or the restoring of an older copy the model checks no records any more.

#[cfg(test)]
mod tests;

use crate::store_starts::{StoreStart, StoreStarts};
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;
use quoit_store::engine::{RecordAt, RecordMeta, RecordPage, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Name of a record, with its partition and identity.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ModelName {
    partition: Partition,
    identity: Identity,
    encoded: Vec<u8>,
}

impl ModelName {
    pub(crate) fn of(at: &RecordAt<'_>) -> Self {
        Self { partition: at.partition, identity: at.identity, encoded: at.encoded.to_vec() }
    }

    /// Returns the record's position as the engine takes it; `None` if the name is not valid, which does
    /// not happen for names from requests.
    pub(crate) fn at(&self) -> Option<RecordAt<'_>> {
        let Self { partition, identity, ref encoded } = *self;
        let key = KeyRef::decode(encoded).ok()?;
        Some(RecordAt { key, encoded, identity, partition })
    }
}

/// Contents of a record, reduced to what distinguishes two versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version {
    facts: Facts,
    value_hash: u64,
    expires: bool,
}

impl Version {
    pub(crate) fn of(meta: &RecordMeta, value: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self {
            facts: Facts::of(meta),
            value_hash: hasher.finish(),
            expires: meta.expires_at_secs != 0,
        }
    }
}

/// Metadata that an engine shows without the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    digest: u64,
    tombstone: bool,
    n_val_class: u8,
}

impl Facts {
    const fn of(meta: &RecordMeta) -> Self {
        let RecordMeta { digest, tombstone, n_val_class, .. } = *meta;
        Self { digest, tombstone, n_val_class }
    }

    /// True if the record is a piece of another record.
    const fn is_piece(self) -> bool {
        self.n_val_class == RecordMeta::PIECE.n_val_class
    }
}

/// Writes of one batch or transaction: all of them survive a crash, or none.
#[derive(Clone, Debug)]
struct WriteGroup {
    ticket: Ticket,
    /// Contents of the records after the write; `None` for a removed record.
    versions: BTreeMap<ModelName, Option<Version>>,
}

/// The records that an engine has to hold.
#[derive(Default, Debug)]
pub struct EngineModel {
    starts: StoreStarts,
    /// Records after the last write that is known to be durable.
    durable: BTreeMap<ModelName, Version>,
    /// Later writes, in their order.
    tail: Vec<WriteGroup>,
    /// Records after all writes.
    current: BTreeMap<ModelName, Version>,
    /// Records that the model does not check: they expire, or a write of theirs has failed.
    unknown: BTreeSet<ModelName>,
    /// True if the disk has lost data, so that the model checks nothing.
    is_void: bool,
    /// True while the run itself reads the records.
    is_read_by_run: bool,
    violation: Option<String>,
}

impl EngineModel {
    /// Records that the disk has lost data: the model checks no records from now on.
    pub fn void(&mut self) {
        *self = Self {
            starts: std::mem::take(&mut self.starts),
            is_void: true,
            violation: self.violation.take(),
            ..Self::default()
        };
    }

    /// Reads the store for the run itself. Damage that it finds is not reported to the node, which would heal
    /// it.
    pub(crate) fn read_for_run<T>(model: &Mutex<Self>, read: impl FnOnce() -> T) -> T {
        model.lock().is_read_by_run = true;
        let outcome = read();
        model.lock().is_read_by_run = false;
        outcome
    }

    /// True while the run itself reads the records.
    pub(crate) const fn is_read_by_run(&self) -> bool {
        self.is_read_by_run
    }

    /// Records that the process has closed the store.
    pub(crate) fn closed(&mut self) {
        self.starts.closed();
        self.all_durable();
    }

    /// Checks what a new process has found out about the store.
    pub(crate) fn started(&mut self, start: StoreStart) {
        if let Err(wrong) = self.starts.check(start, self.is_void) {
            self.violation.get_or_insert(wrong);
        }
    }

    /// Takes the description of the first promise that the engine has broken.
    pub fn take_violation(&mut self) -> Option<String> {
        self.violation.take()
    }

    /// Records writes that the engine has made together.
    pub(crate) fn wrote(&mut self, ticket: Ticket, versions: BTreeMap<ModelName, Option<Version>>) {
        if self.is_void {
            return;
        }
        for (name, version) in &versions {
            if version.is_some_and(|version| version.expires) {
                self.unknown.insert(name.clone());
            }
            match version {
                Some(version) => self.current.insert(name.clone(), *version),
                None => self.current.remove(name),
            };
        }
        self.tail.push(WriteGroup { ticket, versions });
    }

    /// Records that all records of a partition were removed.
    pub(crate) fn dropped(&mut self, ticket: Ticket, partition: Partition) {
        let names = self.current.keys().filter(|name| name.partition == partition);
        let versions = names.map(|name| (name.clone(), None)).collect();
        self.wrote(ticket, versions);
    }

    /// Records that a write has failed. Such a write may be found after a crash or not.
    pub(crate) fn failed(&mut self, names: impl IntoIterator<Item = ModelName>) {
        if !self.is_void {
            self.unknown.extend(names);
        }
    }

    /// Records that the engine has called a write durable, and with it all writes before.
    pub(crate) fn is_durable(&mut self, ticket: Ticket) {
        let count = self.tail.partition_point(|group| group.ticket <= ticket);
        for group in self.tail.drain(..count) {
            apply(&mut self.durable, &group);
        }
    }

    /// Records that the engine has called all writes durable.
    pub(crate) fn all_durable(&mut self) {
        self.tail.clear();
        self.durable.clone_from(&self.current);
    }

    /// Checks a record that the engine has read.
    pub(crate) fn check_read(&mut self, name: &ModelName, found: Option<Version>) {
        if self.is_void || self.unknown.contains(name) {
            return;
        }
        let expected = self.current.get(name).copied();
        if expected != found {
            self.violation.get_or_insert_with(|| {
                format!("a read of {name:?} finds {found:?}, the last write is {expected:?}")
            });
        }
    }

    /// Checks the metadata of a record that the engine has read. For a record that the model does not have
    /// the engine may show those of another one.
    pub(crate) fn check_head(&mut self, name: &ModelName, found: Option<&RecordMeta>) {
        if self.is_void || self.unknown.contains(name) {
            return;
        }
        let Some(expected) = self.current.get(name).map(|version| version.facts) else { return };
        let found = found.map(Facts::of);
        if found != Some(expected) {
            self.violation.get_or_insert_with(|| {
                format!("a head of {name:?} is {found:?}, the last write has {expected:?}")
            });
        }
    }

    /// Checks a page of a fold over all records of a partition from an identity on. The page has to show each
    /// record of its range and no other, in order. If it reports damaged records, it may lack them.
    pub(crate) fn check_fold(&mut self, partition: Partition, from: Identity, page: &RecordPage) {
        if self.is_void || !page.damaged.is_empty() {
            return;
        }
        let start = ModelName { partition, identity: from, encoded: Vec::new() };
        let is_covered = |name: &ModelName| {
            name.partition == partition && page.next.is_none_or(|next| name.identity < next)
        };
        let unknown = self.unknown.range(start.clone()..).take_while(|name| is_covered(name));
        let unknown: BTreeSet<&[u8]> = unknown.map(|name| &name.encoded[..]).collect();
        let is_known = |(name, _): &(&[u8], Version)| !unknown.contains(name);
        let written = self.current.range(start..).take_while(|(name, _)| is_covered(name));
        let written = written.filter(|(_, version)| !version.facts.is_piece());
        let written = written.map(|(name, version)| (&name.encoded[..], *version));
        let written: Vec<_> = written.filter(is_known).collect();
        let found = page.entries.iter();
        let found =
            found.map(|(name, record)| (&name[..], Version::of(&record.meta, &record.value)));
        let found: Vec<_> = found.filter(is_known).collect();
        if found != written {
            let both = found.iter().zip(&written);
            let same_count = both.take_while(|(one, other)| one == other).count();
            let (found, written) = (found.get(same_count), written.get(same_count));
            self.violation.get_or_insert_with(|| {
                format!(
                    "a fold of {partition:?} from {from:?} shows {found:?} in the place of {written:?}"
                )
            });
        }
    }

    /// Returns the names of all records that the model checks at a start.
    pub(crate) fn names(&self) -> Vec<ModelName> {
        let of_tail = self.tail.iter().flat_map(|group| group.versions.keys());
        let names: BTreeSet<_> = self.durable.keys().chain(of_tail).collect();
        names.into_iter().filter(|name| !self.unknown.contains(*name)).cloned().collect()
    }

    /// Checks the records of [`EngineModel::names`] as a new process has found them, and continues from the
    /// state that fits best.
    pub(crate) fn restarted(&mut self, found: &BTreeMap<ModelName, Option<Version>>) {
        if self.is_void {
            return;
        }
        let mut state = self.durable.clone();
        let mut differing: BTreeSet<&ModelName> = found
            .iter()
            .filter(|(name, version)| state.get(*name) != version.as_ref())
            .map(first)
            .collect();
        let mut fewest = (differing.len(), 0, differing.clone());
        for (count, group) in (1..).zip(&self.tail) {
            apply(&mut state, group);
            for name in group.versions.keys() {
                let Some((name, version)) = found.get_key_value(name) else { continue };
                if state.get(name) == version.as_ref() {
                    differing.remove(name);
                } else {
                    differing.insert(name);
                }
            }
            // If several states fit equally well, the newest counts.
            if differing.len() <= fewest.0 {
                fewest = (differing.len(), count, differing.clone());
            }
        }
        let (_, kept_count, wrong) = fewest;
        if let Some(name) = wrong.first() {
            let (of, lost) = (self.tail.len(), wrong.len());
            let (stored, found) = (self.durable.get(*name), found[*name]);
            self.violation.get_or_insert_with(|| {
                format!(
                    "a start finds no state that the store ever had: nearest is the one after \
                     {kept_count} of {of} writes that were not durable, but {lost} records differ, such \
                     as {name:?}: \
                     found {found:?}, durable {stored:?}"
                )
            });
        }
        self.tail.truncate(kept_count);
        self.current.clone_from(&self.durable);
        for group in &mut self.tail {
            apply(&mut self.current, group);
            // Tickets begin anew with each process. These writes are older than all writes of the new
            // process.
            group.ticket = Ticket(0);
        }
    }
}

fn first<'m>((name, _): (&'m ModelName, &Option<Version>)) -> &'m ModelName {
    name
}

fn apply(state: &mut BTreeMap<ModelName, Version>, group: &WriteGroup) {
    for (name, version) in &group.versions {
        match version {
            Some(version) => state.insert(name.clone(), *version),
            None => state.remove(name),
        };
    }
}
