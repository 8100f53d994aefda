//! Background listings and folds. One worker starts them, one at a time, and writes their results to the
//! log.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quoit_client::wire::messages::{
    RpbAaeFoldFetchClocksRangeReq, RpbAaeFoldKeyCountResp, RpbAaeFoldKeyValueResp,
    RpbAaeFoldObjectStatsReq, RpbListKeysReq, RpbListKeysResp,
};
use tokio::task::JoinHandle;

use crate::config::{LogLevel, Target};
use crate::driver::pb_link::{CallError, PbLink};
use crate::notices::Notices;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Number of the worker that starts the queries.
const NOMINATED_WORKER: u32 = 7;

/// Minimum time between reads that force a comparison of hash trees.
const FORCE_PERIOD: Duration = Duration::from_secs(10);

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The first and the last key of a fold's range.
const FIRST_KEY: Bytes = Bytes::from_static(b"0");
const LAST_KEY: Bytes = Bytes::from_static(b"z");

/// Segments of a tree of size [`SMALL_TREE`] that a fold selects.
const SEGMENTS: [u32; 2] = [1, 10_001];

/// Number that stands for the size `small` of Riak's hash trees.
const SMALL_TREE: u32 = 2;

/// A query over all records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum BackgroundQuery {
    /// Lists the keys of all records.
    ListKeys,
    /// Counts the records.
    CountRecords,
    /// Fetches the version vectors of the records in two segments.
    FetchSegments,
}

impl BackgroundQuery {
    fn name(self) -> &'static str {
        match self {
            Self::ListKeys => "list_keys",
            Self::CountRecords => "aae_query",
            Self::FetchSegments => "segment_fold",
        }
    }
}

/// The background query of a worker.
#[derive(Debug)]
pub(super) struct Background {
    is_nominated: bool,
    running: Option<JoinHandle<()>>,
    forced_at: Instant,
}

/// The cluster that queries go to, and the time limit of a query.
#[derive(Debug)]
pub(super) struct QueriedCluster {
    pub(super) target: Target,
    pub(super) bucket: Bytes,
    pub(super) timeout: Duration,
    pub(super) notices: Notices,
}

impl Background {
    /// The state of a worker without a query. The nominated worker is the same as in basho_bench.
    pub(super) fn new(place: WorkerPlace) -> Self {
        let is_nominated = place.number == NOMINATED_WORKER;
        Self { is_nominated, running: None, forced_at: Instant::now() }
    }

    /// True if this read must force a comparison of hash trees. Only the nominated worker does so, at most
    /// every ten seconds.
    pub(super) fn is_to_force(&mut self, now: Instant) -> bool {
        let is_due = self.is_nominated && now.duration_since(self.forced_at) > FORCE_PERIOD;
        if is_due {
            self.forced_at = now;
        }
        is_due
    }

    /// Starts a query, if this is the nominated worker and its last query has ended.
    pub(super) fn start(&mut self, query: BackgroundQuery, cluster: &Rc<QueriedCluster>) {
        if !self.is_nominated {
            return;
        }
        let name = query.name();
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            cluster
                .notices
                .notify(LogLevel::Info, || format!("{name} is skipped: the last query still runs"));
            return;
        }
        self.running = Some(tokio::task::spawn_local(run(query, Rc::clone(cluster))));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

/// Runs a query on a connection of its own, and writes its result to the log.
async fn run(query: BackgroundQuery, cluster: Rc<QueriedCluster>) {
    let (name, began) = (query.name(), Instant::now());
    cluster.notices.notify(LogLevel::Info, || format!("{name} begins"));
    let asked = ask(query, &cluster).await;
    let seconds = began.elapsed().as_secs_f64();
    match asked {
        Ok(found) => {
            cluster
                .notices
                .notify(LogLevel::Info, || format!("{name} took {seconds:.3} s: {found}"));
        }
        Err(reason) => cluster
            .notices
            .notify(LogLevel::Error, || format!("{name} failed after {seconds:.3} s: {reason}")),
    }
}

/// Runs the query and returns its result as text.
async fn ask(query: BackgroundQuery, cluster: &QueriedCluster) -> Result<String, Term> {
    let opened = PbLink::open(&cluster.target, CONNECT_TIMEOUT).await;
    let mut link = opened.map_err(|error| Term::String(error.to_string()))?;
    let bucket = cluster.bucket.clone();
    match query {
        BackgroundQuery::ListKeys => {
            let request = RpbListKeysReq { bucket, ..RpbListKeysReq::default() };
            let mut count = 0;
            let take = |part: RpbListKeysResp| {
                count += part.keys.len();
                part.done == Some(true)
            };
            link.call_in_parts(&request, cluster.timeout, take).await?;
            Ok(format!("{count} keys"))
        }
        BackgroundQuery::CountRecords => {
            let request = RpbAaeFoldObjectStatsReq {
                bucket,
                key_range: true,
                start_key: Some(FIRST_KEY),
                end_key: Some(LAST_KEY),
                ..RpbAaeFoldObjectStatsReq::default()
            };
            let answer: Result<RpbAaeFoldKeyCountResp, CallError> =
                link.call(&request, cluster.timeout).await;
            let counts = answer?.keys_count;
            let total = counts.iter().find(|entry| entry.tag == "total_count");
            Ok(format!("{} keys", total.map_or(0, |entry| entry.count)))
        }
        BackgroundQuery::FetchSegments => {
            let request = RpbAaeFoldFetchClocksRangeReq {
                bucket,
                key_range: true,
                start_key: Some(FIRST_KEY),
                end_key: Some(LAST_KEY),
                segment_filter: true,
                id_filter: SEGMENTS.to_vec(),
                filter_tree_size: Some(SMALL_TREE),
                ..RpbAaeFoldFetchClocksRangeReq::default()
            };
            let answer: Result<RpbAaeFoldKeyValueResp, CallError> =
                link.call(&request, cluster.timeout).await;
            Ok(format!("{} keys in {} segments", answer?.keys_value.len(), SEGMENTS.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_forces_an_exchange_every_ten_seconds() {
        let of_worker = |number| Background::new(WorkerPlace { number, count: 10 });
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut nominated = of_worker(NOMINATED_WORKER);
        let due: Vec<u64> =
            (0..=45).filter(|seconds| nominated.is_to_force(later(*seconds))).collect();
        assert_eq!(due.len(), 4, "{due:?}");
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 11), "{due:?}");
        assert!(!of_worker(6).is_to_force(later(60)), "another worker never does");
    }
}
