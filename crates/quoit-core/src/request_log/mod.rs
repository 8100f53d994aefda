//! Lists that show operators what loads the node: the slowest requests, the largest objects, and the hottest
//! keys.
//!
//! All three lists are bounded and cheap. A request that is neither slow nor large compared with the
//! listed ones costs two loads and a counter of its thread. One request in [`SAMPLE_INTERVAL`] is
//! counted for the hot keys, under a lock. Slow requests and large objects are kept for the present
//! window of `WINDOW` and the one before.

mod hot;
mod top;

use crate::topology::Topology;
use crate::votes::NodeIndex;
use bytes::Bytes;
use hot::HotKeys;
use parking_lot::Mutex;
use quoit_cluster::NodeId;
use quoit_model::key::KeyRef;
use quoit_seam::Clock;
use smallvec::SmallVec;
use std::cell::Cell;
use std::time::Duration;
use top::{Ranked, TopWindow};

/// Sampling interval of the hot keys: one request in this many is counted.
pub const SAMPLE_INTERVAL: u32 = 32;
/// Length of the window in which slow requests and large objects are gathered.
const WINDOW: Duration = Duration::from_secs(600);
/// Length of the window in which requests of keys are counted, in microseconds.
const HOT_WINDOW_US: u64 = 60_000_000;
/// Time in microseconds below which a request is never slow.
const SLOW_US_MIN: u64 = 1_000;
/// Size in bytes below which an object is never large.
const LARGE_BYTES_MIN: u64 = 4_096;

/// Limits on the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLogSettings {
    /// Maximum number of slow requests in a window; 0 to keep none.
    pub slow_count_max: usize,
    /// Maximum number of hot keys, and of large objects, in a window; 0 to keep and count none.
    pub key_count_max: usize,
}

impl Default for RequestLogSettings {
    fn default() -> Self {
        Self { slow_count_max: 100, key_count_max: 100 }
    }
}

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// A read.
    Get,
    /// A write.
    Put,
    /// A deletion.
    Delete,
    /// An operation on a data type.
    Update,
}

impl RequestKind {
    /// Name of the kind for operators.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Update => "update",
        }
    }
}

/// Nodes that were asked for a copy of a record, or to store one, each once. Empty if no other node was
/// needed.
#[derive(Clone, Default, Debug)]
pub(crate) struct AskedNodes(SmallVec<[NodeId; 4]>);

impl AskedNodes {
    /// Adds a node.
    pub(crate) fn add(&mut self, node: NodeId) {
        if !self.0.contains(&node) {
            self.0.push(node);
        }
    }

    /// Adds nodes given by their places in the topology.
    pub(crate) fn add_all(&mut self, topology: &Topology, nodes: impl Iterator<Item = NodeIndex>) {
        nodes.for_each(|place| self.add(topology.node(place).id));
    }
}

/// The course of a request at its coordinator.
#[derive(Default, Debug)]
pub(crate) struct RequestCourse {
    /// Time at which this node's own copy was read or written, on the monotonic clock in microseconds.
    pub(crate) own_at_us: u64,
    /// Nodes that were asked.
    pub(crate) asked: AskedNodes,
}

/// A finished request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished<'k> {
    pub(crate) kind: RequestKind,
    pub(crate) key: KeyRef<'k>,
    /// Microseconds from request to answer.
    pub(crate) total_us: u64,
    /// Microseconds from the request until this node's own copy was read or written.
    pub(crate) own_us: u64,
    /// Bytes of the values read or written.
    pub(crate) size_bytes: u64,
    /// Number of siblings; 0 if unknown.
    pub(crate) sibling_count: u64,
    pub(crate) failed: bool,
    /// Nodes that were asked.
    pub(crate) asked: &'k AskedNodes,
}

/// A slow request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowRequest {
    /// Kind.
    pub kind: RequestKind,
    /// Name of the record, encoded as by [`KeyRef::encoded`].
    pub key: Bytes,
    /// Time at which it ended, in microseconds since 1970.
    pub ended_unix_us: u64,
    /// Microseconds from request to answer.
    pub total_us: u64,
    /// Microseconds until this node's own copy was read or written. The rest was spent waiting for
    /// other nodes and disks.
    pub own_us: u64,
    /// Bytes of the values read or written.
    pub size_bytes: u64,
    /// Number of siblings; 0 if unknown.
    pub sibling_count: u64,
    /// True if it failed.
    pub failed: bool,
    /// Nodes that were asked for a copy, or to store one; empty if only this node took part.
    pub asked: Vec<NodeId>,
}

/// A large object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LargeObject {
    /// Encoded name of the record.
    pub key: Bytes,
    /// Bytes of its values at the last read or write that the list has recorded.
    pub size_bytes: u64,
    /// Number of siblings; 0 if unknown.
    pub sibling_count: u64,
}

