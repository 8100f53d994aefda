use super::listed::KNOWN_KEYS_MAX;
use super::*;
use proptest::prelude::*;
use quoit_model::hash::{Identity, Partition};
use std::sync::atomic::AtomicBool;

const TYPE: &[u8] = b"t";

/// Keys of a bucket with their partitions; true if the key is live.
type KeysOfBucket = BTreeMap<(Vec<u8>, Partition), bool>;

/// Default partition of the test records.
const PARTITION: Partition = Partition(0);

/// In-memory source of keys: the keys of one bucket type, by bucket.
#[derive(Default)]
struct FakeKeys {
    buckets: Mutex<BTreeMap<Vec<u8>, KeysOfBucket>>,
    /// Number of keys that searches have scanned.
    passed: AtomicU64,
    /// Number of point lookups.
    asked: AtomicU64,
}

impl FakeKeys {
    /// Sets whether a key is live. If the key becomes live, notifies the list.
    fn set(&self, list: &BucketList, bucket: &[u8], key: &[u8], is_live: bool) {
        self.set_in(list, PARTITION, bucket, key, is_live);
    }

    fn set_in(
        &self,
        list: &BucketList,
        partition: Partition,
        bucket: &[u8],
        key: &[u8],
        is_live: bool,
    ) {
        let mut buckets = self.buckets.lock();
        let keys = buckets.entry(bucket.to_vec()).or_default();
        let was_live = keys.insert((key.to_vec(), partition), is_live);
        if is_live && was_live != Some(true) {
            known_key_of(bucket, key, partition).at(|at| list.note(at, DataLocation::default()));
        }
    }

    fn live(&self) -> Vec<Vec<u8>> {
        let buckets = self.buckets.lock();
        let live = buckets.iter().filter(|(_, keys)| keys.values().any(|is_live| *is_live));
        live.map(|(bucket, _)| bucket.clone()).collect()
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

fn known_key_of(bucket: &[u8], key: &[u8], partition: Partition) -> KnownKey {
    let encoded = BucketRef { bucket_type: TYPE, bucket }.key(key).encoded();
    let (encoded, place) = (Bytes::copy_from_slice(&encoded), DataLocation::default());
    KnownKey { encoded, identity: Identity(0), partition, place }
}

impl Keys for FakeKeys {
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let is_live = known_key.at(|at| {
            let name = (at.key.key.to_vec(), at.partition);
            self.buckets.lock().get(at.key.bucket.bucket)?.get(&name).copied()
        });
        // Gives other threads the chance to change the key before the caller sees the result.
        std::thread::yield_now();
        Ok(is_live.unwrap_or(false).then_some(known_key.place))
    }

    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError> {
        let buckets = self.buckets.lock();
        let mut found = Vec::new();
        for (bucket, keys) in &*buckets {
            let name = BucketRef { bucket_type: TYPE, bucket };
            let is_wanted = crate::range::range_contains(range, name.key(b"k"))
                && after.is_none_or(|after| name > after);
            if found.len() < limit && is_wanted {
                let dead = keys.values().take_while(|is_live| !**is_live).count();
                self.passed.fetch_add(dead as u64 + 1, Ordering::Relaxed);
                let live = keys.iter().find(|(_, is_live)| **is_live);
                found.extend(
                    live.map(|((key, partition), _)| known_key_of(bucket, key, *partition)),
                );
            }
        }
        Ok(found)
    }
}

/// Source of keys that applies a change right after the first lookup of a known key, as a concurrent call
/// would.
struct ChangedMeanwhile<'a, F: Fn()> {
    keys: &'a FakeKeys,
    is_changed: AtomicBool,
    change: F,
}

impl<F: Fn()> Keys for ChangedMeanwhile<'_, F> {
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError> {
        let place = self.keys.live_place(known_key);
        if !self.is_changed.swap(true, Ordering::Relaxed) {
            (self.change)();
        }
        place
    }

    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError> {
        self.keys.live_keys(range, after, limit)
    }
}

