//! The history of a run: requests of clients on plain keys, their answers, and the faults of machines.
//!
//! The checkers judge this history after the run. Times are simulated microseconds since the start of the
//! run.

use crate::policy::Policy;
use crate::replica_counts::ReplicaCounts;
use crate::violation::Violation;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Number of a key of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyNumber(pub u32);

/// Number of a write of the run, in the order in which the writes started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteNumber(pub u32);

/// Number of a read of the run, in the order in which the reads ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadNumber(pub u32);

/// An entry of the secondary index of writes: the number of the write, and the key under which its value
/// is stored.
pub type Entry = (WriteNumber, KeyNumber);

impl fmt::Display for WriteNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "w{}", self.0)
    }
}

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A put of a value that names the write's number.
    Put,
    /// A delete with the context of a read.
    Delete,
    /// A delete without a context: of whatever the store finds.
    DeleteUnseen,
}

impl WriteKind {
    /// True if the write leaves a tombstone.
    #[must_use]
    pub const fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteUnseen)
    }
}

/// Outcome of a write, as far as its client knows it at the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The store acknowledged the write.
    Acknowledged,
    /// The store did not make the write and never will.
    Refused,
    /// The write may have been made, or may still be made.
    Unknown,
}

/// One write.
#[derive(Debug, Clone)]
pub struct Write {
    /// The key.
    pub key: KeyNumber,
    /// Number of the cluster that the client asked, from 0.
    pub cluster: usize,
    /// Kind of the write.
    pub kind: WriteKind,
    /// The read whose context the client sent with the write.
    pub context: Option<ReadNumber>,
    /// Time at which the client sent the request, in simulated microseconds.
    pub start_us: u64,
    /// Time of the answer; [`u64::MAX`] if there was no answer.
    pub end_us: u64,
    /// Outcome of the write.
    pub outcome: Outcome,
    /// Value of `dw`: number of copies that had to be synced, for n_val = 3.
    pub dw: u32,
    /// True if a majority of the primaries had to accept and sync the write. Fallbacks do not count then.
    pub is_strict: bool,
    /// Earliest time at which the value may expire, in simulated microseconds; `None` = never. A value that
    /// expires by its bucket's `ttl` does so later if its coordinator made the write later.
    pub expires_us: Option<u64>,
}

/// Time after which a coordinator may forward a write to a second node because the first one does not
/// answer, in microseconds.
const FORWARD_RETRY_US: u64 = 100_000;

impl Write {
    /// True if the write may still be made at any time after its start: its outcome is unknown, or it
    /// took so long that it may have been forwarded twice. In that case the first receiver may make it as
    /// well, whenever it runs again.
    #[must_use]
    pub const fn may_be_made_late(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown) || self.end_us - self.start_us >= FORWARD_RETRY_US
    }

    /// Time by which the value has surely expired, in simulated microseconds; `None` if there is none. By a
    /// bucket's `ttl` it may expire a second after the earliest time: the coordinator counts in whole seconds
    /// of its own time.
    #[must_use]
    pub fn expires_by_us(&self) -> Option<u64> {
        self.expires_us
            .filter(|_| !self.may_be_made_late())
            .map(|expires_us| expires_us + 1_000_000)
    }

    /// True if the write counts as a delete at a time: it is a delete, or its value has expired.
    #[must_use]
    pub fn deletes_by(&self, now_us: u64) -> bool {
        self.kind.is_delete() || self.expires_us.is_some_and(|expires_us| expires_us <= now_us)
    }
}

/// A value that a read found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundValue {
    /// The value of a put.
    Value(WriteNumber),
    /// A tombstone, identified by its event: actor and counter.
    Tombstone(Vec<u8>, u64),
    /// Something that no write of the run has stored.
    Foreign(String),
}

/// Origin of a read, which decides what the read has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A client, with quorums that may miss acknowledged writes.
    Client,
    /// A client that read a majority of the primaries.
    Strict,
    /// A client that read a majority that fallbacks may be part of, while a majority of the primaries
    /// could be reached.
    Majority,
    /// A client that got the object back with the answer to its write.
    Writer(WriteNumber),
    /// The run itself, after the faults, from all primaries.
    Final,
    /// The merged contents of all nodes, after the faults.
    Union,
}

/// A read that was answered.
#[derive(Debug, Clone)]
pub struct Read {
    /// The key.
    pub key: KeyNumber,
    /// Origin of the read.
    pub reader: Reader,
    /// Time at which the client sent the request, in simulated microseconds.
    pub start_us: u64,
    /// Time of the answer.
    pub end_us: u64,
    /// Values that the read found, including tombstones.
    pub found: Vec<FoundValue>,
}

