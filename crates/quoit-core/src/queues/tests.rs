//! Tests of source queues against a naive model, and across deaths of processes and machines.

use super::entry::{EntryReference, EntrySequence, QueuePriority, Visited};
use super::filter::QueueDefinition;
use super::journal::file_name;
use super::source_queues::{Lease, SourceQueueSettings, SourceQueues};
use crate::machine_boot::MachineBoot;
use bytes::Bytes;
use proptest::prelude::*;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_seam::FaultyDisk;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const QUEUES: [&str; 3] = ["all", "only_a", "blocked"];
const BUCKETS: [&str; 2] = ["a", "b"];

fn settings() -> SourceQueueSettings {
    let text = "all:any|only_a:bucketname.a|blocked:block_rtq";
    SourceQueueSettings {
        is_enabled: true,
        queues: QueueDefinition::read_list(text).0,
        object_count_max: 2,
        entry_count_max: 40,
        window_count_max: 4,
        ..SourceQueueSettings::default()
    }
}

fn open(disk: &FaultyDisk, boot: u64) -> SourceQueues {
    SourceQueues::open(Arc::new(disk.clone()), settings(), MachineBoot(boot)).expect("it opens")
}

fn takes(queue: usize, bucket: usize) -> bool {
    queue == 0 || (queue == 1 && bucket == 0)
}

fn key(bucket: usize, number: u64) -> Bytes {
    let mut encoded = Vec::new();
    let number = number.to_string();
    bucket_of(bucket).key(number.as_bytes()).encode_into(&mut encoded);
    encoded.into()
}

fn bucket_of(bucket: usize) -> BucketRef<'static> {
    BucketRef::untyped(BUCKETS[bucket].as_bytes())
}

fn number_of(key: &Bytes) -> u64 {
    let key = KeyRef::decode(key).expect("a key").key;
    std::str::from_utf8(key).ok().and_then(|text| text.parse().ok()).expect("a number")
}

fn push(queues: &SourceQueues, bucket: usize, number: u64) {
    let reference = EntryReference::Object(Bytes::from(number.to_string()));
    queues.push(bucket_of(bucket), key(bucket, number), reference, Visited::new(), number + 1);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Reference(usize, bool),
    Take(usize),
    TakeLeased(usize),
    Confirm(usize),
    DropLease,
    Suspend(usize, bool),
    Clear(usize),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let queue = || 0..QUEUES.len();
    let step = prop_oneof![
        12 => (0..2_usize).prop_map(Step::Write),
        3 => (queue(), any::<bool>()).prop_map(|(queue, folds)| Step::Reference(queue, folds)),
        4 => queue().prop_map(Step::Take),
        6 => queue().prop_map(Step::TakeLeased),
        4 => queue().prop_map(Step::Confirm),
        1 => Just(Step::DropLease),
        1 => (queue(), any::<bool>()).prop_map(|(queue, is)| Step::Suspend(queue, is)),
        1 => queue().prop_map(Step::Clear),
        2 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 0..300)
}

/// A model of a queue: numbers of waiting entries by priority (highest first), and of leased entries.
#[derive(Clone, Default)]
struct NaiveQueue {
    waiting: [VecDeque<u64>; 3],
    leased: Vec<(usize, u64)>,
    is_suspended: bool,
    discarded: u64,
}

impl NaiveQueue {
    fn push(&mut self, priority: usize, number: u64) {
        match !self.is_suspended && self.waiting[priority].len() < 40 {
            true => self.waiting[priority].push_back(number),
            false => self.discarded += 1,
        }
    }

    fn take(&mut self) -> Option<(usize, u64)> {
        (0..3).find_map(|priority| Some((priority, self.waiting[priority].pop_front()?)))
    }

    fn put_back(&mut self) {
        for (priority, number) in std::mem::take(&mut self.leased) {
            self.waiting[priority].push_back(number);
            self.waiting[priority].make_contiguous().sort_unstable();
        }
    }
}

/// Real queues and their models, side by side.
struct Pair {
    queues: Arc<SourceQueues>,
    naive: [NaiveQueue; 3],
    lease: Lease,
    taken: Vec<(usize, u64, EntrySequence)>,
    next: u64,
}

