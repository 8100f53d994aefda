#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use proptest::prelude::*;
use quoit_model::store_opening::StoreId;
use std::io::Cursor;
use xxhash_rust::xxh3::xxh3_64;

const STORE_ID: StoreId = StoreId(77);
const SIDE: batch::KeyspaceNumber = batch::KeyspaceNumber(5);

/// A batch of a journal: the first and last group in it, the last group that was synced before it, and its
/// body.
#[derive(Clone, Debug)]
struct Written {
    first: u64,
    group: u64,
    synced: u64,
    body: Vec<u8>,
}

impl Written {
    fn sequence(&self) -> u64 {
        1_000 + 3 * self.group
    }

    /// The batch as `fjall` writes it: the mark and one record.
    fn bytes(&self) -> Vec<u8> {
        let sequence = self.sequence();
        let mark = Mark {
            first: self.first,
            group: self.group,
            synced: self.synced,
            sequence_min: sequence - 1,
        };
        let alone = batch::mark_alone(SIDE, &mark, sequence, STORE_ID);
        let (item, key) = (&alone[13..alone.len() - 13], self.group.to_be_bytes());
        let size = (self.body.len() as u32).to_le_bytes();
        let head = [&[2, 0, 0][..], &1_u64.to_le_bytes(), &[8, 0], &size, &size].concat();
        let items = [item, &head, &key, &self.body].concat();
        let start = [&[1][..], &2_u32.to_le_bytes(), &sequence.to_le_bytes()].concat();
        [&start[..], &items, &[3], &xxh3_64(&items).to_le_bytes(), b"FJL\x03"].concat()
    }
}

/// Batches of one group each, starting with group `first`. The mark of group g names g - 1 -
/// `synced_before` as the last synced group.
fn batches(first: u64, count: u64, synced_before: u64) -> Vec<Written> {
    let batch = |group: u64| Written {
        first: group,
        group,
        synced: group.saturating_sub(1 + synced_before),
        body: vec![group as u8 | 1; (group * 7 % 23) as usize],
    };
    (first..first + count).map(batch).collect()
}

fn bytes_of(batches: &[Written]) -> Vec<u8> {
    batches.iter().flat_map(Written::bytes).collect()
}

/// Offsets of the batches of a journal, and its end.
fn bounds_of(batches: &[Written]) -> Vec<usize> {
    let mut bounds = vec![0];
    for batch in batches {
        bounds.push(bounds[bounds.len() - 1] + batch.bytes().len());
    }
    bounds
}

fn surveys_of(journals: &[Vec<u8>]) -> Vec<Survey> {
    let mut above = 0;
    let of_one = |journal: &Vec<u8>| {
        let found = survey(&mut Cursor::new(journal), above, STORE_ID).unwrap();
        above = above.max(found.last_group().unwrap_or(0));
        found
    };
    journals.iter().map(of_one).collect()
}

fn known(clean: bool, synced: u64) -> JournalSurroundings {
    JournalSurroundings { clean, synced, store_id: STORE_ID }
}

/// Repairs the journals, and checks that a second repair changes nothing.
fn repaired(journals: &[Vec<u8>], known: JournalSurroundings) -> (Vec<Vec<u8>>, JournalVerdict) {
    let verdict = judge(&surveys_of(journals), known);
    let apply = |(journal, rewrite): (&Vec<u8>, &JournalRewrite)| {
        let mut made = Vec::new();
        for part in &rewrite.parts {
            write_part(&mut Cursor::new(journal), part, &mut made).unwrap();
        }
        if rewrite.is_unchanged {
            assert!(journal.starts_with(&made), "it is not as it is");
        }
        made
    };
    let made: Vec<Vec<u8>> = journals.iter().zip(&verdict.rewrites).map(apply).collect();
    let tail_is_lost = verdict.last_group.is_none_or(|last| last < verdict.synced);
    if !tail_is_lost {
        let again = judge(&surveys_of(&made), JournalSurroundings { clean: false, ..known });
        assert_eq!(again.lost, [], "it is missed again");
        assert!(again.rewrites.iter().all(|rewrite| rewrite.is_unchanged), "{again:?}");
        assert_eq!(again.last_group, verdict.last_group);
    }
    (made, verdict)
}

