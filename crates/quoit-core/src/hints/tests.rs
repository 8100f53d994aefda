use super::*;
use proptest::prelude::*;
use quoit_model::hash::Identity;
use quoit_seam::FaultyDisk;

fn node(number: u8) -> NodeId {
    NodeId([number; 16])
}

fn ring_size() -> RingSize {
    RingSize::new(8).expect("a power of two in the range")
}

fn open(disk: &FaultyDisk, count_max: usize) -> Hints {
    let disk = Arc::new(disk.clone());
    Hints::open(disk, ring_size(), count_max).expect("the disk works")
}

fn reference(partition: u16, identity: u64) -> HintReference {
    (Partition(partition), Identity(identity))
}

/// Everything that waits for a node: single records, and whole partitions.
fn due(hints: &Hints, to: NodeId) -> (Vec<HintReference>, Vec<Partition>) {
    let state = hints.state.lock();
    let single = state.references.single().into_iter().filter(|(node, _)| *node == to);
    let whole = state.references.whole().into_iter().filter(|(node, _)| *node == to);
    (single.map(|(_, each)| each).collect(), whole.map(|(_, each)| each).collect())
}

#[test]
fn a_record_written_often_is_one_hint() {
    let hints = Hints::in_memory(10);
    for _ in 0..100 {
        hints.note(node(1), reference(2, 3));
    }
    assert_eq!(due(&hints, node(1)), (vec![reference(2, 3)], vec![]));
}

#[test]
fn what_is_missed_again_while_it_is_delivered_is_delivered_again() {
    let hints = Hints::in_memory(10);
    hints.note(node(1), reference(2, 3));
    hints.note(node(1), reference(2, 4));
    let taken = hints.take(node(1), 10);
    assert_eq!(taken, [reference(2, 3), reference(2, 4)]);
    hints.note(node(1), reference(2, 4));
    hints.delivered(node(1), &taken);
    assert_eq!(due(&hints, node(1)).0, [reference(2, 4)]);
    let taken = hints.take(node(1), 10);
    hints.put_back(node(1), &taken);
    assert_eq!(due(&hints, node(1)).0, [reference(2, 4)]);
}

#[test]
fn a_record_that_is_taken_again_while_it_is_delivered_counts_once() {
    let hints = Hints::in_memory(10);
    hints.note(node(1), reference(2, 3));
    let first = hints.take(node(1), 10);
    hints.note(node(1), reference(2, 3));
    let again = hints.take(node(1), 10);
    assert_eq!((&first[..], &again[..]), (&[reference(2, 3)][..], &[reference(2, 3)][..]));
    assert_eq!(hints.state.lock().references.count(), 1);
    // The second delivery has brought the node the record, so nothing waits after the first one has failed.
    hints.delivered(node(1), &again);
    hints.put_back(node(1), &first);
    assert_eq!(hints.state.lock().references.count(), 0);
    assert_eq!(due(&hints, node(1)), (vec![], vec![]));
}

#[test]
fn too_many_hints_become_one_for_their_partition() {
    let hints = Hints::in_memory(3);
    for identity in 0..3 {
        hints.note(node(1), reference(2, identity));
    }
    hints.note(node(1), reference(2, u64::MAX));
    hints.note(node(1), reference(5, 1));
    assert_eq!(due(&hints, node(1)), (vec![reference(5, 1)], vec![Partition(2)]));
    assert_eq!(hints.counts().get(&node(1)), Some(&(1, 1)));
    assert_eq!(hints.take_partition(node(1)), Some(Partition(2)));
    hints.note(node(1), reference(2, 9));
    hints.finish_partition(node(1), Partition(2), true);
    assert_eq!(due(&hints, node(1)), (vec![reference(2, 9), reference(5, 1)], vec![]));
}

#[test]
fn a_record_whose_partition_is_missed_as_a_whole_meanwhile_does_not_wait_beside_it() {
    let hints = Hints::in_memory(10);
    hints.note(node(1), reference(2, 3));
    let taken = hints.take(node(1), 10);
    hints.note_whole(node(1), Partition(2));
    hints.put_back(node(1), &taken);
    assert_eq!(due(&hints, node(1)), (vec![], vec![Partition(2)]));
    assert_eq!(hints.state.lock().references.count(), 0);
}

#[test]
fn what_is_missed_again_while_it_is_delivered_outlasts_a_crash_after_the_delivery() {
    let disk = FaultyDisk::new(1);
    let hints = open(&disk, 10);
    hints.note(node(1), reference(2, 3));
    let taken = hints.take(node(1), 10);
    hints.note(node(1), reference(2, 3));
    hints.flush().expect("the disk works");
    hints.delivered(node(1), &taken);
    hints.flush().expect("the disk works");
    let hints = open(&disk.crash(), 10);
    assert_eq!(due(&hints, node(1)).0, [reference(2, 3)]);
}

#[test]
fn hints_outlast_a_crash_and_torn_ones_spoil_no_other() {
    let disk = FaultyDisk::new(1);
    let hints = open(&disk, 100);
    hints.note(node(1), reference(2, 3));
    hints.note(node(2), reference(4, 5));
    hints.flush().expect("the disk works");
    hints.delivered(node(2), &hints.take(node(2), 1));
    hints.note_whole(node(3), Partition(6));
    hints.flush().expect("the disk works");
    let file = disk.open("HINTS", false).expect("it is there");
    let size_bytes = file.size_bytes().expect("the disk works");
    file.write_at(&[7; 45], size_bytes).expect("the disk works");
    file.sync().expect("the disk works");
    let hints = open(&disk.crash(), 100);
    assert_eq!(due(&hints, node(1)).0, [reference(2, 3)]);
    assert_eq!(hints.targets(), [node(1), node(3)]);
    assert_eq!(due(&hints, node(3)).1, [Partition(6)]);
    hints.note(node(1), reference(3, 3));
    hints.flush().expect("the disk works");
    let hints = open(&disk.crash(), 100);
    assert_eq!(due(&hints, node(1)).0, [reference(2, 3), reference(3, 3)]);
}