/// A key that is requested often.
#[derive(Clone, PartialEq, Debug)]
pub struct HotKey {
    /// Encoded name of the record.
    pub key: Bytes,
    /// Requests per second, estimated from a sample.
    pub requests_per_sec: f64,
    /// Share of all requests, from 0 to 1.
    pub share: f64,
}

/// Reasons for keeping a request.
#[derive(Clone, Copy, Debug)]
struct Reasons {
    is_sampled: bool,
    is_slow: bool,
    is_large: bool,
}

/// Lists of notable requests that a node has coordinated.
pub struct RequestLog {
    settings: RequestLogSettings,
    slow: TopWindow<SlowRequest>,
    large: TopWindow<LargeObject>,
    hot: Mutex<HotKeys>,
}

impl RequestLog {
    pub(crate) fn new(settings: RequestLogSettings) -> Self {
        Self {
            settings,
            slow: TopWindow::new(settings.slow_count_max, SLOW_US_MIN, WINDOW),
            large: TopWindow::new(settings.key_count_max, LARGE_BYTES_MIN, WINDOW),
            hot: Mutex::new(HotKeys::new(settings.key_count_max, HOT_WINDOW_US)),
        }
    }

    /// Notes a request. Costs two loads and an increment of a thread's own counter, unless the request
    /// is slow, large or sampled.
    #[inline]
    pub(crate) fn note(&self, clock: &dyn Clock, request: &Finished<'_>) {
        let is_sampled = self.settings.key_count_max > 0 && is_sampled();
        let is_slow = self.slow.admits(request.total_us);
        let is_large = !request.failed && self.large.admits(request.size_bytes);
        if is_sampled || is_slow || is_large {
            self.keep(clock, request, Reasons { is_sampled, is_slow, is_large });
        }
    }

    #[cold]
    fn keep(&self, clock: &dyn Clock, request: &Finished<'_>, reasons: Reasons) {
        let Reasons { is_sampled, is_slow, is_large } = reasons;
        let now_us = clock.monotonic_us();
        let key = request.key.encoded();
        let named = || Bytes::copy_from_slice(&key);
        if is_sampled {
            self.hot.lock().count(now_us, &key);
            self.slow.begin_window_if_over(now_us);
            self.large.begin_window_if_over(now_us);
            let is_get = request.kind == RequestKind::Get;
            if is_get && !request.failed && !is_large && request.size_bytes > 0 {
                // A read shows the present size of an object that may have been listed as large before. A
                // size of 0 is unknown. A write reports only the size of its own value, and the object may
                // have other siblings.
                self.large.drop_if(|kept| kept.key[..] == key[..]);
            }
        }
        if is_slow {
            let slow = SlowRequest {
                kind: request.kind,
                key: named(),
                ended_unix_us: clock.unix_us(),
                total_us: request.total_us,
                own_us: request.own_us.min(request.total_us),
                size_bytes: request.size_bytes,
                sibling_count: request.sibling_count,
                failed: request.failed,
                asked: request.asked.0.to_vec(),
            };
            let slow = Ranked { rank: request.total_us, item: slow };
            self.slow.keep(now_us, slow, |_| false);
        }
        if is_large {
            let large = LargeObject {
                key: named(),
                size_bytes: request.size_bytes,
                sibling_count: request.sibling_count,
            };
            let large = Ranked { rank: request.size_bytes, item: large };
            self.large.keep(now_us, large, |kept| kept.key[..] == key[..]);
        }
    }

    /// The slowest requests of the last ten to twenty minutes, slowest first.
    #[must_use]
    pub fn slowest(&self, clock: &dyn Clock) -> Vec<SlowRequest> {
        self.slow.all(clock.monotonic_us())
    }

    /// The largest objects that were read or written in the last ten to twenty minutes, largest first,
    /// each once. An object that has shrunk below the smallest listed one leaves the list with the next
    /// of its reads that is sampled.
    #[must_use]
    pub fn largest(&self, clock: &dyn Clock) -> Vec<LargeObject> {
        self.large.all(clock.monotonic_us())
    }

    /// The keys with most requests in the last one to two minutes, hottest first.
    #[must_use]
    pub fn hottest(&self, clock: &dyn Clock) -> Vec<HotKey> {
        self.hot.lock().hottest(clock.monotonic_us())
    }
}

