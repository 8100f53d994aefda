//! Checks of hint files with any content, for fuzzing.

use super::Hints;
use super::file::{HintEntry, NAME, header, seal};
use super::references::HintReference;
use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_seam::FaultyDisk;
use std::sync::Arc;

/// Bound of the single references, so low that files exceed it.
const COUNT_MAX: usize = 8;
/// Bytes of an entry without its checksum.
const CONTENT_BYTES: usize = 28;
const NODE: NodeId = NodeId([9; 16]);

/// Reads the bytes as a hint file, and then as the contents of entries to which it adds the right
/// checksums.
///
/// # Panics
///
/// If an invariant is broken: a file is opened or refused with an error; an opened file names only partitions
/// of the ring; hints that are noted afterwards are found at the next start; and a rewritten file has the
/// same hints.
pub fn fuzz_hint_file(bytes: &[u8]) {
    check(bytes);
    let mut file = header();
    bytes.chunks_exact(CONTENT_BYTES).for_each(|content| seal(content, &mut file));
    check(&file);
}

/// Returns hint files as this release writes them: one without entries, and one with entries of each
/// kind.
#[must_use]
pub fn hint_file_samples() -> Vec<Vec<u8>> {
    let mut written = header();
    let reference = (Partition(1), Identity(77));
    for entry in [
        HintEntry::Missed(NODE, reference),
        HintEntry::Missed(NODE, (Partition(2), Identity(1))),
        HintEntry::Done(NODE, reference),
        HintEntry::WholeMissed(NODE, Partition(3)),
        HintEntry::WholeDone(NODE, Partition(3)),
        HintEntry::Missed(NodeId([8; 16]), reference),
    ] {
        entry.append_to(&mut written);
    }
    vec![header(), written]
}

fn check(bytes: &[u8]) {
    let disk = FaultyDisk::new(1);
    disk.put(NAME, bytes.to_vec());
    let Some(hints) = open(&disk) else { return };
    assert!(hints.partitions().iter().all(|partition| partition.0 < ring_size().get()));
    hints.note(NODE, (Partition(0), Identity(5)));
    hints.flush().expect("the disk is sound");
    let appended = open(&disk).expect("what was opened once opens again");
    assert_eq!(all(&appended), all(&hints), "behind what was there");
    hints.state.lock().rewrite_needed = true;
    hints.flush().expect("the disk is sound");
    let anew = open(&disk).expect("what was written anew opens");
    assert_eq!(all(&anew), all(&hints), "written anew");
}

fn open(disk: &FaultyDisk) -> Option<Hints> {
    Hints::open(Arc::new(disk.clone()), ring_size(), COUNT_MAX).ok()
}

fn ring_size() -> RingSize {
    RingSize::new(8).expect("8 is a ring size")
}

/// The single references and the whole partitions that nodes have missed.
type Missed = (Vec<(NodeId, HintReference)>, Vec<(NodeId, Partition)>);

fn all(hints: &Hints) -> Missed {
    let references = &hints.state.lock().references;
    (references.single(), references.whole())
}
