//! Fuzzing of the journal of source queues: properties that must hold whatever its file contains.

use super::entry::{EntryReference, EntrySequence, QueueEntry, Visited};
use super::filter::QueueDefinition;
use super::journal::{QueueNumber, file_head, file_name, journal_bytes};
use super::source_queues::{SourceQueueSettings, SourceQueues};
use crate::machine_boot::MachineBoot;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::key::BucketRef;
use quoit_seam::FaultyDisk;
use std::sync::Arc;

/// The only file of the journal.
const FILE: u32 = 1;

/// Opens a journal that contains these bytes, once after a valid file head and once without.
///
/// # Panics
///
/// If a property is broken: opening succeeds or fails with an error; an opened journal can be read to its
/// end; an entry that is queued afterwards is found at the next start.
pub fn fuzz_source_journal(bytes: &[u8]) {
    check(bytes.to_vec());
    let mut file = file_head(FILE, EntrySequence(1));
    file.extend_from_slice(bytes);
    check(file);
}

/// Journals in the format of this release: an empty one, and one with an entry of each kind.
#[must_use]
pub fn source_journal_samples() -> Vec<Vec<u8>> {
    let mut key = Vec::new();
    BucketRef::untyped(b"bucket").key(b"key").encode_into(&mut key);
    let entry = |sequence, reference| QueueEntry {
        sequence: EntrySequence(sequence),
        key: Bytes::from(key.clone()),
        reference,
        visited: Visited::from_slice(&[[7; 16]]),
        queued_us: 1_000,
        may_be_redelivery: false,
    };
    let reap = EntryReference::Reap { clock: VersionVector::default(), reaped_us: 5 };
    let entries = [
        entry(1, EntryReference::ToFetch),
        entry(2, EntryReference::Tombstone(Bytes::from_static(b"stored"))),
        entry(3, reap),
        entry(
            4,
            EntryReference::Delta { delta: Bytes::from_static(b"delta"), last_modified_us: 6 },
        ),
    ];
    vec![Vec::new(), journal_bytes(&entries, &[QueueNumber(1)])]
}

fn check(file: Vec<u8>) {
    let disk = FaultyDisk::new(1);
    disk.put(&file_name(FILE), file);
    let (queues, _) = QueueDefinition::read_list("q:any");
    let settings =
        SourceQueueSettings { is_enabled: true, queues, ..SourceQueueSettings::default() };
    let open = |disk: &FaultyDisk| {
        SourceQueues::open(Arc::new(disk.clone()), settings.clone(), MachineBoot(1))
    };
    let Ok(queues) = open(&disk) else { return };
    let mut count = 0;
    while queues.take("q", None, 1).is_some() {
        count += 1;
        assert!(count < 1 << 20, "a journal ends");
    }
    let bucket = BucketRef::untyped(b"b");
    let mut key = Vec::new();
    bucket.key(b"k").encode_into(&mut key);
    let key = Bytes::from(key);
    queues.push(bucket, key.clone(), EntryReference::ToFetch, Visited::new(), 1);
    let queues = open(&disk.kill()).expect("what was opened once is opened again");
    let found = std::iter::from_fn(|| queues.take("q", None, 1)).any(|(_, entry)| entry.key == key);
    assert!(found, "an entry behind damage is found by the next start");
}
