use super::*;
use crate::history::{
    Entry, FoundValue, Listing, ListingResult, Outcome, Read, ReadNumber, Write, WriteKind,
    WriteNumber,
};
use crate::policy::Policy;
use proptest::prelude::*;
use std::collections::BTreeSet;

const KEY: KeyNumber = KeyNumber(0);

/// A history of one key that a test writes step by step. Each step takes a microsecond.
struct Script {
    history: History,
    now_us: u64,
}

impl Script {
    fn new(policy: Policy) -> Self {
        let history = History { keys: vec![policy], ..History::default() };
        Self { history, now_us: 0 }
    }

    fn tick(&mut self) -> u64 {
        self.now_us += 1;
        self.now_us
    }

    fn begin(&mut self, kind: WriteKind, context: Option<ReadNumber>) -> WriteNumber {
        let start_us = self.tick();
        self.history.begin_write(Write {
            key: KEY,
            cluster: 0,
            kind,
            context,
            start_us,
            end_us: u64::MAX,
            outcome: Outcome::Unknown,
            dw: 2,
            is_strict: true,
            expires_us: None,
        })
    }

    fn write(&mut self, kind: WriteKind, context: Option<ReadNumber>) -> WriteNumber {
        let number = self.begin(kind, context);
        let now_us = self.tick();
        self.history.end_write(number, now_us, Outcome::Acknowledged);
        number
    }

    fn put(&mut self, context: Option<ReadNumber>) -> WriteNumber {
        self.write(WriteKind::Put, context)
    }

    fn read(&mut self, reader: Reader, found: impl IntoIterator<Item = FoundValue>) -> ReadNumber {
        let (start_us, end_us) = (self.tick(), self.tick());
        let found = found.into_iter().collect();
        self.history.add_read(Read { key: KEY, reader, start_us, end_us, found })
    }

    fn finds(&mut self, numbers: impl IntoIterator<Item = WriteNumber>) -> ReadNumber {
        self.read(Reader::Final, numbers.into_iter().map(FoundValue::Value))
    }

    fn lists(
        &mut self,
        listed: ListingResult,
        keys_throughout: impl IntoIterator<Item = KeyNumber>,
    ) {
        self.lists_with(listed, keys_throughout, []);
    }

    fn lists_with(
        &mut self,
        listed: ListingResult,
        keys_throughout: impl IntoIterator<Item = KeyNumber>,
        entries_throughout: impl IntoIterator<Item = Entry>,
    ) {
        let (start_us, end_us) = (self.tick(), self.tick());
        let (policy, node) = (self.history.keys[0], "n1".to_owned());
        let keys_throughout = keys_throughout.into_iter().collect();
        let entries_throughout = entries_throughout.into_iter().collect();
        let listing =
            Listing { policy, node, start_us, end_us, listed, keys_throughout, entries_throughout };
        self.history.listings.push(listing);
    }

    fn fault(&self) -> Option<ViolationKind> {
        check(&self.history).err().map(|violation| violation.fault)
    }
}

fn tombstone(counter: u64) -> FoundValue {
    FoundValue::Tombstone(b"actor".to_vec(), counter)
}

#[test]
fn a_write_that_is_neither_there_nor_replaced_is_lost() {
    let mut script = Script::new(Policy::Siblings);
    let (one, other) = (script.put(None), script.put(None));
    script.finds([one, other]);
    assert_eq!(script.fault(), None);
    script.finds([one]);
    assert_eq!(script.fault(), Some(ViolationKind::Lost));
}