/// Groups of the batches in the journals that are as they were written, except for their sequences: a
/// repair may choose any sequence between those of the neighbouring batches.
fn groups_in(journals: &[Vec<u8>], written: &[Written]) -> Vec<u64> {
    let mut groups = Vec::new();
    for journal in journals {
        let mut left = &journal[..];
        while let Some(found) = batch::read(&mut &left[..], STORE_ID).unwrap() {
            let (whole, rest) = left.split_at(found.size_bytes as usize);
            let is_same = |each: &&Written| {
                let bytes = each.bytes();
                bytes[..5] == whole[..5] && bytes[13..] == whole[13..]
            };
            groups.extend(written.iter().filter(is_same).map(|each| each.group));
            left = rest;
        }
        assert!(left.iter().all(|byte| *byte == 0), "{} bytes behind the last batch", left.len());
    }
    groups
}

fn lost_count(verdict: &JournalVerdict) -> Option<u64> {
    verdict.lost.iter().map(|lost| lost.batch_count).sum()
}

/// Flips a byte at each offset of a journal in turn. `check` gets the number of the damaged batch, the
/// groups that are left, and the verdict.
fn flip_each(
    written: &[Written],
    zeros: usize,
    known: JournalSurroundings,
    mut check: impl FnMut(usize, Vec<u64>, &JournalVerdict),
) {
    let bounds = bounds_of(written);
    let whole = [bytes_of(written), vec![0; zeros]].concat();
    for at in 0..whole.len() {
        for by in [1, 0x80] {
            let mut journal = whole.clone();
            journal[at] ^= by;
            let batch = bounds.iter().filter(|bound| **bound <= at).count() - 1;
            let (made, verdict) = repaired(&[journal], known);
            check(batch, groups_in(&made, written), &verdict);
        }
    }
}

#[test]
fn a_flipped_byte_costs_the_batch_that_has_it_where_that_was_durable() {
    let written = batches(41, 9, 1);
    let last = 49;
    for (zeros, known) in
        [(0, known(false, last)), (300, known(false, last)), (300, known(true, last))]
    {
        flip_each(&written, zeros, known, |batch, groups, verdict| {
            let mut left: Vec<u64> = (41..=last).collect();
            let is_mended = groups.len() == left.len();
            if batch < written.len() && !is_mended {
                left.remove(batch);
                let is_known = batch > 0;
                assert_eq!(lost_count(verdict), is_known.then_some(1), "{verdict:?}");
                assert_eq!(verdict.lost.len(), 1);
            } else {
                assert_eq!(verdict.lost, []);
            }
            assert_eq!(groups, left, "batch {batch} was damaged");
            assert_eq!(verdict.torn.is_some(), batch == written.len(), "zeros are no batch");
        });
    }
}

#[test]
fn a_damaged_start_costs_nothing() {
    let written = batches(1, 4, 1);
    let bounds = bounds_of(&written);
    flip_each(&written, 0, known(false, 4), |_, _, _| {});
    for start in &bounds[..4] {
        for at in *start..start + 13 {
            let mut journal = bytes_of(&written);
            journal[at] ^= 0x80;
            let (made, verdict) = repaired(&[journal], known(false, 4));
            let made_starts = surveys_of(&made);
            assert_eq!(verdict.lost, []);
            assert_eq!(made_starts[0].last_group(), Some(4), "byte {at}");
            assert_eq!(made[0].len(), bounds[4]);
        }
    }
}

#[test]
fn what_no_sync_had_covered_ends_at_the_first_batch_that_is_not_whole() {
    // Both the batches' marks and the file say that groups 41 to 45 were synced.
    let mut written = batches(41, 9, 1);
    written.iter_mut().for_each(|batch| batch.synced = batch.synced.min(45));
    flip_each(&written, 200, known(false, 45), |batch, groups, verdict| {
        let all: Vec<u64> = (41..=49).collect();
        if groups == all {
            return;
        }
        let is_durable = batch < 5;
        assert_eq!(verdict.lost.len(), usize::from(is_durable), "{verdict:?}");
        let left: Vec<u64> = match is_durable {
            true => all.iter().copied().filter(|group| *group != 41 + batch as u64).collect(),
            false => all[..batch].to_vec(),
        };
        assert_eq!(groups, left, "batch {batch} was damaged");
    });
}

#[test]
fn later_batches_tell_what_was_synced_where_the_file_is_gone() {
    let written = batches(1, 6, 0);
    flip_each(&written, 0, known(false, 0), |batch, groups, verdict| {
        let is_last = batch == 5;
        if groups.len() < 6 {
            assert_eq!(groups.len(), 5);
            assert_eq!(
                verdict.lost.is_empty(),
                is_last,
                "nothing says that the last one was synced"
            );
        }
    });
}

