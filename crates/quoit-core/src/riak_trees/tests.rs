use super::kept::{KeptLeaf, KeptPart, PartPass};
use super::*;
use proptest::prelude::*;
use quoit_riak::TreeEntry;
use quoit_seam::FaultyDisk;
use quoit_store::compare::Leaf;
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::BTreeSet;

const NAME: PartName = PartName { n_val: 3, partition: Partition(5) };
const NOW_SECS: u64 = 1_700_000_000;
/// Number of tags in a page, small enough for several pages.
const PAGE_COUNT: usize = 700;

/// Leaves in the index of an engine.
type Index = BTreeSet<Leaf>;

fn leaf(tag: u64, digest: u64) -> Leaf {
    Leaf { tag: Tag::from_number(tag), digest, tombstone: digest.is_multiple_of(7) }
}

/// The entry of a record. Each version has another one.
fn entry_of(leaf: Leaf) -> TreeEntry {
    let Leaf { tag, digest, tombstone } = leaf;
    let segment = (tag.number() as u32).wrapping_mul(0x9e37_79b9);
    TreeEntry { segment, value: (digest as u32) << 1 | u32::from(tombstone) }
}

fn kept(leaf: Leaf) -> KeptLeaf {
    KeptLeaf { leaf, entry: entry_of(leaf) }
}

/// A node with one part.
struct PartOnDisk {
    disk: FaultyDisk,
    trees: KeptTrees,
    part: KeptPart,
}

impl PartOnDisk {
    fn open(disk: FaultyDisk) -> Self {
        let trees = KeptTrees::open(Arc::new(disk.clone()), NOW_SECS);
        Self { disk, trees, part: KeptPart::default() }
    }

    /// Runs a pass. Returns what it has shown, and the number of records that were read.
    fn pass(&mut self, index: &Index) -> (Vec<(Tag, TreeEntry)>, usize) {
        let (file, writer, generation) = self.trees.files(NAME, self.part.wants_file());
        let mut pass = PartPass::begin(&mut self.part, file, writer);
        let leaves: Vec<Leaf> = index.iter().copied().collect();
        let (mut shown, mut read_count) = (Vec::new(), 0);
        // A page must end with the last leaf of a tag.
        let tags: Vec<&[Leaf]> = leaves.chunk_by(|one, other| one.tag == other.tag).collect();
        for page in tags.chunks(PAGE_COUNT) {
            let read = |changed: &[Tag]| {
                let of_tags = leaves.iter().filter(|leaf| changed.binary_search(&leaf.tag).is_ok());
                let read: Vec<KeptLeaf> = of_tags.map(|leaf| kept(*leaf)).collect();
                read_count += read.len();
                Ok::<_, StoreError>(read)
            };
            let mut see = |tag, entry| shown.push((tag, entry));
            pass.follow(&page.concat(), read, &mut see).expect("nothing fails");
        }
        pass.end(&mut self.part, |new_name| self.trees.put_in_place(NAME, new_name, generation));
        (shown, read_count)
    }

    /// Runs a pass and checks that it shows the index. Returns the number of records that were read.
    fn pass_rightly(&mut self, index: &Index) -> usize {
        let (shown, read_count) = self.pass(index);
        let expected: Vec<_> = index.iter().map(|leaf| (leaf.tag, entry_of(*leaf))).collect();
        assert_eq!(shown, expected);
        read_count
    }

    /// The part after a kill and a restart of its node.
    fn restart(self) -> Self {
        Self::open(self.disk.kill())
    }
}

fn write(index: &mut Index, tags: std::ops::Range<u64>, digest: u64) {
    index.retain(|leaf| !tags.contains(&leaf.tag.number()));
    index.extend(tags.map(|tag| leaf(tag, digest)));
}

#[test]
fn a_record_is_read_once_for_each_change_also_across_restarts() {
    let mut index: Index = (0..6_000).map(|tag| leaf(tag, 1)).collect();
    let mut node = PartOnDisk::open(FaultyDisk::new(1));
    assert_eq!([node.pass_rightly(&index), node.pass_rightly(&index)], [6_000, 0]);
    assert!(!node.part.has_fresh(), "all is in the file");
    node = node.restart();
    assert_eq!(node.pass_rightly(&index), 0);

    for tag in [0, 700, 5_999] {
        index.remove(&leaf(tag, 1));
        index.insert(leaf(tag, 2));
    }
    index.insert(leaf(9_000, 3));
    index.remove(&leaf(4, 1));
    assert_eq!([node.pass_rightly(&index), node.pass_rightly(&index)], [4, 0]);
    node = node.restart();
    assert_eq!(node.pass_rightly(&index), 4, "the file is not written for so few");

    write(&mut index, 1_000..2_500, 2);
    let reads: Vec<usize> = (0..3).map(|_| node.pass_rightly(&index)).collect();
    assert_eq!(reads, [1_500, 0, 0]);
    assert!(!node.part.has_fresh(), "the second pass has written the file");
    assert_eq!(node.restart().pass_rightly(&index), 0);
}