#[test]
fn a_listing_shows_what_was_there_and_nothing_that_nobody_wrote() {
    let keys = |keys: &[KeyNumber]| ListingResult::Keys(keys.to_vec());
    let buckets =
        |names: &[&[u8]]| ListingResult::Buckets(names.iter().map(|name| name.to_vec()).collect());
    let fault_of = |is_written: bool, listed: ListingResult, keys_throughout: &[KeyNumber]| {
        let mut script = Script::new(Policy::Siblings);
        if is_written {
            script.put(None);
        }
        script.lists(listed, keys_throughout.iter().copied());
        script.fault()
    };
    let wrong = Some(ViolationKind::WrongListing);
    assert_eq!(fault_of(true, keys(&[KEY]), &[KEY]), None);
    assert_eq!(fault_of(true, keys(&[]), &[KEY]), wrong, "it is left out");
    assert_eq!(fault_of(true, keys(&[KEY]), &[]), None, "some have it");
    assert_eq!(fault_of(true, keys(&[KEY, KEY]), &[KEY]), wrong, "it is there twice");
    assert_eq!(fault_of(false, keys(&[KEY]), &[]), wrong, "nobody wrote it");
    assert_eq!(fault_of(true, keys(&[KEY, KeyNumber(7)]), &[KEY]), wrong, "there is no such key");
    assert_eq!(fault_of(true, buckets(&[b"bucket"]), &[KEY]), None);
    assert_eq!(fault_of(true, buckets(&[]), &[KEY]), wrong, "the bucket is left out");
    assert_eq!(fault_of(true, buckets(&[b"bucket", b"other"]), &[KEY]), wrong);
    assert_eq!(fault_of(false, buckets(&[b"bucket"]), &[]), wrong);
}

#[test]
fn a_query_finds_what_was_there_and_nothing_that_nobody_wrote() {
    let fault_of = |entries: &[Entry], entries_throughout: &[Entry]| {
        let mut script = Script::new(Policy::Siblings);
        let (plain, indexed) = (script.put(None), script.put(None));
        assert_eq!((plain, indexed), (WriteNumber(0), WriteNumber(1)));
        script.lists_with(
            ListingResult::Entries(entries.to_vec()),
            [],
            entries_throughout.iter().copied(),
        );
        script.fault()
    };
    let (entry, wrong) = ((WriteNumber(1), KEY), Some(ViolationKind::WrongListing));
    assert_eq!(fault_of(&[entry], &[entry]), None);
    assert_eq!(fault_of(&[entry], &[]), None, "some have it");
    assert_eq!(fault_of(&[], &[]), None, "nobody is known to have it");
    assert_eq!(fault_of(&[], &[entry]), wrong, "it is left out");
    assert_eq!(fault_of(&[entry, entry], &[entry]), wrong, "it is there twice");
    assert_eq!(fault_of(&[(WriteNumber(0), KEY)], &[]), wrong, "the write made no entry");
    assert_eq!(fault_of(&[(WriteNumber(5), KEY)], &[]), wrong, "there is no such write");
    assert_eq!(fault_of(&[(WriteNumber(1), KeyNumber(7))], &[]), wrong, "it was another key");
}

#[test]
fn a_listing_may_lack_what_is_being_deleted() {
    let mut script = Script::new(Policy::Siblings);
    script.put(None);
    script.write(WriteKind::Delete, None);
    script.put(None);
    script.lists(ListingResult::Keys(Vec::new()), []);
    assert_eq!(script.fault(), None, "nobody is known to have it");
    let delete = script.begin(WriteKind::Delete, None);
    script.lists(ListingResult::Keys(Vec::new()), [KEY]);
    assert_eq!(script.fault(), None, "it may be gone");
    let now_us = script.tick();
    script.history.end_write(delete, now_us, Outcome::Acknowledged);
    script.lists(ListingResult::Keys(Vec::new()), [KEY]);
    assert_eq!(script.fault(), Some(ViolationKind::WrongListing), "it was there after the delete");
}

#[test]
fn a_replaced_write_may_go_and_may_not_come_back() {
    let mut script = Script::new(Policy::Siblings);
    let old = script.put(None);
    let context = script.finds([old]);
    let new = script.put(Some(context));
    script.finds([new]);
    assert_eq!(script.fault(), None);
    script.finds([old]);
    assert_eq!(script.fault(), Some(ViolationKind::Resurrected));
}