/// Source of keys whose first search fails.
struct FailingOnce<'a> {
    keys: &'a FakeKeys,
    has_failed: AtomicBool,
}

impl Keys for FailingOnce<'_> {
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError> {
        self.keys.live_place(known_key)
    }

    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError> {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            return Err(StoreError::Overloaded);
        }
        self.keys.live_keys(range, after, limit)
    }
}

/// The list's running estimate of its memory, and the same estimate recomputed from scratch.
fn bytes_and_recounted(list: &BucketList) -> (i64, i64) {
    let known = list.known.read();
    let costs = known.by_bucket_prefix.iter().map(|(front, listed)| {
        let known_keys = listed.known_keys.lock();
        let costs = known_keys.keys.iter().map(|(_, known_key)| known_key.cost_bytes());
        bucket_bytes(front) + costs.sum::<i64>()
    });
    (list.bytes.load(Ordering::Relaxed), costs.sum())
}

/// Lists all buckets, in pages of `limit`.
fn listed(list: &BucketList, keys: &FakeKeys, limit: usize) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let after = found.last().map(|bucket| BucketRef { bucket_type: TYPE, bucket });
        let page = list.list(keys, TYPE, after, limit).unwrap();
        assert!(page.len() <= limit);
        let is_last = page.len() < limit;
        found.extend(page.into_iter().map(|(_, bucket)| bucket.to_vec()));
        if is_last {
            return found;
        }
    }
}

fn number(number: usize) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

/// Creates `bucket_count` buckets of `key_count` keys each, without notifying the list.
fn filled(bucket_count: usize, key_count: usize, is_live: bool) -> FakeKeys {
    let keys = FakeKeys::default();
    for bucket in 0..bucket_count {
        let all = (0..key_count).map(|key| ((number(key), PARTITION), is_live)).collect();
        keys.buckets.lock().insert(number(bucket), all);
    }
    keys
}

#[test]
fn a_list_that_was_learnt_goes_through_no_keys() {
    let (list, keys) = (BucketList::default(), filled(10, 1_000, true));
    assert_eq!(listed(&list, &keys, 3).len(), 10);
    let (passed, asked) = (keys.passed(), keys.asked.load(Ordering::Relaxed));
    assert_eq!(listed(&list, &keys, 3), keys.live());
    assert_eq!(keys.passed(), passed);
    assert_eq!(keys.asked.load(Ordering::Relaxed), asked + 10);
}

#[test]
fn a_bucket_of_expired_keys_is_gone_through_once_however_often_it_is_filled_and_emptied() {
    let (list, keys) = (BucketList::default(), filled(1, 1_000, false));
    assert!(listed(&list, &keys, 10).is_empty());
    keys.set(&list, b"00000", b"one", true);
    assert_eq!(listed(&list, &keys, 10).len(), 1);
    let passed = keys.passed();
    for round in 0..100 {
        keys.set(&list, b"00000", b"one", false);
        assert!(listed(&list, &keys, 10).is_empty(), "{round}");
        keys.set(&list, b"00000", &number(round), true);
        assert_eq!(listed(&list, &keys, 10).len(), 1, "{round}");
        keys.set(&list, b"00000", b"one", true);
        keys.set(&list, b"00000", &number(round), false);
        assert_eq!(listed(&list, &keys, 10).len(), 1, "{round}");
    }
    assert_eq!(keys.passed(), passed);
}

#[test]
fn a_key_that_is_written_again_while_it_is_looked_for_keeps_its_bucket_listed() {
    for is_learnt in [true, false] {
        let (list, keys) = (BucketList::default(), FakeKeys::default());
        if is_learnt {
            assert!(listed(&list, &keys, 10).is_empty());
        }
        keys.set(&list, b"b", b"k", true);
        keys.set(&list, b"b", b"k", false);
        let (is_changed, change) = (AtomicBool::new(false), || keys.set(&list, b"b", b"k", true));
        let changed = ChangedMeanwhile { keys: &keys, is_changed, change };
        list.list(&changed, TYPE, None, 10).unwrap();
        assert_eq!(listed(&list, &keys, 10), keys.live(), "learnt: {is_learnt}");
    }
}