#[test]
fn a_disk_that_is_full_costs_reading_again() {
    let index: Index = (0..3_000).map(|tag| leaf(tag, 1)).collect();
    let disk = FaultyDisk::new(1);
    disk.set_faults(|faults| faults.capacity_bytes = Some(50_000));
    let mut node = PartOnDisk::open(disk.clone());
    assert_eq!([node.pass_rightly(&index), node.pass_rightly(&index)], [3_000, 3_000]);
    disk.set_faults(|faults| faults.capacity_bytes = None);
    assert_eq!([node.pass_rightly(&index), node.pass_rightly(&index)], [3_000, 0]);
}

#[test]
fn a_pass_that_began_before_all_was_dropped_leaves_no_file() {
    let mut node = PartOnDisk::open(FaultyDisk::new(1));
    drop(node.trees.part(NAME, NOW_SECS));
    let (file, writer, generation) = node.trees.files(NAME, true);
    let pass = PartPass::begin(&mut node.part, file, writer);
    node.trees.forget();
    pass.end(&mut node.part, |new_name| node.trees.put_in_place(NAME, new_name, generation));
    assert_eq!(node.disk.list().expect("the disk works"), Vec::<String>::new());
    assert_eq!(node.trees.figures(), RiakTreeFigures::default());
}

#[test]
fn a_part_follows_for_an_hour_and_its_file_stays_for_two_days() {
    let index: Index = (0..10).map(|tag| leaf(tag, 1)).collect();
    let mut node = PartOnDisk::open(FaultyDisk::new(1));
    drop(node.trees.part(NAME, NOW_SECS));
    node.pass_rightly(&index);
    let files = |node: &PartOnDisk| node.disk.list().expect("the disk works");
    assert_eq!(node.trees.due(NOW_SECS + FOLLOWED_SECS), [(NAME, true)]);
    assert!(node.trees.note_bytes(NAME, 100));
    let unasked = NOW_SECS + FOLLOWED_SECS + 1;
    assert_eq!(node.trees.due(unasked), [(NAME, false)], "it has something in memory");
    assert!(node.trees.note_bytes(NAME, 0));
    assert_eq!(node.trees.due(unasked), []);
    node = node.restart();
    assert_eq!((node.trees.due(NOW_SECS), files(&node)), (vec![], vec![NAME.file_name()]));
    assert_eq!(node.trees.due(NOW_SECS + KEPT_SECS + 1), []);
    assert_eq!(files(&node), Vec::<String>::new());
}

#[test]
fn memory_of_all_parts_together_is_bounded() {
    let trees = KeptTrees::default();
    let names = [0, 1, 2].map(|partition| PartName { partition: Partition(partition), ..NAME });
    names.iter().for_each(|name| drop(trees.part(*name, NOW_SECS)));
    assert!(trees.note_bytes(names[0], MEMORY_BYTES_MAX / 2));
    assert!(trees.note_bytes(names[1], MEMORY_BYTES_MAX / 2));
    assert!(!trees.note_bytes(names[2], 1), "the third one has no room");
    assert_eq!(trees.figures().memory_bytes, MEMORY_BYTES_MAX as u64);
}

#[derive(Clone, Debug)]
enum Step {
    /// Writes a new version of a number of records, beginning at a tag.
    Write(u64, u64, u64),
    Remove(u64),
    /// Adds a second record with the same tag.
    Twin(u64),
    Pass,
    Kill,
    LosePower,
    /// Flips a bit of the file.
    Flip(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..3_000, 0_u64..1_600, 1_u64..50)
            .prop_map(|(from, count, digest)| Step::Write(from, count, digest)),
        1 => (0_u64..3_000).prop_map(Step::Remove),
        1 => (0_u64..3_000).prop_map(Step::Twin),
        4 => Just(Step::Pass),
        1 => Just(Step::Kill),
        1 => Just(Step::LosePower),
        1 => any::<usize>().prop_map(Step::Flip),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_pass_shows_the_index_whatever_has_happened(steps in prop::collection::vec(any_step(), 1..25)) {
        let mut index = Index::new();
        let mut node = PartOnDisk::open(FaultyDisk::new(steps.len() as u64));
        for step in steps {
            match step {
                Step::Write(from, count, digest) => write(&mut index, from..from + count, digest),
                Step::Remove(tag) => index.retain(|leaf| leaf.tag.number() != tag),
                Step::Twin(tag) => drop(index.insert(leaf(tag, 1_000 + tag))),
                Step::Pass => {
                    node.pass_rightly(&index);
                }
                Step::Kill => node = node.restart(),
                Step::LosePower => node = PartOnDisk::open(node.disk.crash()),
                Step::Flip(place) => {
                    let file = NAME.file_name();
                    if let Some(bytes) = node.disk.bytes(&file).filter(|bytes| !bytes.is_empty()) {
                        node.disk.flip_bit(&file, place % bytes.len(), (place % 8) as u32);
                    }
                }
            }
        }
        node.pass_rightly(&index);
        // The pass has written damaged entries anew, so the next one reads nothing.
        prop_assert!(node.pass(&index).1 == 0);
    }
}