#[test]
fn a_value_beside_the_one_that_replaced_it_is_a_false_sibling() {
    let mut script = Script::new(Policy::Siblings);
    let old = script.put(None);
    let context = script.finds([old]);
    let new = script.put(Some(context));
    script.read(Reader::Client, [FoundValue::Value(old), FoundValue::Value(new)]);
    assert_eq!(script.fault(), Some(ViolationKind::FalseSiblings));
}

#[test]
fn a_deleted_value_stays_deleted_before_and_after_its_tombstone_goes() {
    let mut script = Script::new(Policy::Siblings);
    let value = script.put(None);
    let context = script.finds([value]);
    script.write(WriteKind::Delete, Some(context));
    script.read(Reader::Final, [tombstone(7)]);
    script.read(Reader::Final, []);
    assert_eq!(script.fault(), None);
    script.finds([value]);
    assert_eq!(script.fault(), Some(ViolationKind::Resurrected));
}

#[test]
fn a_value_is_there_until_it_expires_and_not_a_second_later_unless_it_stands_beside_a_living_one() {
    let fault_of = |now_us: u64, shows: fn(WriteNumber, WriteNumber) -> Vec<WriteNumber>| {
        let mut script = Script::new(Policy::Siblings);
        let (expiring, other) = (script.put(None), script.put(None));
        script.history.writes[expiring.0 as usize].expires_us = Some(500);
        script.history.writes[other.0 as usize].expires_us = Some(5_000_000);
        script.now_us = now_us;
        script.finds(shows(expiring, other));
        script.fault()
    };
    assert_eq!(fault_of(10, |expiring, other| vec![expiring, other]), None);
    assert_eq!(fault_of(10, |_, other| vec![other]), Some(ViolationKind::Lost));
    assert_eq!(fault_of(600, |_, other| vec![other]), None);
    assert_eq!(fault_of(2_000_000, |expiring, other| vec![expiring, other]), None);
    assert_eq!(fault_of(7_000_000, |_, _| vec![]), None);
    assert_eq!(fault_of(7_000_000, |_, other| vec![other]), Some(ViolationKind::Resurrected));
}

#[test]
fn a_delete_takes_only_what_its_reader_was_shown() {
    let mut script = Script::new(Policy::Siblings);
    let seen = script.put(None);
    let context = script.finds([seen]);
    let unseen = script.put(None);
    script.write(WriteKind::Delete, Some(context));
    script.read(Reader::Final, [FoundValue::Value(unseen), tombstone(9)]);
    assert_eq!(script.fault(), None);
    script.read(Reader::Final, [tombstone(9)]);
    assert_eq!(script.fault(), Some(ViolationKind::Lost));
}

#[test]
fn nothing_is_there_that_nobody_wrote() {
    let foreign = FoundValue::Foreign("garbage".to_owned());
    for found in [FoundValue::Value(WriteNumber(5)), foreign, tombstone(1)] {
        let mut script = Script::new(Policy::Latest);
        script.put(None);
        script.read(Reader::Client, [found]);
        assert_eq!(script.fault(), Some(ViolationKind::Fabricated));
    }
    let mut script = Script::new(Policy::Siblings);
    let refused = script.begin(WriteKind::Put, None);
    script.history.end_write(refused, 9, Outcome::Refused);
    script.read(Reader::Client, [FoundValue::Value(refused)]);
    assert_eq!(script.fault(), Some(ViolationKind::Fabricated));
}

#[test]
fn a_write_whose_outcome_is_unknown_may_be_there_or_not() {
    for shows in [false, true] {
        let mut script = Script::new(Policy::Siblings);
        let unknown = script.begin(WriteKind::Put, None);
        let known = script.put(None);
        script.finds(if shows { vec![known, unknown] } else { vec![known] });
        assert_eq!(script.fault(), None);
    }
}