#[test]
fn a_journal_that_is_shorter_than_what_was_synced_is_a_loss() {
    let written = batches(11, 7, 2);
    let bounds = bounds_of(&written);
    for synced in [0, 10, 13, 17] {
        for clean in [false, true] {
            let whole = bytes_of(&written);
            for len in 0..=whole.len() {
                let (made, verdict) = repaired(&[whole[..len].to_vec()], known(clean, synced));
                let left_count = bounds.iter().filter(|bound| **bound <= len).count() as u64 - 1;
                let groups: Vec<u64> = (11..11 + left_count).collect();
                assert_eq!(groups_in(&made, &written), groups);
                // The remaining batches also tell what was synced, and so does the start of a truncated
                // one.
                let told = |count: u64| {
                    written[..count.min(7) as usize]
                        .last()
                        .map_or(0, |last| last.synced)
                        .max(synced)
                };
                assert!((told(left_count)..=told(left_count + 1)).contains(&verdict.synced));
                if left_count > 0 && synced > 0 {
                    let missing = verdict.synced.saturating_sub(10 + left_count);
                    assert_eq!(lost_count(&verdict), Some(missing), "at {len}");
                }
            }
        }
    }
}

#[test]
fn sealed_journals_are_durable_whatever_was_said_to_be_synced() {
    let mut written = batches(1, 9, 0);
    written.iter_mut().for_each(|batch| batch.synced = 0);
    let (old, young) = written.split_at(5);
    let (old_bytes, young_bytes) = (bytes_of(old), bytes_of(young));
    let bounds = bounds_of(old);
    for at in 0..old_bytes.len() {
        let mut damaged = old_bytes.clone();
        damaged[at] ^= 0x20;
        let batch = bounds.iter().filter(|bound| **bound <= at).count() - 1;
        let journals = [damaged, young_bytes.clone()];
        let (made, verdict) = repaired(&journals, known(false, 0));
        let groups = groups_in(&made, &written);
        if groups.len() == 9 {
            assert_eq!(verdict.lost, []);
            continue;
        }
        let left: Vec<u64> = (1..=9).filter(|group| *group != 1 + batch as u64).collect();
        assert_eq!(groups, left, "byte {at}");
        assert_eq!(verdict.lost.len(), 1);
    }
    for len in bounds[1]..old_bytes.len() {
        let journals = [old_bytes[..len].to_vec(), young_bytes.clone()];
        let (made, verdict) = repaired(&journals, known(false, 0));
        let left_count = bounds.iter().filter(|bound| **bound <= len).count() as u64 - 1;
        assert_eq!(lost_count(&verdict), Some(5 - left_count));
        assert_eq!(groups_in(&made, &written).len() as u64, 4 + left_count);
    }
}

#[test]
fn batches_without_marks_are_durable_before_the_first_one_with_a_mark() {
    let unmarked: Vec<Vec<u8>> = (0..4_u64).map(|number| unmarked(100 + number)).collect();
    let marked = batches(1, 3, 0);
    let whole = [unmarked.concat(), bytes_of(&marked)].concat();
    let front_bytes = unmarked.concat().len();
    for at in 0..front_bytes {
        let mut journal = whole.clone();
        journal[at] ^= 0x40;
        let (made, verdict) = repaired(&[journal], known(false, 0));
        assert_eq!(groups_in(&made, &marked), [1, 2, 3], "byte {at}");
        let is_start = at % unmarked[0].len() < 13;
        assert!(verdict.lost.len() == 1 || is_start && verdict.lost.is_empty(), "{verdict:?}");
    }
    // Without marked batches, and after an unclean stop, unmarked batches end at the first torn one, as in
    // older releases.
    let mut torn = unmarked.concat();
    torn[unmarked[0].len() + 20] ^= 1;
    let (made, verdict) = repaired(&[torn.clone()], known(false, 0));
    assert_eq!((&made[0], &verdict.lost), (&unmarked[0], &vec![]));
    let (_, verdict) = repaired(&[torn], known(true, 0));
    assert_eq!(verdict.lost.len(), 1, "all was durable");
}

/// A batch without a mark, as older releases wrote it.
fn unmarked(sequence: u64) -> Vec<u8> {
    let head =
        [&[2, 0, 0][..], &1_u64.to_le_bytes(), &[1, 0], &[3, 0, 0, 0], &[3, 0, 0, 0]].concat();
    let item = [&head[..], b"kabc"].concat();
    let start = [&[1][..], &1_u32.to_le_bytes(), &sequence.to_le_bytes()].concat();
    [&start[..], &item, &[3], &xxh3_64(&item).to_le_bytes(), b"FJL\x03"].concat()
}