impl Pair {
    fn take(&mut self, queue: usize, leased: bool) {
        let lease = leased.then_some(&self.lease);
        let taken = self.queues.take(QUEUES[queue], lease, 1);
        let expected = self.naive[queue].take();
        let found = taken.as_ref().map(|(priority, entry)| {
            let place = QueuePriority::ALL.iter().position(|other| other == priority);
            (place.expect("a priority"), number_of(&entry.key))
        });
        assert_eq!(found, expected);
        if let (true, Some((_, entry)), Some(expected)) = (leased, taken, expected) {
            self.naive[queue].leased.push(expected);
            self.taken.push((queue, expected.1, entry.sequence));
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Write(bucket) => {
                push(&self.queues, bucket, self.next);
                for queue in (0..3).filter(|queue| takes(*queue, bucket)) {
                    self.naive[queue].push(0, self.next);
                }
                self.next += 1;
            }
            Step::Reference(queue, folds) => {
                let priority = if folds { QueuePriority::Fold } else { QueuePriority::FullSync };
                let keys = [key(0, self.next)];
                self.queues.push_references(QUEUES[queue], priority, keys, 1).expect("a queue");
                self.naive[queue].push(if folds { 2 } else { 1 }, self.next);
                self.next += 1;
            }
            Step::Take(queue) => self.take(queue, false),
            Step::TakeLeased(queue) => self.take(queue, true),
            Step::Confirm(queue) => {
                let Some(place) = self.taken.iter().position(|taken| taken.0 == queue) else {
                    return;
                };
                let (_, number, sequence) = self.taken.remove(place);
                self.queues.confirm(QUEUES[queue], &self.lease, &[sequence]);
                self.naive[queue].leased.retain(|(_, other)| *other != number);
            }
            Step::DropLease => {
                self.lease = self.queues.lease();
                self.taken.clear();
                self.naive.iter_mut().for_each(NaiveQueue::put_back);
            }
            Step::Suspend(queue, is) => {
                self.queues.suspend(QUEUES[queue], is).expect("a queue");
                self.naive[queue].is_suspended = is;
            }
            Step::Clear(queue) => {
                self.queues.clear(QUEUES[queue], self.next).expect("a queue");
                self.taken.retain(|taken| taken.0 != queue);
                let cleared = &mut self.naive[queue];
                cleared.waiting = Default::default();
                cleared.leased.clear();
            }
            Step::Flush => self.queues.flush().expect("the disk is well"),
        }
    }

    fn check(&self) {
        for status in self.queues.status() {
            let place = QUEUES.iter().position(|name| **name == status.name).expect("a queue");
            let naive = &self.naive[place];
            let lengths = status.lengths;
            let found = [lengths.real_time, lengths.full_sync, lengths.fold];
            assert_eq!(found, naive.waiting.each_ref().map(|waiting| waiting.len() as u64));
            assert_eq!(status.counts.discarded, naive.discarded);
            assert_eq!(status.unconfirmed_count, naive.leased.len() as u64);
        }
    }
}

fn check_against_model(queues: SourceQueues, steps: &[Step]) {
    let queues = Arc::new(queues);
    let lease = queues.lease();
    let mut pair = Pair { queues, naive: Default::default(), lease, taken: Vec::new(), next: 0 };
    for step in steps {
        pair.apply(step);
        pair.check();
    }
}

/// Settles losses, as a full-sync that finds nothing to repair does.
fn settle_losses(queues: &SourceQueues) {
    let _ = queues.take_loss();
    queues.settle_losses();
    queues.flush().expect("the disk is well");
}

/// Takes all entries that are left in a queue.
fn drain(queues: &SourceQueues, name: &str) -> Vec<u64> {
    std::iter::from_fn(|| queues.take(name, None, 1))
        .map(|(_, entry)| number_of(&entry.key))
        .collect()
}

/// Queues a tombstone of a mebibyte, all of whose bytes are the same.
fn push_long(queues: &SourceQueues, number: u8) {
    let reference = EntryReference::Tombstone(Bytes::from(vec![number; 1 << 20]));
    let (key, now_us) = (key(0, number.into()), u64::from(number) + 1);
    queues.push(bucket_of(0), key, reference, Visited::new(), now_us);
}