#[test]
fn a_value_under_two_events_may_stay_beside_what_replaced_it_unless_writes_are_made_once() {
    let mut script = Script::new(Policy::Siblings);
    let old = script.put(None);
    let context = script.finds([old]);
    let new = script.put(Some(context));
    let events = [(vec![1], 1), (vec![2], 1)];
    script.history.events.insert(old, events.into());
    script.finds([old, new]);
    assert_eq!(script.fault(), None);
    script.history.writes_are_made_once = true;
    assert_eq!(script.fault(), Some(ViolationKind::FalseSiblings));
}

#[test]
fn a_late_value_that_no_read_has_shown_may_come_back_under_another_event() {
    let fault_of = |time_us: u64, is_shown: bool, are_made_once: bool| {
        let mut script = Script::new(Policy::Siblings);
        script.history.writes_are_made_once = are_made_once;
        let value = script.begin(WriteKind::Put, None);
        script.now_us += time_us;
        script.history.end_write(value, script.now_us, Outcome::Acknowledged);
        if is_shown {
            script.finds([value]);
        }
        script.write(WriteKind::DeleteUnseen, None);
        script.finds([value]);
        script.fault()
    };
    let late_us = 1_000_000;
    assert_eq!(fault_of(late_us, false, false), None);
    assert_eq!(fault_of(late_us, true, false), Some(ViolationKind::Resurrected));
    assert_eq!(fault_of(late_us, false, true), Some(ViolationKind::Resurrected));
    assert_eq!(fault_of(10, false, false), Some(ViolationKind::Resurrected));
}

#[test]
fn a_majority_misses_only_what_a_disk_forgot_unnoticed_or_what_more_replicas_took() {
    let missed = |meanwhile: &dyn Fn(&mut Script)| {
        let mut script = Script::new(Policy::Siblings);
        script.put(None);
        meanwhile(&mut script);
        script.read(Reader::Strict, []);
        script.fault()
    };
    assert_eq!(
        missed(&|script| script.history.hardships.is_disk_damaged = true),
        Some(ViolationKind::Lost)
    );
    let notices = |script: &mut Script| {
        let now_us = script.tick();
        script.history.hardships.files_lost_us.push(now_us);
    };
    assert_eq!(
        missed(&notices),
        Some(ViolationKind::Lost),
        "a copy that has lost records does not count"
    );
    let forgets = |script: &mut Script| {
        notices(script);
        let now_us = script.tick();
        script.history.hardships.unnoticed_losses_us.push(now_us);
    };
    assert_eq!(missed(&forgets), None);
    let changes_to = |n_val: u32| {
        missed(&|script| {
            let now_us = script.tick();
            script.history.replica_counts.begin(Policy::Siblings, n_val, now_us);
        })
    };
    assert_eq!(changes_to(1), None);
    assert_eq!(
        changes_to(5),
        Some(ViolationKind::Lost),
        "added replicas do not count before they have all"
    );
    let changes_elsewhere = |script: &mut Script| {
        let now_us = script.tick();
        script.history.replica_counts.begin(Policy::Latest, 5, now_us);
    };
    assert_eq!(missed(&changes_elsewhere), Some(ViolationKind::Lost));
}

#[test]
fn only_reads_of_a_majority_have_to_show_what_was_acknowledged() {
    let mut script = Script::new(Policy::Siblings);
    script.put(None);
    script.read(Reader::Client, []);
    assert_eq!(script.fault(), None);
    script.read(Reader::Strict, []);
    assert_eq!(script.fault(), Some(ViolationKind::Lost));
}

#[test]
fn a_majority_that_stand_ins_may_be_part_of_shows_what_was_acknowledged_and_maybe_what_was_deleted()
{
    let mut script = Script::new(Policy::Siblings);
    let value = script.put(None);
    let context = script.finds([value]);
    script.write(WriteKind::Delete, Some(context));
    script.read(Reader::Majority, [FoundValue::Value(value)]);
    assert_eq!(script.fault(), None, "a stand-in may still have it");
    script.put(None);
    script.read(Reader::Majority, []);
    assert_eq!(script.fault(), Some(ViolationKind::Lost));
}