/// Result of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingResult {
    /// Keys of the bucket. A foreign key is listed as a number that no key has.
    Keys(Vec<KeyNumber>),
    /// Names of the buckets of the bucket type.
    Buckets(Vec<Vec<u8>>),
    /// Entries of the index of writes. A foreign write or key is listed as a number that none has.
    Entries(Vec<Entry>),
}

/// A listing or index query on a policy's bucket type that the node called complete.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Policy of the bucket type.
    pub policy: Policy,
    /// Name of the node that the client asked.
    pub node: String,
    /// Time at which the client sent the request, in simulated microseconds.
    pub start_us: u64,
    /// Time at which the last part of the answer came.
    pub end_us: u64,
    /// Result of the listing.
    pub listed: ListingResult,
    /// Keys that all nodes which may have been asked held before and after the listing.
    pub keys_throughout: BTreeSet<KeyNumber>,
    /// Index entries that all these nodes held before and after the listing.
    pub entries_throughout: BTreeSet<Entry>,
}

/// Faults of machines that decide which promises of the store still hold.
#[derive(Debug, Clone, Default)]
pub struct FaultRecord {
    /// Times at which machines lost their power, and with it everything that was not synced; also those at
    /// which the end of a process lost what an engine had collected in memory.
    pub power_losses_us: Vec<u64>,
    /// True if synced data on some disk was damaged.
    pub is_disk_damaged: bool,
    /// True if some wall clock was wrong.
    pub are_clocks_wrong: bool,
    /// Times at which a machine lost synced data: whole files, everything newer than an older copy, or
    /// records that it could not read when it started with a damaged disk.
    pub files_lost_us: Vec<u64>,
    /// The times among these at which the node could not notice its loss: its disk was damaged, or had an
    /// older copy.
    pub unnoticed_losses_us: Vec<u64>,
    /// Times of faults that may keep a node from answering, with the indexes of their machines.
    pub disturbances: Vec<(u64, usize)>,
    /// Times at which machines were destroyed with their disks.
    pub losses_us: Vec<u64>,
    /// True if a process ended other than by a clean shutdown, so that it lost what it had only in
    /// memory.
    pub has_process_ended: bool,
    /// True if the operator has changed the members or their capacities.
    pub has_layout_changed: bool,
}

impl FaultRecord {
    /// True if a machine has lost synced data, or its whole directory, at a time or later.
    pub(crate) fn has_lost_files_since(&self, since_us: u64) -> bool {
        self.files_lost_us.iter().chain(&self.losses_us).any(|at_us| *at_us >= since_us)
    }
}

/// The process of a machine: index of the machine and number of the start.
pub(crate) type ProcessNumber = (usize, u64);

/// Processes that had the value of a write.
#[derive(Debug, Clone)]
pub(crate) struct ValueHolders {
    /// The write.
    pub(crate) number: WriteNumber,
    /// The processes.
    pub(crate) processes: BTreeSet<ProcessNumber>,
    /// First bytes of the stored value.
    pub(crate) value_prefix: Bytes,
}

/// The history of a run: all requests on plain keys, and the faults.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Policies of the keys, by key number.
    pub keys: Vec<Policy>,
    /// Writes, by number.
    pub writes: Vec<Write>,
    /// Reads, by number.
    pub reads: Vec<Read>,
    /// Listings, in the order in which they ended.
    pub listings: Vec<Listing>,
    /// True if no write makes index entries.
    pub has_no_entries: bool,
    /// True if the checkers require that a write which was forwarded twice is made once.
    pub writes_are_made_once: bool,
    /// Events under which the value of each write was found.
    pub events: BTreeMap<WriteNumber, BTreeSet<Event>>,
    /// Writes whose values were found under each event of a key. There is one for each event, unless the
    /// store has used an event twice.
    pub made_by: BTreeMap<(KeyNumber, Event), BTreeSet<WriteNumber>>,
    /// Values of n_val over time.
    pub replica_counts: ReplicaCounts,
    /// Seconds after which values of a policy's bucket type expire, unless they have a time of their own. A
    /// policy that is not listed has no such property.
    pub ttls: BTreeMap<Policy, u64>,
    /// Faults of the run that matter to the promises.
    pub hardships: FaultRecord,
    /// Violations that were found during the run.
    pub broken_promises: Vec<Violation>,
    /// Processes that had the value of a put when it was acknowledged. The next check of the
    /// stores takes them.
    pub(crate) holders: BTreeMap<KeyNumber, ValueHolders>,
}

/// Event of a write: actor and counter.
pub type Event = (Vec<u8>, u64);

impl History {
    /// True if a write was made twice. A node forwards a write again when the first receiver does not
    /// answer, although that receiver may still make it. A later write that replaces one of the two
    /// values leaves the other.
    #[must_use]
    pub fn was_made_twice(&self, number: WriteNumber) -> bool {
        let are_several = |events: &BTreeSet<Event>| events.len() > 1;
        !self.writes_are_made_once && self.events.get(&number).is_some_and(are_several)
    }