/// Counts errors that are logged.
#[derive(Default)]
struct ErrorCounter(Arc<AtomicUsize>);

impl Subscriber for ErrorCounter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Number of errors that are logged during the work.
fn errors_during(work: impl FnOnce()) -> usize {
    let counter = ErrorCounter::default();
    let count = Arc::clone(&counter.0);
    tracing::subscriber::with_default(counter, work);
    count.load(Ordering::Relaxed)
}

proptest! {
    #[test]
    fn queues_on_a_disk_do_what_naive_ones_do(steps in steps()) {
        let disk = Arc::new(FaultyDisk::new(1));
        check_against_model(SourceQueues::open(disk, settings(), MachineBoot(1)).expect("it opens"), &steps);
    }

    #[test]
    fn queues_in_memory_do_what_naive_ones_do(steps in steps()) {
        check_against_model(SourceQueues::in_memory(settings()), &steps);
    }

    #[test]
    fn nothing_that_is_not_confirmed_is_lost_when_the_process_is_killed(
        before in 0..40_u64,
        taken in 0..20_usize,
        confirmed in proptest::collection::vec(any::<bool>(), 20),
        flushes in any::<bool>(),
        after in 0..10_u64,
    ) {
        let disk = FaultyDisk::new(7);
        let open = |disk: &FaultyDisk| {
            let settings = SourceQueueSettings { entry_count_max: 100, ..settings() };
            let queues = SourceQueues::open(Arc::new(disk.clone()), settings, MachineBoot(1));
            queues.map(Arc::new).expect("it opens")
        };
        let queues = open(&disk);
        settle_losses(&queues);
        (0..before).for_each(|number| push(&queues, 0, number));
        let lease = queues.lease();
        let mut waiting: Vec<u64> = (0..before).collect();
        for is_confirmed in confirmed.iter().take(taken) {
            let Some((_, entry)) = queues.take("all", Some(&lease), 1) else { break };
            if *is_confirmed {
                queues.confirm("all", &lease, &[entry.sequence]);
                waiting.retain(|number| *number != number_of(&entry.key));
            }
        }
        if flushes {
            queues.flush().expect("the disk is well");
        }
        (before..before + after).for_each(|number| push(&queues, 0, number));
        waiting.extend(before..before + after);

        let killed = disk.kill();
        let queues = open(&killed);
        prop_assert!(!queues.take_loss(), "a killed process loses nothing");
        let left = drain(&queues, "all");
        prop_assert!(left.is_sorted(), "{left:?}");
        for number in &waiting {
            prop_assert!(left.contains(number), "{number} is lost: {left:?}");
        }
        prop_assert_eq!(drain(&queues, "only_a"), (0..before + after).collect::<Vec<u64>>());
    }
}

#[test]
fn a_copy_of_a_file_under_a_similar_name_is_not_read() {
    let disk = FaultyDisk::new(3);
    let queues = open(&disk, 1);
    (0..3).for_each(|number| push(&queues, 0, number));
    let killed = disk.kill();
    let bytes = killed.bytes(&file_name(1)).expect("the first file of the journal");
    killed.put("source-1", bytes);
    assert_eq!(drain(&open(&killed, 1), "all"), [0, 1, 2]);
}

#[test]
fn a_machine_that_dies_says_that_references_may_be_lost() {
    let disk = FaultyDisk::new(3);
    let queues = open(&disk, 1);
    settle_losses(&queues);
    (0..10).for_each(|number| push(&queues, 0, number));
    queues.flush().expect("the disk is well");
    let crashed = disk.crash();
    let queues = open(&crashed, 2);
    assert!(queues.take_loss(), "what was not synced may have gone");
    assert!(!queues.take_loss(), "a process is told once");
    queues.close().expect("the disk is well");
    let queues = open(&crashed, 3);
    assert!(queues.take_loss(), "no full-sync has looked for it yet");
    settle_losses(&queues);
    queues.close().expect("the disk is well");
    assert!(!open(&crashed, 4).take_loss(), "nothing was queued since it was closed");
}