#[test]
fn what_was_not_synced_may_go_with_the_power() {
    let mut script = Script::new(Policy::Siblings);
    let number = script.put(None);
    script.finds([]);
    script.history.writes[number.0 as usize].dw = 0;
    assert_eq!(script.fault(), Some(ViolationKind::Lost), "no power was lost");
    script.history.hardships.power_losses_us.push(script.now_us);
    assert_eq!(script.fault(), None);
}

#[test]
fn a_delete_that_sees_for_itself_may_not_see_what_another_cluster_has() {
    let mut script = Script::new(Policy::Latest);
    let put = script.put(None);
    let delete = script.write(WriteKind::DeleteUnseen, None);
    script.read(Reader::Final, [FoundValue::Value(put)]);
    assert_eq!(script.fault(), Some(ViolationKind::Resurrected), "they were made in one cluster");
    script.history.writes[delete.0 as usize].cluster = 1;
    assert_eq!(script.fault(), None);
}

#[test]
fn a_delete_that_sees_for_itself_has_met_what_majorities_had_when_it_began() {
    let mut script = Script::new(Policy::Siblings);
    let put = script.put(None);
    let delete = script.write(WriteKind::DeleteUnseen, None);
    let beside = script.put(None);
    script.read(Reader::Strict, [FoundValue::Value(beside)]);
    assert_eq!(script.fault(), None);
    script.read(Reader::Strict, [FoundValue::Value(put), FoundValue::Value(beside)]);
    assert_eq!(script.fault(), Some(ViolationKind::Resurrected));
    script.history.writes[delete.0 as usize].is_strict = false;
    assert_eq!(script.fault(), None, "its read may have met stand-ins");
    script.history.writes[delete.0 as usize].is_strict = true;
    script.history.writes[put.0 as usize].outcome = Outcome::Unknown;
    assert_eq!(script.fault(), None, "the put may have been made after it");
}

#[test]
fn what_one_machine_may_have_alone_may_go_with_its_disk() {
    let mut script = Script::new(Policy::Siblings);
    let number = script.put(None);
    script.read(Reader::Union, []);
    script.history.hardships.is_disk_damaged = true;
    assert_eq!(script.fault(), Some(ViolationKind::Lost), "two primaries have synced it");
    script.history.writes[number.0 as usize].is_strict = false;
    assert_eq!(script.fault(), None);
    script.history.hardships.is_disk_damaged = false;
    assert_eq!(script.fault(), Some(ViolationKind::Lost), "its disk is good");
    script.history.hardships.losses_us.push(script.now_us);
    assert_eq!(script.fault(), None);
}

#[test]
fn a_writer_is_shown_its_own_write() {
    let mut script = Script::new(Policy::Siblings);
    let number = script.begin(WriteKind::Put, None);
    script.read(Reader::Writer(number), [FoundValue::Value(number)]);
    assert_eq!(script.fault(), None);
    script.read(Reader::Writer(number), []);
    assert_eq!(script.fault(), Some(ViolationKind::Lost));
}

#[test]
fn where_one_value_is_shown_it_is_the_later_one_if_clocks_are_right() {
    for policy in [Policy::Latest, Policy::LastWriteWins] {
        let mut script = Script::new(policy);
        let (old, new) = (script.put(None), script.put(None));
        script.finds([new]);
        assert_eq!(script.fault(), None);
        script.finds([old]);
        assert_eq!(script.fault(), Some(ViolationKind::Lost));
        script.history.hardships.are_clocks_wrong = true;
        assert_eq!(script.fault(), None);
        script.finds([old, new]);
        assert_eq!(script.fault(), Some(ViolationKind::FalseSiblings));
    }
}

