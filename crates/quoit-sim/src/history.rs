//! Requests of clients and their answers.

use crate::policy::Policy;
use crate::replica_counts::ReplicaCounts;
use crate::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A key of the run, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyNumber(pub u32);

/// A write of the run, by its number: in the order of their starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteNumber(pub u32);

/// A read of the run, by its number: in the order of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadNumber(pub u32);

/// An entry of the index of writes: the write that made it, and where it was written.
pub type Entry = (WriteNumber, KeyNumber);

impl WriteNumber {
    /// Whether the write, if it stores a value, makes an index entry: some do, the others may take short
    /// ways.
    #[must_use]
    pub const fn makes_entry(self) -> bool {
        self.0 % 4 == 1
    }
}

impl fmt::Display for WriteNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "w{}", self.0)
    }
}

/// Kinds of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A value, told apart by the write's number.
    Put,
    /// A delete of what a read has shown.
    Delete,
    /// A delete of whatever the store finds.
    DeleteUnseen,
}

impl WriteKind {
    /// Whether a tombstone is what it leaves.
    #[must_use]
    pub const fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteUnseen)
    }
}

/// Outcome of a write, as far as it is known at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The store has said that it is done.
    Acknowledged,
    /// It has not happened and never will.
    Refused,
    /// It may have happened, or may happen yet.
    Unknown,
}

/// One write.
#[derive(Debug, Clone)]
pub struct Write {
    /// The key.
    pub key: KeyNumber,
    /// The cluster that its client asked.
    pub cluster: usize,
    /// Kind of the write.
    pub kind: WriteKind,
    /// The read whose context it was made with.
    pub context: Option<ReadNumber>,
    /// When it was asked for, in simulated microseconds.
    pub start_us: u64,
    /// When the answer came; [`u64::MAX`] when none did.
    pub end_us: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Copies that were asked to be synced.
    pub dw: u32,
    /// Whether a majority of the primaries themselves had to take and sync it.
    pub is_strict: bool,
    /// When its value expires, in simulated microseconds; `None` = never.
    pub expires_us: Option<u64>,
}

/// A node that is silent for so long is left with the write that was passed on to it, in microseconds.
const SILENCE_US: u64 = 100_000;

impl Write {
    /// Whether the write may be made at any time after its start: its outcome is unknown, or it was
    /// passed on again because the first node was silent, which may make it when it goes on.
    #[must_use]
    pub const fn may_be_made_late(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown) || self.end_us - self.start_us >= SILENCE_US
    }

    /// Whether it is a delete by then: one that a client has asked for, or a value that has expired.
    #[must_use]
    pub fn deletes_by(&self, now_us: u64) -> bool {
        self.kind.is_delete() || self.expires_us.is_some_and(|expires_us| expires_us <= now_us)
    }
}

/// One of the values that a read found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// The value of a put.
    Value(WriteNumber),
    /// A tombstone, told apart by the event that made it: actor and counter.
    Tombstone(Vec<u8>, u64),
    /// Something that no write of the run has written.
    Foreign(String),
}

/// Source of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A client, with quorums that may miss what others have written.
    Client,
    /// A client that asked a majority of the primaries.
    Strict,
    /// A client that asked a majority, of stand-ins too, while a majority of the primaries was there.
    Majority,
    /// A writer who was shown what its write has made.
    Writer(WriteNumber),
    /// The run itself, after the faults, of all primaries.
    Final,
    /// All nodes together, after the faults.
    Union,
}

/// One read that was answered.
#[derive(Debug, Clone)]
pub struct Read {
    /// The key.
    pub key: KeyNumber,
    /// Source of the read.
    pub reader: Reader,
    /// When it was asked for, in simulated microseconds.
    pub start_us: u64,
    /// When the answer came.
    pub end_us: u64,
    /// The values, tombstones included.
    pub found: Vec<Found>,
}

/// Result of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// Keys of the bucket; a foreign one is a number that no key has.
    Keys(Vec<KeyNumber>),
    /// Names of the bucket type's buckets.
    Buckets(Vec<Vec<u8>>),
    /// Entries of the index of writes; a foreign one is of a number that no write or key has.
    Entries(Vec<Entry>),
}

/// One listing of what a policy's bucket type has, which came to its end.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Whose keys.
    pub policy: Policy,
    /// The node that was asked.
    pub node: String,
    /// When it was asked for, in simulated microseconds.
    pub start_us: u64,
    /// When it was complete.
    pub end_us: u64,
    /// Result of the listing.
    pub listed: Listed,
    /// Keys that all nodes which may have been asked held all the time.
    pub there: BTreeSet<KeyNumber>,
    /// Entries that all of them held at the beginning and at the end.
    pub entries_there: BTreeSet<Entry>,
}