#[test]
fn a_node_without_the_queues_of_a_former_process_says_that_references_may_be_lost() {
    let disk = FaultyDisk::new(4);
    let queues = open(&disk, 1);
    assert!(queues.take_loss(), "the disk may have been destroyed");
    drop(queues);
    let queues = open(&disk, 1);
    settle_losses(&queues);
    assert!(!open(&disk, 1).take_loss(), "now there is a former process");
    let idle = SourceQueueSettings { is_enabled: false, ..settings() };
    assert!(!SourceQueues::in_memory(idle).take_loss(), "nothing was queued ever");
}

#[test]
fn queues_go_on_in_memory_while_their_disk_is_full_and_a_restart_knows_that_they_did() {
    let disk = FaultyDisk::new(8);
    let is_full = |is_full: bool| {
        disk.set_faults(|faults| faults.capacity_bytes = is_full.then_some(0));
    };
    let queues = open(&disk, 1);
    settle_losses(&queues);
    (0..3).for_each(|number| push(&queues, 0, number));
    is_full(true);
    (3..6).for_each(|number| push(&queues, 0, number));
    assert!(queues.flush().is_err(), "the manifest has no room");
    assert_eq!(
        drain(&queues, "all"),
        [0, 1, 2, 3, 4, 5],
        "nothing is lost while the process lives"
    );
    drop(queues);

    let queues = open(&disk, 1);
    assert!(queues.take_loss(), "a killed process has lost what it had in memory");
    assert_eq!(drain(&queues, "only_a"), [0, 1, 2], "what was on the disk is there");
    assert_eq!(drain(&queues, "all"), [0, 1, 2], "the disk had no room for what was confirmed");
    is_full(false);
    push(&queues, 0, 6);
    queues.settle_losses();
    queues.flush().expect("there is room");
    let queues = open(&disk, 1);
    assert!(!queues.take_loss());
    assert_eq!(drain(&queues, "all"), [6]);
}

#[test]
fn files_that_are_not_needed_leave_a_full_disk() {
    let disk = FaultyDisk::new(9);
    let queues = Arc::new(open(&disk, 1));
    (0..20).for_each(|number| push_long(&queues, number));
    let before = queues.disk_bytes();
    disk.set_faults(|faults| faults.capacity_bytes = Some(0));
    assert_eq!((drain(&queues, "all").len(), drain(&queues, "only_a").len()), (20, 20));
    let _ = queues.flush();
    assert!(queues.disk_bytes() < before / 2, "{} of {before}", queues.disk_bytes());
}

#[test]
fn changes_by_command_outlast_the_process_and_win_over_the_configuration() {
    let disk = FaultyDisk::new(5);
    let open = |disk: &FaultyDisk| {
        SourceQueues::open(Arc::new(disk.clone()), settings(), MachineBoot(1)).expect("it opens")
    };
    let queues = open(&disk);
    assert_eq!(queues.register("new", "bucketprefix.x".parse().expect("a filter")), Ok(true));
    assert_eq!(queues.register("all", "block_rtq".parse().expect("a filter")), Ok(false));
    queues.delist("only_a").expect("a queue");
    queues.suspend("blocked", true).expect("a queue");
    assert!(queues.delist("only_a").is_err() && queues.clear("nothing", 1).is_err());
    let killed = disk.kill();
    let shown: Vec<String> = open(&killed)
        .status()
        .iter()
        .map(|queue| format!("{}:{} {}", queue.name, queue.filter, queue.is_suspended))
        .collect();
    assert_eq!(
        shown,
        ["all:block_rtq false", "blocked:block_rtq true", "new:bucketprefix.x false"]
    );
}