#[test]
fn records_of_one_name_in_two_partitions_are_two_known_keys() {
    let (list, keys) = (BucketList::default(), FakeKeys::default());
    assert!(listed(&list, &keys, 10).is_empty());
    let other = Partition(7);
    keys.set(&list, b"b", b"k", true);
    keys.set_in(&list, other, b"b", b"k", true);
    keys.set_in(&list, other, b"b", b"k", false);
    assert_eq!(listed(&list, &keys, 10), [b"b"]);
    keys.set(&list, b"b", b"k", false);
    assert!(listed(&list, &keys, 10).is_empty());
}

#[test]
fn removed_known_keys_release_their_memory() {
    let (list, keys) = (BucketList::default(), FakeKeys::default());
    assert!(listed(&list, &keys, 10).is_empty());
    for round in 0..100 {
        let bucket = number(round % 3);
        // Names of various lengths, and from time to time more keys than a bucket can have known keys.
        let count = if round % 10 == 0 { 2 * KNOWN_KEYS_MAX } else { 1 + round % 5 };
        let all: Vec<_> = (0..count).map(|key| vec![b'k'; 1 + (round + 53 * key) % 250]).collect();
        all.iter().for_each(|key| keys.set(&list, &bucket, key, true));
        let (bytes, recounted) = bytes_and_recounted(&list);
        assert_eq!(bytes, recounted, "{round}: filled");
        // If there were too many keys, the list finds the last one by a search.
        all[1..].iter().for_each(|key| keys.set(&list, &bucket, key, false));
        assert_eq!(listed(&list, &keys, 10), keys.live());
        let (bytes, recounted) = bytes_and_recounted(&list);
        assert_eq!(bytes, recounted, "{round}: one is left");
        keys.set(&list, &bucket, &all[0], false);
        assert!(listed(&list, &keys, 10).is_empty());
        assert_eq!(bytes_and_recounted(&list), (0, 0), "{round}: emptied");
    }
}

#[test]
fn a_longer_name_that_makes_room_gives_back_what_it_costs_more() {
    let (list, keys) = (BucketList::default(), FakeKeys::default());
    assert!(listed(&list, &keys, 10).is_empty());
    let named = |key: usize, length: usize| format!("{key:0length$}").into_bytes();
    (0..KNOWN_KEYS_MAX).for_each(|key| keys.set(&list, b"b", &named(key, 200), true));
    let (of_long, _) = bytes_and_recounted(&list);
    list.known.read().by_bucket_prefix.values().for_each(|listed| {
        for key in 0..KNOWN_KEYS_MAX {
            let number = FIRST_NOTE + (KNOWN_KEYS_MAX + key) as u64;
            let cheaper = known_key_of(b"b", &named(key, 50), PARTITION)
                .at(|at| listed.add(number, at, DataLocation::default()));
            assert_eq!(cheaper, -150, "a name of 50 bytes in the place of one of 200");
            list.count(cheaper);
        }
    });
    let (bytes, recounted) = bytes_and_recounted(&list);
    assert_eq!((bytes, of_long - bytes), (recounted, 150 * KNOWN_KEYS_MAX as i64));
}

#[test]
fn known_keys_that_died_cost_one_search() {
    let (list, keys) = (BucketList::default(), FakeKeys::default());
    assert!(listed(&list, &keys, 10).is_empty());
    let count = 2 * KNOWN_KEYS_MAX;
    (0..count).for_each(|key| keys.set(&list, b"b", &number(key), true));
    assert_eq!(listed(&list, &keys, 10).len(), 1);
    // The oldest keys are no longer known keys.
    (1..count).for_each(|key| keys.set(&list, b"b", &number(key), false));
    let passed = keys.passed();
    assert_eq!(listed(&list, &keys, 10).len(), 1);
    assert!(keys.passed() > passed);
    let passed = keys.passed();
    assert_eq!(listed(&list, &keys, 10).len(), 1);
    assert_eq!(keys.passed(), passed);
}