    /// Number of keys.
    ///
    /// # Panics
    ///
    /// If the run has more than `u32::MAX` keys.
    #[must_use]
    pub fn key_count(&self) -> u32 {
        u32::try_from(self.keys.len()).expect("a run has a few dozen keys")
    }

    /// Returns the numbers of all keys.
    pub fn key_numbers(&self) -> impl Iterator<Item = KeyNumber> + use<> {
        (0..self.key_count()).map(KeyNumber)
    }

    /// Returns the number of the next write.
    ///
    /// # Panics
    ///
    /// If the run has more than `u32::MAX` writes.
    #[must_use]
    pub fn next_write(&self) -> WriteNumber {
        WriteNumber(u32::try_from(self.writes.len()).expect("a run is a few hundred writes"))
    }

    /// Records a write before it is sent. Its outcome is unknown until [`History::end_write`].
    ///
    /// # Panics
    ///
    /// If the run has more than `u32::MAX` writes.
    pub fn begin_write(&mut self, write: Write) -> WriteNumber {
        let number = self.next_write();
        self.writes.push(write);
        number
    }

    /// Records the outcome of a write.
    ///
    /// # Panics
    ///
    /// If there is no write with this number.
    pub fn end_write(&mut self, number: WriteNumber, now_us: u64, outcome: Outcome) {
        let write = &mut self.writes[number.0 as usize];
        (write.end_us, write.outcome) = (now_us, outcome);
    }

    /// Records a read that was answered.
    ///
    /// # Panics
    ///
    /// If the run has more than `u32::MAX` reads.
    pub fn add_read(&mut self, read: Read) -> ReadNumber {
        let number = u32::try_from(self.reads.len()).expect("a run is a few hundred reads");
        self.reads.push(read);
        ReadNumber(number)
    }

    /// True if a write makes an index entry when it stores a value. One write in four does, in most runs; the
    /// others may take the store's fast paths.
    #[must_use]
    pub const fn makes_entry(&self, number: WriteNumber) -> bool {
        !self.has_no_entries && number.0 % 4 == 1
    }

    /// Returns the seconds after which values of a policy's bucket type expire; `None` = never.
    #[must_use]
    pub fn ttl_secs(&self, policy: Policy) -> Option<u64> {
        self.ttls.get(&policy).copied()
    }

    /// Returns the writes of a key, in the order of their starts.
    pub fn writes_of(&self, key: KeyNumber) -> impl Iterator<Item = (WriteNumber, &Write)> {
        let numbered = (0_u32..).map(WriteNumber).zip(&self.writes);
        numbered.filter(move |(_, write)| write.key == key)
    }

    /// Returns the reads of a key, in the order of their ends.
    pub fn reads_of(&self, key: KeyNumber) -> impl Iterator<Item = (ReadNumber, &Read)> {
        let numbered = (0_u32..).map(ReadNumber).zip(&self.reads);
        numbered.filter(move |(_, read)| read.key == key)
    }

    /// Returns the writes of a key that started by a time and may have been made.
    #[must_use]
    pub fn possible_before(&self, key: KeyNumber, time_us: u64) -> BTreeSet<WriteNumber> {
        let possible = self
            .writes_of(key)
            .filter(|(_, write)| write.outcome != Outcome::Refused && write.start_us <= time_us);
        possible.map(|(number, _)| number).collect()
    }

    /// True if a write was acknowledged and has to survive all faults of the run.
    #[must_use]
    pub fn must_survive(&self, write: &Write) -> bool {
        let hardships = &self.hardships;
        let came_after = |times_us: &[u64]| times_us.iter().any(|at_us| *at_us >= write.start_us);
        let lost_power = came_after(&hardships.power_losses_us);
        // A write that did not ask for a majority of the primaries may have been on one machine alone: a
        // fallback that is the only live node counts for several copies. That machine may be the one that
        // was lost, or whose disk rots.
        let is_a_copy_lost = hardships.is_disk_damaged || came_after(&hardships.files_lost_us);
        let may_have_lost_all = is_a_copy_lost || came_after(&hardships.losses_us);
        // A write goes to the replicas that its bucket has at the time, and n_val may be lowered later.
        let policy = self.keys.get(write.key.0 as usize).copied();
        let n_val = self.replica_counts.least_from(policy, write.start_us);
        if may_have_lost_all && (!write.is_strict || n_val < 2) {
            return false;
        }
        let copies_needed = match (lost_power, is_a_copy_lost) {
            (_, true) => 2,
            (true, false) => 1,
            (false, false) => 0,
        };
        write.outcome == Outcome::Acknowledged && write.dw.min(n_val) >= copies_needed
    }
}