#[test]
fn a_journal_in_a_value_is_not_taken_for_a_part_of_the_journal() {
    let mut written = batches(20, 3, 0);
    // Bytes of the same store's journal, from groups before and after the enclosing batch.
    written[1].body = bytes_of(&batches(5, 2, 0));
    let bounds = bounds_of(&written);
    for at in bounds[1]..bounds[2] {
        let mut journal = bytes_of(&written);
        journal[at] ^= 4;
        let (made, verdict) = repaired(&[journal], known(false, 22));
        let groups = groups_in(&made, &written);
        assert!(
            groups == [20, 22] || groups == [20, 21, 22] || verdict.lost.is_empty(),
            "{groups:?}"
        );
    }
}

/// Keys that are put or removed in one batch.
type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The journal that `fjall` writes for the batches.
fn written_by_fjall(directory: &Path, batches: &[Writes]) -> PathBuf {
    let database = Database::builder(directory).open().unwrap();
    let keyspace = database.keyspace("k", KeyspaceCreateOptions::default).unwrap();
    for (group, writes) in (1..).zip(batches) {
        let mut batch = database.batch().durability(Some(PersistMode::Buffer));
        let mark = Mark { first: group, group, synced: group - 1, sequence_min: database.seqno() };
        batch.insert(&keyspace, &b"g"[..], mark.encode(STORE_ID));
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(&keyspace, &key[..], &value[..]),
                None => batch.remove(&keyspace, &key[..]),
            }
        }
        batch.commit().unwrap();
    }
    paths_of(directory).unwrap().pop().expect("a journal")
}

fn writes() -> impl Strategy<Value = Vec<Writes>> {
    let key = prop::collection::vec(any::<u8>(), 2..20);
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..9_000));
    prop::collection::vec(prop::collection::vec((key, value), 1..5), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_journal_of_fjall_is_whole_and_is_opened_again_after_damage_to_any_byte(
        batches in writes(), at: prop::sample::Index, by in 1..=255u8,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = written_by_fjall(directory.path(), &batches);
        let sound = check(directory.path(), false, STORE_ID).unwrap();
        prop_assert_eq!(sound.last_group(), Some(batches.len() as u64));
        prop_assert!(sound.loss().is_none() && sound.verdict.rewrites[0].is_unchanged);

        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        bytes[at.index(end)] ^= by;
        fs::write(&path, bytes).unwrap();
        let damaged = check(directory.path(), true, STORE_ID).unwrap();
        damaged.repair().unwrap();
        let again = check(directory.path(), false, STORE_ID).unwrap();
        prop_assert!(again.loss().is_none() && again.verdict.rewrites[0].is_unchanged);
        let opened = Database::builder(directory.path()).open().unwrap();
        let keyspace = opened.keyspace("k", KeyspaceCreateOptions::default).unwrap();
        let mark = keyspace.get(b"g").unwrap().and_then(|mark| Mark::read(&mark, STORE_ID));
        prop_assert_eq!(mark.map(|mark| mark.group), again.last_group());
    }

    #[test]
    fn the_next_batch_is_found_as_by_a_look_at_each_place(
        zeros in prop_oneof![0..200_usize, 262_000..262_300_usize],
        stretches in prop::collection::vec((prop::collection::vec(0..3_u8, 0..80), 1..9_u64), 0..6),
        from in 0..150_u64,
        above in 0..6_u64,
    ) {
        let mut journal = vec![0; zeros];
        for (noise, first) in stretches {
            let mark = Mark { first, group: first + 1, synced: 0, sequence_min: 1 };
            journal.extend(noise);
            let whole = batch::mark_alone(SIDE, &mark, 1_000, STORE_ID);
            // Every third batch is truncated.
            let end = if first % 3 == 0 { whole.len() / 2 } else { whole.len() };
            journal.extend(&whole[..end]);
        }
        let mut journal = Cursor::new(journal);
        let mut is_front = |place: &u64| {
            let mark = batch::front_at(&mut journal, *place, STORE_ID).unwrap();
            mark.is_some_and(|mark| mark.first > above)
        };
        let expected = (from..zeros as u64 + 2_000).find(|place| is_front(place));
        let search = batch::BatchSearch { from, above };
        prop_assert_eq!(batch::seek(&mut journal, search, STORE_ID).unwrap(), expected);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
        surveys_of(&[bytes.clone(), [&[1][..], &bytes].concat()]);
    }
}