/// Faults of machines in a run, as far as they decide what clients may count on.
#[derive(Debug, Clone, Default)]
pub struct Hardships {
    /// When machines lost their power, and with it what was not synced.
    pub power_losses_us: Vec<u64>,
    /// Whether what a disk had promised to keep was damaged.
    pub is_disk_damaged: bool,
    /// Whether wall clocks were wrong.
    pub are_clocks_wrong: bool,
    /// When a machine lost what its disk had promised to keep: in whole files, with an older copy, or
    /// because it started with a damaged one.
    pub files_lost_us: Vec<u64>,
    /// Those of these times when the machine's node could not tell: its disk had been damaged, or had an
    /// older copy.
    pub lost_unnoticed_us: Vec<u64>,
    /// When something befell a machine that may keep its node from answering, and which.
    pub disturbances: Vec<(u64, usize)>,
    /// When machines were lost for good, and with them all that was on their disks.
    pub losses_us: Vec<u64>,
    /// Whether a process has ended, and with it what it remembered.
    pub has_process_ended: bool,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Policies of the keys, by number.
    pub keys: Vec<Policy>,
    /// Writes by number.
    pub writes: Vec<Write>,
    /// Reads by number.
    pub reads: Vec<Read>,
    /// Listings in the order of their ends.
    pub listings: Vec<Listing>,
    /// Whether the store promises that a write which was passed on twice is made once.
    pub writes_are_made_once: bool,
    /// The events that each value was found under.
    pub events: BTreeMap<WriteNumber, BTreeSet<Event>>,
    /// The writes whose values were found under each event of a key: one, as no event is given out twice.
    pub made_by: BTreeMap<(KeyNumber, Event), BTreeSet<WriteNumber>>,
    /// How many replicas records had, and when that changed.
    pub replica_counts: ReplicaCounts,
    /// Hardships of the run meanwhile.
    pub hardships: Hardships,
    /// Promises that were broken when they were looked at, in the middle of the run.
    pub broken_promises: Vec<Violation>,
}

/// Event that a store makes of a write: actor and counter.
pub type Event = (Vec<u8>, u64);

impl History {
    /// Whether a write was made twice: a node passes it on again when the first one does not answer, and
    /// may not have been the first to make it. A write that replaces one of the two leaves the other.
    #[must_use]
    pub fn is_made_twice(&self, number: WriteNumber) -> bool {
        let are_several = |events: &BTreeSet<Event>| events.len() > 1;
        !self.writes_are_made_once && self.events.get(&number).is_some_and(are_several)
    }

    /// The number of the next write.
    #[must_use]
    pub fn next_write(&self) -> WriteNumber {
        WriteNumber(self.writes.len() as u32)
    }

    /// Notes a write before it is sent; its outcome is unknown until [`History::end_write`].
    ///
    /// # Panics
    ///
    /// After four thousand million writes.
    pub fn begin_write(&mut self, write: Write) -> WriteNumber {
        let number = u32::try_from(self.writes.len()).expect("a run is a few hundred writes");
        self.writes.push(write);
        WriteNumber(number)
    }

    /// Notes how a write ended.
    ///
    /// # Panics
    ///
    /// When there is no such write.
    pub fn end_write(&mut self, number: WriteNumber, now_us: u64, outcome: Outcome) {
        let write = &mut self.writes[number.0 as usize];
        (write.end_us, write.outcome) = (now_us, outcome);
    }

    /// Notes what a read found.
    ///
    /// # Panics
    ///
    /// After four thousand million reads.
    pub fn add_read(&mut self, read: Read) -> ReadNumber {
        let number = u32::try_from(self.reads.len()).expect("a run is a few hundred reads");
        self.reads.push(read);
        ReadNumber(number)
    }

    /// The writes of a key.
    pub fn writes_of(&self, key: KeyNumber) -> impl Iterator<Item = (WriteNumber, &Write)> {
        let numbered = (0_u32..).map(WriteNumber).zip(&self.writes);
        numbered.filter(move |(_, write)| write.key == key)
    }

    /// The reads of a key.
    pub fn reads_of(&self, key: KeyNumber) -> impl Iterator<Item = (ReadNumber, &Read)> {
        let numbered = (0_u32..).map(ReadNumber).zip(&self.reads);
        numbered.filter(move |(_, read)| read.key == key)
    }

    /// Writes of a key that may have taken effect and were asked for before a time.
    #[must_use]
    pub fn possible_before(&self, key: KeyNumber, time_us: u64) -> BTreeSet<WriteNumber> {
        let possible = self
            .writes_of(key)
            .filter(|(_, write)| write.outcome != Outcome::Refused && write.start_us <= time_us);
        possible.map(|(number, _)| number).collect()
    }

    /// Whether an acknowledged write has to outlive everything that the run did.
    #[must_use]
    pub fn is_firm(&self, write: &Write) -> bool {
        let hardships = &self.hardships;
        let came_after = |times_us: &[u64]| times_us.iter().any(|at_us| *at_us >= write.start_us);
        let lost_power = came_after(&hardships.power_losses_us);
        // What not the primaries have taken may have been on the lost machine alone, or on the one whose disk
        // rots: a node that nobody is left beside counts for several copies.
        let is_a_copy_lost = hardships.is_disk_damaged || came_after(&hardships.files_lost_us);
        let may_have_lost_all = is_a_copy_lost || came_after(&hardships.losses_us);
        // A write goes where its bucket has replicas, also where these become fewer later.
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