#[test]
fn writes_are_noted_no_more_often_after_a_search_that_fails() {
    let (list, keys) = (BucketList::default(), FakeKeys::default());
    assert!(listed(&list, &keys, 10).is_empty());
    let count = 2 * KNOWN_KEYS_MAX;
    (0..count).for_each(|key| keys.set(&list, b"b", &number(key), true));
    (1..count).for_each(|key| keys.set(&list, b"b", &number(key), false));
    let failing = FailingOnce { keys: &keys, has_failed: AtomicBool::new(false) };
    let failed = list.list(&failing, TYPE, None, 10);
    assert!(matches!(failed, Err(StoreError::Overloaded)), "{failed:?}");
    let known_keys = || {
        let known = list.known.read();
        known
            .by_bucket_prefix
            .values()
            .map(|listed| listed.known_keys.lock().keys.len())
            .sum::<usize>()
    };
    assert_eq!(known_keys(), 0);
    (1..count).for_each(|key| keys.set(&list, b"b", &number(key), true));
    assert_eq!(known_keys(), 0, "others are live too");
    assert_eq!(listed(&list, &keys, 10), keys.live());
}

#[test]
fn a_known_key_that_is_noted_again_is_the_youngest_one() {
    let (list, keys) = (BucketList::default(), FakeKeys::default());
    assert!(listed(&list, &keys, 10).is_empty());
    for key in [b"one", b"two", b"six"] {
        keys.set(&list, b"b", key, true);
    }
    let place = |segment| DataLocation { segment, ..DataLocation::default() };
    for (segment, key) in [(1, b"six"), (2, b"one"), (3, b"one")] {
        known_key_of(b"b", key, PARTITION).at(|at| list.note(at, place(segment)));
    }
    let known = list.known.read();
    let known_keys = known.by_bucket_prefix.values().next().unwrap().known_keys.lock();
    let told = known_keys.keys.iter().map(|(number, known_key)| {
        (*number, known_key.at(|at| at.key.key.to_vec()), known_key.place.segment)
    });
    let expected = [(1, b"two", 0), (3, b"six", 1), (5, b"one", 3)];
    let expected = expected.map(|(number, key, segment)| (number, key.to_vec(), segment));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn too_many_buckets_are_listed_by_their_keys() {
    let (list, keys) = (BucketList::bounded(5_000), filled(3, 1, true));
    (0..50).for_each(|bucket| keys.set(&list, &number(bucket), b"k", true));
    assert!(list.is_off.load(Ordering::Relaxed));
    assert!(list.known.read().by_bucket_prefix.is_empty());
    assert_eq!(listed(&list, &keys, 7), keys.live());
    assert!(list.known.read().by_bucket_prefix.is_empty());
}

#[test]
fn a_list_that_becomes_too_large_while_it_is_learnt_is_given_up() {
    let (list, keys) = (BucketList::bounded(5_000), filled(50, 1, true));
    assert_eq!(listed(&list, &keys, 50), keys.live());
    assert_eq!(listed(&list, &keys, 7), keys.live());
    assert!(list.is_off.load(Ordering::Relaxed));
    assert!(list.known.read().by_bucket_prefix.is_empty());
}

/// A step of the test: a change of keys, or a request for a page.
#[derive(Clone, Debug)]
enum Step {
    Set {
        bucket: usize,
        key: usize,
        partition: u16,
        is_live: bool,
    },
    /// Sets more keys than a bucket can have known keys.
    Fill {
        bucket: usize,
        is_live: bool,
    },
    List {
        limit: usize,
    },
    Page {
        after: usize,
        limit: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6usize, 0..8usize, 0..2u16, any::<bool>()).prop_map(
            |(bucket, key, partition, is_live)| Step::Set { bucket, key, partition, is_live }
        ),
        1 => (0..6usize, any::<bool>()).prop_map(|(bucket, is_live)| Step::Fill { bucket, is_live }),
        2 => (1..8usize).prop_map(|limit| Step::List { limit }),
        1 => (0..7usize, 1..8usize).prop_map(|(after, limit)| Step::Page { after, limit }),
    ]
}

