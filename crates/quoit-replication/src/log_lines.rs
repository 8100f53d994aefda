//! Log lines about queues and sinks in Riak's words, which operators' tools parse.

use crate::figures::{LAG_BOUNDS_MS, SinkStatus};
use quoit_core::QueueLengths;
use std::collections::{BTreeMap, BTreeSet};

/// Figures in a sink's line: sums over all peers since the start of the node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct SinkSums {
    stored: u64,
    errors: u64,
    fetch_us: u64,
    push_us: u64,
    lag_us: u64,
    /// Numbers of objects by age: up to a second, a minute, an hour, a day, and older.
    ages: [u64; 5],
}

/// Upper bounds of ages in milliseconds. The last group has no bound.
const AGE_BOUNDS_MS: [u64; 4] = [1_000, 60_000, 3_600_000, 86_400_000];

impl SinkSums {
    #[expect(
        clippy::indexing_slicing,
        reason = "there is one group of ages more than there are bounds"
    )]
    fn of(sink: &SinkStatus) -> Self {
        let mut sums = Self::default();
        for peer in &sink.peers {
            sums.stored += peer.stored;
            sums.errors += peer.errors;
            sums.fetch_us += peer.fetch_us;
            sums.push_us += peer.push_us;
            sums.lag_us += peer.lag.sum_us;
            for (place, bar) in peer.lag.bars.iter().enumerate() {
                let bound = LAG_BOUNDS_MS.get(place);
                let age = bound.map_or(AGE_BOUNDS_MS.len(), |bound_ms| {
                    AGE_BOUNDS_MS.partition_point(|age_ms| age_ms < bound_ms)
                });
                sums.ages[age] += bar;
            }
        }
        sums
    }

    /// Increase since an earlier snapshot. The sums of peers that have been removed are lost.
    fn since(&self, earlier: &Self) -> Self {
        let mut ages = self.ages;
        ages.iter_mut().zip(earlier.ages).for_each(|(age, was)| *age = age.saturating_sub(was));
        Self {
            stored: self.stored.saturating_sub(earlier.stored),
            errors: self.errors.saturating_sub(earlier.errors),
            fetch_us: self.fetch_us.saturating_sub(earlier.fetch_us),
            push_us: self.push_us.saturating_sub(earlier.push_us),
            lag_us: self.lag_us.saturating_sub(earlier.lag_us),
            ages,
        }
    }
}

/// Makes the lines about source queues. A queue that stays empty has no line; a queue that has become
/// empty has one last line.
#[derive(Debug, Default)]
pub(crate) struct QueueLines(BTreeSet<String>);

impl QueueLines {
    /// The lines about all queues, given with their names and lengths.
    pub(crate) fn next<'a>(
        &mut self,
        queues: impl Iterator<Item = (&'a str, QueueLengths)>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let mut filled = BTreeSet::new();
        for (name, QueueLengths { fold, full_sync, real_time }) in queues {
            let is_filled = fold + full_sync + real_time > 0;
            if is_filled || self.0.contains(name) {
                lines.push(format!(
                    "QueueName={name} has queue sizes p1={fold} p2={full_sync} p3={real_time}"
                ));
            }
            if is_filled {
                filled.insert(name.to_owned());
            }
        }
        self.0 = filled;
        lines
    }
}

/// Makes the lines about sinks. Each line covers the time since the previous one.
#[derive(Debug, Default)]
pub(crate) struct SinkLines(BTreeMap<String, SinkSums>);

impl SinkLines {
    /// The lines about all sinks, two for each.
    pub(crate) fn next(&mut self, sinks: &[SinkStatus]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut all = BTreeMap::new();
        for sink in sinks {
            let (queue, sums) = (&sink.queue, SinkSums::of(sink));
            let earlier = self.0.remove(queue).unwrap_or_default();
            let SinkSums { stored, errors, fetch_us, push_us, lag_us, ages } = sums.since(&earlier);
            let mean = |sum_us: u64| match stored {
                0 => "no_result".to_owned(),
                count => format!("{:.3}", sum_us as f64 / count as f64 / 1_000.0),
            };
            let [second, minute, hour, day, over] = ages;
            lines.push(format!(
                "Queue={queue} success_count={stored} error_count={errors} mean_fetchtime_ms={} \
                 mean_pushtime_ms={} mean_repltime_ms={} lmdin_s={second} lmdin_m={minute} \
                 lmdin_h={hour} lmdin_d={day} lmd_over={over}",
                mean(fetch_us),
                mean(push_us),
                mean(lag_us),
            ));
            let delays = sink.peers.iter().map(|peer| {
                let address =
                    peer.peer.rsplit_once(':').map_or(&*peer.peer, |(address, _)| address);
                format!(" {address}={}", peer.delay_ms)
            });
            lines.push(format!("Queue={queue} has peer delays of{}", delays.collect::<String>()));
            all.insert(queue.clone(), sums);
        }
        self.0 = all;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::PeerFigures;
    use std::sync::atomic::Ordering;

    fn sink(figures: &PeerFigures) -> SinkStatus {
        SinkStatus {
            queue: "q1".to_owned(),
            is_suspended: false,
            worker_count: 1,
            peer_limit: 1,
            peers: vec![figures.status("10.0.0.1:8087:pb".to_owned(), 8)],
        }
    }

    #[test]
    fn lines_of_sinks_tell_what_has_happened_since_the_last_one() {
        let (figures, mut lines) = (PeerFigures::default(), SinkLines::default());
        figures.stored.store(2, Ordering::Relaxed);
        figures.fetch_us.store(3_000, Ordering::Relaxed);
        figures.push_us.store(4_000, Ordering::Relaxed);
        figures.lag.note(500_000);
        figures.lag.note(7_200_000_000);
        assert_eq!(
            lines.next(&[sink(&figures)]),
            [
                "Queue=q1 success_count=2 error_count=0 mean_fetchtime_ms=1.500 mean_pushtime_ms=2.000 \
                 mean_repltime_ms=3600250.000 lmdin_s=1 lmdin_m=0 lmdin_h=0 lmdin_d=1 lmd_over=0",
                "Queue=q1 has peer delays of 10.0.0.1:8087=8",
            ]
        );
        assert_eq!(
            lines.next(&[sink(&figures)])[0],
            "Queue=q1 success_count=0 error_count=0 mean_fetchtime_ms=no_result \
             mean_pushtime_ms=no_result mean_repltime_ms=no_result lmdin_s=0 lmdin_m=0 lmdin_h=0 \
             lmdin_d=0 lmd_over=0"
        );
    }

    #[test]
    fn queues_are_told_with_their_lengths_by_priority_while_they_hold_something() {
        let filled = QueueLengths { fold: 1, full_sync: 2, real_time: 3 };
        let empty = QueueLengths::default();
        let mut lines = QueueLines::default();
        assert!(lines.next([("q1", empty)].into_iter()).is_empty());
        let told = lines.next([("q1", filled), ("q2", empty)].into_iter());
        assert_eq!(told, ["QueueName=q1 has queue sizes p1=1 p2=2 p3=3"]);
        let told = lines.next([("q1", empty)].into_iter());
        assert_eq!(told, ["QueueName=q1 has queue sizes p1=0 p2=0 p3=0"]);
        assert!(lines.next([("q1", empty)].into_iter()).is_empty());
    }
}
