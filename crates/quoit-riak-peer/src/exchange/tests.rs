use super::*;
use proptest::prelude::*;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::key::BucketRef;
use quoit_model::segments::Segments;
use quoit_riak::TreeEntry;

/// A cluster in memory.
#[derive(Clone, Default)]
struct Cluster {
    records: BTreeMap<Bytes, VersionVector>,
    /// Records that appear with the second question.
    late: BTreeMap<Bytes, VersionVector>,
    /// Number of questions by which these records appear later than that.
    delay: usize,
}

const BUCKET: BucketRef<'static> = BucketRef { bucket_type: b"default", bucket: b"bucket" };

fn bucket() -> BucketName {
    BucketName { bucket_type: "default".into(), bucket: "bucket".into() }
}

fn clock(counters: &[(u8, u64)]) -> VersionVector {
    VersionVector::from_entries(counters.iter().map(|(actor, counter)| Dot {
        actor: Actor([*actor].as_slice().into()),
        counter: *counter,
        time_secs: 63_000_000_000 + counter,
    }))
}

impl Cluster {
    fn tree(&mut self, size: TreeSize, filter: &RangeFilter) -> Tree {
        let mut tree = Tree::empty(size);
        for record in self.clocks(filter) {
            tree.toggle(TreeEntry::new(BUCKET, &record.key, &record.clock));
        }
        match self.delay {
            0 => self.records.append(&mut self.late),
            _ => self.delay -= 1,
        }
        tree
    }

    fn clocks(&self, filter: &RangeFilter) -> Vec<RecordClock> {
        let segments = filter.segments.clone();
        let segments = segments
            .map(|filter| Segments::new(filter.tree_size, filter.segments).expect("few segments"));
        let is_in = |key: &Bytes| segments.as_ref().is_none_or(|some| some.has(BUCKET, key));
        let records = self.records.iter().filter(|(key, _)| is_in(key));
        let record = |(key, clock): (&Bytes, &VersionVector)| RecordClock {
            bucket: bucket(),
            key: key.clone(),
            clock: clock.clone(),
        };
        records.map(record).collect()
    }
}

impl Side for Cluster {
    async fn tree_root(&mut self, _: u32) -> Result<Bytes, PeerError> {
        Ok(self.tree(TreeSize::Large, &RangeFilter::default()).root())
    }

    async fn tree_branches(
        &mut self,
        _: u32,
        numbers: &[u32],
    ) -> Result<Vec<(u32, Bytes)>, PeerError> {
        let tree = self.tree(TreeSize::Large, &RangeFilter::default());
        Ok(numbers.iter().map(|number| (*number, tree.branch(*number))).collect())
    }

    async fn tree_clocks(
        &mut self,
        _: u32,
        segments: &[u32],
        _: Option<(u64, u64)>,
    ) -> Result<Vec<RecordClock>, PeerError> {
        let segments = SegmentFilter { segments: segments.to_vec(), tree_size: TreeSize::Large };
        Ok(self.clocks(&RangeFilter { segments: Some(segments), ..RangeFilter::default() }))
    }

    async fn range_tree(
        &mut self,
        _: &BucketName,
        size: TreeSize,
        filter: &RangeFilter,
    ) -> Result<Tree, PeerError> {
        Ok(self.tree(size, filter))
    }

    async fn range_clocks(
        &mut self,
        _: &BucketName,
        filter: &RangeFilter,
    ) -> Result<Vec<RecordClock>, PeerError> {
        Ok(self.clocks(filter))
    }
}

fn plan(scope: ExchangeScope, segment_count_max: usize) -> ExchangePlan {
    let pause = Duration::from_millis(1);
    ExchangePlan { scope, modified_secs: None, segment_count_max, pause }
}

fn scopes() -> [ExchangeScope; 2] {
    [
        ExchangeScope::All { local_n_val: 3, remote_n_val: 2 },
        ExchangeScope::Bucket { bucket: bucket(), size: TreeSize::Small },
    ]
}

fn run(local: &Cluster, remote: &Cluster, plan: &ExchangePlan) -> Differences {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let (mut local, mut remote) = (local.clone(), remote.clone());
    runtime.block_on(exchange(&mut local, &mut remote, plan)).expect("both answer")
}