#[test]
fn a_file_that_is_mostly_done_with_gets_small_again() {
    let disk = FaultyDisk::new(1);
    let hints = open(&disk, 100_000);
    for round in 0..3 {
        for identity in 0..20_000 {
            hints.note(node(1), reference(1, identity + round));
        }
        hints.flush().expect("the disk works");
        while let taken @ [_, ..] = &hints.take(node(1), 1_000)[..] {
            hints.delivered(node(1), taken);
        }
        hints.flush().expect("the disk works");
    }
    let file = disk.open("HINTS", false).expect("it is there");
    let size_bytes = file.size_bytes().expect("the disk works");
    assert!(size_bytes < 2_000_000, "{size_bytes} bytes for nothing");
}

#[test]
fn hints_that_could_not_be_written_are_written_later() {
    let disk = FaultyDisk::new(1);
    let hints = open(&disk, 100);
    hints.note(node(1), reference(2, 3));
    hints.flush().expect("the disk works");
    disk.set_faults(|faults| faults.failing_writes = 1);
    hints.note(node(1), reference(2, 4));
    assert!(hints.flush().is_err());
    hints.flush().expect("the disk works again");
    let hints = open(&disk.crash(), 100);
    assert_eq!(due(&hints, node(1)).0, [reference(2, 3), reference(2, 4)]);
}

#[test]
fn a_file_that_holds_no_hints_is_refused() {
    let disk = FaultyDisk::new(1);
    let file = disk.open("HINTS", true).expect("the disk works");
    file.write_at(&[b'x'; 64], 0).expect("the disk works");
    assert!(Hints::open(Arc::new(disk), ring_size(), 1).is_err());
}

proptest! {
    /// Bytes of any content after the file's header are read without harm, and whole entries among them
    /// count.
    #[test]
    fn bytes_that_are_no_hints_do_no_harm(
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        spoiled in 32..64_usize,
    ) {
        let disk = FaultyDisk::new(1);
        let hints = open(&disk, 100);
        hints.note(node(1), reference(2, 3));
        hints.note(node(1), reference(2, 4));
        hints.flush().expect("the disk works");
        let file = disk.open("HINTS", false).expect("it is there");
        file.write_at(&garbage, 96).expect("the disk works");
        let mut byte = [0];
        file.read_at(&mut byte, spoiled as u64).expect("the disk works");
        file.write_at(&[!byte[0]], spoiled as u64).expect("the disk works");
        let hints = open(&disk, 100);
        prop_assert_eq!(due(&hints, node(1)).0, [reference(2, 4)]);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Note(u8, u16, u64),
    Whole(u8, u16),
    Deliver(u8, usize, bool),
    DeliverWhole(u8, bool),
    Flush,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8, 0..4_u16, 0..6_u64).prop_map(|(to, at, id)| Step::Note(to, at, id)),
        1 => (0..3_u8, 0..4_u16).prop_map(|(to, at)| Step::Whole(to, at)),
        3 => (0..3_u8, 1..4_usize, any::<bool>()).prop_map(|(to, n, done)| Step::Deliver(to, n, done)),
        2 => (0..3_u8, any::<bool>()).prop_map(|(to, done)| Step::DeliverWhole(to, done)),
        2 => Just(Step::Flush),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    /// Compares hints with a model that keeps a set of records for each node. No record is due without a
    /// reason, except where it shares a partition with too many others; no record is forgotten.
    #[test]
    fn nothing_that_was_missed_is_forgotten(steps in prop::collection::vec(step(), 1..80)) {
        const COUNT_MAX: usize = 8;
        let disk = FaultyDisk::new(3);
        let mut hints = open(&disk, COUNT_MAX);
        let mut missed: BTreeSet<(u8, HintReference)> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Note(to, partition, identity) => {
                    hints.note(node(to), reference(partition, identity));
                    missed.insert((to, reference(partition, identity)));
                }
                Step::Whole(to, partition) => hints.note_whole(node(to), Partition(partition)),
                Step::Deliver(to, limit, true) => {
                    let taken = hints.take(node(to), limit);
                    hints.delivered(node(to), &taken);
                    for each in taken {
                        missed.remove(&(to, each));
                    }
                }
                Step::Deliver(to, limit, false) => {
                    hints.put_back(node(to), &hints.take(node(to), limit));
                }
                Step::DeliverWhole(to, done) => {
                    if let Some(partition) = hints.take_partition(node(to)) {
                        hints.finish_partition(node(to), partition, done);
                        missed.retain(|(other, (at, _))| !done || *other != to || *at != partition);
                    }
                }
                Step::Flush => hints.flush().expect("the disk works"),
                Step::Restart => {
                    hints.flush().expect("the disk works");
                    hints = open(&disk.crash(), COUNT_MAX);
                }
            }
            prop_assert!(hints.state.lock().references.count() <= COUNT_MAX);
            for (to, (partition, identity)) in &missed {
                let (references, whole) = due(&hints, node(*to));
                let is_due = references.contains(&(*partition, *identity)) || whole.contains(partition);
                prop_assert!(is_due, "node {to} misses {partition:?} {identity:?}");
            }
        }
    }
}