proptest! {
    #[test]
    fn what_is_listed_are_the_buckets_with_live_keys(
        unknown in prop::collection::vec((0..6usize, 0..8usize, any::<bool>()), 0..20),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let (list, keys) = (BucketList::default(), FakeKeys::default());
        for (bucket, key, is_live) in unknown {
            let mut buckets = keys.buckets.lock();
            buckets.entry(number(bucket)).or_default().insert((number(key), PARTITION), is_live);
        }
        for step in steps {
            match step {
                Step::Set { bucket, key, partition, is_live } => {
                    let (bucket, key) = (number(bucket), number(key));
                    keys.set_in(&list, Partition(partition), &bucket, &key, is_live);
                }
                Step::Fill { bucket, is_live } => {
                    let all = 0..2 * KNOWN_KEYS_MAX;
                    all.for_each(|key| keys.set(&list, &number(bucket), &number(key), is_live));
                }
                Step::List { limit } => prop_assert_eq!(listed(&list, &keys, limit), keys.live()),
                Step::Page { after, limit } => {
                    let after = number(after);
                    let place = BucketRef { bucket_type: TYPE, bucket: &after };
                    let page = list.list(&keys, TYPE, Some(place), limit).unwrap();
                    let page: Vec<_> = page.into_iter().map(|(_, name)| name.to_vec()).collect();
                    let live = keys.live();
                    let behind: Vec<_> = live.into_iter().filter(|name| *name > after).collect();
                    prop_assert_eq!(&page[..], &behind[..behind.len().min(limit)]);
                }
            }
        }
        prop_assert_eq!(listed(&list, &keys, 4), keys.live());
        let (bytes, recounted) = bytes_and_recounted(&list);
        prop_assert_eq!(bytes, recounted);
    }
}

#[test]
fn who_has_written_finds_it_listed_whatever_others_do() {
    let (list, keys) = (BucketList::default(), filled(4, 50, false));
    let is_done = AtomicBool::new(false);
    let has = |bucket: &[u8]| {
        let page = list.list(&keys, TYPE, None, 100).unwrap();
        page.iter().any(|(_, name)| name == bucket)
    };
    std::thread::scope(|scope| {
        let (list, keys, has, is_done) = (&list, &keys, &has, &is_done);
        // Lists continuously. The list thus drops known keys, searches and learns while other threads write.
        scope.spawn(move || {
            while !is_done.load(Ordering::Acquire) {
                listed(list, keys, 2);
            }
        });
        let writers: Vec<_> = (0..4)
            .map(|own| {
                scope.spawn(move || {
                    let bucket = number(own);
                    for round in 0..500 {
                        // From time to time, more keys than a bucket can have known keys.
                        let count = if round % 50 == 0 { 2 * KNOWN_KEYS_MAX } else { 1 };
                        let all = (round..round + count).map(number);
                        all.clone().for_each(|key| keys.set(list, &bucket, &key, true));
                        assert!(has(&bucket), "{own} {round}: written and not listed");
                        all.skip(1).for_each(|key| keys.set(list, &bucket, &key, false));
                        assert!(has(&bucket), "{own} {round}: still there and not listed");
                        keys.set(list, &bucket, &number(round), false);
                        assert!(!has(&bucket), "{own} {round}: gone and listed");
                        // Rewrites the only key while other threads may just have found it deleted.
                        let only = number(round);
                        for is_live in [true, false, true] {
                            keys.set(list, &bucket, &only, is_live);
                            std::thread::yield_now();
                        }
                        assert!(has(&bucket), "{own} {round}: written again and not listed");
                        keys.set(list, &bucket, &only, false);
                        assert!(!has(&bucket), "{own} {round}: gone again and listed");
                    }
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Set before the results are checked. Otherwise a failed writer would leave the listing thread
        // running for ever.
        is_done.store(true, Ordering::Release);
        results.into_iter().for_each(|result| result.expect("no writer has failed"));
    });
    let (bytes, recounted) = bytes_and_recounted(&list);
    assert_eq!(bytes, recounted);
}