/// Repairs until no difference is left. Returns the number of rounds.
fn converge(mut local: Cluster, mut remote: Cluster, plan: &ExchangePlan) -> usize {
    for round in 0..200 {
        let found = run(&local, &remote, plan);
        if found.state == SyncState::InSync {
            assert_eq!(local.records, remote.records);
            return round;
        }
        for record in found.local_ahead {
            remote.records.entry(record.key).or_default().merge(&record.clock);
        }
        for record in found.remote_ahead {
            local.records.entry(record.key).or_default().merge(&record.clock);
        }
    }
    panic!("they do not converge");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn repeated_exchanges_make_two_clusters_equal(
        changes in prop::collection::vec((0u16..400, 0u8..3, 1u64..4), 0..60),
        segment_count_max in 1usize..40,
    ) {
        let mut both = Cluster::default();
        for number in 0..200u16 {
            let key = Bytes::from(format!("key-{number}"));
            both.records.insert(key, clock(&[(1, 1)]));
        }
        let (mut local, mut remote) = (both.clone(), both);
        for (number, side, counter) in changes {
            let key = Bytes::from(format!("key-{number}"));
            let event = clock(&[(10 + side, counter)]);
            if side != 1 {
                local.records.entry(key.clone()).or_default().merge(&event);
            }
            if side != 0 {
                remote.records.entry(key).or_default().merge(&event);
            }
        }
        for scope in scopes() {
            converge(local.clone(), remote.clone(), &plan(scope, segment_count_max));
        }
    }
}

#[test]
fn the_side_that_has_more_is_ahead_and_this_one_where_neither_has() {
    let cluster = |records: &[(&'static str, &[(u8, u64)])]| Cluster {
        records: records.iter().map(|(key, counters)| ((*key).into(), clock(counters))).collect(),
        ..Cluster::default()
    };
    let local = cluster(&[
        ("both", &[(1, 1)]),
        ("older", &[(1, 1)]),
        ("newer", &[(1, 2)]),
        ("concurrent", &[(1, 1), (2, 1)]),
        ("here", &[(1, 1)]),
    ]);
    let remote = cluster(&[
        ("both", &[(1, 1)]),
        ("older", &[(1, 1), (2, 1)]),
        ("newer", &[(1, 1)]),
        ("concurrent", &[(1, 1), (3, 1)]),
        ("there", &[(1, 1)]),
    ]);
    for scope in scopes() {
        let found = run(&local, &remote, &plan(scope, 32));
        let keys = |records: &[RecordClock]| -> BTreeSet<Bytes> {
            records.iter().map(|record| record.key.clone()).collect()
        };
        let expected =
            |names: &[&'static str]| names.iter().map(|name| Bytes::from(*name)).collect();
        assert_eq!(keys(&found.local_ahead), expected(&["newer", "concurrent", "here"]));
        assert_eq!(keys(&found.remote_ahead), expected(&["older", "there"]));
    }
}

#[test]
fn a_write_that_is_on_its_way_is_no_difference() {
    let mut local = Cluster::default();
    local.records.insert("k".into(), clock(&[(1, 1)]));
    let remote = Cluster { late: local.records.clone(), ..Cluster::default() };
    for scope in scopes() {
        assert_eq!(run(&local, &remote, &plan(scope, 32)).state, SyncState::InSync);
    }
}

#[test]
fn clusters_of_which_branches_differ_that_were_not_compared_are_not_in_sync() {
    let record = |key: &'static str| (Bytes::from(key), clock(&[(1, 1)]));
    let local = Cluster { records: [record("a"), record("b")].into(), ..Cluster::default() };
    let of_all =
        |count_max| plan(ExchangeScope::All { local_n_val: 3, remote_n_val: 3 }, count_max);
    let found = run(&local, &Cluster::default(), &of_all(2)).state;
    assert_eq!(found, SyncState::Differs { differing_count: 2, compared_count: 2 });
    // Only one branch is compared. For one of the two, its record arrives before that.
    for late in ["a", "b"] {
        let remote = Cluster { late: [record(late)].into(), delay: 1, ..Cluster::default() };
        let found = run(&local, &remote, &of_all(1));
        assert!(matches!(found.state, SyncState::Differs { .. }), "{late}: {found:?}");
    }
}

#[test]
fn branches_are_chosen_that_lie_close_together() {
    let branches = BTreeSet::from([1, 100, 101, 103, 900]);
    assert_eq!(densest_run(&branches, 3), [100, 101, 103]);
    assert_eq!(densest_run(&branches, 9), [1, 100, 101, 103, 900]);
}