#[test]
fn a_stale_queue_stays_stale_until_an_operator_has_dealt_with_it() {
    let disk = FaultyDisk::new(6);
    let retention = std::time::Duration::from_secs(1);
    let open = |disk: &FaultyDisk| {
        let settings = SourceQueueSettings { retention, ..settings() };
        SourceQueues::open(Arc::new(disk.clone()), settings, MachineBoot(1)).expect("it opens")
    };
    let (sink, other) = ([1; 16], [2; 16]);
    let queues = open(&disk);
    queues.subscribe("all", Some(sink)).expect("a queue");
    push(&queues, 1, 0);
    assert!(queues.note_stale(1_000_000).is_empty());
    assert_eq!(queues.note_stale(2_000_000), ["all"]);
    queues.clear("all", 2_000_000).expect("a queue");
    queues.flush().expect("the disk takes it");
    let queues = open(&disk.kill());
    assert!(queues.is_stale("all"), "it stays so through clearing and a restart");
    let stale_for = |cluster| queues.stale_for(Some(cluster)).is_some();
    assert_eq!((stale_for(sink), stale_for(other)), (true, false));
    assert!(queues.stale_for(None).is_some());
    push(&queues, 1, 1);
    queues.accept_resurrection("all").expect("a queue");
    assert!(queues.note_stale(9_000_000).is_empty() && !queues.is_stale("all"));
    assert_eq!(drain(&queues, "all"), [1]);
    assert!(queues.note_stale(9_000_000).is_empty());
    push(&queues, 1, 2);
    assert_eq!(queues.note_stale(9_000_000), ["all"], "the next time counts again");
}

#[test]
fn an_object_is_held_while_there_is_room_and_only_referred_to_beyond() {
    let queues = SourceQueues::in_memory(settings());
    (0..4).for_each(|number| push(&queues, 0, number));
    let held = |queues: &SourceQueues| {
        let (_, entry) = queues.take("all", None, 1).expect("an entry");
        matches!(entry.reference, EntryReference::Object(_))
    };
    let found: Vec<bool> = (0..4).map(|_| held(&queues)).collect();
    assert_eq!(found, [true, true, false, false]);
}

#[test]
fn deltas_outlast_the_process_and_become_references_where_the_sink_wants_the_object() {
    let disk = FaultyDisk::new(10);
    let queues = open(&disk, 1);
    let delta_of = |number: u64| EntryReference::Delta {
        delta: Bytes::from(vec![number as u8; 100]),
        last_modified_us: 1_000 + number,
    };
    for number in 0..10 {
        let (bucket, reference) = (bucket_of(0), delta_of(number));
        queues.push(bucket, key(0, number), reference, Visited::new(), number + 1);
    }
    // Some entries are in the window, and some only in the journal.
    let queues = Arc::new(open(&disk.kill(), 1));
    let lease = queues.lease();
    let mut taken = Vec::new();
    while let Some((_, entry)) = queues.take("all", Some(&lease), 20) {
        assert_eq!(entry.reference, delta_of(number_of(&entry.key)));
        taken.push(entry.sequence);
    }
    assert_eq!(taken.len(), 10);
    let other = queues.lease();
    queues.request_whole("all", &other, &taken[..1]);
    queues.request_whole("all", &lease, &taken[3..4]);
    drop(lease);
    for number in 0..10 {
        let (_, entry) = queues.take("all", None, 30).expect("it waits again");
        let expected = if number == 3 { EntryReference::ToFetch } else { delta_of(number) };
        assert_eq!(entry.reference, expected, "{number}");
    }
}

#[test]
fn entries_of_a_sink_that_hangs_go_to_others() {
    let queues = Arc::new(SourceQueues::in_memory(settings()));
    (0..3).for_each(|number| push(&queues, 0, number));
    let lease = queues.lease();
    let (_, hangs) = queues.take("all", Some(&lease), 100).expect("an entry");
    queues.take("all", Some(&lease), 200).expect("an entry");
    queues.end_leases(150);
    let (_, again) = queues.take("all", None, 300).expect("an entry");
    assert_eq!((number_of(&again.key), again.may_be_redelivery), (0, true));
    queues.confirm("all", &lease, &[hangs.sequence]);
    assert_eq!(queues.lengths("all").map(|lengths| lengths.real_time), Some(1));
}