#[test]
fn writers_of_what_is_written_once_replace_nothing() {
    let mut script = Script::new(Policy::WriteOnce);
    let first = script.put(None);
    let context = script.finds([first]);
    let second = script.put(Some(context));
    script.finds([first, second]);
    assert_eq!(script.fault(), None);
    script.finds([second]);
    assert_eq!(script.fault(), Some(ViolationKind::Lost));
}

/// Kind of a client's next request.
#[derive(Debug, Clone, Copy)]
enum ClientStep {
    Put { knowing: usize },
    Delete { knowing: usize },
    Read,
}

fn step() -> impl Strategy<Value = ClientStep> {
    prop_oneof![
        (0..8_usize).prop_map(|knowing| ClientStep::Put { knowing }),
        (0..8_usize).prop_map(|knowing| ClientStep::Delete { knowing }),
        Just(ClientStep::Read),
    ]
}

/// A value in the perfect store: its write, and the writes that it has replaced, including its own.
#[derive(Clone)]
struct Stored {
    number: WriteNumber,
    is_tombstone: bool,
    replaced: BTreeSet<WriteNumber>,
}

impl Stored {
    fn found(&self) -> FoundValue {
        if self.is_tombstone {
            tombstone(self.number.0.into())
        } else {
            FoundValue::Value(self.number)
        }
    }
}

/// Runs steps on a perfect store, which loses a sibling at the step `drops`. Returns the script, and true
/// if a sibling was lost.
fn run(steps: &[ClientStep], drops: Option<usize>) -> (Script, bool) {
    let mut script = Script::new(Policy::Siblings);
    let mut stored: Vec<Stored> = Vec::new();
    let mut shown: Vec<(ReadNumber, Vec<Stored>)> = Vec::new();
    let mut has_dropped = false;
    for (place, step) in steps.iter().enumerate() {
        let (kind, knowing) = match step {
            ClientStep::Put { knowing } => (WriteKind::Put, *knowing),
            ClientStep::Delete { knowing } => (WriteKind::Delete, *knowing),
            ClientStep::Read => {
                let read = script.read(Reader::Strict, stored.iter().map(Stored::found));
                shown.push((read, stored.clone()));
                continue;
            }
        };
        // Some clients know what an earlier read has shown, others nothing.
        let context = shown.iter().rev().nth(knowing);
        let number = script.write(kind, context.map(|(read, _)| *read));
        let values = context.map_or(&[][..], |(_, values)| values);
        let replaced = values.iter().flat_map(|value| &value.replaced).copied();
        let replaced: BTreeSet<_> = replaced.chain([number]).collect();
        stored.retain(|value| !replaced.contains(&value.number));
        stored.push(Stored { number, is_tombstone: kind.is_delete(), replaced });
        if drops == Some(place) && stored.len() > 1 && !stored[0].is_tombstone {
            stored.remove(0);
            has_dropped = true;
        }
    }
    script.read(Reader::Final, stored.iter().map(Stored::found));
    (script, has_dropped)
}

proptest! {
    #[test]
    fn a_perfect_store_raises_no_alarm(steps in proptest::collection::vec(step(), 1..40)) {
        let (script, _) = run(&steps, None);
        prop_assert_eq!(check(&script.history), Ok(()));
    }

    #[test]
    fn a_dropped_sibling_is_found(
        steps in proptest::collection::vec(step(), 1..40),
        drops in 0..40_usize,
    ) {
        // The history ends with the drop and has no deletes, which could explain the missing value.
        let mut steps = steps;
        steps.truncate(drops + 1);
        steps.retain(|step| !matches!(step, ClientStep::Delete { .. }));
        let last = steps.len().saturating_sub(1);
        let (script, has_dropped) = run(&steps, Some(last));
        prop_assert_eq!(check(&script.history).is_err(), has_dropped);
    }
}