/// True if this request of the thread is to be counted for the hot keys.
fn is_sampled() -> bool {
    thread_local! {
        static TURN: Cell<u32> = const { Cell::new(0) };
    }
    TURN.with(|turn| {
        turn.set((turn.get() + 1) % SAMPLE_INTERVAL);
        turn.get() == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::key::BucketRef;
    use quoit_seam::ManualClock;

    const WINDOW_US: u64 = WINDOW.as_secs() * 1_000_000;

    fn request(key: &[u8], total_us: u64, size_bytes: u64) -> Finished<'_> {
        let bucket = BucketRef { bucket_type: b"default", bucket: b"b" };
        Finished {
            kind: RequestKind::Get,
            key: bucket.key(key),
            total_us,
            own_us: 5,
            size_bytes,
            sibling_count: 1,
            failed: false,
            asked: Box::leak(Box::default()),
        }
    }

    fn key_of(encoded: &Bytes) -> Vec<u8> {
        KeyRef::decode(encoded).expect("a name").key.to_vec()
    }

    #[test]
    fn the_slowest_are_kept_and_older_ones_forgotten_window_by_window() {
        let (log, clock) = (
            RequestLog::new(RequestLogSettings { slow_count_max: 3, key_count_max: 3 }),
            ManualClock::at(1),
        );
        for time_us in [2_000, 9_000, 500, 4_000, 3_000, 7_000] {
            log.note(&clock, &request(b"k", time_us, 1));
        }
        let times = |log: &RequestLog| {
            log.slowest(&clock).iter().map(|each| each.total_us).collect::<Vec<_>>()
        };
        assert_eq!(times(&log), [9_000, 7_000, 4_000]);
        clock.advance_us(WINDOW_US);
        assert_eq!(times(&log), [9_000, 7_000, 4_000], "the window before is told, too");
        log.note(&clock, &request(b"k", 2_500, 1));
        assert_eq!(times(&log), [9_000, 7_000, 4_000, 2_500], "the floor is low again");
        clock.advance_us(WINDOW_US);
        assert_eq!(times(&log), [2_500]);
    }

    #[test]
    fn a_large_object_is_told_once_with_its_last_size() {
        let (log, clock) = (RequestLog::new(RequestLogSettings::default()), ManualClock::at(1));
        let told = || {
            let all = log.largest(&clock).into_iter();
            all.map(|each| (key_of(&each.key), each.size_bytes)).collect::<Vec<_>>()
        };
        log.note(&clock, &request(b"a", 1, 10_000));
        log.note(&clock, &request(b"b", 1, 20_000));
        log.note(&clock, &request(b"a", 1, 30_000));
        log.note(&clock, &request(b"small", 1, 10));
        assert_eq!(told(), [(b"a".to_vec(), 30_000), (b"b".to_vec(), 20_000)]);
        // The window before has the larger size.
        clock.advance_us(WINDOW_US);
        log.note(&clock, &request(b"a", 1, 15_000));
        assert_eq!(told(), [(b"b".to_vec(), 20_000), (b"a".to_vec(), 15_000)]);
    }

    #[test]
    fn an_object_that_is_large_no_more_is_not_told_after_a_sampled_read() {
        let (log, clock) = (RequestLog::new(RequestLogSettings::default()), ManualClock::at(1));
        log.note(&clock, &request(b"a", 1, 10_000));
        log.note(&clock, &request(b"b", 1, 20_000));
        // The size of a deleted object and of a changed data type is not reported.
        (0..SAMPLE_INTERVAL).for_each(|_| log.note(&clock, &request(b"b", 1, 0)));
        // A write of a small value may have left a large sibling.
        let put = Finished { kind: RequestKind::Put, ..request(b"b", 1, 10) };
        (0..SAMPLE_INTERVAL).for_each(|_| log.note(&clock, &put));
        (0..SAMPLE_INTERVAL).for_each(|_| log.note(&clock, &request(b"a", 1, 10)));
        let told: Vec<_> = log.largest(&clock).iter().map(|each| key_of(&each.key)).collect();
        assert_eq!(told, [b"b".to_vec()]);
    }

    #[test]
    fn an_object_that_leaves_a_full_list_makes_room_for_a_smaller_one() {
        let settings = RequestLogSettings { slow_count_max: 0, key_count_max: 2 };
        let (log, clock) = (RequestLog::new(settings), ManualClock::at(1));
        log.note(&clock, &request(b"a", 1, 20_000));
        log.note(&clock, &request(b"b", 1, 10_000));
        (0..SAMPLE_INTERVAL).for_each(|_| log.note(&clock, &request(b"a", 1, 10)));
        log.note(&clock, &request(b"c", 1, 5_000));
        let told: Vec<_> = log.largest(&clock).iter().map(|each| key_of(&each.key)).collect();
        assert_eq!(told, [b"b".to_vec(), b"c".to_vec()]);
    }

    #[test]
    fn a_key_that_is_asked_for_often_is_found_among_many() {
        let (log, clock) = (
            RequestLog::new(RequestLogSettings { slow_count_max: 0, key_count_max: 8 }),
            ManualClock::at(1),
        );
        for turn in 0..64_000_u32 {
            let key = if turn % 2 == 0 || turn % 64 == 63 {
                b"hot".to_vec()
            } else {
                turn.to_be_bytes().to_vec()
            };
            log.note(&clock, &request(&key, 1, 1));
            clock.advance_us(100);
        }
        let hottest = log.hottest(&clock);
        assert_eq!(key_of(&hottest[0].key), b"hot");
        assert!(hottest.len() <= 8 && log.slowest(&clock).is_empty(), "bounded");
    }
}