#[test]
fn damage_that_is_met_after_the_start_is_a_loss() {
    let disk = FaultyDisk::new(11);
    let queues = open(&disk, 1);
    settle_losses(&queues);
    (0..10).for_each(|number| push(&queues, 0, number));
    let name = file_name(1);
    let last = disk.bytes(&name).expect("the journal's file").len() - 1;
    disk.flip_bit(&name, last, 0);
    assert!(!queues.take_loss(), "it was not read yet");
    assert_eq!(drain(&queues, "all"), (0..9).collect::<Vec<u64>>());
    assert!(queues.take_loss(), "a full-sync has to find the last write");
    push(&queues, 0, 10);
    assert_eq!(drain(&queues, "all"), [10]);
    assert!(!queues.take_loss(), "the damage is told once");
}

#[test]
fn damage_is_one_loss_for_all_queues_that_meet_it() {
    let open = |disk: &FaultyDisk| {
        let queues = QueueDefinition::read_list("one:any|two:any|three:any").0;
        let settings = SourceQueueSettings { queues, ..settings() };
        SourceQueues::open(Arc::new(disk.clone()), settings, MachineBoot(1)).expect("it opens")
    };
    let disk = FaultyDisk::new(14);
    let queues = open(&disk);
    settle_losses(&queues);
    (0..10).for_each(|number| push(&queues, 0, number));
    let name = file_name(1);
    let last = disk.bytes(&name).expect("the journal's file").len() - 1;
    disk.flip_bit(&name, last, 0);
    assert_eq!(drain(&queues, "one"), (0..9).collect::<Vec<u64>>());
    assert!(queues.take_loss(), "a full-sync has to find the last write");
    settle_losses(&queues);
    push(&queues, 0, 10);
    for name in ["two", "three"] {
        let expected: Vec<u64> = (0..9).chain([10]).collect();
        assert_eq!(drain(&queues, name), expected, "a later write is not lost with the damage");
    }
    assert!(!queues.take_loss(), "the same damage");

    let queues = open(&disk.kill());
    assert!(queues.take_loss(), "the next process meets it again");
    for name in ["one", "two", "three"] {
        drain(&queues, name);
    }
    assert!(!queues.take_loss());
}

#[test]
fn a_file_whose_sync_was_not_tried_because_another_sync_failed_is_synced_by_the_next_flush() {
    let disk = FaultyDisk::new(12);
    let queues = open(&disk, 1);
    // Three files. The entry with the number 20 is in the second one.
    (0..40).for_each(|number| push_long(&queues, number));
    disk.set_faults(|faults| faults.failing_syncs = 1);
    assert!(queues.flush().is_err(), "the first file");
    queues.flush().expect("the disk is well");
    let has_entry = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == 20).count() >= 1 << 20;
    assert!(disk.has_durable(has_entry));
}

#[test]
fn entries_of_a_killed_process_outlast_a_power_cut_after_the_next_process_has_stopped() {
    for seed in 0..10 {
        let disk = FaultyDisk::new(seed);
        let queues = open(&disk, 1);
        settle_losses(&queues);
        (0..3).for_each(|number| push(&queues, 0, number));
        let disk = disk.kill();
        open(&disk, 1).close().expect("the disk is well");
        let queues = open(&disk.crash(), 2);
        assert_eq!(drain(&queues, "all"), [0, 1, 2], "seed {seed}");
        assert!(!queues.take_loss());
    }
}

#[test]
fn a_journal_that_can_not_be_read_is_logged_once_until_it_can() {
    let disk = FaultyDisk::new(13);
    let queues = open(&disk, 1);
    (0..6).for_each(|number| push(&queues, 0, number));
    (0..4).for_each(|_| assert!(queues.take("all", None, 1).is_some(), "from memory"));
    let fail = || {
        disk.set_faults(|faults| faults.failing_reads = 3);
        (0..3).for_each(|_| assert!(queues.take("all", None, 1).is_none()));
    };
    assert_eq!(errors_during(fail), 1);
    assert_eq!(drain(&queues, "all"), [4, 5], "they have waited");
    (6..12).for_each(|number| push(&queues, 0, number));
    (0..4).for_each(|_| assert!(queues.take("all", None, 1).is_some(), "from memory"));
    assert_eq!(errors_during(fail), 1, "a fault after a good read");
}
